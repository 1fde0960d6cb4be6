"""Servers that keep files for several hosts, and fail: every epoch is whole, and each picture is right."""

from __future__ import annotations

import os
import socket
import struct
import tarfile
import threading

import numpy as np
import pytest
import ready
import torch
from certificates import Authority
from PIL import Image
from redis_servers import RedisServer, TlsServer, fill_up, kill, needs_redis, needs_tls, restart_empty, stop
from sizes import size

import seneca
from seneca import transforms as T
from seneca._core.remote import Remote
from seneca.cache import remote as remote_tier
from seneca.testing import make_pictures

pytestmark = needs_redis
COUNT = 96
TRANSFORM = T.Compose([T.RandomResizedCrop(32), T.ToTensor()])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = make_pictures(tmp_path_factory.mktemp("pictures"), count=COUNT, classes=2)
    first = sorted(folder.rglob("*.jpg"))[0]
    Image.new("RGB", (60, 50), (9, 8, 7)).save(first.with_suffix(".bmp"))  # Pillow decodes it
    first.unlink()
    return folder


@pytest.fixture
def server(tmp_path):
    with RedisServer(tmp_path / "redis") as server:
        yield server


def loader(dataset, remote, workers=2, **others):
    """Its order and its pictures depend on the seed alone."""
    return seneca.DataLoader(
        dataset,
        8,
        shuffle=True,
        num_workers=workers,
        generator=torch.Generator().manual_seed(5),
        cache=None,
        remote=remote,
        **others,
    )


def batches(one):
    return [(images.clone(), labels.clone()) for images, labels in one]


def same(some, others):
    return len(some) == len(others) and all(
        torch.equal(images, wanted) and torch.equal(labels, truth)
        for (images, labels), (wanted, truth) in zip(some, others, strict=True)
    )


@pytest.fixture(scope="module")
def alone(folder):
    """The batches of two epochs, from storage alone."""
    one = loader(seneca.ImageFolder(folder, TRANSFORM), False)
    return [batches(one), batches(one)]


def of(one, server):
    return one.stats()["remote"][server.name]


@pytest.mark.small(1)
@pytest.mark.parametrize("workers", [0, 1, 2])
def test_the_second_reads_nothing_from_storage(folder, alone, server, workers):
    first = loader(seneca.ImageFolder(folder, TRANSFORM), server.url, workers)
    assert same(batches(first), alone[0])
    assert first.stats()["read_bytes"] > 0
    second = loader(seneca.ImageFolder(folder, TRANSFORM), server.url, workers)
    assert [same(batches(second), epoch) for epoch in alone] == [True, True]
    assert second.stats()["read_bytes"] == 0
    assert of(second, server)["wrong"] == of(second, server)["failures"] == 0
    assert int(server.ask("DBSIZE")[1:]) == COUNT


def test_a_tar_archive_on_two_servers(folder, server, tmp_path):
    with tarfile.open(tmp_path / "all.tar", "w") as archive:
        for path in sorted(folder.rglob("*.jpg")):
            archive.add(path, path.relative_to(folder))
    with RedisServer(tmp_path / "other") as other:
        remote = [server.url, other.url]
        wanted = batches(loader(seneca.open(tmp_path / "all.tar", TRANSFORM), False))
        assert same(batches(loader(seneca.open(tmp_path / "all.tar", TRANSFORM), remote)), wanted)
        second = loader(seneca.open(tmp_path / "all.tar", TRANSFORM), remote)
        assert same(batches(second), wanted) and second.stats()["read_bytes"] == 0
        for one in (server, other):
            assert int(one.ask("DBSIZE")[1:]) > COUNT // 4


JOB = """
import sys, torch, seneca
from seneca import transforms as T
sys.stdin.readline()
data = seneca.ImageFolder(sys.argv[1], T.Compose([T.RandomResizedCrop(32), T.ToTensor()]))
loader = seneca.DataLoader(data, 8, shuffle=True, num_workers=2, cache=None, remote=sys.argv[2])
for epoch in range(3):
    seen = []
    for _ in loader:
        seen += map(int, loader.last_indices)
    assert sorted(seen) == list(range(len(data))), seen
(counts,) = loader.stats()["remote"].values()
print(counts["hits"], counts["misses"], counts["wrong"], loader.stats()["read_bytes"], flush=True)
"""


@pytest.mark.whole_size(shown_by="test_the_second_reads_nothing_from_storage")
def test_hosts_read_each_file_from_storage_about_once(folder, server):
    """Three jobs that share no memory, as on three hosts."""
    jobs = [
        ready.Script("-c", JOB, folder, server.url, env={**os.environ, "SENECA_DIR": ""}) for _ in range(3)
    ]
    printed = []
    for job in jobs:
        job.stdin.write("\n")
        job.stdin.flush()
    for job in jobs:
        out, errors = job.communicate()
        assert job.returncode == 0, errors
        printed.append(tuple(map(int, out.split())))
    assert [wrong for _, _, wrong, _ in printed] == [0, 0, 0]
    misses = sum(misses for _, misses, _, _ in printed)
    # Two jobs may read the same file before one of them has left it.
    assert COUNT <= misses < 2 * COUNT, printed


