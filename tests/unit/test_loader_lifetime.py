"""Loaders, iterators and caches that end in unusual ways, or meet where they should not."""

import errno
import gc
import os
import resource
import signal
import threading
import time
import warnings
from pathlib import Path

import pytest
import ready
import torch

import seneca
from seneca import transforms as T
from seneca._core.codes import segment_error
from seneca.cache import sample_cache
from seneca.errors import SegmentMismatchError
from seneca.testing import make_pictures

TRAIN = T.Compose([T.RandomResizedCrop(32), T.RandomHorizontalFlip()])


def load(folder, name, **options):
    dataset = seneca.ImageFolder(folder, TRAIN)
    options = {"batch_size": 8, "shuffle": True, "cache": name, "cache_bytes": "2MiB"} | options
    return seneca.DataLoader(dataset, **options)


def in_child(function):
    """Exit status of a forked child that runs ``function``; negative where it had to be killed."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            torch.set_num_threads(1)
            function()
            status = 0
        finally:
            os._exit(status)
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_cache_refuses_another_dataset(picture_folder, tmp_path, name):
    other = make_pictures(tmp_path / "other", count=6, classes=2)
    cache = seneca.SampleCache.create(name, seneca.ImageFolder(picture_folder), cache_bytes="1MiB")
    for by in (cache, name):
        with pytest.raises(SegmentMismatchError):
            iter(load(other, by))
    cache.close()


def test_a_name_is_free_for_changed_data_once_its_users_are_dead(picture_folder, name):
    def die():
        loader = load(picture_folder, name)
        next(iter(loader))
        os.kill(os.getpid(), signal.SIGKILL)

    assert in_child(die) == -signal.SIGKILL
    first = sorted(picture_folder.glob("*/*.jpg"))[0]
    first.with_name("new.jpg").write_bytes(first.read_bytes())
    assert sum(len(images) for images, _ in load(picture_folder, name)) == 49


def test_a_joiner_without_memory_goes_on_and_takes_nothing_from_who_is_there(picture_folder, name):
    labels_of_all = sorted(label for _, label in seneca.ImageFolder(picture_folder).samples)
    shared = seneca.SharedDataset(seneca.ImageFolder(picture_folder, TRAIN), cache=name)
    faces = [load(picture_folder, name), torch.utils.data.DataLoader(shared, 8)]
    cache = seneca.SampleCache.create(name, seneca.ImageFolder(picture_folder), cache_bytes="256MiB")

    def join():
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20), resource.RLIM_INFINITY))
        with pytest.raises(seneca.errors.SegmentError, match=f"{cache.path}.*no address space.*ulimit -v"):
            seneca.SampleCache.attach(name)
        for face in faces:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                for _ in range(2):
                    assert sorted(torch.cat([labels for _, labels in face]).tolist()) == labels_of_all
            assert len(caught) == 1 and "no address space" in str(caught[0].message)

    assert in_child(join) == 0
    assert cache.segment.linked
    cache.close()


@pytest.mark.small(1)
@pytest.mark.parametrize("call", ["fstat", "listdir", "statvfs"])
def test_storage_of_the_cache_that_fails_costs_a_warning_that_names_its_file(
    picture_folder, name, monkeypatch, call
):
    asked = getattr(os, call)

    def fails(what):
        if name in os.readlink(f"/proc/self/fd/{what}") if call == "fstat" else what == "/dev/shm":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return asked(what)

    loader, before = load(picture_folder, name), len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(os, call, fails)
    with pytest.warns(seneca.SenecaWarning, match="without the shared cache") as caught:
        assert sum(len(images) for images, _ in loader) == 48
    assert len(caught) == 1
    assert f"/dev/shm/seneca-{os.geteuid()}-{name}) could not be used: Input/output" in str(caught[0].message)
    assert len(os.listdir("/proc/self/fd")) == before
    if call == "fstat":
        os.unlink(f"/dev/shm/seneca-{os.geteuid()}-{name}")  # made, and not begun


def test_what_a_process_cannot_note_for_want_of_memory_is_not_blamed_on_the_mapping():
    assert "mapping" not in str(segment_error(-errno.ENOMEM))


def test_a_forked_child_that_drops_the_parents_iterator_takes_nothing_from_it(picture_folder, name):
    loader = load(picture_folder, name, num_workers=1)
    batches = iter(loader)
    got = len(next(batches)[0])

    def child():
        with pytest.raises(seneca.errors.SegmentError, match="parent process"):
            next(batches)
        batches._close()  # as at the child's exit
        assert sum(len(images) for images, _ in load(picture_folder, name)) == 48

    assert in_child(child) == 0
    assert got + sum(len(images) for images, _ in batches) == 48
    assert loader.stats()["cache"]["processes"] == 1


def test_an_iterator_and_its_cache_in_one_garbage_cycle_leave_in_order(picture_folder, name):
    loader = load(picture_folder, name)
    list(loader)
    cycle = [loader, iter(loader)]
    next(cycle[1])
    cycle.append(cycle)
    del loader, cycle
    gc.collect()
    assert not [entry for entry in os.listdir("/dev/shm") if name in entry]


def test_an_iterator_that_is_closed_under_a_thread_ends_it(picture_folder, name):
    batches = iter(load(picture_folder, name, batch_size=1, num_workers=1))
    next(batches)
    ended = []
    thread = threading.Thread(target=lambda: ended.append(sum(1 for _ in batches)))
    thread.start()
    batches._close()
    thread.join(20)
    assert not thread.is_alive() and ended[0] <= 47
    with pytest.raises(StopIteration):
        next(batches)


def test_a_break_while_batches_are_under_way_leaves_no_payload_half_written(picture_folder, name):
    loader = load(picture_folder, name, num_workers=2)
    for _ in range(20):
        for _ in loader:
            break
    cache = loader._session.cache
    assert cache.segment.check() is None
    assert cache.stats()["writing"] == 0 and cache.stats()["members"] == 0


def test_without_a_lock_to_be_had_it_goes_on_with_a_warning(picture_folder, name, monkeypatch):
    """The one who holds the lock is stopped: in the middle of making the segment, say."""
    import fcntl

    monkeypatch.setattr(sample_cache, "GIVE_UP_AFTER_S", 0.3)
    path = f"/dev/shm/seneca-{os.geteuid()}-{name}"
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with pytest.warns(UserWarning, match=r"going on without the shared cache: .* seems to be stopped"):
        assert sum(len(images) for images, _ in load(picture_folder, name)) == 48
    os.close(fd)
    os.unlink(path)


SCRIPT = """
import sys, torch, seneca

