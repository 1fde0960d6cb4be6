"""Several folders of pictures behind ``ConcatDataset``, on the native path as one."""

import gc
import shutil

import numpy as np
import pytest
import torch
from torch.utils.data import ConcatDataset, Subset
from torchvision_here import torchvision

import seneca
from seneca import transforms as T
from seneca.data.support import inspect_dataset

RESIZE = T.Compose([T.Resize((8, 8)), T.ToTensor()])


@pytest.fixture
def folders(picture_folder, tmp_path):
    other = tmp_path / "more" / "pictures"
    shutil.copytree(picture_folder / "class_2", other / "class_2")
    shutil.copytree(picture_folder / "class_3", other / "class_3")
    return picture_folder, other


def batches_of(loader):
    return [(images.clone(), labels) for images, labels in loader]


def test_batches_are_those_of_torch(folders):
    one, two = (seneca.ImageFolder(folder, RESIZE) for folder in folders)
    whole = ConcatDataset([Subset(one, [5, 40, 2]), two, Subset(Subset(one, range(30)), [1, 9])])
    dataset = Subset(whole, [*range(len(whole) - 1, -1, -1)])
    ours = seneca.DataLoader(dataset, 5, num_workers=2, cache=None)
    assert ours.explain().startswith("native: JoinedFolders and its transform run in the native core")
    theirs = torch.utils.data.DataLoader(dataset, 5)
    for (images, labels), (others, numbers) in zip(batches_of(ours), batches_of(theirs), strict=True):
        assert torch.equal(images, others) and torch.equal(labels, numbers)


def test_parts_of_torchvision_and_of_ours_are_joined_if_they_mean_the_same(folders):
    v1 = torchvision.transforms
    of_theirs = torchvision.datasets.ImageFolder(folders[0], v1.Compose([v1.Resize((8, 8)), v1.ToTensor()]))
    dataset = ConcatDataset([of_theirs, torchvision.datasets.ImageFolder(folders[1], of_theirs.transform)])
    assert inspect_dataset(dataset).name == "native"
    dataset = ConcatDataset([of_theirs, seneca.ImageFolder(folders[1], of_theirs.transform)])
    assert inspect_dataset(dataset).name == "native"


def test_parts_that_differ_are_not_joined(folders):
    one, two = (seneca.ImageFolder(folder, RESIZE) for folder in folders)
    for name, value in (
        ("transform", T.Resize((9, 9))), ("transform", None), ("target_transform", float),
        ("decode", "fast"), ("max_pixels", 10**6), ("apply_exif_orientation", True),
    ):  # fmt: skip
        before = getattr(two, name)
        setattr(two, name, value)
        assert inspect_dataset(ConcatDataset([one, two])).name == "opaque", name
        setattr(two, name, before)
    assert inspect_dataset(ConcatDataset([one, two])).name == "native"
    tensors = torch.utils.data.TensorDataset(torch.arange(3))
    assert inspect_dataset(ConcatDataset([one, tensors])).name == "opaque"


def test_targets_are_those_of_the_parts(folders):
    one, two = (seneca.ImageFolder(folder, RESIZE, str) for folder in folders)
    _, targets = next(iter(seneca.DataLoader(ConcatDataset([two, one]), 100, cache=None)))
    assert targets == tuple(["0"] * 12 + ["1"] * 12 + [str(n // 12) for n in range(48)])


def test_jobs_share_what_they_have_joined_and_a_change_is_seen(folders, name):
    one, two = (seneca.ImageFolder(folder, RESIZE) for folder in folders)
    dataset = ConcatDataset([one, two])
    options = {"cache": name, "cache_bytes": "4MiB", "split": "50-50-0"}
    first, second = (seneca.DataLoader(dataset, 8, job=job, **options) for job in ("a", "b"))
    batches = batches_of(first)
    again = batches_of(second)
    assert second.stats()["read_bytes"] == second.stats()["served"]["storage"] == 0
    assert all(torch.equal(a, b) for (a, _), (b, _) in zip(batches, again, strict=True))
    assert inspect_dataset(dataset).base is inspect_dataset(dataset).base, "its files are not listed again"
    before = inspect_dataset(dataset).files.fingerprint()
    one.samples[3:4] = []
    one.targets[3:4] = []
    assert inspect_dataset(dataset).name == "opaque", "torch has other indices than the parts now"
    dataset.cumulative_sizes = ConcatDataset([one, two]).cumulative_sizes
    changed = inspect_dataset(dataset)
    assert len(changed.files) == 71 and changed.files.fingerprint() != before


@pytest.mark.parametrize("kind", [list, np.array], ids=["list", "array"])
@pytest.mark.parametrize("changes", [False, True], ids=["lazy", "lists"])
def test_what_is_known_of_files_stays_while_nothing_changes(folders, changes, kind):
    one, two = (seneca.ImageFolder(folder, RESIZE) for folder in folders)
    if changes:
        two.samples[0] = two.samples[0]
    dataset = ConcatDataset([Subset(one, kind([4, 2, 30])), two])
    files = inspect_dataset(dataset).files
    assert inspect_dataset(dataset).files is files
    samples = [*(one.samples[index] for index in (4, 2, 30)), *two.samples]
    assert list(files.samples) == samples and files.labels().tolist() == [label for _, label in samples]
    assert [files.samples[index] for index in range(-1, 3)] == [samples[index] for index in range(-1, 3)]
    assert (
        files.samples[2:5] == samples[2:5]
        and inspect_dataset(dataset).base.targets == files.labels().tolist()
    )
    dataset.datasets[0].indices[1] = 3
    changed = inspect_dataset(dataset).files
    assert changed is not files and changed.path_of(1) == one.samples[3][0]


def test_what_was_joined_goes_with_the_dataset(folders):
    dataset = ConcatDataset([seneca.ImageFolder(folder, RESIZE) for folder in folders])
    base = inspect_dataset(dataset).base
    number = id(dataset)
    del dataset
    gc.collect()
    from seneca.data import joined

    assert number not in joined._known and len(base) == 72
