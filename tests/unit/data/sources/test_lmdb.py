"""LMDB: pictures are read where they lie in the database, and are those of the folder."""

import os
import sys

import lmdb
import pytest
import torch
from PIL import Image

import seneca
from seneca import transforms as T
from seneca.data.sources.lmdb import is_database
from seneca.data.sources.medium import is_picture
from seneca.errors import SourceError
from seneca.testing import make_pictures

CROP = T.Compose([T.RandomResizedCrop(32), T.ToTensor()])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return seneca.ImageFolder(make_pictures(tmp_path_factory.mktemp("pictures"), count=40, classes=3), CROP)


def write(folder, path, subdir=True):
    """As the keys are sorted, the order is the folder's."""
    with (
        lmdb.open(str(path), subdir=subdir, map_size=1 << 26) as database,
        database.begin(write=True) as writing,
    ):
        writing.put(b"__len__", str(len(folder)).encode())
        for index, (_, label) in enumerate(folder.samples):
            writing.put(f"{index:06}/{label}".encode(), folder.read(index))
    return path


def label(key):
    return int(key.partition("/")[2])


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


@pytest.mark.small(1)
@pytest.mark.parametrize("subdir", [True, False])
def test_batches_are_those_of_the_folder(folder, tmp_path, subdir):
    path = write(folder, tmp_path / "all.lmdb", subdir)
    opened = seneca.open(str(path), CROP, labels=label)
    assert opened.targets == folder.targets and len(opened) == 40
    assert opened.samples[7][0] == f"{opened.listing.containers[0]}/000007/{folder.targets[7]}"
    for one, other in zip(epoch(opened), epoch(folder), strict=True):
        assert torch.equal(one[0], other[0]) and torch.equal(one[1], other[1])


def test_jobs_share_a_database(folder, tmp_path, segment_folder):
    write(folder, tmp_path / "all")
    one, other = (seneca.open(tmp_path / "all", CROP, labels=label) for _ in range(2))
    assert one.fingerprint() == other.fingerprint()
    options = {"cache": "it", "cache_bytes": "8MiB", "split": "0-100-0", "share": "decoded"}
    first = seneca.DataLoader(one, 8, shuffle=True, job="first", **options)
    second = seneca.DataLoader(other, 8, shuffle=True, job="second", **options)
    for loader in (first, first, second):
        assert sorted(int(i) for _ in loader for i in loader.last_indices) == list(range(40))
    assert second.stats()["read_bytes"] < first.stats()["read_bytes"]


def test_other_kinds_of_pictures_and_values_that_are_none(tmp_path):
    kinds = ["PNG", "GIF", "BMP", "TIFF", "JPEG"]
    values = {}
    for kind in kinds:
        Image.new("RGB", (40, 30), (200, 30, 90)).save(tmp_path / "one", kind)
        values[kind] = (tmp_path / "one").read_bytes()
    values |= {"empty": b"", "count": b"6", "sound": b"RIFF\0\0\0\0WAVEfmt ", "text": b"BIG"}
    with (
        lmdb.open(str(tmp_path / "all"), map_size=1 << 24) as database,
        database.begin(write=True) as writing,
    ):
        for key, value in values.items():
            writing.put(key.encode(), value)
    opened = seneca.open(tmp_path / "all", CROP, labels=lambda key: kinds.index(key))
    assert sorted(opened.targets) == list(range(5))
    ((images, labels),) = list(seneca.DataLoader(opened, 5, cache=None))
    assert images.shape == (5, 3, 32, 32) and sorted(labels.tolist()) == list(range(5))


def test_webp_is_a_picture_and_sound_is_none():
    """Not every Pillow decodes WebP."""
    assert is_picture(b"RIFF\x10\0\0\0WEBP") and not is_picture(b"RIFF\x10\0\0\0WAVE")


def test_a_database_that_is_written_is_named(folder, tmp_path):
    path = write(folder, tmp_path / "all")
    opened = seneca.open(path, CROP, labels=label)
    epoch(opened)
    with lmdb.open(str(path), map_size=1 << 26) as database, database.begin(write=True) as writing:
        writing.put(b"000003/1", b"something else")
    os.utime(path / "data.mdb")
    with pytest.raises(OSError, match=r"has changed since it was opened.*data\.mdb"):
        epoch(opened)


def test_what_a_database_is(folder, tmp_path):
    write(folder, tmp_path / "all")
    write(folder, tmp_path / "all.mdb", subdir=False)
    assert is_database(str(tmp_path / "all")) and is_database(str(tmp_path / "all.mdb"))
    assert not is_database(folder.root) and not is_database("train.tar")


def test_the_package_is_not_needed(folder, tmp_path, monkeypatch):
    path = write(folder, tmp_path / "all")
    monkeypatch.setitem(sys.modules, "lmdb", None)
    assert seneca.open(path, CROP, labels=label).targets == folder.targets


def test_a_database_through_a_link_is_the_same(folder, tmp_path):
    path = write(folder, tmp_path / "all")
    (tmp_path / "link").symlink_to(path)
    one, other = (seneca.open(tmp_path / name, CROP, labels=label) for name in ("all", "link"))
    assert one.samples == other.samples and one.fingerprint() == other.fingerprint()


def test_what_cannot_be_opened(folder, tmp_path):
    path = write(folder, tmp_path / "all")
    with pytest.raises(SourceError, match="have keys, and no classes; give labels="):
        seneca.open(path, CROP)
    with pytest.raises(FileNotFoundError, match="there is no database"):
        seneca.open(tmp_path / "other.lmdb", CROP, labels=label)
    with (
        lmdb.open(str(tmp_path / "none"), map_size=1 << 20) as database,
        database.begin(write=True) as writing,
    ):
        writing.put(b"a", b"text")
    with pytest.raises(FileNotFoundError, match="has no pictures: no value begins as one"):
        seneca.open(tmp_path / "none", CROP, labels=label)
    (tmp_path / "text.lmdb").write_text("no database" * 1000)
    with pytest.raises(SourceError, match="cannot be read as an LMDB database"):
        seneca.open(tmp_path / "text.lmdb", CROP, labels=label)


def test_a_database_that_is_rewritten_in_place_is_found_by_its_layout(folder, tmp_path):
    path = write(folder, tmp_path / "all") / "data.mdb"
    write(seneca.ImageFolder(folder.root, CROP), tmp_path / "equal")
    with lmdb.open(str(tmp_path / "other"), map_size=1 << 26) as other, other.begin(write=True) as writing:
        for index in (1, 0, *range(2, 40)):
            writing.put(f"{index:06}/{folder.targets[index]}".encode(), folder.read(39 - index))
    opened = seneca.open(path, CROP, labels=label)
    assert opened.listing.holds(0)
    before, size = os.stat(path), os.path.getsize(path)
    for number, (kind, holds) in enumerate([("equal", True), ("other", False)]):
        content = (tmp_path / kind / "data.mdb").read_bytes().ljust(size, b"\0")
        with open(path, "r+b") as file:
            file.write(content[:size])
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert opened.listing.holds(0) is holds, number
        if holds:
            epoch(opened, cache_bytes="1MiB", cache="it")
        else:
            with pytest.raises(OSError, match=r"has changed since it was opened.*data\.mdb"):
                epoch(opened, cache_bytes="1MiB", cache="it")
