"""Samplers that plan for items that others have made."""

import gc
import itertools

import numpy as np
import pytest
import torch
from engine import NONE
from shared_items import BATCH, Drawn, Job, assert_each_once, flat, inside, load, planned
from sizes import size
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

from seneca.workers.dataset import SharedDataset
from seneca.workers.terms import PlannedBatch


def test_it_has_what_others_build_a_loader_from(name):
    shared = SharedDataset(Drawn(22), cache=name)
    sampler = RandomSampler(shared)
    batches = planned(shared, sampler, drop_last=True)
    assert (batches.sampler, batches.batch_size, batches.drop_last) == (sampler, BATCH, True)
    assert isinstance(batches, BatchSampler) and len(batches) == 5 and len(planned(shared)) == 6
    with pytest.raises(ValueError):
        planned(shared, batch_size=0)


@pytest.mark.parametrize("drop_last", [False, True])
def test_each_index_comes_once_in_batches(drop_last, name):
    shared = SharedDataset(Drawn(22), cache=name)
    batches = list(planned(shared, drop_last=drop_last))
    assert [len(batch) for batch in batches] == [4] * 5 + [2] * (not drop_last)
    indices = flat(batches)
    assert len(set(indices)) == len(indices) and set(indices) <= set(range(22))


def test_seed_and_epoch_name_the_order(name):
    shared = SharedDataset(Drawn(24), cache=name)
    one, same, other = (planned(shared, seed=seed) for seed in (1, 1, 2))
    orders = [flat(one), flat(one)]
    assert flat(same) == orders[0] != orders[1] and flat(other) != orders[0]
    same.set_epoch(1)
    assert flat(same) == orders[1]
    by_generator = [
        flat(planned(shared, RandomSampler(shared, generator=torch.Generator().manual_seed(seed))))
        for seed in (1, 1, 2)
    ]
    assert by_generator[0] == by_generator[1] != by_generator[2]


def test_orders_that_are_not_its_own_are_kept(name):
    shared = SharedDataset(Drawn(24), cache=name)
    assert flat(planned(shared, SequentialSampler(shared))) == list(range(24))
    backwards = list(range(23, -1, -1))
    assert flat(planned(shared, backwards)) == backwards
    some = torch.utils.data.SubsetRandomSampler([3, 4, 5])
    assert sorted(flat(planned(shared, some))) == [3, 4, 5]
    with_replacement = RandomSampler(shared, replacement=True, num_samples=9)
    assert len(flat(planned(shared, with_replacement))) == 9
    assert sorted(flat(planned(Drawn(5), RandomSampler(Drawn(5))))) == list(range(5))


