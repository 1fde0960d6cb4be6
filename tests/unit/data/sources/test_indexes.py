"""Indexes of other tools: hints that are not believed, and lists of shards that are checked."""

import io
import json
import os
import tarfile

import pytest

import seneca
from seneca.data.sources import indexes
from seneca.data.sources.archives import list_archives
from seneca.errors import SourceError

JPEG = (".jpg",)


@pytest.fixture(autouse=True)
def cache_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def write(path, names, size=700):
    """A shard, and its members as ``wds2idx`` has them: sample by sample, (ending, offset, size, name)."""
    with tarfile.open(path, "w") as archive:
        for name in names:
            info = tarfile.TarInfo(name)
            info.size = size if name.endswith(".jpg") else 1
            info.mtime = 0.5  # such a time needs an extended header, as the shards of WebDataset have them
            archive.addfile(info, io.BytesIO(b"7" * info.size))
    samples = {}
    with tarfile.open(path) as archive:
        for member in archive:
            key, _, ending = member.name.partition(".")
            samples.setdefault(key, []).append((ending, member.offset_data, member.size, member.name))
    return list(samples.values())


def index(path, samples, first="v1.2"):
    lines = [" ".join(str(field) for member in sample for field in member) for sample in samples]
    path.write_text("\n".join([f"{first} {len(lines)}", *lines, ""]))


NAMES = [name for n in range(1000) for name in (f"{n:04}.cls", f"{n:04}.jpg")]


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
    listing = list_archives(str(path), JPEG, None)
    return listing.pieces.tolist(), list(listing.names), list(listing.labels)


def test_an_index_makes_storage_read_each_header_before_it_is_wanted(tmp_path, asked, monkeypatch):
    samples = write(tmp_path / "some.tar", NAMES)
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
    samples = write(path, NAMES[:60])
    with tarfile.open(path) as archive:
        expected = {m.name: (m.offset_data, m.size) for m in archive if m.name.endswith(".jpg")}
    index(tmp_path / "some.idx", change(samples, path.stat().st_size))
    pieces, names, labels = members_of(path)
    assert {name: (o, s) for name, (o, s, _) in zip(names, pieces, strict=True)} == expected
    assert labels == [7] * 30
    assert all(one.stop < path.stat().st_size for one in asked)


@pytest.mark.parametrize("content", [b"", b"v1.2", b"v9 1\njpg 512 1 a.jpg\n", b"\xff\0" * 900])
def test_what_is_no_index_asks_for_nothing(tmp_path, asked, content):
    write(tmp_path / "some.tar", NAMES[:6])
    (tmp_path / "some.idx").write_bytes(content)
    assert len(members_of(tmp_path / "some.tar")[1]) == 3 and not asked


def test_an_index_that_is_a_pipe_is_not_waited_for(tmp_path, asked):
    write(tmp_path / "some.tar", NAMES[:6])
    os.mkfifo(tmp_path / "some.idx")
    assert len(members_of(tmp_path / "some.tar")[1]) == 3 and not asked


def test_an_index_that_is_larger_than_its_archive_is_not_read(tmp_path, asked):
    samples = write(tmp_path / "some.tar", NAMES[:6])
    index(tmp_path / "some.idx", samples)
    os.truncate(tmp_path / "some.idx", 1 << 40)
    assert len(members_of(tmp_path / "some.tar")[1]) == 3 and not asked


def test_a_name_with_signs_of_a_pattern_is_a_name_if_there_is_such_a_file(tmp_path):
    described = shards(tmp_path, [2])
    os.rename(tmp_path / "train-000.tar", tmp_path / "train[0].tar")
    described["shardlist"][0]["url"] = "train[0].tar"
    assert len(seneca.open(save(tmp_path / "shards.json", described))) == 2


def shards(folder, counts, **more):
    """Archives, and a list of them as ``widsindex create`` writes it."""
    described = []
    for number, count in enumerate(counts):
        name = f"train-{number:03}.tar"
        write(folder / name, [f"{number}{name}" for name in NAMES[: 2 * count]])
        size = (folder / name).stat().st_size
        described.append({"url": name, "md5sum": "0", "nsamples": count, "filesize": size})
    whole = {"__kind__": "wids-shard-index-v1", "wids_version": 1, "shardlist": described, "name": "train"}
    return whole | more


