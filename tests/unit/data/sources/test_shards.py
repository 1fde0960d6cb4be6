"""Lists of shards are checked against the archives that they name."""

import json
import os

import pytest
from shard_files import write_shard

import seneca
from seneca.data.sources import shards
from seneca.errors import SourceError


@pytest.fixture(autouse=True)
def cache_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def make_shards(folder, counts, **more):
    """Archives, and a list of them as ``widsindex create`` writes it."""
    described = []
    for number, count in enumerate(counts):
        name = f"train-{number:03}.tar"
        write_shard(
            folder / name, [f"{number}{n:04}{ending}" for n in range(count) for ending in (".cls", ".jpg")]
        )
        size = (folder / name).stat().st_size
        described.append({"url": name, "md5sum": "0", "nsamples": count, "filesize": size})
    whole = {"__kind__": "wids-shard-index-v1", "wids_version": 1, "shardlist": described, "name": "train"}
    return whole | more


def save(path, described):
    path.write_text(json.dumps(described, indent=2))
    return str(path)


def test_a_name_with_signs_of_a_pattern_is_a_name_if_there_is_such_a_file(tmp_path):
    described = make_shards(tmp_path, [2])
    os.rename(tmp_path / "train-000.tar", tmp_path / "train[0].tar")
    described["shardlist"][0]["url"] = "train[0].tar"
    assert len(seneca.open(save(tmp_path / "shards.json", described))) == 2


def test_a_list_of_shards_is_those_make_shards(tmp_path):
    described = make_shards(tmp_path, [3, 1, 2])
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
    described = make_shards(tmp_path, [1, 2])
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
    os.truncate(tmp_path / "some.json", shards.MOST_LIST_BYTES + 1)
    with pytest.raises(SourceError, match=r"some.json has more than 268,435,456 bytes"):
        seneca.open(tmp_path / "some.json")
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(OSError, match=r"is a FIFO, not a regular file: .*pipe\.json"):
        seneca.open(tmp_path / "pipe.json")
    with pytest.raises(FileNotFoundError, match=r"none\.json"):
        seneca.open(tmp_path / "none.json")
    with pytest.raises(FileNotFoundError, match="a list of no archives"):
        seneca.open(save(tmp_path / "empty.json", {"shardlist": []}))
