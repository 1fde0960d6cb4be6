"""Torch's worker processes ask other hosts' memory: what one has read, no other reads; no byte is wrong.

A host here is a loader whose cache lies in a folder of its own.
"""

from __future__ import annotations

import itertools
import os
import pickle
import tarfile
import zlib

import pytest
import torch
from redis_servers import RedisServer, needs_redis
from sizes import size

import seneca
from seneca import transforms as T
from seneca._core.remote import Remote
from seneca.testing import make_pictures
from seneca.workers.remote import Tallies
from seneca.workers.session import WorkersSession

pytestmark = needs_redis
COUNT = 40
WORKERS = size(1, 2)


def in_python(picture):
    """What the native core does not know: all of a picture's pixels, as one number, and its size."""
    return torch.tensor([zlib.crc32(picture.tobytes()), *picture.size])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_pictures(tmp_path_factory.mktemp("pictures"), count=COUNT, classes=2)


@pytest.fixture(scope="module")
def truth(folder):
    data = seneca.ImageFolder(folder, in_python)
    return {index: data[index][0].tolist() for index in range(COUNT)}


@pytest.fixture
def server(tmp_path):
    with RedisServer(tmp_path / "redis") as server:
        yield server


@pytest.fixture
def host(tmp_path, monkeypatch):
    """Makes a loader on a host of its own; its caches are removed at the end."""
    numbers = itertools.count()

    def make(data, remote, method="fork", workers=WORKERS, **options):
        own = tmp_path / f"host-{next(numbers)}"
        own.mkdir(mode=0o700)
        monkeypatch.setenv("SENECA_DIR", str(own))
        options = {"cache": "own", "cache_bytes": "1MiB", "split": "0-0-100", "check_every": None} | options
        return seneca.DataLoader(
            data, 8, shuffle=True, num_workers=workers, remote=remote,
            multiprocessing_context=method if workers else None, **options,
        )  # fmt: skip

    return make


def items(loader):
    """The items of an epoch, in a fixed order."""
    return sorted(row for images, _ in loader for row in images.tolist())


def asked(loader, server):
    return loader.stats()["remote"].get(server.name, {"hits": 0})


# Methods, and numbers of workers.
WAYS = size([("fork", 1), ("fork", 0)], [("fork", 2), ("spawn", 1), ("forkserver", 1), ("fork", 0)])


@pytest.mark.small(1)
@pytest.mark.parametrize("method, workers", WAYS)
def test_what_one_host_has_read_no_other_reads(folder, truth, server, host, method, workers):
    wanted = sorted(truth.values())
    first = host(seneca.ImageFolder(folder, in_python), server.url, method, workers)
    assert first.explain().startswith("staged")
    assert f"files are shared with other hosts by {server.name}" in first.explain()
    assert items(first) == wanted
    assert first.stats()["read_bytes"] == sum(path.stat().st_size for path in folder.rglob("*.jpg"))
    assert server.ask("DBSIZE") == f":{COUNT}"
    second = host(seneca.ImageFolder(folder, in_python), server.url, method, workers)
    loaders = size((second,), (first, second, second))
    for loader in loaders:
        read = loader.stats()["read_bytes"]
        assert items(loader) == wanted
        assert loader.stats()["read_bytes"] == read, "nothing comes from storage"
    counts = asked(second, server)
    epochs = loaders.count(second) if workers else len(loaders)  # this process counts for all of its loaders
    assert (counts["hits"], counts["misses"]) == (epochs * COUNT, 0 if workers else COUNT)
    assert counts["wrong"] == counts["failures"] == 0
    assert counts["bytes"] >= loaders.count(second) * first.stats()["read_bytes"] and counts["get_s"] > 0


@pytest.mark.small(1)
@pytest.mark.parametrize("is_archive", [False, True])
def test_hosts_on_either_path_serve_each_other(folder, truth, server, host, tmp_path, is_archive):
    if is_archive:
        with tarfile.open(tmp_path / "all.tar", "w") as archive:
            for path in sorted(folder.rglob("*.jpg")):
                archive.add(path, path.relative_to(folder).as_posix())
        os.utime(tmp_path / "all.tar", (1, 1))

    def opened(transform):
        if not is_archive:
            return seneca.ImageFolder(folder, transform)
        return seneca.open(str(tmp_path / "all.tar"), transform)

    native = host(opened(T.Compose([T.RandomResizedCrop(16), T.ToTensor()])), server.url, None, 0)
    for _ in native:
        pass
    assert native.explain().startswith("native") and server.ask("DBSIZE") == f":{COUNT}"
    ours = host(opened(in_python), server.url)
    assert items(ours) == sorted(truth.values()) and ours.stats()["read_bytes"] == 0
    server.ask("FLUSHALL")
    assert items(ours) == sorted(truth.values()) and server.ask("DBSIZE") == f":{COUNT}"
    before = native.stats()["read_bytes"]
    for _ in native:
        pass
    assert native.stats()["read_bytes"] == before