def want_a_password(server):
    assert server.ask("CONFIG", "SET", "requirepass", "new") == "+OK"
    # Who is logged in stays so; all have to come again.
    with socket.create_connection(("127.0.0.1", server.port), 5) as one:
        words = ("AUTH", "new")
        for command in (words, ("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")):
            text = f"*{len(command)}\r\n" + "".join(f"${len(word)}\r\n{word}\r\n" for word in command)
            one.sendall(text.encode())
            assert one.recv(100)[:1] in b"+:"


def fail_in_the_middle_of_an_epoch(folder, alone, server, fault, workers):
    batches(loader(seneca.ImageFolder(folder, TRANSFORM), server.url, workers))
    one = loader(seneca.ImageFolder(folder, TRANSFORM), server.url, workers)
    for epoch in alone:
        got = []
        for images, labels in one:
            got.append((images.clone(), labels.clone()))
            if epoch is alone[0] and len(got) == 4:
                fault(server)
        assert same(got, epoch)
    seen = of(one, server)
    assert seen["hits"] > 0 and seen["wrong"] == 0
    if fault in (kill, stop, want_a_password):
        assert seen["failures"] > 0 and seen["message"]
        assert one.stats()["read_bytes"] > 0, "storage gave the others"
    if fault is stop:
        server.go_on()


@pytest.mark.small(3)
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("fault", [kill, stop, restart_empty, fill_up, want_a_password])
def test_a_server_fails_in_the_middle_of_an_epoch(folder, alone, server, fault, workers):
    fail_in_the_middle_of_an_epoch(folder, alone, server, fault, workers)


@pytest.mark.small(1)
@pytest.mark.parametrize("workers", [0, 1, 2])
def test_epochs_are_left_while_servers_are_asked(folder, server, workers):
    """Servers have all files, or a part, or none. The epoch behind the one that was left is whole."""
    rng = np.random.default_rng(workers)
    one = loader(seneca.ImageFolder(folder, TRANSFORM), server.url, workers)
    for round_ in range(size(8, 40)):
        if round_ % 3 == 0:
            assert server.ask("FLUSHALL") == "+OK"
        epoch = iter(one)
        for _ in range(rng.integers(0, 5)):
            next(epoch)
        del epoch
        labels = torch.cat([labels for _, labels in one])
        assert len(labels) == COUNT and labels.sum() == COUNT // 2
    assert one.stats()["skipped"] == 0 and of(one, server)["hits"] > 0 and of(one, server)["misses"] > 0


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("certificates") / "ours")


@needs_tls
@pytest.mark.small(1)
@pytest.mark.parametrize("fault", [kill, stop, restart_empty])
def test_a_server_with_tls_fails_in_the_middle_of_an_epoch(folder, alone, tmp_path, authority, fault):
    with TlsServer(tmp_path / "redis", authority) as server:
        fail_in_the_middle_of_an_epoch(folder, alone, server, fault, 2)


@pytest.mark.whole_size(shown_by="test_a_server_with_tls_fails_in_the_middle_of_an_epoch")
@needs_tls
def test_with_tls_the_second_reads_nothing_from_storage(folder, alone, tmp_path, authority):
    with TlsServer(tmp_path / "redis", authority) as server:
        first = loader(seneca.ImageFolder(folder, TRANSFORM), server.url)
        assert same(batches(first), alone[0])
        second = loader(seneca.ImageFolder(folder, TRANSFORM), server.url)
        assert [same(batches(second), epoch) for epoch in alone] == [True, True]
        assert second.stats()["read_bytes"] == 0
        assert of(second, server)["wrong"] == of(second, server)["failures"] == 0


@needs_tls
@pytest.mark.small(2)
@pytest.mark.parametrize(
    ("trouble", "message"),
    [
        ("expired", "certificate has expired; renew it, or set the clock of this host"),
        ("another host", "the server's certificate is not for 127.0.0.1"),
        ("unknown CA", "name the file of the server's CA with .ssl_ca_certs="),
        ("no TLS", "does not answer, as one that does not speak it|what answers there does not speak it"),
    ],
)
def test_a_server_that_cannot_be_trusted_is_sent_nothing(
    folder, alone, tmp_path, authority, trouble, message
):
    """An epoch comes from storage, and the warning says why. The server never has a file or the password."""
    certificate = {
        "expired": lambda: authority.issue("old", "IP:127.0.0.1", days=-1),
        "another host": lambda: authority.issue("other", "DNS:other.host", "IP:127.0.0.2"),
    }.get(trouble, lambda: None)()
    with TlsServer(tmp_path / "redis", authority, certificate=certificate) as server:
        url = server.url.replace("rediss://", "rediss://:secret@")
        if trouble == "unknown CA":
            url = url.replace(str(authority.file), str(Authority(tmp_path / "another").file))
        if trouble == "no TLS":
            url = url.replace(str(server.tls_port), str(server.port))
        one = loader(seneca.ImageFolder(folder, TRANSFORM), url)
        with pytest.warns(UserWarning, match=f"TLS: .*({message}).* does not serve"):
            got = batches(one)
        assert same(got, alone[0])
        (counts,) = one.stats()["remote"].values()
        assert counts["hits"] == counts["misses"] == 0 and counts["failures"] > 0
        assert counts["message"].startswith("TLS: ")
        assert server.ask("DBSIZE") == ":0"


