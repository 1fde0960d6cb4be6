"""Hugging Face ``datasets``: pictures in a table are read where they lie, and are those of the folder."""

from pathlib import Path

import numpy as np
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
    return in_memory(table, features)


def in_memory(table, features):
    return datasets.Dataset(
        datasets.table.InMemoryTable(table.cast(features.arrow_schema)),
        info=datasets.DatasetInfo(features=features),
        fingerprint="0123456789abcdef",
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


@pytest.mark.parametrize(
    "part_of",
    [
        lambda table: table.select(range(5, 9)),
        lambda table: table.shard(4, 1, contiguous=True),
        lambda table: table.skip(7).shuffle(seed=1).select(range(3, 8)),
        lambda table: datasets.concatenate_datasets([table.select(range(20, 24)), table.select(range(3))]),
    ],
)
@pytest.mark.parametrize("shards", [1, 3])
def test_slices_of_a_table_share_its_samples(folder, tmp_path, part_of, shards):
    table_of(folder).save_to_disk(tmp_path / "table", num_shards=shards)
    table = datasets.load_from_disk(tmp_path / "table")
    part, whole = seneca.open(part_of(table), CROP), seneca.open(table, CROP)
    assert type(part) is Subset and part.dataset.fingerprint() == whole.fingerprint()
    assert part.dataset.samples == whole.samples
    numbered = part_of(table.add_column("number", list(range(len(table)))))
    assert part.indices == numbered["number"][:]


def of_several_tables(table, folder):
    table.select(range(9)).save_to_disk(folder / "another")
    return datasets.concatenate_datasets(
        [table.select(range(5, 9)), datasets.load_from_disk(folder / "another").select(range(2))]
    )


def with_a_row_twice(table, folder):
    return datasets.concatenate_datasets([table.select(range(5, 9)), table.select(range(7, 10))])


def with_other_labels(table, folder):
    part = table.select(range(5, 9)).remove_columns("kind")
    return part.add_column("kind", [3, 2, 1, 0], feature=datasets.ClassLabel(4))


def with_another_column_of_that_name(table, folder):
    pictures = table.data.table.column("picture")
    features = table.features | {"other": datasets.Image()}
    with_both = table.data.table.append_column("other", pictures)
    in_memory(with_both, datasets.Features(features)).save_to_disk(folder / "two")
    two = datasets.load_from_disk(folder / "two")
    part = two.select(range(len(two) - 1, len(two)))
    return part.remove_columns("picture").rename_column("other", "picture")


def of_a_table_that_lacks_pictures(table, folder):
    pictures = table.data.table.column("picture").to_pylist()
    pictures[9] = None
    kind = table.features.arrow_schema.field("picture").type
    lacking = table.data.table.set_column(0, "picture", pa.array(pictures, kind))
    in_memory(lacking, table.features).save_to_disk(folder / "lacking")
    return datasets.load_from_disk(folder / "lacking").select(range(5, 9))


def with_other_names_of_columns(table, folder):
    return table.select(range(5, 9)).rename_column("picture", "image")


def whose_other_files_are_gone(table, folder):
    part = table.select(range(2))
    (folder / "table" / "data-00002-of-00003.arrow").unlink()
    return part


def whose_other_files_are_damaged(table, folder):
    part = table.select(range(2))
    (folder / "table" / "data-00002-of-00003.arrow").unlink()
    (folder / "table" / "data-00002-of-00003.arrow").write_bytes(b"not Arrow" * 100)
    return part


@pytest.mark.parametrize(
    "part_of",
    [
        of_several_tables,
        with_a_row_twice,
        with_other_labels,
        with_another_column_of_that_name,
        of_a_table_that_lacks_pictures,
        with_other_names_of_columns,
        whose_other_files_are_gone,
        whose_other_files_are_damaged,
    ],
)
def test_a_slice_whose_table_cannot_be_found_is_a_dataset_of_its_own(on_disk, tmp_path, part_of):
    part = part_of(on_disk, tmp_path)
    opened = seneca.open(part, CROP)
    assert type(opened) is PictureArchive and opened.targets == part["kind"][:]
    column = "image" if "image" in part.features else "picture"
    encoded = part.cast_column(column, datasets.Image(decode=False))[column]
    assert [opened.read(i) for i in range(len(opened))] == [picture["bytes"] for picture in encoded]


def test_jobs_on_slices_share_what_they_have_in_common(on_disk, segment_folder):
    one, other = (seneca.open(on_disk.select(range(*ends)), CROP) for ends in ((0, 20), (10, 30)))
    options = {"cache": "it", "cache_bytes": "256MB", "split": "0-100-0", "share": "decoded"}
    first = seneca.DataLoader(one, 5, num_workers=1, job="first", **options)
    second = seneca.DataLoader(other, 5, num_workers=1, job="second", **options)
    for loader in (first, first, second):
        list(loader)
    assert second.stats()["served"]["storage"] == 10, "the other ten are in the cache"


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


@pytest.mark.parametrize("to", [-5, 0, 10**9, None])
def test_offsets_that_lead_elsewhere_are_named(on_disk, to):
    """pyarrow does not examine them. They may lead into another file, or to the end of another picture."""
    path = on_disk.cache_files[0]["filename"]
    _, buffer, _ = on_disk.data.table.column("picture").chunk(0).field("bytes").buffers()
    ends = np.frombuffer(buffer, "<i4").copy()
    data = bytearray(Path(path).read_bytes())
    at = data.index(ends.tobytes())
    if to is None:
        ends[5:] += 40  # the last one ends after all of them
    else:
        ends[5] = to
    data[at : at + ends.nbytes] = ends.tobytes()
    Path(path).write_bytes(data)
    damaged = datasets.load_from_disk(Path(path).parent)
    with pytest.raises(SourceError, match=r"the column 'picture' is damaged: .*; copy the table again"):
        seneca.open(damaged, CROP)