kind, name = sys.argv[1:]
data = torch.utils.data.TensorDataset(torch.arange(64))
workers = {"num_workers": 2, "persistent_workers": True}
if kind == "torch's":
    shared = seneca.SharedDataset(data, cache=name, cache_bytes="2MiB")
    batches = seneca.OpportunisticBatchSampler(torch.utils.data.RandomSampler(shared), 8)
    loader = torch.utils.data.DataLoader(shared, batch_sampler=batches, **workers)
else:
    loader = seneca.DataLoader(data, 8, shuffle=True, cache=name, cache_bytes="2MiB", **workers)
assert sum(len(batch) for batch, in loader) == 64
"""


@pytest.mark.small(1)
@pytest.mark.parametrize("kind", ["torch's", "seneca's"])
def test_workers_that_live_until_the_process_ends_leave_nothing_behind(name, kind):
    """A loader at the top of a script: its workers are ended when the process is, and do not leave."""
    ended = ready.run("-c", SCRIPT, kind, name)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert [entry for entry in os.listdir("/dev/shm") if name in entry] == []


def test_persistent_workers_end_with_their_loader(name):
    loader = seneca.DataLoader(
        torch.arange(64), 8, shuffle=True, cache=name, num_workers=2, persistent_workers=True
    )
    assert sum(map(len, loader)) == 64
    workers = list(loader._iterator._workers)
    gc.disable()
    try:
        del loader
        assert not any(worker.is_alive() for worker in workers)
    finally:
        gc.enable()
