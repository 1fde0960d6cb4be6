"""Section 3: iterators, their workers, their length, and going on after an exception."""

import gc
import multiprocessing
import os
import threading
import warnings

import pytest
import torch
from subjects import (
    FORKS_WITH_THREADS,
    SAMPLES,
    await_true,
    epoch,
    flat,
    gone,
    labels,
    outcomes,
    seeded,
    torchs_warnings,
)
from toys import Count, Failing, Made, Numbers, SizedCount, keep, pid_and_index, raise_value_error

import seneca
from seneca import transforms as T
from seneca.errors import DecodeError
from seneca.testing import make_pictures

WORKERS = pytest.mark.parametrize("workers", [0, 2])
HALVES = [[*range(6)], [*range(6, 12)]]


def worker_pids():
    return {child.pid for child in multiprocessing.active_children()}


def threads():
    return set(os.listdir("/proc/self/task"))


@WORKERS
@pytest.mark.stock
def test_every_iter_begins_a_whole_epoch(load, dataset, workers):
    loader = load(dataset, batch_size=6, num_workers=workers)
    for _ in range(3):
        assert epoch(loader) == HALVES


@WORKERS
@pytest.mark.stock
def test_two_iterators_at_once_are_independent(load, dataset, workers):
    loader = load(dataset, batch_size=6, num_workers=workers)
    one, two = iter(loader), iter(loader)
    assert one is not two
    assert [labels(next(i)) for i in (one, two, two, one)] == [HALVES[0], HALVES[0], HALVES[1], HALVES[1]]
    for iterator in (one, two):
        with pytest.raises(StopIteration):
            next(iterator)


@WORKERS
@pytest.mark.stock
def test_two_shuffled_iterators_at_once_are_whole(load, dataset, workers):
    loader = load(dataset, batch_size=4, shuffle=True, num_workers=workers)
    pairs = [(labels(one), labels(two)) for one, two in zip(iter(loader), iter(loader), strict=True)]
    for side in zip(*pairs, strict=True):
        assert sorted(flat(side)) == [*range(SAMPLES)]


@pytest.mark.small(1)
def test_iterators_at_once_have_workers_of_their_own(load):
    loader = load(Made(8, pid_and_index), num_workers=2, collate_fn=keep)
    one, two = (
        {pid for [(pid, _)] in batches} for batches in zip(*zip(loader, loader, strict=True), strict=True)
    )
    assert len(one) == len(two) == 2 and not one & two and os.getpid() not in one | two


@WORKERS
@pytest.mark.stock
def test_a_loader_can_be_iterated_inside_its_own_loop(load, dataset, workers):
    loader = load(dataset, batch_size=6, num_workers=workers)
    assert [(labels(outer), epoch(loader)) for outer in loader] == [(half, HALVES) for half in HALVES]


@WORKERS
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.stock
def test_a_break_is_followed_by_a_whole_epoch(load, dataset, workers, shuffle):
    loader = load(dataset, batch_size=2, shuffle=shuffle, num_workers=workers)
    for _ in range(2):
        for _ in loader:
            break
    assert sorted(flat(epoch(loader))) == [*range(SAMPLES)]


@WORKERS
@pytest.mark.stock
def test_an_iterator_that_has_ended_stays_ended(load, dataset, workers):
    batches = iter(load(dataset, batch_size=6, num_workers=workers))
    assert iter(batches) is batches and epoch(batches) == HALVES
    for _ in range(2):
        with pytest.raises(StopIteration):
            next(batches)


@pytest.mark.parametrize("end", ["del", "break", "the last batch"])
@pytest.mark.stock
def test_workers_leave_with_their_iterator(load, end):
    loader = load(Made(40, pid_and_index), num_workers=2, collate_fn=keep)
    batches = iter(loader)
    pids = {next(batches)[0][0], next(batches)[0][0]}
    assert len(pids) == 2 and pids <= worker_pids()
    if end == "del":
        del batches
    elif end == "break":
        for _ in batches:
            break
        batches = None
    else:
        list(batches)
    await_true(lambda: all(map(gone, pids)), "the workers have left")


@pytest.mark.meant("threads")
def test_threads_take_the_place_of_workers_and_leave_with_the_iterator(load, pictures):
    dataset = seneca.ImageFolder(pictures, T.Resize((8, 12)))
    before = threads()
    batches = iter(load(dataset, num_workers=2))
    next(batches)
    if load.is_torch:
        assert len(worker_pids()) == 2
    else:
        assert worker_pids() == set()
        # A new cache reserves its memory in one more, which may be about to end.
        await_true(lambda: len(threads() - before) == 2, "there are two threads that prepare")
        del batches
        await_true(lambda: threads() <= before, "the threads have left")


@pytest.mark.stock
def test_persistent_workers_mean_one_iterator_that_is_reset(load, dataset):
    loader = load(dataset, batch_size=4, num_workers=2, persistent_workers=True)
    batches = iter(loader)
    assert labels(next(batches)) == [0, 1, 2, 3]
    again = iter(loader)  # what was under way is lost
    assert again is batches and loader._iterator is batches
    assert epoch(batches) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    with pytest.raises(StopIteration):
        next(batches)
    assert iter(loader) is batches and labels(next(batches)) == [0, 1, 2, 3]


