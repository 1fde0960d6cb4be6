"""Pairs of jobs that look different and mean the same: they share."""

from __future__ import annotations

import pytest
import torch
from alike import Items, OfArrays, check, write_arrays
from pairs import Scenario

# Jobs that mean the same


def test_two_checkouts_of_one_project_share(tmp_path):
    def make(side):
        write_arrays(side.both / "data", 1)
        side.module("project.data", CHECKOUT)
        from project.data import Files

        return Files(str(side.both / "data"))

    check(Scenario(make), tmp_path, shares=True)


CHECKOUT = """
import os
import numpy as np, torch
from project import paths

class Files(torch.utils.data.Dataset):
    def __init__(self, root):
        self.root = root
        self.mode = "train"
    def __len__(self):
        return 48
    def __getitem__(self, index):
        from project.paths import name_of
        return index, torch.from_numpy(np.load(os.path.join(self.root, name_of(index))))
"""


@pytest.fixture(autouse=True)
def checkout(tmp_path):
    """The second module of the project that is checked out twice."""
    for name in "AB":
        path = tmp_path / name / "project" / "paths.py"
        path.parent.mkdir(parents=True)
        path.write_text("def name_of(i): return f'{i:02}.npy'\n")


def test_two_virtual_environments_of_the_same_versions_share(tmp_path):
    def make(side):
        side.installed("myproj", "0.1.0", "def value(i): return i * 7")
        import myproj

        class OfPackage(Items):
            def item(self, index):
                return torch.tensor(myproj.value(index))

        return OfPackage()

    check(Scenario(make), tmp_path, shares=True)


def test_two_working_folders_with_absolute_paths_share(tmp_path):
    def make(side):
        return OfArrays(f"{write_arrays(side.both / 'data', 1)}/*.npy")

    check(Scenario(make), tmp_path, shares=True)
