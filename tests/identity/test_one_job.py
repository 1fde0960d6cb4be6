"""One job alone is given what its dataset makes now: whatever changes between epochs counts from the next one
on.

Torch's own loader says what is right, also where worker processes stay and keep the dataset that they began
with.
"""

from __future__ import annotations

import itertools
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision_here import torchvision, v1, v2

import seneca
from seneca._core.files import stat_many

WORKERS = {
    "here": {},
    "workers": {"num_workers": 1},
    "workers that stay": {"num_workers": 1, "persistent_workers": True},
    "spawned workers": {"num_workers": 1, "multiprocessing_context": "spawn"},
}
FORKED = [name for name in WORKERS if name != "spawned workers"]


@pytest.fixture
def folder(tmp_path):
    """Six pictures of one level each, in two classes."""
    for index in range(6):
        path = tmp_path / "pictures" / f"class{index // 3}" / f"{index}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        paint(path, 10 * index)
    return tmp_path / "pictures"


def paint(path, level):
    Image.new("RGB", (16, 16), (level,) * 3).save(path, compress_level=0)


def level(picture):
    return int(np.asarray(picture).mean())


def ten_more(picture):
    return level(picture) + 1000


class Turned:
    def __init__(self, by):
        self.by = by

    def __call__(self, label):
        return (label + self.by) % 2


def other_label(label):
    return 1 - label


NATIVE = v2.Compose([v2.CenterCrop(16), v2.PILToTensor()])
RELABELLED = {
    "target_transform": lambda data: setattr(data, "target_transform", other_label),
    "target_transform, in place": lambda data: setattr(data.target_transform, "by", 1),
    "samples": lambda data: setattr(data, "samples", [(path, 1 - label) for path, label in data.samples]),
    "one of the samples": lambda data: data.samples.__setitem__(2, (data.samples[2][0], 7)),
    "one label of another type": lambda data: data.samples.__setitem__(2, (data.samples[2][0], 0.5)),
    "the order of the samples": lambda data: data.samples.reverse(),
}


def epochs_of(loader_class, dataset, change, epochs=3, **options):
    """What three epochs deliver, of which ``change`` comes before the second."""
    loader = loader_class(dataset, batch_size=4, **options)
    delivered = []
    for epoch in range(epochs):
        if epoch == 1:
            change(dataset)
        delivered.append([[part.tolist() for part in batch] for batch in loader])
    del loader
    return delivered


def assert_as_torch(make, change, options, has_threads=False, **ours):
    """Both loaders deliver the same of equal datasets to which the same happens.

    Threads have no copy of the dataset that stays: they are as torch's workers that are begun for each epoch.
    """
    of_torch = {**options, "persistent_workers": False} if has_threads else options
    wanted = epochs_of(torch.utils.data.DataLoader, make(), change, **of_torch)
    given = epochs_of(seneca.DataLoader, make(), change, **options, cache_bytes="4MiB", **ours)
    assert given == wanted


# Labels


@pytest.mark.small(3)
@pytest.mark.parametrize("workers", FORKED)
@pytest.mark.parametrize("change", RELABELLED)
@pytest.mark.parametrize("transform, key", [("python", None), ("native", "mine")])
def test_labels_that_change_between_epochs_are_followed(folder, workers, change, transform, key):
    def make():
        return torchvision.datasets.ImageFolder(
            str(folder), level if transform == "python" else NATIVE, target_transform=Turned(0)
        )

    assert_as_torch(make, RELABELLED[change], WORKERS[workers], key=key, has_threads=transform == "native")


@pytest.mark.parametrize("change", ["samples", "one of the samples", "the order of the samples"])
def test_labels_that_change_between_epochs_are_followed_natively(folder, change):
    assert_as_torch(lambda: torchvision.datasets.ImageFolder(str(folder), NATIVE), RELABELLED[change], {})


class Labelled(seneca.StagedDataset):
    """A dataset with stages, and labels of its own."""

    def __init__(self):
        self.labels = list(range(6))

    def __len__(self):
        return 6

    def read(self, index):
        return bytes([index] * 4)

    def decode(self, data):
        return np.frombuffer(data, np.uint8)

    def augment(self, array, rng):
        return int(array[0])

    def label(self, index):
        return self.labels[index]

    def __getitem__(self, index):
        return index, self.labels[index]


@pytest.mark.small(1)
@pytest.mark.parametrize("workers", FORKED)
@pytest.mark.parametrize("in_place", [True, False])
def test_labels_of_a_dataset_with_stages_are_followed(workers, in_place):
    def change(data):
        if in_place:
            data.labels[3] = 70
        else:
            data.labels = [90 + label for label in data.labels]

    assert_as_torch(Labelled, change, WORKERS[workers])


