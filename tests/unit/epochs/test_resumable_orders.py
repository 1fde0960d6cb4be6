"""A loader that is saved at any step, and another that goes on with the same samples in the same order."""

from itertools import chain

import numpy as np
import pytest
import torch
from resumable_jobs import OfBatches, assert_equal, batches_of, numbers, pictures, sent
from sizes import size
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Sampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

import seneca


def goes_on_everywhere(make, *, epochs=2, then=True):
    """Save at every step of two epochs; what is resumed there is what the run has done, to the bit.

    ``make`` makes a loader as the script would that is started anew. ``then``: the next epoch as well, which
    depends on a generator's state. The small size resumes within each epoch, and at both ends of the first.
    """
    torch.manual_seed(1)
    whole, states = [], []
    loader = make()
    for _ in range(epochs):
        batches = iter(loader)
        at = len(whole)
        whole.append([])
        states.append((at, 0, sent(loader.state_dict())))
        for batch in batches:
            whole[at] += [
                (loader.last_indices.tolist(), batch[0].clone())
                if torch.is_tensor(batch[0])
                else (batch, torch.empty(0))
            ]
            states.append((at, len(whole[at]), sent(loader.state_dict())))
    assert len(whole[0]) > 3
    for number, (epoch, step, state) in enumerate(states):
        ends = (0, len(whole[epoch])) if epoch == 0 else ()
        if size(step not in (len(whole[epoch]) // 3, *ends), False):
            continue
        torch.manual_seed(100 + number)
        resumed = make()
        resumed.load_state_dict(state)
        assert resumed.state_dict() == state
        before = torch.get_rng_state()
        if step == 0 and "order" not in state and not resumed._generators():
            continue  # nothing is drawn yet, and nothing of it is known
        assert_equal(batches_of(resumed), whole[epoch][step:])
        if step and not resumed._generators():
            assert torch.equal(torch.get_rng_state(), before), "who restores it finds it as it was"
        if then and epoch + 1 < epochs:
            assert_equal(batches_of(resumed), whole[epoch + 1])


ALONE = {
    "cache=None": {"cache": None},
    "share=none": {"share": "none"},
    "share=decoded": {"share": "decoded"},
    "alone": {},
    "in their order": {"shuffle": False},
    "threads": {"num_workers": 2, "share": "none"},
    "threads that stay": {"num_workers": 1, "persistent_workers": True},
    "drop_last": {"drop_last": True, "cache": None},
}


@pytest.mark.small(1)
@pytest.mark.parametrize("options", ALONE.values(), ids=ALONE)
def test_pictures_go_on_at_every_step_with_the_same_bits(picture_folder, name, options):
    options = {"cache": name, **options}
    generator = options.get("shuffle", True)

    def make():
        given = {"generator": torch.Generator().manual_seed(7)} if generator else {}
        return pictures(picture_folder, **options, **given)

    goes_on_everywhere(lambda: pictures(picture_folder, **options), then=False)
    goes_on_everywhere(make, then=generator)


def stock_sampler(kind):
    def make(count):
        samplers = {
            "weighted": lambda: WeightedRandomSampler(torch.arange(1.0, count + 1), 30),
            "subset": lambda: SubsetRandomSampler(range(3, count)),
            "replacing": lambda: RandomSampler(range(count), replacement=True, num_samples=25),
            "its generator": lambda: WeightedRandomSampler(
                torch.ones(count), 25, generator=torch.Generator().manual_seed(3)
            ),
        }
        return samplers[kind]()

    return make


class Remembers(Sampler):
    """Has a state of its own, which changes with every epoch."""

    def __init__(self):
        self.turn = 0

    def __iter__(self):
        self.turn += 1
        return iter([(index * 7 + self.turn) % 22 for index in range(22)])

    def __len__(self):
        return 22

    def state_dict(self):
        return {"turn": self.turn}

    def load_state_dict(self, state):
        self.turn = state["turn"]


class ByEpoch(Remembers):
    """Is given the epoch."""

    state_dict = load_state_dict = None
    epoch = 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        return iter([(index * 7 + self.epoch) % 22 for index in range(22)])


del ByEpoch.state_dict, ByEpoch.load_state_dict


class SavesItsPlace(Sampler):
    """As torchdata's samplers: its state says how far it has come, and it yields the rest."""

    def __init__(self):
        self.order, self.place, self.goes_on = [], 0, False

    def __iter__(self):
        if not self.goes_on or not self.order:
            self.order, self.place = torch.randperm(22).tolist(), 0
        self.goes_on = False
        while self.place < 22:
            self.place += 1
            yield self.order[self.place - 1]

    def state_dict(self):
        return {"order": self.order, "place": self.place}

    def load_state_dict(self, state):
        self.order, self.place, self.goes_on = state["order"], state["place"], True


class Placed:
    """An iterator that saves its place in an order that nobody can repeat."""

    def __init__(self):
        self.order = np.random.default_rng().permutation(22).tolist()

    def __iter__(self):
        return self

    def __next__(self):
        if not self.order:
            raise StopIteration
        return self.order.pop()

    def state_dict(self):
        return {"order": list(self.order)}

    def load_state_dict(self, state):
        self.order = list(state["order"])


class OfPlaced(Sampler):
    def __iter__(self):
        return Placed()

    def __len__(self):
        return 22


OTHERS = {
    "alone": {},
    "cache=None": {"cache": None},
    "in their order": {"shuffle": False},
    "in their order, nothing shared": {"shuffle": False, "cache": None},
    "drop_last": {"drop_last": True},
    "singly": {"batch_size": None, "cache": None, "collate_fn": lambda item: [item]},
    "a list of batches": {"shuffle": None, "batch_size": 1, "batch_sampler": [[3, 1], [2], [5, 4, 9], [8]]},
    **{
        kind: {"shuffle": None, "sampler": stock_sampler(kind)}
        for kind in ("weighted", "subset", "replacing", "its generator")
    },
    "a state of its own": {"shuffle": None, "sampler": lambda count: Remembers()},
    "saves its place": {"shuffle": None, "sampler": lambda count: SavesItsPlace()},
    "iterators that save their place": {"shuffle": None, "sampler": lambda count: OfPlaced()},
    "given the epoch": {"shuffle": None, "sampler": lambda count: ByEpoch()},
    "a batch sampler of the user's": {
        "shuffle": None,
        "batch_size": 1,
        "batch_sampler": lambda count: OfBatches(),
    },
}


@pytest.mark.small(3)
@pytest.mark.parametrize("options", OTHERS.values(), ids=OTHERS)
def test_any_dataset_goes_on_at_every_step_in_the_same_order(name, options):
    def make():
        made = {
            key: one(22) if key in ("sampler", "batch_sampler") and callable(one) else one
            for key, one in options.items()
        }
        return numbers(**{"cache": name, **made})

    goes_on_everywhere(make, then=False)


@pytest.mark.small(1)
@pytest.mark.parametrize("options", [{}, {"cache": None}, {"cache": None, "batch_size": None}])
def test_a_generator_goes_on_for_any_dataset_too(name, options):
    def make():
        generator = torch.Generator().manual_seed(3)
        single = {"collate_fn": lambda item: [item]} if "batch_size" in options else {}
        return numbers(**{"cache": name, "generator": generator, **options, **single})

    goes_on_everywhere(make)


@pytest.mark.whole_size(shown_by="test_pictures_go_on_at_every_step_with_the_same_bits")
@pytest.mark.parametrize("epochs", [0, 1])
def test_a_sampler_that_saves_its_place_goes_on_behind_what_workers_have_prepared(name, epochs):
    for step in size((0, 2, 5), range(6)):
        first, second = (
            numbers(shuffle=None, sampler=SavesItsPlace(), cache=name, num_workers=2) for _ in range(2)
        )
        for _ in range(epochs):
            list(first)
        batches = iter(first)
        seen = [next(batches) for _ in range(step)]
        second.load_state_dict(sent(first.state_dict()))
        rest = list(second)
        assert sorted(chain(*seen, *rest)) == list(range(22))
        assert step == 0 or rest == list(batches), "before its first batch another order will do"


def test_a_sampler_that_saves_its_place_goes_on_in_other_batches_and_in_torchs_loader(name):
    first, second = (numbers(shuffle=None, sampler=SavesItsPlace(), cache=name) for _ in range(2))
    second.batch_sampler.batch_size = 5
    list(first)
    batches = iter(first)
    seen = [next(batches), next(batches)]
    second.load_state_dict(sent(first.state_dict()))
    assert list(chain(*second)) == list(chain(*batches))
    drawn, resumed = (seneca.OpportunisticBatchSampler(SavesItsPlace(), 4) for _ in range(2))
    list(drawn)
    batches = iter(drawn)
    seen = [next(batches) for _ in range(4)]
    resumed.load_state_dict(sent(drawn.state_dict(yielded=2)))
    assert list(resumed) == [*seen[2:], *batches]


class Counting(IterableDataset):
    def __iter__(self):
        return iter(range(22))


def test_the_batches_of_a_stream_are_passed_over():
    goes_on_everywhere(lambda: numbers(Counting(), shuffle=None))


class Unsized(Dataset):
    """Torch loads it in the order of a sampler, which alone knows how many there are."""

    def __getitem__(self, index):
        return index


@pytest.mark.small(1)
@pytest.mark.filterwarnings("ignore:.*has no length")
@pytest.mark.parametrize("workers", [0, 2])
def test_a_dataset_without_a_length_goes_on_in_the_order_of_its_sampler(name, workers):
    for order in (
        {"sampler": range(3, 25)},
        {"batch_sampler": [[3, 1], [2], [9], [5], [8]], "batch_size": 1},
    ):
        options = {"shuffle": None, "cache": name, "num_workers": workers, **order}
        goes_on_everywhere(lambda options=options: numbers(Unsized(), **options))
        assert "Unsized has no length" in numbers(Unsized(), **options).explain()


def test_a_dataset_without_a_length_goes_on_behind_a_shared_one():
    def make():
        return DataLoader(seneca.SharedDataset(Unsized()), 4, sampler=range(22), collate_fn=list)

    assert list(make()) == [list(range(start, min(start + 4, 22))) for start in range(0, 22, 4)]
    first, second = (
        seneca.OpportunisticBatchSampler(SubsetRandomSampler(range(22)), 4, seed=3) for _ in range(2)
    )
    drawn = iter(first)
    seen = next(drawn)
    second.load_state_dict(first.state_dict())
    assert sorted([*seen, *chain(*second)]) == list(range(22))


def test_a_sampler_of_a_dataset_without_a_length_is_asked_for_indices_alone(name):
    class Own(Sampler):
        dataset = Unsized()

        def __iter__(self):
            return iter([4, 2, 9])

    assert list(numbers(shuffle=None, sampler=Own(), cache=name)) == [[4, 2, 9]]
