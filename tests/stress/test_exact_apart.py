"""Jobs of one seed that are apart: those in front go slowly until the last is near, but not if it stands.

SENECA_TEST_KILLS says how many signals are sent. Pictures are large and copies small: preparing is the limit.
"""

import os
import random
import signal
import time
import zlib

import numpy as np
import pytest
import simplejpeg
import torch
from job_processes import TIME_OUT_S, Host
from sizes import size

import seneca
from seneca import transforms as T

SIGNALS = int(os.environ.get("SENECA_TEST_KILLS") or size(2, 5))
BATCH = 4
N = size(480, 960)
FRONT = 3  # jobs
FRONT_AT = size(100, 200)  # samples that the jobs in front have been given when the last begins
BEHIND_AT = 40  # that the last has been given when it is sent its signal: others know by then what limits it
SUMS = 9999  # in place of an epoch: what a job counted
TRANSFORM = T.Compose(
    [T.Resize(36), T.RandomCrop(32), T.RandomHorizontalFlip(), T.Normalize(T.IMAGENET_MEAN, T.IMAGENET_STD)]
)


@pytest.fixture(scope="module")
def large_pictures(tmp_path_factory):
    """Links to a few JPEGs, each of which takes some milliseconds."""
    folder = tmp_path_factory.mktemp("large")
    rng = np.random.default_rng(7)
    (folder / "class").mkdir()
    for i in range(N):
        path = folder / "class" / f"{i:03}.jpg"
        if i < 16:
            path.write_bytes(simplejpeg.encode_jpeg(rng.integers(0, 256, (320, 320, 3), np.uint8), 80))
        else:
            os.link(folder / "class" / f"{i % 16:03}.jpg", path)
    return folder


def train(folder, begin, name):
    """What a job does once the file ``begin`` exists: log the checksum of each batch, and what it counted."""

    def work(log):
        loader = seneca.DataLoader(
            seneca.ImageFolder(folder, TRANSFORM),
            BATCH,
            shuffle=True,
            generator=torch.Generator().manual_seed(11),
            num_workers=1,
            prefetch_factor=1,
            share="exact",
            cache=name,
            cache_bytes="1MiB",  # the stage is what the jobs have in flight, twice
            split="60-30-10",
        )
        loader.explain()
        log(SUMS, [])  # it is ready
        deadline = time.monotonic() + TIME_OUT_S
        while not begin.exists():
            assert time.monotonic() < deadline
            time.sleep(0.001)
        for images, _ in loader:
            log(0, [zlib.crc32(np.ascontiguousarray(images.numpy()).tobytes())])
        stats = loader.stats()
        log(SUMS, [stats["prepared"], int(1e6 * stats["longest_peer_wait_s"])])

    return work


def checksums(job):
    """Of its batches, and what it counted if it ended."""
    logged = job.delivered()
    counted = [int(word) for part in logged.pop(SUMS, []) for word in part]
    return [int(word) for batch in logged.get(0, []) for word in batch], counted


def wait_until(found):
    deadline = time.monotonic() + TIME_OUT_S
    while not found():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def has_been_given(job, samples):
    return len(checksums(job)[0]) >= samples // BATCH


def set_apart(host: Host, folder, round_):
    """Jobs that are amid their epoch, and one that has just begun it."""
    begins = [host.folder / f"begin{round_}-{part}" for part in ("front", "behind")]
    name = f"{host.name}-{round_}"
    jobs = [host.start(train(folder, begin, name)) for begin in FRONT * begins[:1] + begins[1:]]
    wait_until(lambda: all(SUMS in job.delivered() for job in jobs))
    begins[0].touch()
    wait_until(lambda: has_been_given(jobs[0], FRONT_AT))
    begins[1].touch()
    return jobs[:FRONT], jobs[FRONT]


def alone(host: Host, folder):
    begin = host.folder / "alone"
    begin.touch()
    job = host.start(train(folder, begin, host.name + "-alone"))
    assert job.wait() == 0
    expected, counted = checksums(job)
    assert len(expected) == N // BATCH and counted[0] == N
    return expected


def test_jobs_in_front_let_one_come_near_and_then_all_share(host: Host, large_pictures):
    expected = alone(host, large_pictures)
    front, behind = set_apart(host, large_pictures, 0)
    assert [job.wait() for job in (*front, behind)] == [0] * (FRONT + 1)
    found = [checksums(job) for job in (*front, behind)]
    assert [sums for sums, _ in found] == [expected] * (FRONT + 1)
    prepared = sum(counted[0] for _, counted in found)
    print(f"{prepared / N:.2f} preparations a sample, and {1 + FRONT_AT / N:.2f} at the least")
    assert prepared < 1.6 * N, "as of jobs that stay apart"


@pytest.mark.whole_size(shown_by="test_jobs_in_front_let_one_come_near_and_then_all_share")
def test_jobs_in_front_go_on_while_the_one_that_they_let_come_near_is_stopped_or_dead(
    host: Host, large_pictures, seed
):
    """It is stopped until they have come to their end."""
    rng = random.Random(seed)
    expected = alone(host, large_pictures)
    longest = 0
    for round_ in range(SIGNALS):
        front, behind = set_apart(host, large_pictures, round_)
        given = rng.randrange(0, 2 * BEHIND_AT, BATCH)
        wait_until(lambda: has_been_given(behind, given))  # noqa: B023 - it is called here
        dies = round_ % 3 == 1
        os.kill(behind.pid, signal.SIGKILL if dies else signal.SIGSTOP)
        assert [job.wait() for job in front] == [0] * FRONT
        if dies:
            behind.kill()
        else:
            os.kill(behind.pid, signal.SIGCONT)
            assert behind.wait() == 0
        for job in (*front, behind):
            sums, counted = checksums(job)
            assert sums == expected[: len(sums)] and (len(sums) == len(expected) or (dies and job is behind))
            if job in front:
                longest = max(longest, counted[1])
            job.log.unlink()
    print(f"{SIGNALS} signals; longest extra wait of a job in front: {longest / 1000:.0f} ms")
