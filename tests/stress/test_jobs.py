"""Several jobs on one cache, as processes: what each was given, and what is left behind."""

import itertools
import os
import random
import signal
import time

import numpy as np
import pytest
from job_processes import TIME_OUT_S, Host, assert_exactly_once, in_step, transform
from sizes import size

import seneca
from seneca.audit.check import check

MiB = 1 << 20


def train(
    data, name, *, epochs, batch_size, workers, cache_bytes=2 * MiB, split="20-20-60", pace_s=0.0, until=None
):
    """What a job does; the returned function runs in its process.

    At least so many epochs, and until the file ``until`` exists.
    """

    def work(log):
        dataset = seneca.ImageFolder(data, transform=transform())
        loader = seneca.DataLoader(
            dataset, batch_size=batch_size, shuffle=True, num_workers=workers, cache=name,
            cache_bytes=cache_bytes, split=split,
        )  # fmt: skip
        for epoch in itertools.count():
            if epoch >= epochs and (until is None or until.exists()):
                break
            for images, labels in loader:
                ids = loader.last_indices
                assert images.shape == (len(ids), 3, 32, 32) and bool(images.isfinite().all())
                assert [dataset.targets[i] for i in ids] == labels.tolist()
                log(epoch, ids)
                if pace_s:
                    time.sleep(pace_s)

    return work


@pytest.mark.small(2)
@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("batch_size", [1, 7, 64, 256])
def test_each_of_several_jobs_gets_each_sample_once_an_epoch(host: Host, small_pictures, batch_size, workers):
    jobs = [
        host.start(train(small_pictures, host.name, epochs=2, batch_size=batch_size, workers=workers))
        for _ in range(1 + (batch_size + workers) % 4)
    ]
    assert [job.wait() for job in jobs] == [0] * len(jobs)
    for job in jobs:
        assert_exactly_once(job, 2, 300, batch_size)
    assert host.segments() == []


@pytest.mark.whole_size(shown_by="test_each_of_several_jobs_gets_each_sample_once_an_epoch")
@pytest.mark.small(1)
@pytest.mark.parametrize("count", [2, 4])
def test_jobs_on_real_pictures(host: Host, imagenet_sample, count):
    samples = len(seneca.ImageFolder(imagenet_sample))
    options = dict(epochs=2, batch_size=32, workers=1, cache_bytes=8 * MiB, split="40-40-20")
    work = train(imagenet_sample, host.name, **options)
    jobs = [host.start(work) for _ in range(count)]
    assert [job.wait() for job in jobs] == [0] * count
    for job in jobs:
        assert_exactly_once(job, 2, samples, 32)
    assert host.segments() == []


def test_a_job_that_joins_half_way_and_one_that_stops_half_way(host: Host, small_pictures):
    def stops(log):
        dataset = seneca.ImageFolder(small_pictures, transform=transform())
        loader = seneca.DataLoader(
            dataset, batch_size=8, shuffle=True, num_workers=1, cache=host.name, cache_bytes=2 * MiB
        )
        for step, _ in enumerate(loader):
            log(0, loader.last_indices)
            if step == 15:
                break
        for _ in loader:  # a break is followed by a new epoch, whole
            log(1, loader.last_indices)

    stays = host.start(train(small_pictures, host.name, epochs=3, batch_size=8, workers=1, pace_s=0.004))
    leaver = host.start(stops)
    while not stays.delivered().get(1):
        time.sleep(0.01)
    joiner = host.start(train(small_pictures, host.name, epochs=2, batch_size=8, workers=2))
    assert [job.wait() for job in (stays, leaver, joiner)] == [0, 0, 0]
    assert_exactly_once(stays, 3, 300, 8)
    assert_exactly_once(joiner, 2, 300, 8)
    ended = leaver.delivered()
    assert sum(map(len, ended[0])) == 128 and len(np.unique(np.concatenate(ended[0]))) == 128
    assert len(np.unique(np.concatenate(ended[1]))) == sum(map(len, ended[1])) == 300
    assert host.segments() == []