def save(path, described):
    path.write_text(json.dumps(described, indent=2))
    return str(path)


def test_a_list_of_shards_is_those_shards(tmp_path):
    described = shards(tmp_path, [3, 1, 2])
    listed = seneca.open(save(tmp_path / "shards.json", described))
    assert listed.samples == seneca.open(str(tmp_path / "train-*.tar")).samples and len(listed) == 6
    described["shardlist"] = [
        {"url": f"{tmp_path}/train-002.tar", "nsamples": 2},
        {"url": "../train-000.tar", "nsamples": 3},
    ]
    (tmp_path / "lists").mkdir()
    some = seneca.open(save(tmp_path / "lists" / "some.json", described))
    names = [os.path.basename(path) for path in some.listing.containers]
    assert names == ["train-002.tar", "train-000.tar"] and len(some) == 5


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {"filesize": 10241},
            r"says that .*train-001.tar has 10,241 bytes, but it has .*; write the list again",
        ),
        ({"filesize": None, "nsamples": 3}, r"train-001.tar has 3 samples with a picture, but it has 2"),
        ({"url": None}, "shard 1 has no url and nsamples"),
        ({"nsamples": "2"}, "shard 1 has no url and nsamples"),
        ({"filesize": "2"}, "a filesize that is no number"),
        (
            {"url": "train-{000..001}.tar"},
            r"shard 1 is '.*train-\{000..001\}.tar', and the url of a shard is",
        ),
        ({"url": "{0..99999999999}.tar"}, r"shard 1 is .*, and the url of a shard is that of one archive"),
        ({"url": "train-*.tar"}, r"shard 1 is .*, and the url of a shard is that of one archive"),
        ({"url": "train\0.tar"}, r"shard 1 is .*, and the url of a shard is that of one archive"),
        ({"url": "\ud800.tar"}, r"shard 1 is .*, and the url of a shard is that of one archive"),
        ({"url": "train-001.tgz"}, r"shard 1 is .*train-001.tgz, and the name of a tar archive ends in .tar"),
    ],
)
def test_a_shard_that_is_another_one_is_named(tmp_path, changes, says):
    described = shards(tmp_path, [1, 2])
    described["shardlist"][1] |= changes
    with pytest.raises(SourceError, match=says):
        seneca.open(save(tmp_path / "shards.json", described))


@pytest.mark.parametrize(
    ("described", "says"),
    [
        ([1], "has no shardlist; write it with widsindex create"),
        ({"shardlist": {}}, "has no shardlist"),
        ({"shardlist": [7]}, "shard 0 has no url"),
        ({"shardlist": [], "datasets": [{"source_url": "a"}]}, "refers to other lists of shards"),
    ],
)
def test_what_is_no_list_of_shards_is_named(tmp_path, described, says):
    with pytest.raises(SourceError, match=rf"some.json.*{says}"):
        seneca.open(save(tmp_path / "some.json", described))


def test_a_list_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "some.json").write_text("{")
    with pytest.raises(SourceError, match=r"some.json is no JSON"):
        seneca.open(tmp_path / "some.json")
    (tmp_path / "some.json").write_text('{"shardlist":' + "[" * 100_000)
    with pytest.raises(SourceError, match=r"some.json is no JSON: maximum recursion"):
        seneca.open(tmp_path / "some.json")
    os.truncate(tmp_path / "some.json", indexes.MOST_LIST_BYTES + 1)
    with pytest.raises(SourceError, match=r"some.json has more than 268,435,456 bytes"):
        seneca.open(tmp_path / "some.json")
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(OSError, match=r"is a FIFO, not a regular file: .*pipe\.json"):
        seneca.open(tmp_path / "pipe.json")
    with pytest.raises(FileNotFoundError, match=r"none\.json"):
        seneca.open(tmp_path / "none.json")
    with pytest.raises(FileNotFoundError, match="a list of no archives"):
        seneca.open(save(tmp_path / "empty.json", {"shardlist": []}))
