"""When a state is asked for and given: in mid-epoch, after a break, with batches made ahead or failed."""

import multiprocessing
from contextlib import nullcontext
from itertools import chain

import numpy as np
import pytest
import torch
from resumable_jobs import PICTURES, TRAIN, Numbers, assert_equal, batches_of, flat, numbers, pictures, sent
from torch.utils.data import (
    Dataset,
    RandomSampler,
    SequentialSampler,
    get_worker_info,
)

import seneca
from seneca import fallback
from seneca.epochs import state as state_format
from seneca.epochs.progress import EpochProgress


class Held(Dataset):
    """A worker gets its first item only when the event is set."""

    def __init__(self, event):
        self.event = event

    def __len__(self):
        return 22

    def __getitem__(self, index):
        if index == 0 and get_worker_info() is not None:
            assert self.event.wait(300)
        return index


# --- when it is asked ---------------------------------------------------------------------------


def test_the_batch_just_yielded_is_delivered_and_what_is_prepared_ahead_is_not(picture_folder, name):
    loader = pictures(picture_folder, cache=name, num_workers=2, prefetch_factor=2, batch_size=5)
    batches = iter(loader)
    for step in range(1, 11):
        next(batches)
        assert state_format.unpacked(loader.state_dict()["done"]).sum() == min(5 * step, PICTURES)


@pytest.mark.small(1)
@pytest.mark.parametrize("in_order", [True, False])
def test_what_workers_have_made_and_nobody_was_given_is_not_delivered(name, in_order):
    loader = numbers(cache=name, num_workers=2, prefetch_factor=3, in_order=in_order)
    seen, batches = [], iter(loader)
    for _ in range(2):
        seen += next(batches)
        done = state_format.unpacked(loader.state_dict()["done"])
        assert np.flatnonzero(done).tolist() == sorted(seen)
    resumed = numbers(cache=name)
    resumed.load_state_dict(sent(loader.state_dict()))
    assert sorted(seen + flat(batches_of(resumed))) == list(range(22))


def test_workers_that_answer_out_of_turn_leave_gaps_that_are_filled():
    context = multiprocessing.get_context("fork")
    held = Held(context.Event())
    options = dict(num_workers=2, prefetch_factor=2, in_order=False, multiprocessing_context=context)
    loader = numbers(held, cache=None, shuffle=False, **options)
    seen, batches = [], iter(loader)
    for _ in range(2):
        seen += next(batches)
    held.event.set()  # so that the worker can leave
    assert 0 not in seen and len(seen) == 8
    resumed = numbers(held, cache=None, shuffle=False)
    resumed.load_state_dict(sent(loader.state_dict()))
    assert flat(batches_of(resumed)) == [index for index in range(22) if index not in seen]


@pytest.mark.small(1)
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("native", [True, False])
def test_after_a_break_the_state_stays_what_it_was_until_the_next_iter(picture_folder, name, native, workers):
    make = pictures if native else numbers
    of = (picture_folder,) if native else ()
    loader = make(*of, cache=name, num_workers=workers)
    seen = flat(batches_of(loader, 2))
    state = loader.state_dict()
    resumed = make(*of, cache=name)
    resumed.load_state_dict(state)
    assert sorted(seen + flat(batches_of(resumed))) == list(range(PICTURES if native else 22))
    assert len(flat(batches_of(loader))) == (PICTURES if native else 22), "here the next epoch is whole"


def test_at_the_end_and_before_the_first_the_next_epoch_begins(name):
    for cache in (name, None):
        loader = numbers(cache=cache)
        before = loader.state_dict()
        assert (before["epoch"], "done" in before) == (0, False)
        for _ in loader:
            state = loader.state_dict()
        assert state["epoch"] == 0 and state_format.unpacked(state["done"]).sum() == 22
        ended = loader.state_dict()
        assert (ended["epoch"], "done" in ended) == (1, False)
        loader.load_state_dict(state)
        assert list(loader) == [] and len(flat(batches_of(loader))) == 22
        loader.load_state_dict(ended)
        assert len(flat(batches_of(loader))) == 22 and loader.state_dict()["epoch"] == 2


def test_a_state_given_while_iterating_is_for_the_next_iter(name):
    loader = numbers(cache=name, shuffle=False)
    batches = iter(loader)
    next(batches)
    state = loader.state_dict()
    next(batches)
    loader.load_state_dict(state)
    assert loader.state_dict() == state
    assert sum(map(len, batches)) == 14
    assert flat(batches_of(loader)) == list(range(4, 22))
    loader.load_state_dict({})
    assert flat(batches_of(loader)) == list(range(22))


def test_an_iterator_that_nobody_has_used_keeps_the_state_for_the_next(name):
    loader = numbers(cache=name)
    seen = flat(batches_of(loader, 2))
    resumed = numbers(cache=name)
    resumed.load_state_dict(loader.state_dict())
    iter(resumed)
    assert sorted(seen + flat(batches_of(resumed))) == list(range(22))


def test_workers_that_persist_go_on_too(name):
    loader = numbers(cache=name, num_workers=1, persistent_workers=True)
    seen = flat(batches_of(loader, 2))
    state = loader.state_dict()
    assert len(flat(batches_of(loader))) == 22
    loader.load_state_dict(state)
    assert sorted(seen + flat(batches_of(loader))) == list(range(22))
    assert len(flat(batches_of(loader))) == 22


def test_pixels_are_those_of_the_epoch_and_not_of_the_first(picture_folder):
    """Epoch 3 of a run that is resumed there is that of the run that got there by itself."""

    def make():
        return pictures(picture_folder, cache=None, generator=torch.Generator().manual_seed(1), num_workers=1)

    whole = make()
    for _ in range(3):
        state = whole.state_dict()
        expected = batches_of(whole)
    resumed = make()
    resumed.load_state_dict(sent(state))
    assert_equal(batches_of(resumed), expected)