# Transforms, with a key too


@pytest.mark.small(2)
@pytest.mark.parametrize(
    "workers, key, kept",
    [
        *itertools.product(FORKED, [None, "mine"], ["100-0-0", "0-100-0"]),
        ("spawned workers", "mine", "0-100-0"),  # they take seconds to start
    ],
)
def test_a_transform_that_changes_between_epochs_is_followed(folder, workers, key, kept):
    def make():
        return seneca.ImageFolder(folder, level)  # which spawned processes can import

    def change(data):
        data.transform = ten_more

    assert_as_torch(make, change, WORKERS[workers], key=key, split=kept)


@pytest.mark.parametrize("key", [None, "mine"])
def test_a_static_transform_that_changes_between_epochs_is_followed(folder, key):
    from seneca.transforms import Static

    def make():
        return torchvision.datasets.ImageFolder(str(folder), v1.Compose([Static(np.asarray), level]))

    def change(data):
        data.transform = v1.Compose([Static(darker), level])

    assert_as_torch(make, change, {}, split="0-100-0", key=key)


def darker(picture):
    return np.asarray(picture) // 2


@pytest.mark.small(2)
@pytest.mark.parametrize("workers", FORKED)
def test_pictures_that_are_pickled_to_another_dataset_are_that_dataset_s(folder, workers):
    loader = seneca.DataLoader(
        torchvision.datasets.ImageFolder(str(folder), level),
        batch_size=6,
        cache_bytes="4MiB",
        **WORKERS[workers],
    )
    before = next(iter(loader))[1].tolist()
    loader = pickle.loads(pickle.dumps(loader))
    loader.dataset.target_transform = other_label
    assert [1 - label for label in next(iter(loader))[1].tolist()] == before


# Files


@pytest.mark.small(1)
@pytest.mark.parametrize("workers", FORKED)
@pytest.mark.parametrize("planned", [True, False])
@pytest.mark.parametrize("kept", ["100-0-0", "0-100-0"])
def test_files_that_change_between_epochs_are_read_again_in_torch_s_own_loader(
    folder, workers, planned, kept
):
    shared = seneca.SharedDataset(seneca.ImageFolder(folder, level), split=kept, cache_bytes="4MiB")
    shared.join()
    options = {"batch_size": 6}
    if planned:
        sampler = torch.utils.data.SequentialSampler(shared)
        options = {"batch_sampler": seneca.OpportunisticBatchSampler(sampler, 6)}
    loader = torch.utils.data.DataLoader(shared, **options, **WORKERS[workers])
    assert next(iter(loader))[0].tolist() == [0, 10, 20, 30, 40, 50]
    for index in range(6):
        path = shared.dataset.samples[index][0]
        time = os.stat(path).st_mtime_ns
        paint(path, 100 + index)
        os.utime(path, ns=(time, time + 1))
    assert next(iter(loader))[0].tolist() == [100, 101, 102, 103, 104, 105]


# When storage is asked for the states of files


def mean_levels(batch):
    """The levels of pictures of either grade."""
    pictures = batch[0]
    return (
        pictures.tolist() if pictures.ndim == 1 else pictures.float().mean((1, 2, 3)).round().int().tolist()
    )


NATIVE = seneca.transforms.Compose([seneca.transforms.CenterCrop(16), seneca.transforms.PILToTensor()])


def folder_loader(folder, transform, verify_files, **options):
    dataset = seneca.ImageFolder(folder, transform)
    kept = {"split": "0-100-0", "cache_bytes": "4MiB", "verify_files": verify_files}
    return seneca.DataLoader(dataset, batch_size=6, **kept, **options)


@pytest.fixture
def stat_calls(monkeypatch):
    """The number of files of each call of stat_many() that this process has made."""
    made = []

    def counted(paths, offsets, threads):
        made.append(len(offsets) - 1)
        return stat_many(paths, offsets, threads)

    monkeypatch.setattr("seneca.data.file_lists.stat_many", counted)
    return made


