"""Pairs of jobs whose files differ and have equal names: neither is ever given the other's items."""

from __future__ import annotations

import ctypes
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from alike import Items, OfArrays, check, labelled_first, write_arrays
from pairs import SAMPLES, Scenario, Side, assert_nothing_wrong, run, senecas
from PIL import Image

import seneca

CLONE_NEWNS, MS_BIND, MS_REC, MS_PRIVATE = 0x20000, 4096, 16384, 1 << 18


class OfAFolder(Items):
    def __init__(self, root):
        self.root = root

    def item(self, index):
        return torch.from_numpy(np.load(os.path.join(self.root, f"{index:02}.npy")))


def relative_files(side: Side):
    write_arrays(Path("data"), side.pick(1, 100))
    return OfArrays("data/*.npy")


def relative_folder(side: Side):
    write_arrays(Path("data"), side.pick(1, 100))
    return OfAFolder("data")


def relative_folder_in_code(side: Side):
    write_arrays(Path("data"), side.pick(1, 100))

    class InCode(Items):
        def item(self, index):
            return torch.from_numpy(np.load(f"data/{index:02}.npy"))

    return InCode()


@pytest.mark.small(1)
@pytest.mark.parametrize("make", [relative_files, relative_folder, relative_folder_in_code])
def test_relative_paths_in_two_working_folders(make, tmp_path):
    check(Scenario(make), tmp_path)


def mounted(side: Side):
    """A mount namespace of this job's own, where the folder that both name is this job's data."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) or libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None):
        raise OSError(ctypes.get_errno(), "unshare")
    data = write_arrays(side.folder / "data", side.pick(1, 100))
    times = 1_700_000_000
    for path in [*data.iterdir(), data]:
        os.utime(path, (times, times))
    place = side.both / "data"
    place.mkdir(exist_ok=True)
    assert libc.mount(os.fsencode(data), os.fsencode(place), None, MS_BIND, None) == 0
    return place


def can_mount() -> bool:
    done = subprocess.run(["unshare", "-m", "true"], capture_output=True)
    return done.returncode == 0


@pytest.mark.small(1)
@pytest.mark.skipif(not can_mount(), reason="mount namespaces are not allowed here")
@pytest.mark.parametrize("of_files", [True, False])
def test_equal_paths_in_two_containers(of_files, tmp_path):
    def make(side):
        place = mounted(side)
        return OfArrays(f"{place}/*.npy") if of_files else OfAFolder(str(place))

    check(Scenario(make), tmp_path)


class Stored(seneca.StagedDataset):
    """A dataset with stages, whose files are its own affair."""

    def __init__(self, root):
        self.root = root

    def __len__(self):
        return SAMPLES

    def read(self, index):
        return (Path(self.root) / f"{index:02}.npy").read_bytes()

    def decode(self, data):
        return np.frombuffer(data[-24:], np.int64)

    def augment(self, array, rng):
        return torch.from_numpy(array.copy())

    def label(self, index):
        return index

    def __getitem__(self, index):
        return index, torch.from_numpy(np.load(os.path.join(self.root, f"{index:02}.npy")))


@pytest.mark.small(1)
@pytest.mark.parametrize("workers", [0, 1])
def test_files_behind_a_dataset_that_are_rewritten_before_the_second_job_begins(workers, tmp_path):
    def make(side):
        data = side.both / "data"
        return Stored(str(data if side.name == "B" else write_arrays(data, 1)))

    def between(side, dataset, epoch):
        if side.name == "A" and epoch == 1:
            write_arrays(side.both / "data", 100)

    check(
        Scenario(
            make,
            options=lambda side: {
                "split": "0-100-0", "num_workers": workers, "collate_fn": labelled_first,
                "persistent_workers": False,
            },
            between=between,
            b_starts_in=2,
            epochs=4,
        ),
        tmp_path,
    )  # fmt: skip


def picture_folder(side: Side, kind: str):
    """Pictures of equal sizes, times and names, and of other colours."""
    for index in range(SAMPLES):
        path = side.folder / "pictures" / f"class{index % 2}" / f"{index:02}.{kind}"
        path.parent.mkdir(parents=True, exist_ok=True)
        level = (index * 3 + side.pick(0, 100)) % 256
        Image.new("RGB", (16, 16), (level,) * 3).save(
            path, **({"compress_level": 0} if kind == "png" else {})
        )
        os.utime(path, (1, 1))
    return side.folder / "pictures"


@pytest.mark.small(1)
@pytest.mark.parametrize("kind", ["bmp", "png"])
@pytest.mark.parametrize("grade", ["native", "staged"])
def test_pictures_of_equal_names_sizes_and_times(kind, grade, tmp_path):
    from torchvision_here import torchvision, v2

    steps = [v2.CenterCrop(16), v2.RandomHorizontalFlip(), v2.PILToTensor()]
    if grade == "staged":
        steps.append(torch.clone)

    def make(side):
        return torchvision.datasets.ImageFolder(str(picture_folder(side, kind)), v2.Compose(steps))

    def labelled(dataset, **options):
        return Numbered(senecas(dataset, **{**options, "collate_fn": None}))

    def want(side, dataset, index):
        return None if index < 0 else dataset[index][0]

    seen = run(
        Scenario(make, loader=labelled, want=want, options=lambda side: {"split": "0-50-50"}), tmp_path
    )
    assert_nothing_wrong(seen)
    assert all(one.explained.startswith(grade) for one in seen)


class Numbered:
    """A loader of pictures and labels, as one of numbers and pictures; -1 for a picture that is none of its
    own."""

    def __init__(self, loader):
        self.loader = loader
        self.stats, self.explain, self.dataset = loader.stats, loader.explain, loader.dataset

    def __iter__(self):
        means = [self.dataset[i][0].float().mean().item() for i in range(SAMPLES)]
        for pictures, _ in self.loader:
            levels = pictures.float().mean(dim=(1, 2, 3)).tolist()
            yield [
                (means.index(level) if level in means else -1, picture)
                for level, picture in zip(levels, pictures, strict=True)
            ]


@pytest.fixture(autouse=True)
def checkout(tmp_path):
    """The second module of the project that is checked out twice."""
    for name in "AB":
        path = tmp_path / name / "project" / "paths.py"
        path.parent.mkdir(parents=True)
        path.write_text("def name_of(i): return f'{i:02}.npy'\n")