def test_a_server_that_dies_costs_reads_from_storage(folder, truth, server, host):
    loader = host(seneca.ImageFolder(folder, in_python), server.url, persistent_workers=True)
    assert items(loader) == sorted(truth.values())
    server.kill()
    assert items(loader) == sorted(truth.values())
    counts = asked(loader, server)
    assert loader.stats()["read_bytes"] > 0 and counts["failures"] >= 1
    assert counts["message"], "the last failure of a worker is reported"
    server.start()


@pytest.mark.whole_size(shown_by="test_a_server_that_dies_costs_reads_from_storage")
def test_a_server_that_answers_nothing_costs_reads_from_storage(folder, truth, server, host):
    loader = host(seneca.ImageFolder(folder, in_python), server.url, persistent_workers=True)
    assert items(loader) == sorted(truth.values())
    server.stop()
    try:
        assert items(loader) == sorted(truth.values())
    finally:
        server.go_on()
    counts = asked(loader, server)
    assert counts["failures"] >= 1 and counts["skipped"] > 0, "after some failures it is left alone"
    assert counts["left_alone"]


def test_a_server_that_is_not_there_is_reported_in_one_warning(folder, truth, tmp_path, host):
    gone = RedisServer(tmp_path / "gone")
    gone.kill()
    loader = host(seneca.ImageFolder(folder, in_python), gone.url)
    with pytest.warns(seneca.SenecaWarning, match="does not serve; until it does, its samples come from"):
        assert items(loader) == sorted(truth.values())
    assert items(loader) == sorted(truth.values())


def plant(server, data, damage):
    """Put a file that is no sample's there for each sample, with a right checksum: as a host whose storage
    has failed would."""
    handle = Remote([(server.name, None, "127.0.0.1", server.port, None, None, 0)])
    for index in range(COUNT):
        handle.put(data.fingerprint(), index, damage(data.read(index)))
    while server.ask("DBSIZE") != f":{COUNT}":
        pass


@pytest.mark.small(1)
@pytest.mark.parametrize("split", ["0-0-100", "100-0-0", "0-100-0"])
def test_what_another_host_left_damaged_is_read_from_storage_and_not_kept(folder, truth, server, host, split):
    data = seneca.ImageFolder(folder, in_python)
    plant(server, data, lambda whole: whole[:10])
    loader = host(data, server.url, split=split, cache_bytes="8MiB")
    for epoch in range(size(2, 3)):
        assert items(loader) == sorted(truth.values()), epoch
    assert loader.stats()["damaged"] == 0, "no host's damage got into this host's cache"
    assert loader.stats()["read_bytes"] >= sum(path.stat().st_size for path in folder.rglob("*.jpg"))


@pytest.mark.whole_size(shown_by="test_what_another_host_left_damaged_is_read_from_storage_and_not_kept")
def test_a_piece_of_an_archive_with_another_length_is_not_taken(folder, truth, server, host, tmp_path):
    with tarfile.open(tmp_path / "all.tar", "w") as archive:
        for path in sorted(folder.rglob("*.jpg")):
            archive.add(path, path.relative_to(folder).as_posix())
    data = seneca.open(str(tmp_path / "all.tar"), in_python)
    others = data.read(0)
    plant(server, data, lambda whole: others + bytes(len(whole)))
    assert items(host(data, server.url)) == sorted(truth.values())


@pytest.mark.whole_size(shown_by="test_what_another_host_left_damaged_is_read_from_storage_and_not_kept")
@pytest.mark.small(1)
@pytest.mark.parametrize("lie", ["x" * 200, "", "garbage"])
def test_a_server_that_lies_serves_no_byte(folder, truth, server, host, lie):
    """Each value has another's checksum, or none: it counts as wrong, and is deleted."""
    loader = host(seneca.ImageFolder(folder, in_python), server.url)
    assert items(loader) == sorted(truth.values())
    import socket

    with socket.create_connection(("127.0.0.1", server.port)) as connection, connection.makefile() as answer:
        connection.sendall(b"KEYS *\r\n")
        count = int(answer.readline()[1:])
        keys = []
        for _ in range(count):
            length = int(answer.readline()[1:])
            keys.append(answer.read(length))
            answer.readline()
    for key in keys:
        assert server.ask("SET", key, lie) == "+OK"
    assert items(loader) == sorted(truth.values())
    assert asked(loader, server)["wrong"] == COUNT
    assert items(loader) == sorted(truth.values()), "right ones have taken their place"
    assert asked(loader, server)["wrong"] == COUNT


