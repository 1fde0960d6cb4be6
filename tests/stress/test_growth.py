"""Caches that grow and shrink while jobs use them, and while those that reserve the memory are killed."""

import os
import random
import time

import pytest
from engine import Place, Process
from job_processes import TIME_OUT_S, Host, assert_exactly_once, transform
from sizes import size

import seneca
from seneca import segments
from seneca._core.snapshot import shrink
from seneca.cache import growth, sample_cache

MiB = 1 << 20
GRANULE = 4096
CACHE_BYTES = size(4, 8) * MiB  # of a cache that grows


def memory_of(place):
    """The memory for payloads, as the kernel counts it; of the rows' own there is less than half a MiB."""
    return os.stat(place.path).st_blocks * 512 - int(place.records().head["payload_at"])


def test_what_is_counted_has_memory_whoever_is_killed_meanwhile(seed):
    rng = random.Random(seed)
    in_the_middle = 0

    def grow(pipe):
        mine = place.attach(2)
        pipe.send("here")
        while mine.grow(16 * MiB // GRANULE):
            pass

    for _ in range(size(2, 40)):
        with Place(100, 256 * MiB) as place:
            segment = place.attach(first_bytes=MiB)
            with Process(grow) as victim:
                victim.receive()
                time.sleep(rng.uniform(0, 0.03))
                victim.kill()
            in_the_middle += MiB < segment.reserved_bytes < 256 * MiB
            assert memory_of(place) >= segment.reserved_bytes
            assert segment.stats()["processes"] == 1 and segment.check() is None
            while segment.grow(4096):
                pass
            assert segment.reserved_bytes == 256 * MiB and segment.check() is None
            assert 256 * MiB <= memory_of(place) < 256.5 * MiB
    print(f"killed in the middle: {in_the_middle}")


def test_who_shrinks_a_cache_may_be_killed_at_any_moment(seed):
    rng = random.Random(seed)
    whole = 64 * MiB // GRANULE
    in_the_middle = 0

    def shrunk(granules):
        return shrink(os.open(place.path, os.O_RDWR), place.path, granules)

    def shrink_again_and_again(pipe):
        pipe.send("here")
        for granules in range(whole - 50, 100, -50):
            shrunk(granules)

    for _ in range(size(2, 40)):
        with Place(100, 64 * MiB) as place:
            segment = place.attach()
            members = [place.member(segment), place.member(place.attach(2))]
            items, _, _ = members[0].draw(50)
            with Process(shrink_again_and_again) as victim:
                victim.receive()
                time.sleep(rng.uniform(0, 0.1))
                victim.kill()
            in_the_middle += 64 * MiB > segment.payload_bytes > MiB
            assert memory_of(place) >= segment.reserved_bytes
            for slot in items["target_slot"].tolist():
                members[0].commit(slot)
            members[0].done(items)
            members[1].draw(100)
            assert segment.check() is None
            for member in members:
                member.close()
            assert shrunk(100)[1:] == (0, 0) and segment.check() is None
            assert 100 * GRANULE <= memory_of(place) < MiB
    print(f"killed in the middle: {in_the_middle}")


def train(data, name, *, epochs=2, cache_bytes=CACHE_BYTES, pace_s=0.0):
    """What a job does: at least so many epochs, and until the cache is whole. It then says so."""

    def work(log):
        dataset = seneca.ImageFolder(data, transform=transform())
        loader = seneca.DataLoader(
            dataset, batch_size=16, shuffle=True, num_workers=1, cache=name, cache_bytes=cache_bytes,
            split="20-40-40",
        )  # fmt: skip
        is_whole = False
        epoch = 0
        while epoch < epochs or not is_whole:
            for _ in loader:
                log(epoch, loader.last_indices)
                time.sleep(pace_s)
            held = loader.stats()["cache"]
            assert held["reserved_bytes"] <= held["payload_bytes"] == cache_bytes
            is_whole = held["reserved_bytes"] == cache_bytes
            epoch += 1

    return work


@pytest.fixture
def slow_growth(monkeypatch):
    """A cache begins with 64 KiB, and gets 16 KiB more at a time: the jobs are forked."""
    monkeypatch.setattr(sample_cache, "FIRST_BYTES", 64 << 10)
    monkeypatch.setattr(growth, "PIECE_BYTES", 16 << 10)
    monkeypatch.setattr(growth, "CHECK_EVERY_S", 0.02)


def test_jobs_get_each_sample_once_an_epoch_while_their_cache_grows(host: Host, small_pictures, slow_growth):
    jobs = [host.start(train(small_pictures, host.name)) for _ in range(3)]
    assert [job.wait() for job in jobs] == [0] * 3
    for job in jobs:
        assert_exactly_once(job, len(job.delivered()), 300, 16)
    assert host.segments() == []


@pytest.mark.whole_size(shown_by="test_what_is_counted_has_memory_whoever_is_killed_meanwhile")
def test_the_others_go_on_where_the_job_that_reserves_is_killed(
    host: Host, small_pictures, slow_growth, seed
):
    rng = random.Random(seed)
    for _ in range(size(1, 8)):
        jobs = [host.start(train(small_pictures, host.name, pace_s=0.002)) for _ in range(3)]
        victim = jobs.pop(0)
        deadline = time.monotonic() + TIME_OUT_S
        while not host.segments() and time.monotonic() < deadline:
            time.sleep(0.002)
        time.sleep(rng.uniform(0, 0.2))
        victim.kill()
        assert [job.wait() for job in jobs] == [0, 0]
        for job in jobs:
            assert_exactly_once(job, len(job.delivered()), 300, 16)
        assert host.segments() == []


def train_until(data, name, until):
    """What a job does: epochs until a file exists."""

    def work(log):
        dataset = seneca.ImageFolder(data, transform=transform())
        loader = seneca.DataLoader(
            dataset, batch_size=16, shuffle=True, num_workers=1, cache=name, cache_bytes=4 * MiB,
            split="20-40-40",
        )  # fmt: skip
        epoch = 0
        while epoch < 2 or not until.exists():
            for images, _ in loader:
                assert bool(images.isfinite().all())
                log(epoch, loader.last_indices)
            epoch += 1
        assert loader.stats()["damaged"] == 0

    return work


def test_jobs_get_each_sample_once_an_epoch_while_their_cache_shrinks(host: Host, small_pictures):
    """Again and again, down to what they need."""
    enough = host.folder / "enough"
    jobs = [host.start(train_until(small_pictures, host.name, enough)) for _ in range(size(2, 3))]
    deadline = time.monotonic() + TIME_OUT_S
    while not all(job.delivered() for job in jobs) and time.monotonic() < deadline:
        time.sleep(0.01)
    now, passes = 4 * MiB, 0
    try:
        while time.monotonic() < deadline:
            now -= size(128, 64) << 10
            segments.shrink(segments.find(host.name), now)
            view = segments.find(host.name).view
            assert view.payload_bytes == view.reserved_bytes == now
            passes += 1
            time.sleep(size(0.005, 0.02))
    except seneca.errors.NoSpaceError as error:
        assert "its jobs need" in str(error)
    enough.touch()
    assert [job.wait() for job in jobs] == [0] * len(jobs)
    for job in jobs:
        assert_exactly_once(job, len(job.delivered()), 300, 16)
    assert passes > 10 and host.segments() == []
