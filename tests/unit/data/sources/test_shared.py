"""Long listings are in a file that processes map: the same listing, and one file for all that are equal."""

import dataclasses
import errno
import os
import pickle
import time

import numpy as np
import pytest

import seneca
from seneca.data.archive import PictureArchive
from seneca.data.files import PictureFiles, files_of
from seneca.data.sources import PIECE, Listing, shared
from seneca.data.sources.labels import Labels
from seneca.data.sources.listing import STATED


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(shared, "WORTH_A_FILE", 3)


def kept(tmp_path):
    folder = tmp_path / "cache" / "seneca" / "listings"
    return sorted(folder.iterdir()) if folder.exists() else []


def listing_of(n, *, urls=False, labels=None):
    names = [f"a/{number}/é\udcff.jpg" for number in range(n)]
    pieces = np.zeros(n, PIECE)
    pieces["offset"], pieces["length"] = np.arange(n) * 512, np.arange(n)
    labels = Labels(np.arange(n) % 3) if labels is None else labels
    containers, etags = ["/data/x.tar"], []
    if urls:
        containers, etags = [f"s3://b/{number}" for number in range(n)], [f"e{number}" for number in range(n)]
        pieces["container"], names = np.arange(n), [""] * n
    stated, ctimes = np.zeros(len(containers), STATED), np.zeros(0 if urls else 1, np.int64)
    root = "s3://b/" if urls else ""
    return Listing(containers, stated, names, pieces, labels, ["a", "b", "c"], etags, root, ctimes)


def fields_of(listing):
    return {
        field.name: list(value)
        if isinstance(value := getattr(listing, field.name), (list, np.ndarray))
        else value
        for field in dataclasses.fields(listing)
    }


@pytest.mark.parametrize("urls", [False, True])
def test_a_listing_in_a_file_is_the_listing(tmp_path, urls):
    listing = listing_of(7, urls=urls)
    for _ in range(2):
        found = shared.shared(listing)
        assert fields_of(found) == fields_of(listing) and len(kept(tmp_path)) == 1
        assert not found.pieces.flags.writeable and found.pieces is not listing.pieces
        again = pickle.loads(pickle.dumps(found))
        assert fields_of(again) == fields_of(listing)
        assert [found.path(index) for index in range(7)] == [listing.path(index) for index in range(7)]


def test_listings_that_differ_have_files_of_their_own(tmp_path):
    first = listing_of(5)
    for other in (first, listing_of(6), listing_of(5, urls=True), listing_of(5, labels=Labels(np.arange(5)))):
        assert fields_of(shared.shared(other)) == fields_of(other)
    assert len(kept(tmp_path)) == 4


def test_labels_that_are_no_whole_numbers_stay_in_memory():
    listing = listing_of(5, labels=[0.5] * 5)
    assert shared.shared(listing).labels is listing.labels


def test_a_short_listing_needs_no_file(tmp_path):
    listing = listing_of(2)
    assert shared.shared(listing) is listing and not kept(tmp_path)


def test_where_no_file_can_be_made_the_listing_stays_in_memory(tmp_path, monkeypatch):
    def write(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", write)
    listing = listing_of(5)
    assert shared.shared(listing) is listing and not kept(tmp_path)


def test_what_nobody_has_used_for_a_day_is_removed_with_the_next(tmp_path):
    mapped = shared.shared(listing_of(5))
    (old,) = kept(tmp_path)
    os.utime(old, (time.time(), time.time() - 23 * 3600))
    shared.shared(listing_of(6))
    assert len(kept(tmp_path)) == 2
    os.utime(old, (time.time(), time.time() - 25 * 3600))
    shared.shared(listing_of(7))
    assert len(kept(tmp_path)) == 2 and old not in kept(tmp_path)
    assert fields_of(mapped) == fields_of(listing_of(5)), "who has mapped it goes on"


def test_a_long_list_of_paths_is_shared_by_its_content(tmp_path, monkeypatch):
    monkeypatch.setattr(shared, "PATH_BYTES", 5)
    samples = [(f"/data/{number}.jpg", number) for number in range(4)]
    tables = [PictureFiles("/data", samples).path_table() for _ in range(2)]
    assert len(kept(tmp_path)) == 1 and [bytes(text) for text, _ in tables] == [tables[0][0]] * 2
    assert type(tables[0][0]) is memoryview and tables[0][1].tolist() == [0, 12, 24, 36, 48]
    files = PictureFiles("/data", samples)
    files.path_table()
    assert files.names() == PictureFiles("/data", samples).names()
    PictureFiles("/data", samples[:1]).path_table()
    PictureFiles("/data", samples[::-1]).path_table()
    assert len(kept(tmp_path)) == 2


def test_a_damaged_file_is_made_again(tmp_path):
    listing = listing_of(5)
    shared.shared(listing)
    (path,) = kept(tmp_path)
    path.write_bytes(path.read_bytes()[:-1])
    assert fields_of(shared.shared(listing)) == fields_of(listing)


def test_a_dataset_is_the_same_with_and_without_the_file(tmp_path, monkeypatch):
    listing = dataclasses.replace(listing_of(7), containers=[str(tmp_path / "x.tar")])
    (tmp_path / "x.tar").write_bytes(b"x" * 9999)
    mapped = PictureArchive(listing, None, **OPTIONS)
    monkeypatch.setattr(shared, "WORTH_A_FILE", 100)
    private = PictureArchive(listing, None, **OPTIONS)
    assert mapped.samples == private.samples and mapped.targets == private.targets == [0, 1, 2, 0, 1, 2, 0]
    assert files_of(mapped).names() == files_of(private).names()
    mapped.targets[0] = 9
    assert mapped.samples[0][1] == 0 and list(mapped.targets)[:2] == [9, 1]


OPTIONS = {"decode": "exact", "apply_exif_orientation": False, "max_pixels": None}


def test_opening_an_archive_twice_keeps_one_file(tmp_path, picture_folder):
    import tarfile

    with tarfile.open(tmp_path / "pictures.tar", "w") as archive:
        archive.add(picture_folder, "pictures")
    first, second = (seneca.open(str(tmp_path / "pictures.tar")) for _ in range(2))
    assert first.samples == second.samples and first.fingerprint() == second.fingerprint()
    assert first.read(7) == second.read(7) and len(kept(tmp_path)) == 1
