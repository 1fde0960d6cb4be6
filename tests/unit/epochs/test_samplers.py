"""Which kind of order a sampler has."""

import numpy as np
import pytest
import torch
from torch.utils.data import DistributedSampler, RandomSampler, SequentialSampler, SubsetRandomSampler

import seneca
from seneca import transforms
from seneca.epochs.plan import plan_epoch
from seneca.epochs.progress import EpochProgress
from seneca.epochs.samplers import Kind, epoch_of, foreseen, kind_of, seed_of

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


def orders_of(sampler_of, name):
    """The indices that come with each way to load, in the order they come in."""
    yield (
        "loader",
        [
            int(i)
            for (batch,) in seneca.DataLoader(DATA, 4, sampler=sampler_of(DATA), cache=name)
            for i in batch
        ],
    )
    shared = seneca.SharedDataset(DATA, cache=name)
    batches = seneca.OpportunisticBatchSampler(sampler_of(shared), 4)
    yield "batch sampler", [index for batch in batches for index in batch]


@pytest.mark.small(1)
@pytest.mark.parametrize(
    "sampler_of",
    [Reversed, lambda data: Odd(data, 2, 1, seed=3)],
    ids=["RandomSampler", "DistributedSampler"],
)
def test_a_subclass_with_an_order_of_its_own_keeps_it(sampler_of, name):
    for way, order in orders_of(sampler_of, name):
        assert order == list(sampler_of(DATA)), way


@pytest.mark.small(1)
@pytest.mark.parametrize("base", [RandomSampler, SequentialSampler], ids=lambda base: base.__name__)
def test_a_subclass_without_one_is_torchs(base, name):
    """It may say more of itself."""
    subclass = type("Named", (base,), {"label": "mine"})
    for way, order in orders_of(subclass, name):
        assert sorted(order) == list(range(COUNT)), way
        assert (order == list(range(COUNT))) is (base is SequentialSampler), way


def plan_of(sampler, *, resumed=None, batch_size=4, **options):
    """The plan of an epoch, and its progress."""
    progress = EpochProgress(resumed)
    return plan_epoch(progress, sampler, COUNT, batch_size=batch_size, **options), progress


def test_a_sampler_that_keeps_a_state_keeps_its_order():
    class Keeps(RandomSampler):
        def state_dict(self):
            return {}

        def load_state_dict(self, state):
            pass

    assert kind_of(Keeps(DATA), COUNT) is Kind.OTHER


def test_accelerates_sampler_is_a_random_order_like_any_other():
    reseeded = type("SeedableRandomSampler", (Reversed,), {"__module__": "accelerate.data_loader"})
    assert kind_of(reseeded(DATA), COUNT) is Kind.RESEEDED
    plan, _ = plan_of(reseeded(DATA), exchanges=True)
    assert plan.order == "seneca"
    plan, _ = plan_of(reseeded(DATA))
    assert [one for batch, _ in plan.batches_in_order() for one in batch] == list(range(COUNT - 1, -1, -1))


class ByEpoch(RandomSampler):
    """Its order is named by the epoch, by a generator that is another each time."""

    epoch = 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    @property
    def generator(self):
        return torch.Generator().manual_seed(self.epoch)

    @generator.setter
    def generator(self, generator):
        pass


class Growing(RandomSampler):
    """A curriculum: each epoch has more samples."""

    epoch = 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    @property
    def num_samples(self):
        return 4 * (self.epoch + 1)


@pytest.mark.parametrize("kind", [ByEpoch, Growing])
def test_what_decides_an_order_makes_it_the_subclasss_own(kind):
    """An epoch of it is resumed in its order, each sample once."""

    def loader():
        sampler = kind(DATA, generator=torch.Generator().manual_seed(1))
        return seneca.DataLoader(DATA, 4, sampler=sampler, cache=None), sampler

    assert kind_of(kind(DATA), COUNT) is Kind.OTHER
    first, sampler = loader()
    sampler.set_epoch(3)
    batches = iter(first)
    seen = next(batches)[0].tolist()
    second, sampler = loader()
    second.load_state_dict(first.state_dict())
    rest = [int(i) for (batch,) in second for i in batch]
    assert sampler.epoch == 3
    assert len({*seen, *rest}) == len(seen) + len(rest) == (COUNT if kind is ByEpoch else 16)


def test_a_seed_that_states_of_generators_name_draws_nothing_and_distinguishes_them():
    torch.manual_seed(3)
    generators = [torch.Generator().manual_seed(seed) for seed in (1, 1, 2)]
    states = [generator.get_state() for generator in generators]
    seeds = [seed_of([state]) for state in states]
    assert seeds[0] == seeds[1] != seeds[2] and all(0 <= seed < 2**63 for seed in seeds)
    assert all(torch.equal(one.get_state(), state) for one, state in zip(generators, states, strict=True))
    torch.rand(1, generator=generators[0])
    assert seed_of([generators[0].get_state()]) != seeds[0] != seed_of(states[:2])
    ours = seed_of([])
    assert ours == seed_of([torch.get_rng_state()])
    torch.rand(1)
    assert seed_of([]) != ours, "torch's global one"


SOME = [5, 3, 20, 11, 0, 7, 2]