@pytest.mark.small(1)
def test_persistent_workers_keep_their_pids_and_leave_with_the_loader(load):
    loader = load(Made(8, pid_and_index), num_workers=2, persistent_workers=True, collate_fn=keep)
    pids = [{pid for [(pid, _)] in loader} for _ in range(3)]
    assert pids[0] == pids[1] == pids[2] == worker_pids() and len(pids[0]) == 2
    del loader
    gc.collect()
    await_true(lambda: all(map(gone, pids[0])), "the workers have left")


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.stock
def test_an_epoch_of_persistent_workers_is_whole_after_a_break(load, dataset, persistent):
    loader = load(dataset, batch_size=2, shuffle=True, num_workers=2, persistent_workers=persistent)
    for _ in range(2):
        for _ in loader:
            break
        assert sorted(flat(epoch(loader))) == [*range(SAMPLES)]


def test_len_is_the_number_of_batches(load, dataset):
    with_workers = load(dataset, batch_size=5, num_workers=2)
    assert len(with_workers) == 3 == len(iter(with_workers))
    for options, batches in (
        ({}, 12),
        ({"batch_size": 5}, 3),
        ({"batch_size": 5, "drop_last": True}, 2),
        ({"batch_size": 13, "drop_last": True}, 0),
        ({"batch_size": None}, 12),
        ({"sampler": [1, 2, 3], "batch_size": 2}, 2),
        ({"batch_sampler": [[1, 2], [3], [4]]}, 3),
    ):
        loader = load(dataset, **options)
        assert len(loader) == batches == len(iter(loader))


def test_the_length_of_an_iterable_dataset_is_a_guess_from_its_own(load):
    assert len(load(SizedCount(12, 12), batch_size=5)) == 3
    assert len(load(SizedCount(12, 12), batch_size=5, drop_last=True)) == 2
    assert len(load(SizedCount(12, 12), batch_size=None)) == 12
    with pytest.raises(TypeError):
        len(load(Count(12)))


@WORKERS
def test_more_from_an_iterable_dataset_than_it_said_is_warned_of(load, workers):
    loader = load(SizedCount(4, 3), batch_size=None, num_workers=workers)
    with torchs_warnings() as unasked:
        assert len(list(loader)) == 4
    assert len(loader) == 3
    with torchs_warnings() as texts:
        assert len(list(loader)) == 4
    assert unasked == [] and len(texts) == 1
    assert "was reported to be 3(when accessing len(dataloader)), but 4 samples have been fetched" in texts[0]
    assert ("properly configuring the IterableDataset replica at each worker" in texts[0]) == bool(workers)


def test_what_is_counted_against_the_length_is_batches(load):
    loader = load(SizedCount(12, 6), batch_size=2)
    assert len(loader) == 3
    with torchs_warnings() as texts:
        assert len(list(loader)) == 6  # twice as many as it said, and not more than six samples
    assert texts == []


@WORKERS
def test_next_is_found_under_its_name_in_a_profile(load, dataset, workers):
    batches = iter(load(dataset, batch_size=6, num_workers=workers))
    with torch.autograd.profiler.profile() as profile:
        next(batches)
    names = [
        event.name for event in profile.function_events if event.name.startswith("enumerate(DataLoader)#")
    ]
    assert names == [f"enumerate(DataLoader)#{type(batches).__name__}.__next__"]


@WORKERS
@pytest.mark.stock
def test_after_an_exception_the_next_batch_follows(load, workers):
    loader = load(Failing(SAMPLES, raise_value_error), batch_size=2, num_workers=workers)
    seen = outcomes(iter(loader))
    assert type(seen.pop(2)) is ValueError
    assert seen == [[0, 1], [2, 3], [6, 7], [8, 9], [10, 11]]


@WORKERS
@pytest.mark.stock
def test_after_a_damaged_picture_the_next_batch_follows(load, workers, tmp_path):
    dataset = seneca.ImageFolder(make_pictures(tmp_path, SAMPLES, SAMPLES, sides=(32, 64)), T.Resize((8, 12)))
    os.truncate(dataset.samples[5][0], 100)
    seen = outcomes(iter(load(dataset, batch_size=2, num_workers=workers)))
    assert type(seen.pop(2)) is DecodeError
    assert seen == [[0, 1], [2, 3], [6, 7], [8, 9], [10, 11]]


@WORKERS
@pytest.mark.stock
def test_a_batch_that_is_held_is_not_written_over(load, dataset, workers):
    loader = load(dataset, batch_size=2, num_workers=workers)
    held = [(inputs, inputs.clone(), labels) for inputs, labels in loader]
    epoch(loader)
    assert all(torch.equal(inputs, as_it_was) for inputs, as_it_was, _ in held)
    assert [labels.tolist() for _, _, labels in held] == epoch(loader)


@WORKERS
@pytest.mark.stock
def test_it_can_be_iterated_in_another_thread(load, dataset, workers):
    seen = []
    loader = load(dataset, batch_size=6, num_workers=workers)
    thread = threading.Thread(target=lambda: seen.extend(epoch(loader)))
    thread.start()
    thread.join(60)
    assert seen == HALVES


@WORKERS
def test_a_whole_epoch_warns_of_nothing(load, dataset, workers):
    """Seneca's own notice is a row of its own."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "seneca: ")
        warnings.filterwarnings("ignore", FORKS_WITH_THREADS, DeprecationWarning)
        assert seeded(0, lambda: epoch(load(dataset, batch_size=6, num_workers=workers))) == HALVES


@pytest.mark.small(1)
def test_an_empty_dataset_has_no_batches(load):
    for dataset in (Numbers(0), Count(0)):
        for workers in (0, 1):
            assert list(load(dataset, num_workers=workers)) == []