def test_wrong_bytes_are_never_served(folder, alone, server):
    """A byte of every value is changed: in the picture, or in what says what it is."""
    batches(loader(seneca.ImageFolder(folder, TRANSFORM), server.url))
    data = seneca.ImageFolder(folder, TRANSFORM)
    generator = np.random.default_rng(3)
    for sample in range(COUNT):
        key = f"seneca:{data.fingerprint().hex()}:{sample}"
        length = int(server.ask("STRLEN", key)[1:])
        at = int(generator.integers(length))
        server.ask("SETBIT", key, str(8 * at + int(generator.integers(8))), "1")
    one = loader(data, server.url)
    assert same(batches(one), alone[0])
    assert of(one, server)["wrong"] > COUNT // 4, "half of the bits were set before"


def test_a_picture_that_another_host_has_read_from_bad_storage(folder, alone, server):
    data = seneca.ImageFolder(folder, TRANSFORM)
    remote = Remote([(server.name, None, "127.0.0.1", server.port, None, None, 0)])
    for sample in range(COUNT):
        remote.put(data.fingerprint(), sample, data.read(sample)[:-300] if sample % 2 else b"\0" * 500)
    remote.get(data.fingerprint(), 0)
    one = loader(data, server.url)
    assert same(batches(one), alone[0])
    assert of(one, server)["hits"] >= COUNT - 1 and one.stats()["read_bytes"] > 0


@pytest.mark.small(2)
@pytest.mark.parametrize(
    "says", [b"", b"HTTP/1.1 200 OK\r\n\r\n", b"$-5\r\n", b"$99999999999\r\n", os.urandom(5000)]
)
def test_something_else_listens_there(folder, alone, says, monkeypatch):
    monkeypatch.setattr(remote_tier, "_made", {})  # the port may be that of an earlier test's server
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer():
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    # Without an answer unread, closing would reset the connection.
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 0, 0))
                    connection.sendall(says)
                    connection.settimeout(0.3)
                    try:
                        while connection.recv(4096):
                            pass
                    except OSError:
                        continue

        thread = threading.Thread(target=answer)
        thread.start()
        one = loader(seneca.ImageFolder(folder, TRANSFORM), f"redis://127.0.0.1:{listener.getsockname()[1]}")
        with pytest.warns(UserWarning, match="does not serve; until it does, its samples come from storage"):
            got = batches(one)
        assert same(got, alone[0])
        (counts,) = one.stats()["remote"].values()
        assert counts["failures"] > 0 and counts["hits"] == 0
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_where_nothing_is_a_file_of_a_picture_one_warning_says_that_storage_is_read(server):
    one = seneca.DataLoader([1, 2, 3], remote=server.url, cache=None)
    with pytest.warns(UserWarning, match="remote is not used, and all comes from storage: nothing is shared"):
        assert len(list(one)) == 3


def test_explain_names_the_servers(folder, server):
    one = seneca.DataLoader(seneca.ImageFolder(folder, TRANSFORM), remote=server.url)
    assert f"files are shared with other hosts by {server.name}" in one.explain()


def test_what_is_no_jpeg_is_not_read_from_storage_again(folder, alone, server, monkeypatch):
    batches(loader(seneca.ImageFolder(folder, TRANSFORM), server.url))
    second = loader(seneca.ImageFolder(folder, TRANSFORM), server.url)

    def read(self, index):
        raise AssertionError(f"{self.samples[index]} was read from storage")

    monkeypatch.setattr("seneca.data.files.PictureFiles.read", read)
    assert same(batches(second), alone[0])


@pytest.mark.small(1)
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("keeps", [False, True])
def test_a_damaged_file_that_is_no_jpeg_comes_from_storage(
    folder, alone, server, segment_folder, keeps, workers
):
    """Pillow finds out that it is damaged, after the native core has left the file to it."""
    data = seneca.ImageFolder(folder, TRANSFORM)
    (bmp,) = (i for i, (path, _) in enumerate(data.samples) if path.endswith(".bmp"))
    Remote([(server.name, None, "127.0.0.1", server.port, None, None, 0)]).put(
        data.fingerprint(), bmp, data.read(bmp)[:60]
    )
    one = loader(data, server.url, workers)
    with seneca.SampleCache.create("mine", data, cache_bytes="8MiB", split="100-0-0") as cache:
        if keeps:
            one.cache, one.share = cache, "none"
        assert [same(batches(one), epoch) for epoch in alone] == [True, True]
        assert of(one, server)["hits"] > 0