def fails(picture):
    raise ZeroDivisionError("the user's own")


def test_a_transform_that_fails_is_the_user_s_error(folder, server, host):
    plant(server, seneca.ImageFolder(folder, fails), lambda whole: whole)
    with pytest.raises(ZeroDivisionError, match="the user's own"):
        items(host(seneca.ImageFolder(folder, fails), server.url))


def test_what_is_no_file_of_a_picture_says_that_servers_are_not_asked(server, host):
    numbers = torch.utils.data.TensorDataset(torch.arange(8))
    with pytest.warns(seneca.SenecaWarning, match="remote is not used.*no files of pictures"):
        assert len(list(host(numbers, server.url))) == 1
    with pytest.warns(seneca.SenecaWarning, match="remote is not used.*nothing is shared"):
        list(host(numbers, server.url, cache=None))
    assert server.ask("DBSIZE") == ":0"


def test_torch_s_own_loader_shares_with_other_hosts_too(folder, truth, server, monkeypatch, name):
    monkeypatch.setenv("SENECA_REMOTE", server.url)
    shared = seneca.SharedDataset(
        seneca.ImageFolder(folder, in_python),
        cache=name,
        cache_bytes="1MiB",
        split="0-0-100",
        check_every=None,
    )
    order = torch.utils.data.RandomSampler(shared)
    batches = seneca.OpportunisticBatchSampler(order, batch_size=8, drop_last=False)
    loader = torch.utils.data.DataLoader(
        shared, batch_sampler=batches, num_workers=WORKERS, multiprocessing_context="fork"
    )
    for _ in range(2):
        assert items(loader) == sorted(truth.values())
    assert shared.stats()["remote"][server.name]["hits"] == COUNT
    assert shared.stats()["read_bytes"] == sum(path.stat().st_size for path in folder.rglob("*.jpg"))


def test_no_password_is_pickled_but_for_a_worker():
    from seneca._runtime.remote_servers import parse_remote

    session = WorkersSession()
    session.use_servers(parse_remote("redis://:secret@127.0.0.1:1"))
    assert b"secret" not in pickle.dumps(session)
    assert session.describe_servers().endswith("127.0.0.1:1")


def test_tallies_of_workers_and_epochs_add_up():
    counts = dict.fromkeys(
        ("hits", "misses", "skipped", "stored", "refused", "failures", "wrong", "bytes"), 0
    )
    none = counts | {"get_s": 0.0, "left_alone": False, "message": ""}
    tallies = Tallies(["a"])
    tallies.add("a", 0, none | {"hits": 3, "get_s": 0.5}, None)
    tallies.add("a", 0, none | {"hits": 5, "get_s": 1.0}, none | {"hits": 3, "get_s": 0.5})
    tallies.add("a", 0, none | {"hits": 1}, None)  # of the next epoch, which has other processes
    failed = none | {"hits": 10, "failures": 2, "left_alone": True, "message": "it is gone"}
    tallies.add("a", 500, failed, None)
    [(name, sums)] = tallies.added_to({"a": none | {"hits": 100}}).items()
    assert (name, sums["hits"], sums["failures"]) == ("a", 116, 2)
    assert sums["get_s"] == 1.0 and sums["left_alone"] and sums["message"] == "it is gone"
    assert tallies.added_to({"b": none}) == {"b": none}


@pytest.mark.parametrize("path", size(["native"], ["native", "workers", "this process"]))
def test_what_comes_from_servers_and_goes_there_is_reported_to_the_split_s_controller(
    folder, server, host, path
):
    """The second host reads a file of its own: a server has forgotten one."""
    transform = T.Compose([T.RandomResizedCrop(16), T.ToTensor()]) if path == "native" else in_python
    data = seneca.ImageFolder(folder, transform)
    for _ in host(data, server.url, "fork", 1):
        pass
    assert server.ask("DBSIZE") == f":{COUNT}"
    server.ask("DEL", f"seneca:{data.fingerprint().hex()}:7")
    second = host(data, server.url, "fork", 0 if path == "this process" else 1)
    iterator = iter(second)
    for _ in iterator:
        pass
    session = iterator if path == "native" else second._shared_dataset()._session
    spent = session._work_done().spent
    assert (spent.from_servers, spent.times[0]) == (COUNT - 1, 1)
    assert spent.from_servers_s > 0 and spent.to_servers >= 1
