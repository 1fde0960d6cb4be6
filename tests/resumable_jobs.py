"""Loaders that are saved at a step, and others that go on from there."""

import pickle

import torch
from torch.utils.data import (
    DataLoader,
    Dataset,
    DistributedSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
)

import seneca
from seneca import transforms as T

TRAIN = T.Compose(
    [T.RandomResizedCrop(8), T.RandomHorizontalFlip(), T.Normalize(T.IMAGENET_MEAN, T.IMAGENET_STD)]
)

PICTURES = 48


class Numbers(Dataset):
    """Each item is its index."""

    def __init__(self, count=22):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if index == getattr(self, "bad", None):
            raise ValueError("bad")
        return index


def pictures(folder, **options):
    dataset = seneca.ImageFolder(folder, TRAIN)
    return seneca.DataLoader(dataset, **{"batch_size": 10, "shuffle": True, "cache_bytes": "2MiB", **options})


def numbers(dataset=None, **options):
    dataset = Numbers() if dataset is None else dataset
    defaults = {"batch_size": 4, "shuffle": True, "cache_bytes": "1MiB", "collate_fn": list}
    return seneca.DataLoader(dataset, **{**defaults, **options})


def batches_of(loader, count=None):
    """``(ids, images)`` of so many batches, or of all that are left in the epoch."""
    taken = []
    for batch in iter(loader):
        images, ids = (
            (batch[0].clone(), loader.last_indices.tolist())
            if len(batch) == 2 and torch.is_tensor(batch[0])
            else (torch.empty(0), batch)
        )
        taken.append((ids, images))
        if len(taken) == count:
            break
    return taken


def ids_of(batches):
    return [ids for ids, _ in batches]


def flat(batches):
    return [index for ids, _ in batches for index in ids]


def sent(state):
    """A state as it comes out of a checkpoint."""
    return pickle.loads(pickle.dumps(state))


def assert_equal(batches, others):
    assert ids_of(batches) == ids_of(others)
    assert all(torch.equal(a, b) for (_, a), (_, b) in zip(batches, others, strict=True))


class OfBatches(Sampler):
    """Batches of several sizes, in torch's random order."""

    def __iter__(self):
        order = torch.randperm(22).tolist()
        return iter([order[:3], order[3:4], order[4:10], order[10:15], order[15:]])

    def __len__(self):
        return 5


def stock(name, *, shuffle=True, batch_size=4, workers=0, dataset=None, **options):
    shared = seneca.SharedDataset(dataset or Numbers(), cache=name, cache_bytes="1MiB")
    sampler = RandomSampler(shared) if shuffle else SequentialSampler(shared)
    batches = seneca.OpportunisticBatchSampler(sampler, batch_size, **options)
    return DataLoader(shared, batch_sampler=batches, collate_fn=list, num_workers=workers), batches


def ranks(make, of, *, shuffle=True, drop=False, epoch=3, **options):
    """The loaders of so many ranks."""
    dataset = Numbers()
    loaders = []
    for rank in range(of):
        sampler = DistributedSampler(dataset, of, rank, shuffle=shuffle, seed=2, drop_last=drop)
        sampler.set_epoch(epoch)
        loaders.append(make(sampler=sampler, **options))
    return loaders
