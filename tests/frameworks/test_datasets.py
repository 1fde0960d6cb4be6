"""Hugging Face ``datasets``: pictures in a table are read where they lie, and are those of the folder."""

import pytest

pytest.importorskip("datasets", reason="datasets is not here; `make test-frameworks` installs it")

import datasets
import pyarrow as pa
import torch
from torch.utils.data import Subset

import seneca
from seneca import transforms as T
from seneca.data.archive import PictureArchive
from seneca.errors import SourceError

CROP = T.Compose([T.RandomResizedCrop(32), T.Normalize(T.IMAGENET_MEAN, T.IMAGENET_STD)])


@pytest.fixture
def folder(imagenet_sample):
    return seneca.ImageFolder(imagenet_sample, CROP)


def table_of(folder, embedded=True):
    features = datasets.Features(
        {
            "picture": datasets.Image(),
            "kind": datasets.ClassLabel(names=folder.classes),
            "size": datasets.Value("int64"),
        }
    )
    pictures = [
        {"bytes": folder.read(i), "path": None} if embedded else {"bytes": None, "path": path}
        for i, (path, _) in enumerate(folder.samples)
    ]
    sizes = [len(folder.read(i)) for i in range(len(folder))]
    table = pa.table(
        {"picture": pictures, "kind": folder.targets, "size": sizes}, schema=features.arrow_schema
    )
    in_memory = datasets.table.InMemoryTable(table)
    return datasets.Dataset(
        in_memory, info=datasets.DatasetInfo(features=features), fingerprint="0123456789abcdef"
    )


@pytest.fixture
def on_disk(folder, tmp_path):
    table_of(folder).save_to_disk(tmp_path / "table", num_shards=3)
    return datasets.load_from_disk(tmp_path / "table")


def epoch(dataset, **options):
    loader = seneca.DataLoader(
        dataset,
        8,
        shuffle=True,
        num_workers=2,
        generator=torch.Generator().manual_seed(3),
        **({"cache": None} | options),
    )
    assert loader.explain().startswith("native")
    return [(images.clone(), labels.clone()) for images, labels in loader]


def test_a_table_is_read_where_it_lies(folder, on_disk):
    opened = seneca.open(on_disk, CROP)
    assert type(opened) is PictureArchive and len(opened.listing.containers) == 3
    assert (opened.classes, opened.targets) == (folder.classes, folder.targets)
    for one, other in zip(epoch(opened), epoch(folder), strict=True):
        assert torch.equal(one[0], other[0]) and torch.equal(one[1], other[1])


def test_parts_of_a_table_share_its_samples(on_disk, segment_folder):
    parts = on_disk.train_test_split(0.25, seed=1)
    whole, train, test = (
        seneca.open(t, CROP) for t in (on_disk, parts["train"].shuffle(seed=2), parts["test"])
    )
    assert type(train) is Subset and train.dataset.fingerprint() == whole.fingerprint()
    assert sorted([*train.indices, *test.indices]) == list(range(len(whole)))
    assert [whole.targets[i] for i in test.indices] == parts["test"]["kind"][:]
    loader = seneca.DataLoader(test, 8, num_workers=1, cache="auto", cache_bytes="256MB", share="none")
    list(loader)
    list(loader)
    assert loader.stats()["served"]["storage"] == len(test), "in the second epoch from the cache"


def test_a_contiguous_part_of_a_table(on_disk):
    part = seneca.open(on_disk.select(range(5, 9)), CROP)
    whole = seneca.open(on_disk, CROP)
    assert [part.read(i) for i in range(4)] == [whole.read(i) for i in range(5, 9)]


def test_columns_can_be_named(on_disk):
    assert seneca.open(on_disk, CROP, label="size").targets == on_disk["size"][:]
    with pytest.raises(
        SourceError, match=r"which column has the pictures.*no column 'image'; give image=, one of picture"
    ):
        seneca.open(on_disk, CROP, image="image")
    with pytest.raises(
        SourceError, match=r"0 columns are of type ClassLabel; give label=, one of picture, size"
    ):
        seneca.open(on_disk.remove_columns("kind"), CROP)


def test_pictures_that_lie_in_no_file_are_refused(folder):
    with pytest.raises(
        SourceError, match=r"lie in memory and in no file; save the table with save_to_disk\(\)"
    ):
        seneca.open(table_of(folder), CROP)
    with pytest.raises(SourceError, match=r"not in the table but in files of their own.*save_to_disk\(\)"):
        seneca.open(table_of(folder, embedded=False), CROP)