@pytest.mark.small(1)
@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("seeded", [True, False])
def test_alone_a_subset_has_torchs_order_and_leaves_its_generator_as_torch_does(seeded, workers, name):
    def epochs(loader_class, **options):
        torch.manual_seed(4)
        generator = torch.Generator().manual_seed(3) if seeded else None
        sampler = SubsetRandomSampler(SOME, generator)
        loader = loader_class(DATA, 2, sampler=sampler, num_workers=workers, **options)
        orders = [[int(i) for (batch,) in loader for i in batch] for _ in range(2)]
        return orders, torch.rand(1), None if generator is None else generator.get_state().tolist()

    assert epochs(seneca.DataLoader, cache=name) == epochs(torch.utils.data.DataLoader)


@pytest.mark.small(1)
@pytest.mark.parametrize("seeded", [True, False])
@pytest.mark.parametrize("shares", [True, False])
def test_an_epoch_of_a_subset_is_resumed(seeded, shares, name):
    def loader():
        sampler = SubsetRandomSampler(SOME, torch.Generator().manual_seed(3) if seeded else None)
        return seneca.DataLoader(DATA, 2, sampler=sampler, cache=name if shares else None)

    first = loader()
    batches = iter(first)
    seen = [int(i) for i in next(batches)[0]]
    second = loader()
    second.load_state_dict(first.state_dict())
    rest = [int(i) for (batch,) in second for i in batch]
    assert rest == [int(i) for (batch,) in batches for i in batch]
    assert sorted(seen + rest) == sorted(SOME)


class Counts(list):
    """Indices that count how often all of them are asked for, by NumPy or one by one."""

    passes = 0

    def __array__(self, *args, **kwargs):
        self.passes += 1
        return np.array(self[:])

    def __iter__(self):
        self.passes += 1
        return super().__iter__()


@pytest.mark.small(1)
@pytest.mark.parametrize("shares", [True, False])
@pytest.mark.parametrize("native", [True, False])
def test_the_indices_of_a_subset_are_checked_at_most_once_an_epoch(native, shares, picture_folder, name):
    """A list of a million takes more than a tenth of a second each time."""
    dataset = seneca.ImageFolder(picture_folder, transforms.RandomResizedCrop(16)) if native else DATA
    indices = Counts(SOME)
    loader = seneca.DataLoader(
        dataset, 2, sampler=SubsetRandomSampler(indices), cache=name if shares else None, cache_bytes="2MiB"
    )
    for epoch in range(1, 3):
        assert sum(len(batch[0]) for batch in loader) == len(SOME)
        assert indices.passes == epoch * shares


class Twice(SubsetRandomSampler):
    def __iter__(self):
        return iter([*self.indices, *self.indices])


@pytest.mark.parametrize(
    ("sampler", "kind"),
    [
        (SubsetRandomSampler(SOME), Kind.SUBSET),
        (SubsetRandomSampler(torch.tensor(SOME)), Kind.SUBSET),
        (SubsetRandomSampler(range(COUNT)), Kind.SUBSET),
        (SubsetRandomSampler([1, 2, 1]), Kind.OTHER),
        (SubsetRandomSampler([1, -1]), Kind.OTHER),
        (SubsetRandomSampler([1, COUNT]), Kind.OTHER),
        (SubsetRandomSampler([]), Kind.OTHER),
        (SubsetRandomSampler(["a", "b"]), Kind.OTHER),
        (SubsetRandomSampler([[1], [2, 3]]), Kind.OTHER),
        (Twice(SOME), Kind.OTHER),
    ],
)
def test_a_subset_is_known_if_it_has_some_samples_each_once(sampler, kind):
    assert kind_of(sampler, COUNT) is kind


@pytest.mark.small(1)
@pytest.mark.parametrize("indices", [[1, 2, 1, 2], [0, -1], [3, 3, 3]])
def test_a_subset_with_repeats_is_delivered_as_it_is(indices, name):
    loader = seneca.DataLoader(DATA, 2, sampler=SubsetRandomSampler(indices), cache=name)
    got = [int(i) for (batch,) in loader for i in batch]
    assert sorted(got) == sorted(index % COUNT for index in indices)


# What a sampler will yield


def copied(generator):
    copy = torch.Generator()
    return copy.set_state((generator or torch.default_generator).get_state())


@pytest.mark.parametrize(
    "sampler",
    [
        SequentialSampler(DATA),
        RandomSampler(DATA),
        RandomSampler(DATA, generator=torch.Generator().manual_seed(3)),
        SubsetRandomSampler(range(3, 20)),
        SubsetRandomSampler(range(3, 20), torch.Generator().manual_seed(3)),
        DistributedSampler(DATA, num_replicas=3, rank=1),
    ],
)
def test_what_a_sampler_will_yield_is_foreseen_without_a_draw(sampler):
    torch.manual_seed(5)
    next(iter(sampler))
    generators = [torch.default_generator, getattr(sampler, "generator", None) or torch.Generator()]
    before = [generator.get_state() for generator in generators]
    expected = list(foreseen(sampler, copied, 1))
    assert all(map(torch.equal, before, [generator.get_state() for generator in generators]))
    if isinstance(sampler, DistributedSampler):
        sampler.set_epoch(1)
    assert list(sampler) == expected


@pytest.mark.parametrize("sampler", [Reversed(DATA), Odd(DATA, num_replicas=3, rank=1), [1, 2]])
def test_what_samplers_of_the_user_will_yield_nobody_knows(sampler):
    assert foreseen(sampler, copied, 1) is None
    assert epoch_of(sampler) is None


def test_without_the_generators_state_nobody_knows_a_random_order():
    assert foreseen(RandomSampler(DATA), lambda generator: None, 1) is None
    assert list(foreseen(SequentialSampler(DATA), lambda generator: None, 1)) == list(range(COUNT))
