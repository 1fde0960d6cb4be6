"""Datasets whose items jobs share, and the jobs."""

import os

import numpy as np
import torch
from engine import Process
from torch.utils.data import Dataset, RandomSampler

import seneca
from seneca.workers.sampler import OpportunisticBatchSampler

BATCH = 4


class Drawn(Dataset):
    """Each item with a random number, which distinguishes one copy from another."""

    def __init__(self, count=24, transform=None):
        self.count = count
        self.transform = transform

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        item = index, float(torch.rand(()))
        return item if self.transform is None else self.transform(item)


class Sounds:
    """Staged; what is random is a number beside the sound."""

    def __init__(self, count=24):
        self.count = count

    def __len__(self):
        return self.count

    def read(self, index):
        return bytes([index] * 9)

    def decode(self, data):
        return np.frombuffer(data, np.uint8).astype(np.float32)

    def augment(self, array, rng):
        return int(array[0]), float(rng.random())


def load(dataset, name, **options):
    """A loader whose batches are lists of items."""
    defaults = {
        "batch_size": BATCH,
        "shuffle": True,
        "collate_fn": list,
        "cache": name,
        "cache_bytes": "1MiB",
    }
    return seneca.DataLoader(dataset, **(defaults | options))


def flat(batches):
    return [item for batch in batches for item in batch]


def assert_each_once(items, count):
    assert sorted(item[0] for item in items) == list(range(count))


class Job(Process):
    """Another job, which iterates a loader as the test says."""

    def __init__(self, dataset, name, **options):
        super().__init__(_run, dataset, name, options)

    def begin(self):
        """Begin an epoch: from now on it wants every sample."""
        self.send("begin")
        self.receive()

    def take(self, batches):
        """Items of so many batches, or of all that are left (None)."""
        self.send(batches)
        return flat(self.receive())

    def stats(self):
        self.send("stats")
        return self.receive()


def _run(pipe, dataset, name, options):
    torch.set_num_threads(1)
    torch.manual_seed(os.getpid())
    loader = load(dataset, name, **options)
    batches = iter(())
    while True:
        question = pipe.receive(None)
        if question == "begin":
            batches = iter(loader)
            getattr(batches._sampler_iter, "begin", int)()  # as asking for the first batch does
            pipe.send(None)
        elif question == "stats":
            pipe.send(loader.stats())
        else:
            pipe.send([batch for _, batch in zip(range(question or 10**9), batches, strict=False)])


def inside(name):
    """What the segment holds, after it was held against what a rebuild would make of it."""
    with seneca.SampleCache.attach(name) as cache:
        assert cache.segment.check() is None
        return cache.stats()


# As a batch sampler


def planned(shared, sampler=None, batch_size=BATCH, drop_last=False, **options):
    return OpportunisticBatchSampler(sampler or RandomSampler(shared), batch_size, drop_last, **options)
