"""Datasets that have a state of their own, and the loaders that ask them for it."""

import pickle
from itertools import chain

import pytest
import torch
from sizes import size
from torch.utils.data import (
    Dataset,
    IterableDataset,
    get_worker_info,
)

import seneca


def share():
    """This process's: ``(number, of how many)``."""
    info = get_worker_info()
    return (0, 1) if info is None else (info.id, info.num_workers)


class Shuffled(IterableDataset):
    """Shuffles its share with a seed that it draws, and forgets seed and place at its end."""

    def __init__(self, count=22):
        self.count = count
        self.seed, self.place = None, 0

    def __iter__(self):
        if self.seed is None:
            self.seed = int(torch.randint(2**31, ()))
        number, of = share()
        generator = torch.Generator().manual_seed(self.seed)
        order = (torch.randperm(-(-(self.count - number) // of), generator=generator) * of + number).tolist()
        while self.place < len(order):
            self.place += 1
            yield order[self.place - 1]
        self.seed, self.place = None, 0

    def state_dict(self):
        return {"seed": self.seed, "place": self.place}

    def load_state_dict(self, state):
        self.seed, self.place = state["seed"], state["place"]


class ItsOwnIterator(IterableDataset):
    """Shuffles its share by the number of the epoch."""

    def __init__(self, count=22):
        self.count = count
        self.epoch, self.place, self.order = 0, 0, []

    def __iter__(self):
        number, of = share()
        generator = torch.Generator().manual_seed(100 * self.epoch + number)
        indices = torch.arange(number, self.count, of)
        self.order = indices[torch.randperm(len(indices), generator=generator)].tolist()
        self.epoch, self.place = self.epoch + 1, 0
        return self

    def __next__(self):
        if self.place == len(self.order):
            raise StopIteration
        self.place += 1
        return self.order[self.place - 1]

    def state_dict(self):
        return {"epoch": self.epoch, "place": self.place, "order": self.order}

    def load_state_dict(self, state):
        self.epoch, self.place, self.order = state["epoch"], state["place"], state["order"]


class Drawing:
    """An iterator that draws its samples with replacement from torch's random numbers, and restores these."""

    def __init__(self, count):
        self.left = count

    def __next__(self):
        if self.left == 0:
            raise StopIteration
        self.left -= 1
        return int(torch.randint(1000, ()))

    def __iter__(self):
        return self

    def state_dict(self):
        return {"left": self.left, "generator": torch.get_rng_state()}

    def load_state_dict(self, state):
        self.left = state["left"]
        torch.set_rng_state(state["generator"])


class OfIterators(IterableDataset):
    """Has no state; its iterators have."""

    def __iter__(self):
        number, of = share()
        return Drawing(len(range(number, 22, of)))


class Curriculum(Dataset):
    """Items depend on how many were made before."""

    def __init__(self, count=22):
        self.count = count
        self.made = {"items": 0}

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        self.made["items"] += 1
        return index, share()[0], self.made["items"]

    def state_dict(self):
        return self.made

    def load_state_dict(self, state):
        self.made = state


class Plain(IterableDataset):
    """Deterministic, without a state."""

    def __init__(self):
        self.read = []

    def __iter__(self):
        number, of = share()
        for index in range(number, 22, of):
            self.read.append(index)
            yield index


def loader_of(dataset, cls=seneca.DataLoader, **options):
    return cls(dataset, **{"batch_size": 4, "collate_fn": list, **options})


def sent(state):
    """A state as it comes out of a checkpoint."""
    return pickle.loads(pickle.dumps(state))


def flat(batches):
    return list(chain.from_iterable(batches))


def taken(iterator, count):
    return [next(iterator) for _ in range(count)]


def goes_on(make, *, epochs=2, then=False):
    """Save after every batch; another loader with another dataset yields what the run has yielded from there.

    The small size goes on within each epoch, and where the first begins and ends.
    ``then``: and its next epoch is the run's too.
    """
    torch.manual_seed(1)
    loader, whole, states = make(), [], []
    for epoch in range(epochs):
        whole.append([])
        batches = iter(loader)
        states.append((epoch, 0, sent(loader.state_dict())))
        for batch in batches:
            whole[epoch].append(batch)
            states.append((epoch, len(whole[epoch]), sent(loader.state_dict())))
    assert len(whole[0]) >= 4
    for number, (epoch, step, state) in enumerate(states):
        ends = (0, len(whole[epoch])) if epoch == 0 else ()
        if size(step not in (len(whole[epoch]) // 3, *ends), False):
            continue
        if step == 0 and "order" not in state and loader.num_workers == 0 and not then:
            continue  # the dataset draws from torch's global generator, which is the user's to save
        torch.manual_seed(100 + number)
        resumed = make()
        resumed.load_state_dict(state)
        assert resumed.state_dict().keys() == state.keys()
        assert list(resumed) == whole[epoch][step:], (epoch, step)
        if then and epoch + 1 < epochs:
            assert list(resumed) == whole[epoch + 1], (epoch, step)


WORKERS = pytest.mark.parametrize(
    "options",
    [{}, {"num_workers": 2}, {"num_workers": size(2, 3), "persistent_workers": True}],
    ids=["alone", "workers", "workers that stay"],
)
