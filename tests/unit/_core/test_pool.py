"""Files are read ahead of the threads that prepare where storage is slow to answer, and there alone."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from pathlib import Path

import pytest
import ready
import slow_reads
from sizes import size

import seneca
from seneca import transforms as T
from seneca.testing import make_pictures

ANSWER_US = 10_000
JOB = """if True:
    import hashlib, json, os, resource, sys, time
    import torch
    import seneca
    from seneca import transforms as T

    torch.set_num_threads(1)
    data = seneca.ImageFolder(sys.argv[1], T.Compose([T.RandomResizedCrop(32), T.ToTensor()]))

    def train(threads, descriptors):
        loader = seneca.DataLoader(
            data, int(sys.argv[3]), shuffle=True, num_workers=threads, cache=None,
            prefetch_factor=4 if threads else None, generator=torch.Generator().manual_seed(7),
        )
        if descriptors is not None:
            used = len(os.listdir("/proc/self/fd"))
            resource.setrlimit(resource.RLIMIT_NOFILE, (used + descriptors,) * 2)
        began = time.monotonic()
        epochs = range(int(sys.argv[4]))
        seen = [hashlib.sha256(images.numpy().tobytes()).hexdigest() for _ in epochs for images, _ in loader]
        counts = loader._session.counts
        return {
            "seen": seen,
            "seconds": time.monotonic() - began,
            "read_s": counts.spent_s[0],
            "blocked_s": counts.blocked_s,
            "read_bytes": counts.read_bytes,
        }

    print(json.dumps([train(*each) for each in json.loads(sys.argv[2])]))
"""


@pytest.fixture(scope="module")
def slow(tmp_path_factory):
    """A folder, and a server of scripts for which reads beneath it are late; the environment of these."""
    folder, place = (tmp_path_factory.mktemp(name) for name in ("slow", "late"))
    late = slow_reads.environment(place, folder, 10**12, answer_us=ANSWER_US)
    with contextlib.closing(ready.Server(late)) as server:
        yield folder, server, late


def emptied(folder):
    for path in folder.iterdir():
        shutil.rmtree(path)
    return folder


@pytest.fixture
def pictures(slow, picture_folder):
    """Those of ``picture_folder``, where reads are late.

    The folder itself stays: the server may still have to find it.
    """
    emptied(slow[0])
    return Path(shutil.copytree(picture_folder, slow[0], dirs_exist_ok=True))


@pytest.fixture
def run(slow, pictures):
    """Runs a job that trains with so many threads, with one number of them after the other.

    Each read of a picture takes 10 ms if they are late. The last may still open so many ``descriptors``.
    """
    _, server, late = slow

    def run(*threads, is_late, descriptors=None, batch_size=8):
        limits = [None] * (len(threads) - 1) + [descriptors]
        limited = json.dumps([*zip(threads, limits, strict=True)])
        how = {"server": server, "env": {**os.environ, **late}} if is_late else {}
        done = ready.run("-c", JOB, pictures, limited, str(batch_size), str(size(2, 4)), **how)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


def test_many_files_are_read_at_a_time_where_storage_is_slow_to_answer(run):
    """With one thread that prepares. Batches are those that come without, to the bit."""
    found, alone = run(1, 0, is_late=True)
    assert found["read_s"] > 2 * found["seconds"], "so many were under way on average"
    assert found["blocked_s"] <= found["seconds"]
    assert alone["blocked_s"] == alone["read_s"] <= alone["seconds"]
    assert found["seen"] == alone["seen"]
    assert found["read_bytes"] == alone["read_bytes"]


@pytest.mark.whole_size(shown_by="test_files_that_are_read_ahead_are_about_64_mib_at_most")
def test_readers_go_on_once_files_are_used_that_they_were_not_to_read_ahead_of(run, pictures):
    """A batch has many more files than may be read ahead. Then claims wake the readers, and no batch does."""
    make_pictures(emptied(pictures), count=300, classes=2, sides=(400, 500))
    [found] = run(1, is_late=True, batch_size=300)
    assert found["blocked_s"] < 0.25 * found["seconds"], "the thread that prepares is seldom without a file"


def test_nothing_is_read_ahead_from_the_page_cache(run):
    [found] = run(1, is_late=False)
    assert 0 < found["blocked_s"] == found["read_s"]


def test_files_that_are_read_ahead_are_about_64_mib_at_most(run, pictures):
    """Four of 16 MiB are read ahead, and one is read by the thread that prepares."""
    for path in sorted(pictures.rglob("*.jpg"))[:: size(3, 1)]:
        os.truncate(path, 16 << 20)
    for path in pictures.rglob("*.jpg"):
        if os.path.getsize(path) < 16 << 20:
            path.unlink()
    [found] = run(1, is_late=True)
    assert found["blocked_s"] < found["read_s"] <= 5 * found["seconds"]


@pytest.mark.whole_size(shown_by="test_many_files_are_read_at_a_time_where_storage_is_slow_to_answer")
def test_a_process_with_few_descriptors_loses_no_sample(run):
    without, found = run(0, 1, is_late=True, descriptors=20)
    assert found["read_s"] > found["blocked_s"], "some were read ahead"
    assert found["seen"] == without["seen"]


def test_threads_that_prepare_are_nicer_than_the_training_loop(picture_folder):
    data = seneca.ImageFolder(picture_folder, T.Compose([T.RandomResizedCrop(32), T.ToTensor()]))
    before = set(os.listdir("/proc/self/task"))
    batches = iter(seneca.DataLoader(data, 8, num_workers=2, cache=None))
    next(batches)
    threads = set(os.listdir("/proc/self/task")) - before
    nicer = min(19, os.getpriority(os.PRIO_PROCESS, 0) + 5)
    assert len(threads) == 2
    until = time.monotonic() + 60
    while any(os.getpriority(os.PRIO_PROCESS, int(thread)) != nicer for thread in threads):
        assert time.monotonic() < until, "a thread may begin after the first batch is there, but it begins"
        time.sleep(0.01)
