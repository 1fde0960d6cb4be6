"""Sections 1 and 3: what a batch is made of, by whom, and in which order batches come."""

import multiprocessing

import numpy as np
import pytest
import torch
import toys
from sizes import size
from subjects import PATIENCE_S, SAMPLES, TORCH, epoch, flat, labels
from torch.utils.data import Subset
from toys import (
    Batched,
    Count,
    Keyed,
    Made,
    Numbers,
    Point,
    RefusesLength,
    SizedCount,
    Unsized,
    Waiting,
    keep,
)

import seneca
from seneca import transforms as T

WORKERS = pytest.mark.parametrize("workers", [0, 2])


@WORKERS
def test_without_batches_each_sample_goes_through_collate_fn(load, dataset, workers):
    loader = load(dataset, batch_size=None, num_workers=workers)
    inputs, label = next(iter(loader))
    assert torch.equal(inputs, torch.as_tensor(dataset[0][0])) and label == 0 and type(label) is int
    loader = load(dataset, batch_size=None, num_workers=workers, collate_fn=lambda sample: sample[1] * 2)
    assert list(loader) == [*range(0, 2 * SAMPLES, 2)]


@WORKERS
@pytest.mark.stock
def test_a_sampler_of_lists_without_batches_hands_the_dataset_lists(load, workers):
    """As users do who batch in their dataset."""
    loader = load(Made(6, len), batch_size=None, sampler=[[0, 1], [2], [3, 4, 5]], num_workers=workers)
    assert list(loader) == [2, 1, 3]


@WORKERS
@pytest.mark.stock
def test_a_whole_batch_is_asked_for_where_the_dataset_can(load, workers):
    assert epoch(load(Batched(5), batch_size=3, num_workers=workers)) == [[100, 101, 102], [103, 104]]


@pytest.mark.stock
def test_without_batches_items_are_asked_for_one_by_one(load):
    assert [label for _, label in load(Batched(3), batch_size=None, collate_fn=keep)] == [0, 1, 2]


@WORKERS
@pytest.mark.stock
def test_keys_need_not_be_numbers(load, workers):
    loader = load(Keyed(), sampler=["b", "a", ("c", 1)], num_workers=workers, collate_fn=keep)
    assert list(loader) == [["item b"], ["item a"], ["item ('c', 1)"]]


@WORKERS
@pytest.mark.parametrize("kind", [Unsized, RefusesLength])
def test_a_dataset_without_a_length_is_loaded_in_a_sampler_s_order(load, kind, workers):
    """Torch asks for the length only to make a sampler of its own."""
    options = {"num_workers": workers}
    assert epoch(load(kind(), sampler=[5, 6, 7], batch_size=2, **options)) == [[5, 6], [7]]
    assert epoch(load(kind(), batch_sampler=[[9, 3], [4]], **options)) == [[9, 3], [4]]
    assert [item[1] for item in load(kind(), sampler=[4, 1], batch_size=None, **options)] == [4, 1]
    assert epoch(load(Subset(kind(), [8, 3, 5]), batch_size=2, **options)) == [[8, 3], [5]]
    with pytest.raises((TypeError, NotImplementedError)):
        epoch(load(kind(), **options))


@WORKERS
@pytest.mark.stock
def test_any_sampler_s_order_is_kept_to_the_index(load, dataset, workers):
    for sampler in ([5, 2, 2, 9], np.array([3, 1]), torch.tensor([4, 0, 11]), {7: 0, 6: 0}):
        expected = [[int(index)] for index in sampler]
        assert epoch(load(dataset, sampler=sampler, num_workers=workers)) == expected
    repeated = torch.utils.data.WeightedRandomSampler(
        [1.0] * SAMPLES, 7, generator=torch.Generator().manual_seed(1)
    )
    order = list(repeated)
    repeated.generator.manual_seed(1)
    assert flat(epoch(load(dataset, sampler=repeated, num_workers=workers))) == order


@WORKERS
@pytest.mark.stock
def test_batches_of_the_user_s_own_are_iterated_again_each_epoch(load, dataset, workers):
    batches = [[3, 1], [0], [5, 4, 2]]
    loader = load(dataset, batch_sampler=batches, num_workers=workers)
    assert epoch(loader) == epoch(loader) == batches