@pytest.mark.small(2)
@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("transform", [NATIVE, level], ids=["native", "python"])
@pytest.mark.parametrize("change", ["rewritten", "replaced", "linked"])
def test_files_are_verified_in_each_epoch_unless_the_user_vouches_for_them(
    folder, tmp_path, stat_calls, workers, transform, change
):
    def spoil(path):
        if change == "rewritten":
            paint(path, 200)
            return
        paint(tmp_path / "new.png", 200)
        if change == "replaced":
            (tmp_path / "new.png").replace(path)
        else:
            Path(path).unlink()
            Path(path).symlink_to(tmp_path / "new.png")

    verified = folder_loader(folder, transform, "epoch", **WORKERS[workers])
    vouched = folder_loader(folder, transform, "run", **WORKERS[workers])
    for loader in (verified, vouched):
        for _ in range(2):  # the second is served from memory
            assert mean_levels(next(iter(loader))) == [0, 10, 20, 30, 40, 50]
    assert stat_calls == [6, 6, 6], "two for the loader that verifies each epoch, one for the other"
    spoil(vouched.dataset.samples[1][0])
    del stat_calls[:]
    assert mean_levels(next(iter(verified))) == [0, 200, 20, 30, 40, 50] and stat_calls == [6]
    assert mean_levels(next(iter(vouched)))[1] in (10, 200), "as it is now, or as it was kept"
    assert stat_calls == [6], "the other loader's call alone"


def test_a_job_that_verifies_takes_nothing_from_one_that_did_not(folder):
    """Another job's cache of the files as they were is not this job's."""
    vouched = folder_loader(folder, NATIVE, "run")
    list(vouched)
    paint(vouched.dataset.samples[1][0], 200)
    list(vouched)
    for verify_files in ("run", "epoch"):
        fresh = folder_loader(folder, NATIVE, verify_files)
        assert mean_levels(next(iter(fresh))) == [0, 200, 20, 30, 40, 50]
        assert fresh.stats()["served"]["decoded"] == 0


def test_storage_is_asked_for_another_list_of_files_in_any_case(folder, stat_calls):
    loader = folder_loader(folder, NATIVE, "run")
    assert len(next(iter(loader))[0]) == 6 and stat_calls == [6]
    loader.dataset.samples.pop()
    assert len(next(iter(loader))[0]) == 5 and stat_calls == [6, 5]
    paint(folder / "class0" / "9.png", 90)
    loader.dataset.samples[:] = seneca.ImageFolder(folder).samples
    assert mean_levels(next(iter(loader))) == [0, 10, 20, 90, 30, 40, 50][:6] and stat_calls == [6, 5, 7]


# What torchvision's own transforms were made into


def forward_of_the_object(resize):
    resize.forward = lambda picture: picture.resize((16, 16)).rotate(90)


def hook_of_the_object(resize):
    resize.register_forward_hook(lambda module, given, made: made.rotate(90))


def hook_before_the_object(resize):
    resize.register_forward_pre_hook(lambda module, given: (given[0].rotate(90),))


def transform_of_the_object(resize):
    resize.transform = lambda given, params: given.resize((16, 16)).rotate(90)


@pytest.fixture
def halves(tmp_path):
    """Pictures with a black and a white half."""
    for index in range(6):
        pixels = np.zeros((32, 32, 3), np.uint8)
        pixels[:16] = 255
        path = tmp_path / "halves" / "only" / f"{index}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path)
    return tmp_path / "halves"


@pytest.mark.small(2)
@pytest.mark.parametrize(
    ("kind", "change"),
    [
        (v1, forward_of_the_object),
        (v1, hook_of_the_object),
        (v1, hook_before_the_object),
        (v2, forward_of_the_object),
        (v2, hook_of_the_object),
        (v2, transform_of_the_object),
    ],
)
@pytest.mark.parametrize("place", ["alone", "before Python"])
def test_a_transform_that_was_changed_from_outside_is_no_longer_torchvision_s(halves, kind, change, place):
    def make():
        resize = kind.Resize((16, 16))
        change(resize)
        last = [v2.PILToTensor()] if place == "alone" else [v2.PILToTensor(), torch.clone]
        return torchvision.datasets.ImageFolder(str(halves), kind.Compose([resize, *last]))

    assert_as_torch(make, lambda data: None, {}, split="0-100-0")


class Impostor(v1.Compose):
    def __call__(self, picture):
        return super().__call__(picture) // 2


Impostor.__module__, Impostor.__qualname__ = v1.Compose.__module__, "Compose"


def test_a_class_that_says_it_is_torchvision_s_is_not(halves):
    def make():
        return torchvision.datasets.ImageFolder(
            str(halves), Impostor([v1.Resize((16, 16)), v1.PILToTensor()])
        )

    assert_as_torch(make, lambda data: None, {})


def turned_loader(path):
    with Image.open(path) as picture:
        return picture.convert("RGB").rotate(90)


def turned_item(self, index):
    path, label = self.samples[index]
    return self.transform(turned_loader(path)), label


def turned_call(self, picture):
    return torch.from_numpy(np.array(picture.rotate(90))).permute(2, 0, 1)


def turned_resize(picture, size, *more, **options):
    return picture.resize((16, 16)).rotate(90)


