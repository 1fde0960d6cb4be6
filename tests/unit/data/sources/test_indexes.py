"""Indexes of other tools are hints that are not believed."""

import os
import tarfile

import pytest
from shard_files import write_shard
from sizes import size as at_size

from seneca.data.sources import indexes
from seneca.data.sources.archives import list_archives
from seneca.data.sources.source import ListingOptions

JPEGS = ListingOptions((".jpg",))


@pytest.fixture(autouse=True)
def cache_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def index(path, samples, first="v1.2"):
    lines = [" ".join(str(field) for member in sample for field in member) for sample in samples]
    path.write_text("\n".join([f"{first} {len(lines)}", *lines, ""]))


NAMES = [name for n in range(at_size(300, 1000)) for name in (f"{n:04}.cls", f"{n:04}.jpg")]


@pytest.fixture
def asked(monkeypatch):
    """The ranges of bytes that storage is asked for ahead of time."""
    ranges, real = [], os.posix_fadvise

    def fadvise(file, offset, length, advice):
        ranges.append(range(offset, offset + length))
        real(file, offset, length, advice)

    monkeypatch.setattr(os, "posix_fadvise", fadvise)
    return ranges


def members_of(path):
    listing = list_archives(str(path), JPEGS)
    return listing.pieces.tolist(), list(listing.names), list(listing.labels)


def test_an_index_makes_storage_read_each_header_before_it_is_wanted(tmp_path, asked, monkeypatch):
    samples = write_shard(tmp_path / "some.tar", NAMES)
    expected = members_of(tmp_path / "some.tar")
    assert not asked, "no index"
    index(tmp_path / "some.idx", samples)
    order, real = [], os.pread

    def pread(file, length, at):
        order.append((at, len(asked)))
        return real(file, length, at)

    monkeypatch.setattr(os, "pread", pread)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another"))
    assert members_of(tmp_path / "some.tar") == expected
    assert len(asked) == len(NAMES), "each once"
    headers = {at: count for at, count in order if any(at in one for one in asked[:count])}
    offsets = [offset for sample in samples for _, offset, _, _ in sample]
    assert all(offset - 512 in headers for offset in offsets)
    assert all(count - place <= indexes.AHEAD for place, (_, count) in enumerate(sorted(headers.items())))


def as_it_is(samples, size):
    return samples


def of_another_archive(samples, size):
    return [[(e, o + 512, s, n) for e, o, s, n in sample] for sample in samples]


def with_names_swapped(samples, size):
    return [
        [(e, b[1], s, n) for (e, _, s, n), b in zip(a, b, strict=True)]
        for a, b in zip(samples, samples[::-1], strict=True)
    ]


def beyond_the_end(samples, size):
    return [[(e, o + size, s, n) for e, o, s, n in sample] for sample in samples] + [
        [("jpg", 10**30, 1, "a")]
    ]


def with_offsets_that_are_none(samples, size):
    return [[(e, "-5", s, n), (e, "x", s, n)] for sample in samples for e, _, s, n in sample]


def with_names_of_several_words(samples, size):
    return [[(e, o, s, f"a {n}") for e, o, s, n in sample] for sample in samples]


@pytest.mark.small(2)
@pytest.mark.parametrize(
    "change",
    [
        as_it_is,
        of_another_archive,
        with_names_swapped,
        beyond_the_end,
        with_offsets_that_are_none,
        with_names_of_several_words,
    ],
)
def test_no_index_changes_what_is_listed(tmp_path, asked, change):
    path = tmp_path / "some.tar"
    samples = write_shard(path, NAMES[:60])
    with tarfile.open(path) as archive:
        expected = {m.name: (m.offset_data, m.size) for m in archive if m.name.endswith(".jpg")}
    index(tmp_path / "some.idx", change(samples, path.stat().st_size))
    pieces, names, labels = members_of(path)
    assert {name: (o, s) for name, (o, s, _) in zip(names, pieces, strict=True)} == expected
    assert labels == [7] * 30
    assert all(one.stop < path.stat().st_size for one in asked)


@pytest.mark.parametrize("content", [b"", b"v1.2", b"v9 1\njpg 512 1 a.jpg\n", b"\xff\0" * 900])
def test_what_is_no_index_asks_for_nothing(tmp_path, asked, content):
    write_shard(tmp_path / "some.tar", NAMES[:6])
    (tmp_path / "some.idx").write_bytes(content)
    assert len(members_of(tmp_path / "some.tar")[1]) == 3 and not asked


def test_an_index_that_is_a_pipe_is_not_waited_for(tmp_path, asked):
    write_shard(tmp_path / "some.tar", NAMES[:6])
    os.mkfifo(tmp_path / "some.idx")
    assert len(members_of(tmp_path / "some.tar")[1]) == 3 and not asked


def test_an_index_that_is_larger_than_its_archive_is_not_read(tmp_path, asked):
    samples = write_shard(tmp_path / "some.tar", NAMES[:6])
    index(tmp_path / "some.idx", samples)
    os.truncate(tmp_path / "some.idx", 1 << 40)
    assert len(members_of(tmp_path / "some.tar")[1]) == 3 and not asked