def test_batches_may_be_anything_that_can_be_iterated(load):
    batches = [(1, 0), np.array([2]), torch.tensor([4, 3]), (index for index in (0, 4))]
    assert epoch(load(Numbers(5), batch_sampler=batches)) == [[1, 0], [2], [4, 3], [0, 4]]


def test_an_index_that_only_the_dataset_understands_is_left_to_it(load):
    loader = load(Made(4, int), sampler=[-1, 7, 2])
    assert [batch.item() for batch in loader] == [-1, 7, 2]


@pytest.mark.meant("threads")
def test_collate_fn_runs_in_the_worker_and_its_tensors_are_shared(load, pictures):
    loader = load(Numbers(4), batch_size=2, num_workers=1)
    assert all(part.is_shared() for batch in loader for part in batch)
    inputs, _ = next(iter(loader))
    inputs += 1  # an ordinary tensor, to be written to
    assert inputs.flatten().tolist() == [1, 2]
    native = load(seneca.ImageFolder(pictures, T.Resize((8, 12))), num_workers=1)
    assert next(iter(native))[0].is_shared() is load.is_torch


@WORKERS
@pytest.mark.stock
def test_default_collate_keeps_the_kinds_of_containers(load, workers):
    loader = load(Made(4, toys.nested), batch_size=2, num_workers=workers)
    batch = list(loader)[1]
    assert type(batch["point"]) is Point and batch["point"].value.tolist() == [2.5, 3.5]
    assert batch["text"] == ["2", "3"] and batch["array"].tolist() == [[2, 2], [3, 3]]
    assert batch["array"].dtype == torch.uint8 and batch["pair"][1].tolist() == [True, True]


@pytest.mark.small(1)
def test_batches_come_as_they_are_ready_where_no_order_is_asked_for(load):
    event = multiprocessing.get_context("fork").Event()
    loader = load(
        Waiting(4, event), num_workers=2, in_order=False, timeout=PATIENCE_S, multiprocessing_context="fork"
    )
    batches = iter(loader)
    assert labels(next(batches)) == [1]
    event.set()
    assert sorted(flat(epoch(batches))) == [0, 2, 3]


@WORKERS
def test_an_iterable_dataset_is_dealt_out_and_dropped_from_by_each_worker(load, workers):
    batches = epoch(load(Count(10), batch_size=3, num_workers=workers))
    assert batches == epoch(TORCH(Count(10), batch_size=3, num_workers=workers))
    kept = epoch(load(Count(10), batch_size=3, num_workers=workers, drop_last=True))
    assert kept == ([[0, 2, 4], [1, 3, 5]] if workers else [[0, 1, 2], [3, 4, 5], [6, 7, 8]])
    assert flat(epoch(load(SizedCount(2, 2, whole=True), num_workers=workers))) == (
        [0, 0, 1, 1] if workers else [0, 1]
    )


@pytest.mark.parametrize("method", size(["fork", "forkserver"], ["fork", "spawn", "forkserver"]))
@pytest.mark.stock
def test_workers_are_begun_by_any_method(load, method):
    if (load.cls is TORCH.cls and method == "spawn") or (not load.shares and method == "forkserver"):
        pytest.skip("torch's own, and as the others")  # all that is not forked is pickled in one way
    loader = load(Numbers(SAMPLES), batch_size=5, num_workers=1, multiprocessing_context=method)
    assert epoch(loader) == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9], [10, 11]]


@pytest.mark.parametrize(
    "wrap", [torch.utils.data.Subset, lambda data, own: torch.utils.data.random_split(data, [6, 6])[0]]
)
@WORKERS
def test_subsets_are_loaded_as_torch_loads_them(load, dataset, wrap, workers):
    torch.manual_seed(2)
    part = wrap(dataset, [7, 0, 11, 3])
    assert epoch(load(part, batch_size=3, num_workers=workers)) == [
        [dataset[index][1] for index in part.indices[at : at + 3]] for at in range(0, len(part), 3)
    ]
    shuffled = flat(epoch(load(part, shuffle=True, num_workers=workers)))
    assert sorted(shuffled) == sorted(part.indices)
    assert epoch(load(torch.utils.data.Subset(dataset, []), num_workers=workers)) == []