def test_processes_that_train_together_see_one_permutation(name, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    shared = SharedDataset(Drawn(24), cache=name)
    one, other = planned(shared, seed=3), planned(shared, seed=3)
    torch.manual_seed(1)
    first = flat(one)
    torch.manual_seed(2)
    assert flat(other) == first and sorted(first) == list(range(24))
    assert flat(one) != first, "the next epoch"
    assert not any(isinstance(batch, PlannedBatch) for batch in other)
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert all(isinstance(batch, PlannedBatch) for batch in other)


def test_set_epoch_reaches_the_sampler(name):
    class Counted(SequentialSampler):
        def set_epoch(self, epoch):
            self.epoch = epoch

    sampler = Counted(SharedDataset(Drawn(24), cache=name))
    planned(sampler.data_source, sampler).set_epoch(5)
    assert sampler.epoch == 5


def test_a_plan_that_is_given_up_lets_go(name):
    shared = SharedDataset(Drawn(24), cache=name, cache_bytes="1MiB")
    with Job(Drawn(24), name) as other:
        other.begin()
        next(iter(DataLoader(shared)))  # learns how much room an item takes
        batches = iter(planned(shared))
        batch = next(batches)
        assert (batch.claims["slot"] != NONE).any() and inside(name)["writing"] > 0
        del batches
        gc.collect()
        assert inside(name)["writing"] == 0
        assert [item[0] for item in shared.__getitems__(batch)] == batch, "what no longer stands is made here"


def test_alone_a_few_batches_are_drawn_at_once_and_made_without_the_lock(name, monkeypatch):
    shared = SharedDataset(Drawn(24), cache=name, cache_bytes="1MiB")
    batches = iter(planned(shared))
    shared.__getitems__(next(batches))  # learns how much room an item takes
    worker = shared._preparer._worker
    monkeypatch.setattr(shared._preparer, "_worker", None)
    rest = list(batches)
    assert [len(batch) for batch in rest] == [BATCH] * 5 and all(batch.claims is None for batch in rest)
    assert [item[0] for batch in rest for item in shared.__getitems__(batch)] == flat(rest)
    monkeypatch.setattr(shared._preparer, "_worker", worker)


def test_with_another_job_batches_are_drawn_one_by_one(name):
    shared = SharedDataset(Drawn(24), cache=name, cache_bytes="1MiB")
    batches = iter(planned(shared))
    next(batches)
    assert len(batches._batches._drawn) == 3
    with Job(Drawn(24), name) as other:
        other.begin()
        for _ in range(4):
            next(batches)
        assert len(batches._batches._drawn) == 0


COUNT = 400
SEQUENCES = {
    "forwards": range(COUNT),
    "backwards": range(COUNT - 1, -1, -1),
    "of a rank": [*range(0, COUNT, 2), *range(1, COUNT, 2)],
}


def order_beside(name, shared, loader):
    """The order of a shuffled job that takes each batch after this loader's."""
    batches, order = iter(loader), []
    with Job(Drawn(COUNT), name) as other:
        other.begin()
        for _ in range(COUNT // BATCH):
            next(batches)
            order += [item[0] for item in other.take(1)]
    assert_each_once([[index] for index in order], COUNT)
    return order


@pytest.mark.small(1)
@pytest.mark.parametrize("is_planned", [True, False])
@pytest.mark.parametrize("sequence", SEQUENCES)
def test_a_shuffled_job_does_not_follow_the_order_of_one_in_sequence(name, sequence, is_planned):
    """Copies come one after the other in the order in which they are made, and that must not be theirs."""
    shared = SharedDataset(Drawn(COUNT), cache=name, cache_bytes="1MiB")
    order = SEQUENCES[sequence]
    loader = DataLoader(shared, BATCH, sampler=order, collate_fn=list)
    if is_planned:
        sampler = SequentialSampler(shared) if sequence == "forwards" else order
        loader = DataLoader(shared, batch_sampler=planned(shared, sampler), collate_fn=list)
    step = abs(order[1] - order[0])
    taken = order_beside(name, shared, loader)
    near = sum(abs(one - two) == step for one, two in itertools.pairwise(taken))
    assert near < 20, "of a random order 2 are so near to each other, on average"


def test_a_shuffled_job_takes_copies_of_a_random_order_that_nobody_planned(name):
    shared = SharedDataset(Drawn(COUNT), cache=name, cache_bytes="1MiB")
    order = torch.randperm(COUNT, generator=torch.Generator().manual_seed(7)).tolist()
    taken = order_beside(name, shared, DataLoader(shared, BATCH, sampler=order, collate_fn=list))
    place = {index: k for k, index in enumerate(order)}
    near = sum(abs(place[one] - place[two]) == 1 for one, two in itertools.pairwise(taken))
    assert near > 100, "it takes copies in the order in which they are made"


def test_jobs_in_sequence_share_their_copies(name):
    shared = SharedDataset(Drawn(40), cache=name, cache_bytes="1MiB")
    batches = iter(
        DataLoader(shared, batch_sampler=planned(shared, SequentialSampler(shared)), collate_fn=list)
    )
    with Job(Drawn(40), name, shuffle=False) as other:
        other.begin()
        pairs = [(next(batches), other.take(1)) for _ in range(10)]
    assert all([item[0] for item in one] == [item[0] for item in two] for one, two in pairs)
    assert sum(one == two for one, two in pairs) > 5, "with one random number: one of them has made both"


FOLDS = {
    "the same": (range(160), range(160)),
    "two folds": (range(160), range(80, 240)),
    "nothing in common": (range(120), range(120, 240)),
}


@pytest.mark.parametrize("workers", size([0], [0, 2]))
@pytest.mark.parametrize("kind", size([torch.tensor], [list, np.array, torch.tensor]))
@pytest.mark.parametrize("fold", size(["two folds"], FOLDS))
def test_jobs_with_subsets_in_random_order_share_and_get_exactly_their_own(name, fold, kind, workers):
    mine, others = FOLDS[fold]
    options = {"shuffle": None, "num_workers": workers, "cache_bytes": "2MiB"}
    loader = load(Drawn(240), name, sampler=SubsetRandomSampler(kind(mine)), **options)
    other = Job(Drawn(240), name, sampler=SubsetRandomSampler(kind(others)), **options)
    with other:
        for _ in range(2):
            other.begin()
            batches, got, its = iter(loader), [], []
            for batch in batches:
                got += batch
                its += other.take(1)
            its += other.take(None)
            assert sorted(index for index, _ in got) == list(mine)
            assert sorted(index for index, _ in its) == list(others)
        served = loader.stats()["served"]["augmented"] + other.stats()["served"]["augmented"]
    assert (served > 0) == (fold != "nothing in common")
    assert "from which no sample is taken" not in loader.explain()


def test_explain_says_that_nothing_is_made_for_an_order_with_repeats(name):
    loader = load(Drawn(24), name, shuffle=None, sampler=WeightedRandomSampler(torch.ones(24), 24))
    assert "the order is that of WeightedRandomSampler, from which no sample is taken" in loader.explain()
