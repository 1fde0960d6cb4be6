"""Datasets whose items say which they are, and the check of a pair of jobs."""

from __future__ import annotations

import glob
from pathlib import Path

import numpy as np
import torch
from pairs import SAMPLES, Scenario, assert_nothing_wrong, run


class Items(torch.utils.data.Dataset):
    """What all the datasets here have in common: an item says which it is."""

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        return index, self.item(index)


def check(scenario: Scenario, folder: Path, *, shares: bool | None = None, by_names: bool = True) -> None:
    """Run a pair: nothing is wrong, and it shares or not, where that is said.

    Args:
        by_names: Whether what differs has another name, so that no example had to show it.
    """
    seen = run(scenario, folder)
    assert_nothing_wrong(seen)
    shown = [text for one in seen for text in one.warned if "nothing is shared here" in text]
    assert not (by_names and shown), shown
    if shares is not None:
        assert [one.others > 0 for one in seen] == [shares] * 2, [one.explained for one in seen]


# Where files are


class OfArrays(Items):
    def __init__(self, pattern):
        self.files = sorted(glob.glob(pattern))

    def item(self, index):
        return torch.from_numpy(np.load(self.files[index]))


def write_arrays(folder: Path, factor: int) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for index in range(SAMPLES):
        np.save(folder / f"{index:02}.npy", np.full(3, index * factor))
    return folder


def labelled_first(batch):
    return [(index, x) for x, index in batch]
