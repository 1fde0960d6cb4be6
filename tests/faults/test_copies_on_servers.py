"""Hosts that share exact copies on servers, and fail: each gets what it gets alone."""

from __future__ import annotations

import functools
import glob
import os
import signal
import socket
import tarfile
import time

import pytest
import ready
import torch
from pair_folders import make_pairs
from PIL import Image
from redis_servers import RedisServer, fill_up, kill, needs_redis, restart_empty, stop
from sizes import size
from torchvision_here import torchvision, v2

import seneca
from seneca import transforms as T
from seneca.audit.check import check
from seneca.native import session
from seneca.testing import make_pictures

pytestmark = needs_redis
COUNT = 96
BATCH = 8
EPOCHS = size(5, 6)
SIDES = (400, 600)
TRANSFORM = T.Compose([T.RandomResizedCrop(32), T.RandomHorizontalFlip(), T.ToTensor(), T.RandomErasing(0.5)])

CROPS = v2.Compose(
    [
        *(v2.ToImage(), v2.RandomResizedCrop(32), v2.RandomHorizontalFlip()),
        v2.ToDtype({torchvision.tv_tensors.Mask: torch.int64, "others": torch.float32}, scale=True),
    ]
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = make_pictures(tmp_path_factory.mktemp("pictures"), count=COUNT, classes=2, sides=SIDES)
    first = sorted(folder.rglob("*.jpg"))[0]
    Image.new("RGB", (60, 50), (9, 8, 7)).save(first.with_suffix(".bmp"))  # Pillow decodes it
    first.unlink()
    return folder


@pytest.fixture
def server(tmp_path):
    with RedisServer(tmp_path / "redis") as server:
        yield server


@pytest.fixture
def hosts(name):
    """Names of caches: a job of one shares no memory with a job of another, as on two hosts."""
    return f"{name}-a", f"{name}-b", f"{name}-c"


def loader(dataset, cache, remote, seed=5, workers=2, **others):
    return seneca.DataLoader(
        dataset,
        BATCH,
        shuffle=True,
        num_workers=workers,
        generator=torch.Generator().manual_seed(seed),
        share="exact",
        cache=cache,
        remote=remote,
        **{"cache_bytes": "1MiB", **others},
    )


def cloned(batch):
    return [part.clone() for part in batch]


def epochs_in_step(*loaders, epochs=EPOCHS, at_batch=None):
    """What each gives, epoch by epoch, where all take a batch in turn. Each turn is given to ``at_batch``."""
    given = [[[] for _ in range(epochs)] for _ in loaders]
    turn = 0
    for epoch in range(epochs):
        iterators = [iter(one) for one in loaders]
        for _ in range(len(loaders[0])):
            for host, iterator in enumerate(iterators):
                given[host][epoch].append(cloned(next(iterator)))
            if at_batch is not None:
                at_batch(turn)
            turn += 1
        assert all(next(iterator, None) is None for iterator in iterators)
    return given


def same(some, others):
    return len(some) == len(others) and all(
        torch.equal(part, wanted)
        for batch, right in zip(some, others, strict=True)
        for part, wanted in zip(batch, right, strict=True)
    )


def alone(dataset, name, epochs=EPOCHS, **others):
    """What one host gives that has no server: whenever it is asked, the same."""
    key = type(dataset), str(dataset.samples), *others.items()
    if key not in given_alone:
        one = loader(dataset, f"{name}-alone", False, **others)
        given_alone[key] = [[cloned(batch) for batch in one] for _ in range(EPOCHS)]
    return given_alone[key][:epochs]


given_alone = {}


def counts(one):
    did = one.stats()
    assert did["prepared"] + did["copies_from_servers"] == did["delivered"] - did["repeated"]
    return did["prepared"], did["copies_from_servers"]


def archive_of(folder, tmp_path):
    with tarfile.open(tmp_path / "all.tar", "w") as archive:
        for path in sorted(folder.rglob("*.*")):
            if path.is_file():
                archive.add(path, path.relative_to(folder))
    return tmp_path / "all.tar"


@pytest.mark.small(1)
@pytest.mark.parametrize(("kind", "workers"), [("folder", 2), ("folder", 0), ("tar", 1), ("pairs", 2)])
def test_two_hosts_make_each_copy_about_once(folder, server, tmp_path, name, kind, workers):
    if kind == "pairs":
        pairs = make_pairs(tmp_path, COUNT, sides=SIDES)
        dataset = functools.partial(seneca.SegmentationFolder, *pairs, CROPS)
    elif kind == "tar":
        dataset = functools.partial(seneca.open, archive_of(folder, tmp_path), TRANSFORM)
    else:
        dataset = functools.partial(seneca.ImageFolder, folder, TRANSFORM)
    wanted = alone(dataset(), name)
    # A host asks for few copies while it makes one sooner than it gets one, as where this machine is busy.
    tries = (
        two_hosts_share(dataset, server, [f"{name}-{k}{host}" for host in "ab"], workers, wanted)
        for k in range(3)
    )
    assert any(tries), "two hosts have made most copies twice, three times over"


def two_hosts_share(dataset, server, hosts, workers, wanted):
    """Whether each of two hosts, which give what is wanted, has got copies that the other has made."""
    pair = [loader(dataset(), host, server.url, workers=workers) for host in hosts]
    for given in epochs_in_step(*pair):
        assert [same(*both) for both in zip(given, wanted, strict=True)] == [True] * EPOCHS
    copies = [counts(one)[1] for one in pair]
    # Until they have met, each makes all; later a host may ask before the other has made a copy. Without
    # workers the second draws what the first has made, and never before it.
    return sum(copies) > EPOCHS * COUNT // 3 and (workers == 0 or min(copies) > EPOCHS * COUNT // 20)


def test_jobs_of_one_host_share_in_memory_what_servers_bring(folder, server, name, hosts):
    wanted = alone(seneca.ImageFolder(folder, TRANSFORM), name)
    jobs = [
        loader(seneca.ImageFolder(folder, TRANSFORM), host, server.url, job=job)
        for host, job in ((hosts[0], "1"), (hosts[0], "2"), (hosts[1], "3"))
    ]
    for given in epochs_in_step(*jobs):
        assert [same(*both) for both in zip(given, wanted, strict=True)] == [True] * EPOCHS
    made = [job.stats() for job in jobs]
    assert sum(did["copies_from_servers"] for did in made) > EPOCHS * COUNT // 4, made
    assert sum(did["prepared"] for did in made) < 2 * EPOCHS * COUNT, made


@pytest.mark.whole_size(shown_by="test_two_hosts_make_each_copy_about_once")
def test_hosts_of_other_seeds_or_transforms_get_their_own(folder, server, name, hosts):
    """Batches alone decide: what they ask for is called otherwise."""
    wanted = [alone(seneca.ImageFolder(folder, TRANSFORM), f"{name}-{seed}", seed=seed) for seed in (5, 6)]
    jobs = [
        loader(seneca.ImageFolder(folder, TRANSFORM), host, server.url, seed=seed)
        for host, seed in zip(hosts, (5, 6), strict=False)
    ]
    for given, right in zip(epochs_in_step(*jobs), wanted, strict=True):
        assert [same(*both) for both in zip(given, right, strict=True)] == [True] * EPOCHS
    assert [counts(job)[1] for job in jobs] == [0, 0]


@pytest.mark.whole_size(shown_by="test_two_hosts_make_each_copy_about_once")
def test_hosts_whose_decoders_are_of_other_versions_share_no_copies(folder, server, hosts, monkeypatch):
    pair = [loader(seneca.ImageFolder(folder, TRANSFORM), host, server.url) for host in hosts[:2]]
    versions = {pair[0]._session: "12.1", pair[1]._session: "12.2"}
    sharing = session.Session.sharing

    def with_versions(self, *arguments):
        monkeypatch.setattr(session, "_decoders", lambda: versions[self])
        return sharing(self, *arguments)

    monkeypatch.setattr(session.Session, "sharing", with_versions)
    epochs_in_step(*pair)
    assert [counts(one)[1] for one in pair] == [0, 0]


@pytest.mark.whole_size(shown_by="test_two_hosts_make_each_copy_about_once")
def test_a_host_that_cannot_be_named_prepares_all(folder, server, name, hosts, monkeypatch):
    def refuse(path):
        raise PermissionError(path)

    monkeypatch.setattr(session, "identity_of", refuse)
    wanted = alone(seneca.ImageFolder(folder, TRANSFORM), name, 2)
    pair = [loader(seneca.ImageFolder(folder, TRANSFORM), host, server.url) for host in hosts[:2]]
    for given in epochs_in_step(*pair, epochs=2):
        assert [same(*both) for both in zip(given, wanted, strict=True)] == [True, True]
    assert [counts(one)[1] for one in pair] == [0, 0]


def test_what_is_counted(folder, server, hosts, tmp_path, monkeypatch):
    """Copies are no reads and no files that servers keep, and the audit's log says the same as stats()."""
    monkeypatch.setenv("SENECA_AUDIT", str(tmp_path / "audit"))
    for _ in loader(seneca.ImageFolder(folder, TRANSFORM), hosts[2], server.url):
        pass  # the server has all files
    while int(server.ask("DBSIZE")[1:]) < COUNT:
        time.sleep(0.01)
    decoded = {"split": "0-80-20", "cache_bytes": "256MiB"}
    pair = [loader(seneca.ImageFolder(folder, TRANSFORM), host, server.url, **decoded) for host in hosts[:2]]
    for _ in range(size(3, EPOCHS)):
        iterators = [iter(one) for one in pair]
        for _ in range(COUNT // BATCH):
            assert all(len(next(iterator)) == 2 for iterator in iterators)
        spent = [iterator._work_done().spent for iterator in iterators]
        assert all(next(iterator, None) is None for iterator in iterators)
    assert [one.times[0] for one in spent] == [0, 0]
    assert all(one.to_servers <= COUNT for one in spent), "the first loader has left them, in this process"
    did = [one.stats() for one in pair]
    assert sum(one["copies_from_servers"] for one in did) > 0
    report = check(tmp_path / "audit")
    assert report.violations == []
    assert report.served["augmented"] == sum(one["served"]["augmented"] for one in did)


def keys(server, pattern):
    """The keys of a server. Names of samples' files and of their copies are alike."""
    with socket.create_connection(("127.0.0.1", server.port), 5) as connection:
        connection.sendall(f"KEYS {pattern}\r\n".encode())
        lines = connection.makefile("rb")
        found = int(lines.readline()[1:])
        return [(lines.readline(), lines.readline().strip().decode())[1] for _ in range(found)]


def test_planted_copies_are_not_used(folder, server, name, hosts):
    wanted = alone(seneca.ImageFolder(folder, TRANSFORM), name, 1)
    pair = [loader(seneca.ImageFolder(folder, TRANSFORM), host, server.url) for host in hosts[:2]]
    epochs_in_step(*pair, epochs=1)
    short_lived = [key for key in keys(server, "seneca:*") if int(server.ask("PTTL", key)[1:]) > 0]
    copies = [key for key in short_lived if not key.endswith(":4294967295")]  # and not the roster
    assert len(copies) > COUNT // 4
    for key in copies:
        server.ask("SETRANGE", key, "100", "wrong")
    third = loader(seneca.ImageFolder(folder, TRANSFORM), hosts[2], server.url)
    (given,) = epochs_in_step(third, epochs=1)
    assert same(given[0], wanted[0])
    (counted,) = third.stats()["remote"].values()
    assert counted["wrong"] > 0 and counts(third)[1] == 0


@pytest.mark.small(1)
@pytest.mark.parametrize("fail", [kill, stop, restart_empty, fill_up])
def test_a_server_that_fails_costs_no_sample(folder, server, name, hosts, fail):
    wanted = alone(seneca.ImageFolder(folder, TRANSFORM), name)
    pair = [loader(seneca.ImageFolder(folder, TRANSFORM), host, server.url) for host in hosts[:2]]
    at = 2 * COUNT // BATCH + 5
    given = epochs_in_step(*pair, at_batch=lambda turn: fail(server) if turn == at else None)
    for host in given:
        assert [same(*both) for both in zip(host, wanted, strict=True)] == [True] * EPOCHS


JOB = """
import sys, time, hashlib, torch, seneca
from seneca import transforms as T
transform = T.Compose([T.RandomResizedCrop(32), T.RandomHorizontalFlip(), T.ToTensor(), T.RandomErasing(0.5)])
loader = seneca.DataLoader(seneca.ImageFolder(sys.argv[1], transform), 8, shuffle=True, num_workers=2,
                           generator=torch.Generator().manual_seed(5), share="exact", cache=sys.argv[3],
                           cache_bytes="1MiB", remote=sys.argv[2])
sys.stdin.readline()
for epoch in range(8):
    digest, seen = hashlib.sha256(), []
    for images, labels in loader:
        digest.update(images.numpy().tobytes() + labels.numpy().tobytes())
        seen += map(int, loader.last_indices)
        time.sleep(0.01)
    assert sorted(seen) == list(range(len(loader.dataset))), seen
    print(digest.hexdigest(), loader.stats()["copies_from_servers"], flush=True)
"""


@pytest.mark.small(1)
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_host_that_dies_leaves_the_others_what_they_get_alone(folder, server, hosts, how):
    def start(host):
        return ready.Script("-c", JOB, folder, server.url, host)

    jobs = [start(host) for host in hosts]
    try:
        for job in jobs:
            job.stdin.write("\n")
            job.stdin.flush()
        lines = [[job.stdout.readline().split() for _ in range(3)] for job in jobs]
        assert sum(int(copies) for host in lines for _, copies in host[-1:]) > 0
        jobs[0].send_signal(how)
        for job, before in zip(jobs[1:], lines[1:], strict=True):
            out, errors = job.communicate()
            assert job.returncode == 0, errors
            before += [line.split() for line in out.splitlines()]
    finally:
        jobs[0].kill()
        jobs[0].wait()
        for left in glob.glob(f"/dev/shm/*{hosts[0]}*"):
            os.unlink(left)
    first, second = ([digest for digest, _ in host] for host in lines[1:])
    assert len(first) == 8 and first == second
    assert [digest for digest, _ in lines[0]] == first[:3]
