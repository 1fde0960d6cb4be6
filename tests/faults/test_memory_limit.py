"""A cache that is larger than what a job may take: refused before the kernel kills anybody for it."""

import errno
import os
import secrets
import signal
from pathlib import Path

import pytest
import torch
from engine import Process
from small_jobs import MiB, epoch_of

import seneca
from seneca import errors
from seneca._runtime.cgroups import groups_of
from seneca._runtime.memory import Limit, most_memory
from seneca.cache import room, sample_cache

ALL = list(range(48))


class Group:
    """A memory group of the first version below this process's own, with a limit."""

    def __init__(self, path, limit_bytes):
        self.path = path
        path.mkdir()
        try:
            (path / "memory.limit_in_bytes").write_text(str(limit_bytes))
        except OSError:
            path.rmdir()
            raise

    def enter(self):
        (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def remove(self):
        (self.path / "memory.force_empty").write_text("0")  # of files that its processes have read
        self.path.rmdir()


@pytest.fixture
def group_of():
    """Makes memory groups with the limit that it is given."""
    groups = []

    def make(limit_bytes):
        own = [path for path, version in groups_of("memory") if version == 1 and (path / "tasks").exists()]
        if not own:
            pytest.skip("no memory control groups of the first version here")
        path = max(own, key=lambda path: len(path.parts)) / f"seneca-test-{secrets.token_hex(4)}"
        try:
            groups.append(Group(path, limit_bytes))
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                raise
            pytest.skip(f"a memory control group of its own cannot be had: {error}")
        return groups[-1]

    yield make
    for group in groups:
        group.remove()


def child_in(group, work):
    """A child that does ``work()`` in the group and sends what it answers."""

    def run(pipe):
        group.enter()
        torch.set_num_threads(1)  # OpenMP's threads are the parent's and did not come along
        pipe.send(work())

    return Process(run)


def objects_of(name):
    return [entry for entry in os.listdir("/dev/shm") if name in entry]


def test_more_than_the_control_group_allows_is_refused_with_the_numbers(group_of, load, name):
    group = group_of(256 * MiB)

    def work():
        with pytest.raises(errors.NoSpaceError) as caught:
            next(iter(load(cache_bytes="512MiB")))
        return str(caught.value), objects_of(name)

    with child_in(group, work) as child:
        text, left = child.receive()
        assert child.join() == 0
    assert "cache_bytes=512.0 MiB needs 512." in text
    assert f"the memory control group {group.path} still allows" in text
    assert "smaller cache_bytes" in text and "--memory" in text
    assert left == []
    taken = int((group.path / "memory.max_usage_in_bytes").read_text())
    assert taken < 200 * MiB, "nothing was reserved"


def test_what_the_control_group_still_allows_is_given(group_of, load, name):
    """Files in the page cache give way to it."""
    group = group_of(256 * MiB)

    def work():
        with open(load().dataset.samples[0][0].rpartition("/")[0] + "/large", "wb+") as file:
            for _ in range(160):
                file.write(bytes(MiB))
            os.fsync(file.fileno())
            file.seek(0)
            while file.read(MiB):
                pass
        used = int((group.path / "memory.usage_in_bytes").read_text())
        return used, *epoch_of(load(cache_bytes="160MiB"))

    with child_in(group, work) as child:
        used, samples, warned = child.receive()
        assert child.join() == 0
    assert used > 160 * MiB, "files of the page cache count as used"
    assert (samples, warned) == (ALL, [])


def test_who_joins_is_never_refused_for_memory_that_another_has_reserved(group_of, load, name):
    group = group_of(96 * MiB)
    with (
        seneca.SampleCache.create(name, load().dataset, cache_bytes="192MiB"),
        child_in(group, lambda: epoch_of(load(cache_bytes="192MiB"))) as child,
    ):
        assert child.receive() == (ALL, [])
        assert child.join() == 0


def test_two_jobs_that_make_caches_in_one_group_are_not_killed(group_of, load, name):
    """Each may have what it asks for, both may not: the second that notices is refused, or both are."""
    group = group_of(256 * MiB)

    def work(which):
        def run():
            try:
                seneca.SampleCache.create(f"{name}-{which}", load().dataset, cache_bytes="224MiB")
                signal.pause()
            except errors.NoSpaceError as error:
                return str(error)

        return run

    children = [child_in(group, work(which)) for which in range(2)]
    try:
        while not any(child.has_sent for child in children):
            assert [os.waitpid(child.pid, os.WNOHANG) for child in children] == [(0, 0)] * 2
        refused = [child for child in children if child.has_sent]
        for child in refused:
            assert "still allows" in child.receive() and child.join() == 0
    finally:
        for child in children:
            child.kill()
    for entry in objects_of(name):
        os.unlink("/dev/shm/" + entry)  # of the one that was killed
    events = dict(line.split() for line in (group.path / "memory.oom_control").read_text().splitlines())
    assert events["oom_kill"] == "0"


def test_memory_that_others_take_while_it_is_reserved_is_noticed(load, name, monkeypatch):
    path = f"/dev/shm/seneca-{os.geteuid()}-{name}"

    def most():
        reserved = os.stat(path).st_blocks * 512 if os.path.exists(path) else 0
        return Limit(0, 1000 * MiB if reserved < 64 * MiB else 10 * MiB, "this host")

    monkeypatch.setattr(room, "most_memory", most)
    monkeypatch.setattr(room, "others", lambda name: [])  # caches of other tests, which grow
    with pytest.raises(errors.NoSpaceError, match=r"64\.0 MiB are reserved already, but this host still"):
        seneca.SampleCache.create(name, load().dataset, cache_bytes="128MiB")
    assert objects_of(name) == []


def test_what_a_dead_maker_had_reserved_is_not_asked_for_twice(load, name, monkeypatch):
    """It has reserved a part and died: that memory is free again before it is asked what is."""
    path = f"/dev/shm/seneca-{os.geteuid()}-{name}"
    fd = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    os.posix_fallocate(fd, 0, 32 * MiB)
    os.close(fd)

    def most():
        return Limit(0, 40 * MiB - os.stat(path).st_blocks * 512, "this host")

    monkeypatch.setattr(room, "most_memory", most)
    monkeypatch.setattr(room, "others", lambda name: [])  # caches of other tests, which grow
    with seneca.SampleCache.create(name, load().dataset, cache_bytes="32MiB") as made:
        assert made.created


def test_ctrl_c_while_memory_is_reserved_leaves_nothing(load, name, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(sample_cache._Patience, "report_progress", interrupted)
    with pytest.raises(KeyboardInterrupt):
        seneca.SampleCache.create(name, load().dataset, cache_bytes="4MiB")
    assert objects_of(name) == []


def test_most_memory_is_never_less_than_what_is_free():
    limit = most_memory()
    assert limit.most >= limit.free > 0 and Path("/proc/meminfo").exists()
