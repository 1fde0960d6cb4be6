"""What an epoch delivers is decided once, without a cache and without the native core."""

import pytest
import ready
import torch
from torch.utils.data import BatchSampler, DistributedSampler, RandomSampler, SequentialSampler

from seneca.epochs.plan import plan_epoch
from seneca.epochs.progress import EpochProgress
from seneca.epochs.samplers import Kind, kind_of

COUNT = 24

DATA = torch.utils.data.TensorDataset(torch.arange(COUNT))


class Reversed(RandomSampler):
    """A subclass with an order of its own."""

    def __iter__(self):
        return iter(range(len(self.data_source) - 1, -1, -1))


class Odd(DistributedSampler):
    """Shards in an order of its own."""

    def __iter__(self):
        return iter([COUNT - 1 - index for index in super().__iter__()])


def plan_of(sampler, *, resumed=None, batch_size=4, **options):
    """The plan of an epoch, and its progress."""
    progress = EpochProgress(resumed)
    return plan_epoch(progress, sampler, COUNT, batch_size=batch_size, **options), progress


def test_planning_needs_neither_the_core_nor_a_cache():
    code = "import sys, seneca.epochs.resumable; print(*(name for name in sys.modules if 'seneca' in name))"
    run = ready.run("-c", code, fresh=True)
    assert run.returncode == 0 and "seneca.epochs.plan" in run.stdout
    assert "_core" not in run.stdout and "seneca.cache" not in run.stdout


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("batch_size", [4, 7])
def test_a_plan_counts_as_torch_does(batch_size, drop_last):
    for sampler in (SequentialSampler(DATA), RandomSampler(DATA), DistributedSampler(DATA, 5, 2)):
        plan, _ = plan_of(sampler, batch_size=batch_size, drop_last=drop_last)
        torchs = list(BatchSampler(sampler, batch_size, drop_last))
        assert plan.batches == len(torchs)
        assert plan.delivers == sum(map(len, torchs))
        assert [len(batch) for batch, _ in plan.batches_in_order()] == list(map(len, torchs))


def test_the_order_is_torchs_to_the_index():
    for make in (
        lambda: SequentialSampler(DATA),
        lambda: RandomSampler(DATA, generator=torch.Generator().manual_seed(3)),
        lambda: RandomSampler(DATA, replacement=True, generator=torch.Generator().manual_seed(3)),
        lambda: RandomSampler(DATA, num_samples=30, generator=torch.Generator().manual_seed(3)),
        lambda: DistributedSampler(DATA, 3, 1, seed=9),
        lambda: Reversed(DATA),
    ):
        plan, _ = plan_of(make())
        assert [one for batch, _ in plan.batches_in_order() for one in batch] == list(make())


def test_torchs_generator_stands_where_torch_leaves_it():
    """Its sampler draws once more at its end."""
    planned, drawn = torch.Generator().manual_seed(1), torch.Generator().manual_seed(1)
    list(plan_of(RandomSampler(DATA, generator=planned))[0].batches_in_order())
    list(RandomSampler(DATA, generator=drawn))
    assert torch.equal(planned.get_state(), drawn.get_state())


def test_a_random_order_is_senecas_where_copies_may_take_places():
    plan, progress = plan_of(RandomSampler(DATA), exchanges=True)
    assert (plan.order, plan.fixed, plan.exchanges, plan.indices) == ("seneca", False, True, None)
    assert not progress.in_turn
    plan, _ = plan_of(RandomSampler(DATA), exchanges=True, has_cache=False)
    assert (plan.order, plan.fixed, plan.exchanges) == ("samples", True, False)
    plan, progress = plan_of(SequentialSampler(DATA), exchanges=True)
    assert (plan.order, plan.exchanges, progress.in_turn) == ("samples", False, True)


@pytest.mark.parametrize("order", ["seneca", "samples"])
def test_an_epoch_that_is_resumed_keeps_its_order(order):
    first, progress = plan_of(RandomSampler(DATA), exchanges=order == "seneca")
    progress.begin(first.order, first.sampler, lambda: None)
    begun = list(first.batches_in_order())
    for _, places in begun[:2]:
        progress.made(places)
    again, _ = plan_of(RandomSampler(DATA), resumed=progress.state(), exchanges=order != "seneca")
    assert (again.order, again.left, again.batches) == (order, COUNT - 8, 4)
    assert again.seed == first.seed
    rest = [one for batch, _ in again.batches_in_order() for one in batch]
    assert rest == [one for batch, _ in begun[2:] for one in batch]


def test_a_shard_is_decided_once_and_is_the_ranks():
    sampler = DistributedSampler(DATA, 5, 4, seed=2)
    sampler.set_epoch(7)
    plan, progress = plan_of(sampler, exchanges=True)
    assert plan.indices.tolist() == list(sampler)
    assert (plan.rank, plan.ranks, plan.count, plan.shuffled, plan.exchanges) == (4, 5, 5, True, True)
    assert not progress.in_turn


def test_what_only_the_sampler_knows_is_not_counted():
    plan, _ = plan_of(Reversed(DATA))
    assert (plan.count, plan.delivers, plan.fixed, plan.exchanges) == (None, None, True, False)


@pytest.mark.parametrize(
    ("sampler", "kind"),
    [
        (SequentialSampler(DATA), Kind.SEQUENTIAL),
        (SequentialSampler(range(3)), Kind.OTHER),
        (RandomSampler(DATA), Kind.SHUFFLED),
        (RandomSampler(DATA, replacement=True), Kind.RANDOM),
        (RandomSampler(DATA, num_samples=3), Kind.RANDOM),
        (DistributedSampler(DATA, 2, 0), Kind.SHARDED),
        (DistributedSampler(range(3), 2, 0), Kind.OTHER),
        (Reversed(DATA), Kind.OTHER),
        (Odd(DATA, 2, 0), Kind.OTHER),
        ([3, 1, 2], Kind.OTHER),
    ],
)
def test_kinds_of_samplers(sampler, kind):
    assert kind_of(sampler, COUNT) is kind
    assert kind_of(sampler, None) in (Kind.OTHER, Kind.RANDOM)