PATCHES = {
    "pil_loader": (torchvision.datasets.folder, "pil_loader", turned_loader),
    "default_loader": (torchvision.datasets.folder, "default_loader", turned_loader),
    "__getitem__": (torchvision.datasets.DatasetFolder, "__getitem__", turned_item),
    "__call__": (v1.PILToTensor, "__call__", turned_call),
    "resize": (v1.functional, "resize", turned_resize),
    "open": (Image, "open", lambda path, open=Image.open: open(path).rotate(90)),
}


@pytest.mark.small(3)
@pytest.mark.parametrize("patch", PATCHES)
def test_a_function_of_torchvision_s_that_was_replaced_is_followed(halves, patch, monkeypatch):
    monkeypatch.setattr(*PATCHES[patch])

    def make():
        loader = torchvision.datasets.folder.default_loader
        return torchvision.datasets.ImageFolder(
            str(halves), v1.Compose([v1.Resize((16, 16)), v1.PILToTensor()]), loader=loader
        )

    assert_as_torch(make, lambda data: None, {})


# A shared dataset's own attributes


class Numbers(torch.utils.data.Dataset):
    def __init__(self, k):
        self.k = k

    def __len__(self):
        return 6

    def __getitem__(self, index):
        return index * self.k


@pytest.mark.parametrize("planned", [True, False])
def test_another_dataset_that_is_put_into_a_shared_one_is_loaded(planned):
    shared = seneca.SharedDataset(Numbers(1), cache_bytes="4MiB")
    sampler = torch.utils.data.SequentialSampler(shared)
    batches = seneca.OpportunisticBatchSampler(sampler, 6) if planned else [list(range(6))]
    loader = torch.utils.data.DataLoader(shared, batch_sampler=batches)
    assert shared[2] == 2 and next(iter(loader)).tolist() == [0, 1, 2, 3, 4, 5]
    shared.dataset = Numbers(100)
    assert shared[2] == 200 and next(iter(loader)).tolist() == [0, 100, 200, 300, 400, 500]
    shared.share, shared.cache = "none", None
    assert "not shared" in shared.explain() and next(iter(loader)).tolist() == [0, 100, 200, 300, 400, 500]


class WithHelpers(torch.utils.data.Dataset):
    """Its helpers are called as the stages are, and its ``__getitem__`` does more."""

    def __len__(self):
        return 6

    def read(self, index):
        return bytes([index] * 4)

    def decode(self, data):
        return np.frombuffer(data, np.uint8)

    def augment(self, array, rng):
        return array

    def __getitem__(self, index):
        return torch.from_numpy(self.decode(self.read(index)) / 255), index


def test_a_getitem_counts_whatever_the_other_methods_are_called():
    assert_as_torch(WithHelpers, lambda data: None, {})
    assert "derive it from seneca.StagedDataset" in seneca.DataLoader(WithHelpers()).explain()


class OfPaths(seneca.StagedDataset):
    def __init__(self, paths):
        self.paths = paths

    def __len__(self):
        return len(self.paths)

    def read(self, index):
        return Path(self.paths[index]).read_bytes()

    def decode(self, data):
        return np.frombuffer(data, np.uint8)

    def augment(self, array, rng):
        return int(array[0])

    def __getitem__(self, index):
        return self.read(index)[0]


def test_one_of_many_files_that_is_rewritten_between_epochs_is_followed(tmp_path):
    paths = [tmp_path / f"{index}" for index in range(600)]
    for path in paths:
        path.write_bytes(b"\1")
    data = OfPaths([str(path) for path in paths])
    loader = seneca.DataLoader(data, batch_size=100, cache_bytes="4MiB", split="0-100-0")
    assert {int(value) for batch in loader for value in batch} == {1}
    paths[333].write_bytes(b"\2")
    os.utime(paths[333], (1, 1))
    assert {int(value) for batch in loader for value in batch} == {1, 2}


class LazyHandle(torch.utils.data.Dataset):
    file = None

    def __len__(self):
        return 12

    def __getitem__(self, index):
        if self.file is None:
            self.file = open(os.devnull)  # noqa: SIM115
        return index


def test_a_handle_that_each_worker_opens_is_reported_once_and_by_explain():
    loader = seneca.DataLoader(LazyHandle(), batch_size=2, num_workers=2, cache_bytes="4MiB")
    with pytest.warns(seneca.SenecaWarning, match="its attributes changed while items were made") as warned:
        for _ in range(3):
            assert sorted(int(value) for batch in loader for value in batch) == list(range(12))
    assert sum(issubclass(one.category, seneca.SenecaWarning) for one in warned) == 1
    assert loader.explain().startswith("not shared: LazyHandle is no longer shared")
