"""Loaders whose gaps between two epochs are tested."""

from __future__ import annotations

import time

import numpy as np
import torch

import seneca
from seneca import transforms as T

__all__ = ["CROP", "alike", "epoch", "loader_of", "prepared", "used", "validate"]

CROP = (T.RandomResizedCrop(16), T.RandomHorizontalFlip())


def loader_of(pictures, *, dataset=None, **options):
    dataset = seneca.ImageFolder(pictures, transform=T.Compose(CROP)) if dataset is None else dataset
    options = {
        "batch_size": 4,
        "shuffle": "sampler" not in options,
        "num_workers": 1,
        "cache": None,
    } | options
    return seneca.DataLoader(dataset, **options)


def epoch(loader):
    """Pictures, labels and indices of each batch."""
    return [(pictures.clone(), labels, loader.last_indices.copy()) for pictures, labels in loader]


def prepared(loader):
    """Wait until all that the loader prepares in advance is there; how many batches that is."""
    one = loader._gap._early
    if one is None:
        return None
    deadline = time.monotonic() + 60
    for each in one.batches:
        while not each.batch.wait(100):
            assert time.monotonic() < deadline
    return len(one.batches)


def validate():
    """What the iterator of another loader draws."""
    torch.empty((), dtype=torch.int64).random_()


def used(loader, between=validate, epochs=2):
    """Samples that were prepared in advance and used, in each later epoch. ``between`` runs in the gaps."""
    found, before = [], 0
    for number in range(epochs):
        epoch(loader)
        if number:
            found.append(loader.stats()["early"] - before)
            before = loader.stats()["early"]
        prepared(loader)
        if number + 1 < epochs:
            between()
    return found


def alike(some, others):
    return len(some) == len(others) and all(
        torch.equal(a, b) and torch.equal(c, d) and np.array_equal(e, f)
        for (a, c, e), (b, d, f) in zip(some, others, strict=True)
    )