def test_what_is_taken_on_the_way_is_delivered_when_it_is_handed_out():
    epoch = EpochProgress()
    epoch.begin("samples", SequentialSampler(range(9)), lambda: None)
    epoch.watched = True
    epoch.made((0, 1))
    epoch.made((2, 3))
    epoch.hand_out()
    assert epoch.state()["done"] == 2
    epoch.end()
    epoch.hand_out()
    assert epoch.state()["done"] == 4 and not epoch.ended
    epoch.hand_out()
    epoch.hand_out()
    assert epoch.ended


@pytest.mark.whole_size(shown_by="test_the_batch_just_yielded_is_delivered_and_what_is_prepared_ahead_is_not")
@pytest.mark.parametrize("workers", [0, 1])
def test_a_batch_that_is_copied_ahead_is_not_delivered(monkeypatch, workers):
    class OfCuda:
        def wait_stream(self, other):
            """Nothing is copied here."""

    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: OfCuda())
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext())
    loader = numbers(cache=None, device="meta", shuffle=False, num_workers=workers)
    batches = iter(loader)
    batches._stream = OfCuda()
    for batch in batches:
        assert batches._next is not None
        state = loader.state_dict()
        assert state["done"] == batch[-1] + 1
    assert "done" not in loader.state_dict()
    loader.load_state_dict(state)
    assert list(loader) == []


def test_many_batches_are_counted_as_few():
    epoch = EpochProgress()
    order = np.random.default_rng(3).permutation(20_000)
    epoch.begin("seneca", RandomSampler(range(20_000)), lambda: None)
    for step, batch in enumerate(order.reshape(-1, 50)):
        epoch.made(batch)
        if step % 37 == 0:
            assert np.array_equal(np.flatnonzero(epoch.done()), np.sort(order[: 50 * step + 50]))
    assert epoch.state()["done"] == 20_000


def test_a_state_survives_torch_save_with_its_safe_loading(name, tmp_path):
    for options in ({"cache": name}, {"cache": None}, {"cache": None, "generator": torch.Generator()}):
        loader = numbers(**options)
        batches_of(loader, 2)
        state = loader.state_dict()
        torch.save(state, tmp_path / "state")
        assert torch.load(tmp_path / "state", weights_only=True) == state


# --- samples that fail --------------------------------------------------------------------------


@pytest.mark.small(1)
@pytest.mark.parametrize("workers", [0, 2])
def test_a_batch_that_has_failed_is_used_up_as_in_the_run_itself(workers):
    dataset = Numbers()
    dataset.bad = 5
    loader = numbers(dataset, cache=None, shuffle=False, num_workers=workers)
    batches = iter(loader)
    next(batches)
    with pytest.raises(ValueError, match="bad"):
        next(batches)
    resumed = numbers(cache=None, shuffle=False)
    resumed.load_state_dict(loader.state_dict())
    assert flat(batches_of(resumed)) == list(range(8, 22)) == [index for batch in batches for index in batch]


@pytest.mark.small(1)
@pytest.mark.filterwarnings("ignore:.*skipped a sample")
@pytest.mark.parametrize("on_error", ["skip", "raise"])
@pytest.mark.parametrize("drop_last", [True, False])
def test_a_damaged_picture_is_not_met_again(picture_folder, name, on_error, drop_last):
    dataset = seneca.ImageFolder(picture_folder, TRAIN)
    for index in (1, 7, 30):
        with open(dataset.samples[index][0], "wb") as file:
            file.write(b"damaged")

    def make(**options):
        return pictures(picture_folder, on_error=on_error, shuffle=False, drop_last=drop_last, **options)

    def go_on(batches, count):
        ids = []
        while count:
            count -= 1
            try:
                next(batches)
            except StopIteration:
                break
            except seneca.errors.DecodeError:
                ids.append([])
                continue
            ids.append(loader.last_indices.tolist())
        return ids

    for step in range(1, 5):
        loader = make(cache=None, num_workers=2)
        batches = iter(loader)
        seen = go_on(batches, step)
        state, skipped = sent(loader.state_dict()), loader.stats()["skipped"]
        rest = go_on(batches, 9)
        loader = make(cache=None)
        loader.load_state_dict(state)
        resumed = go_on(iter(loader), 9)
        assert skipped + loader.stats()["skipped"] == (3 if on_error == "skip" else 0)
        assert sorted(chain(*resumed)) == sorted(chain(*rest)) and resumed.count([]) == rest.count([])
        assert not set(chain(*seen)) & set(chain(*resumed))


@pytest.mark.small(1)
@pytest.mark.parametrize("kind", ["native", "numbers", "plain"])
def test_whether_the_epoch_is_over_is_under_torchdatas_key(picture_folder, name, kind):
    """As StatefulDataLoader has it. States are loaded with the key and without it."""
    make = {
        "native": lambda: pictures(picture_folder, cache=None),
        "numbers": lambda: numbers(cache=name),
        "plain": lambda: fallback.DataLoader(list(range(22)), 4),
    }[kind]
    loader = make()
    states = [loader.state_dict()]
    batches = iter(loader)
    next(batches)
    states.append(loader.state_dict())
    rest = len(list(batches))
    states.append(loader.state_dict())
    assert [one["_iterator_finished"] for one in states] == [False, False, True]
    for state, left in zip(states, [rest + 1, rest, rest + 1], strict=True):
        bare = {key: value for key, value in state.items() if key != "_iterator_finished"}
        for given in (state, bare):
            resumed = make()
            resumed.load_state_dict(given)
            assert resumed.state_dict() == {"_iterator_finished": False, **given}
            assert len(list(resumed)) == left