def test_a_killed_job_costs_the_others_nothing(host: Host, small_pictures, seed, monkeypatch):
    """SIGKILL of one of three jobs at a random moment, many times over."""
    monkeypatch.setenv("SENECA_AUDIT", str(host.folder / "audit"))
    rng = random.Random(seed)
    under_way = 0
    rounds = size(2, 50)
    for round_ in range(rounds):
        is_dead = host.folder / f"round {round_}: the victim is dead"
        work = train(
            small_pictures, host.name, epochs=2, batch_size=16, workers=1, cache_bytes=MiB, until=is_dead
        )
        jobs = [host.start(work) for _ in range(3)]
        victim = jobs.pop(rng.randrange(3))
        deadline = time.monotonic() + TIME_OUT_S
        while round_ % 2 and not victim.delivered() and time.monotonic() < deadline:
            time.sleep(0.002)  # in every other round it is under way, however slow the machine is
        if round_ % 4 != 1:  # else it dies amid its first epoch
            time.sleep(rng.uniform(0.0, 0.12))
        victim.kill()
        is_dead.touch()
        under_way += bool(victim.delivered())
        assert [job.wait() for job in jobs] == [0, 0], f"round {round_}"
        for job in jobs:
            assert_exactly_once(job, max(job.delivered()) + 1, 300, 16)
            assert max(job.delivered()) >= 1
        assert host.segments() == [], f"round {round_}"
    assert under_way >= max(1, rounds // 5), "most victims died before they had begun: the test shows little"
    report = check(host.folder / "audit")
    assert report.violations == []
    assert report.epochs >= 4 * rounds and report.incomplete > 0 and report.checked[2] > 0


@pytest.mark.whole_size(shown_by="test_a_killed_job_costs_the_others_nothing")
def test_all_killed_at_once_leave_nothing_to_the_next(host: Host, small_pictures, seed):
    rng = random.Random(seed)
    for _ in range(size(2, 5)):
        work = train(small_pictures, host.name, epochs=50, batch_size=16, workers=1)
        jobs = [host.start(work) for _ in range(3)]
        time.sleep(rng.uniform(0.02, 0.2))
        for job in jobs:
            job.kill()
        next_one = host.start(train(small_pictures, host.name, epochs=1, batch_size=16, workers=1))
        assert next_one.wait() == 0
        assert_exactly_once(next_one, 1, 300, 16)
        assert host.segments() == []


def test_a_stopped_job_does_not_hold_up_the_others(host: Host, small_pictures, seed):
    rng = random.Random(seed)
    for _ in range(size(1, 5)):
        work = train(small_pictures, host.name, epochs=3, batch_size=8, workers=1, pace_s=0.001)
        stopped = host.start(work)
        other = host.start(train(small_pictures, host.name, epochs=2, batch_size=8, workers=1))
        time.sleep(rng.uniform(0.01, 0.1))
        os.kill(stopped.pid, signal.SIGSTOP)
        assert other.wait() == 0
        assert_exactly_once(other, 2, 300, 8)
        os.kill(stopped.pid, signal.SIGCONT)
        assert stopped.wait() == 0
        assert_exactly_once(stopped, 3, 300, 8)
    assert host.segments() == []


def test_derived_state_is_what_a_rebuild_makes_while_jobs_run(host: Host, small_pictures):
    """The check folds, rebuilds and compares under the lock, amid the commits of running jobs."""
    is_checked = host.folder / "checked"
    options = dict(epochs=size(2, 6), batch_size=16, workers=2, split="30-30-40", until=is_checked)
    work = train(small_pictures, host.name, **options)
    jobs = [host.start(work) for _ in range(3)]
    while not all(job.delivered() for job in jobs):
        time.sleep(0.01)
    cache = seneca.SampleCache.attach(host.name)
    checked = 0
    while any(_alive(job) for job in jobs):
        try:
            assert cache.segment.check() is None
        except BlockingIOError:
            continue
        checked += 1
        if checked == 20:
            is_checked.touch()  # until then they run
    assert [job.wait() for job in jobs] == [0, 0, 0]
    assert checked >= 20
    assert cache.segment.check() is None
    assert cache.stats()["members"] == 0 and cache.stats()["bytes"]["augmented"] == 0
    cache.close()
    assert host.segments() == []


def _alive(job):
    return not os.waitid(os.P_PID, job.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)


def test_two_loaders_of_one_job_never_get_one_copy_twice(host: Host, small_pictures):
    """Two members of one job share nothing augmented: each makes its own copies."""

    def work(log):
        dataset = seneca.ImageFolder(small_pictures, transform=transform())
        options = dict(batch_size=8, shuffle=True, num_workers=1, cache=host.name, cache_bytes=2 * MiB)
        first, second = (seneca.DataLoader(dataset, **options) for _ in range(2))
        for _ in zip(first, second, strict=True):
            log(0, first.last_indices)
            log(1, second.last_indices)
        assert first.stats()["served"]["augmented"] == second.stats()["served"]["augmented"] == 0

    job = host.start(work)
    assert job.wait() == 0
    assert_exactly_once(job, 2, 300, 8)


def test_equal_jobs_prepare_about_once_for_all(host: Host, small_pictures):
    """Three jobs in step on a stage with room make far fewer copies than three alone would: 2,700."""
    meet = in_step(3)

    def work(log):
        dataset = seneca.ImageFolder(small_pictures, transform=transform())
        loader = seneca.DataLoader(
            dataset,
            batch_size=8,
            shuffle=True,
            num_workers=1,
            cache=host.name,
            cache_bytes=MiB,
            split="0-0-100",
        )
        for _ in range(3):
            for _ in loader:
                meet()
        log(0, [loader.stats()["prepared"]])

    jobs = [host.start(work) for _ in range(3)]
    assert [job.wait() for job in jobs] == [0, 0, 0]
    prepared = sum(int(job.delivered()[0][0][0]) for job in jobs)
    assert 900 <= prepared < 1800
