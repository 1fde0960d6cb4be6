"""What a loader publishes of itself: sums over loaders, and why the training loop waited."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import seneca
from seneca.partition import Spent
from seneca.segments import find
from seneca.tuning import telemetry
from seneca.tuning.telemetry import Telemetry, WorkDone, cores_used, stall_parts

NS = 10**9


class Dataset:
    def __len__(self):
        return 100

    def fingerprint(self):
        return b"telemetry's test"

    def total_bytes(self):
        return 100_000


@pytest.fixture
def cache():
    with seneca.SampleCache.create(f"telemetry-{os.getpid()}", Dataset(), cache_bytes="1MiB") as cache:
        yield cache


@pytest.fixture
def cores(monkeypatch):
    """What the kernel says of the threads 1 and 2, to be changed by the test."""
    used = {1: (0, 0), 2: (0, 0)}
    monkeypatch.setattr(telemetry, "cores_used", lambda number: used[number])
    return used


def done(delivered=0, stall_s=0.0, spent_s=(0.0, 0.0, 0.0, 0.0), recoded_s=(0.0, 0.0), **others):
    blocked_s = others.pop("blocked_s", spent_s[0])  # threads read for themselves
    spent = Spent((1,) * 6, (*spent_s, *recoded_s), others.pop("read_bytes", 0), blocked_s=blocked_s)
    return WorkDone(spent, delivered, stall_s, True, 0, preparers=(1, 2), **others)


def work_of(cache):
    (job,) = find(cache.name).view.jobs
    (work,) = job.work
    return work


def begin(loader, work, **others):
    loader.begin(lambda: work, None, **{"epoch": 0, "places": 100, "threads": 2, "batch_size": 10, **others})


def test_another_loader_of_the_process_leaves_the_epoch_of_the_one_that_publishes(cache, cores):
    """A validation amid the training epoch: its numbers are published while it runs, and not after."""
    train, check = Telemetry(cache, "a job"), Telemetry(cache, "a job")
    begin(train, done(), epoch=3)
    begin(check, done(), epoch=9, places=8, threads=1, batch_size=4)
    assert (
        work_of(cache).epoch,
        work_of(cache).places,
        work_of(cache).threads,
        work_of(cache).batch_size,
    ) == (
        9,
        8,
        1,
        4,
    )
    train.tick(lambda: done(40, place=40), ended=True)
    seen = work_of(cache)
    assert (seen.epoch, seen.place, seen.places, seen.threads, seen.batch_size) == (3, 40, 100, 2, 10)


@pytest.mark.parametrize(
    ("argv", "name"),
    [([], "python"), ([None], "None"), (["a/x.py", 3, Path("b c")], "x.py 3 b c"), (None, "python")],
)
def test_a_command_line_may_hold_anything(cache, cores, monkeypatch, argv, name):
    """An embedding program sets sys.argv as it likes. A loader does not fail for its own telemetry."""
    monkeypatch.setattr(sys, "argv", argv)
    loader = Telemetry(cache, None)
    begin(loader, done())
    assert work_of(cache).name == name


@pytest.mark.parametrize("letter", ["a", "é"])
def test_a_long_command_line_keeps_its_end(cache, cores, monkeypatch, letter):
    """Two jobs of a sweep differ there."""
    monkeypatch.setattr(sys, "argv", ["train.py", "--data", letter * 200, "--lr", "0.1"])
    begin(Telemetry(cache, None), done())
    name = work_of(cache).name
    assert (
        name.startswith(f"train.py --data {letter}") and " … " in name and name.endswith(f"{letter} --lr 0.1")
    )
    assert telemetry.NAME_BYTES - 4 <= len(name.encode()) <= telemetry.NAME_BYTES


def test_counts_are_what_the_loader_did(cache, cores):
    loader = Telemetry(cache, "a job")
    begin(loader, done(), epoch=3)
    work = done(
        50,
        read_bytes=5000,
        served=(30, 0, 0, 15, 5),
        counts={"prepared": 45, "staged": 7, "skipped": 2, "damaged": 1},
        place=50,
    )
    loader.tick(lambda: work, ended=True)
    seen = work_of(cache)
    assert (seen.name, seen.pid, seen.epoch, seen.place, seen.places) == ("a job", os.getpid(), 3, 50, 100)
    assert (seen.threads, seen.batch_size, seen.rank, seen.ranks) == (2, 10, 0, 1)
    assert (seen.delivered, seen.read_bytes) == (50, 5000)
    assert (seen.prepared, seen.staged, seen.skipped, seen.damaged) == (45, 7, 2, 1)
    assert seen.served == {"storage": 30, "encoded": 0, "recoded": 0, "decoded": 15, "augmented": 5}
    assert seen.since_ms <= seen.published_ms <= time.time() * 1000


def test_loaders_of_one_process_are_added_up(cache, cores):
    one, other = Telemetry(cache, None), Telemetry(cache, None)
    begin(one, done())
    begin(other, done())
    one.tick(lambda: done(30), ended=True)
    other.tick(lambda: done(12), ended=True)
    one.tick(lambda: done(31), ended=True)
    assert work_of(cache).delivered == 43
    del one
    other.tick(lambda: done(13), ended=True)
    assert work_of(cache).delivered == 44, "what a loader did that is gone stays counted"


def test_a_wait_belongs_to_what_was_done_in_the_same_time(cache, cores):
    """The loop waits 4 s. Two threads read 2 s, decode 3 s, augment 1 s, batch 1 s, lack a core 1 s."""
    loader = Telemetry(cache, None)
    begin(loader, done())
    cores.update({1: (3 * NS, NS), 2: (2 * NS, 0)})
    loader.tick(lambda: done(50, 4.0, (2.0, 2.0, 1.0, 1.0)), ended=True)
    seen = work_of(cache)
    assert {cause: ns / NS for cause, ns in seen.spent_ns.items()} == {
        **{"storage": 2, "decode": 3, "augment": 1, "item": 0, "batch": 1, "cores": 1, "peers": 0, "other": 0}
    }
    assert {cause: ns / NS for cause, ns in seen.stall_ns.items()} == {
        **{"storage": 1, "decode": 1.5, "augment": 0.5, "item": 0, "batch": 0.5, "cores": 0.5},
        **{"peers": 0, "other": 0},
    }


def test_a_wait_for_other_jobs_is_counted_apart(cache, cores):
    """Of 4 s three belong to other jobs. Of what is left the threads' times say the cause."""
    loader = Telemetry(cache, None)
    begin(loader, done())
    loader.tick(lambda: done(50, 4.0, (0.0, 2.0, 0.0, 0.0), peer_wait_s=3.0), ended=True)
    assert {cause: ns for cause, ns in work_of(cache).stall_ns.items() if ns} == {
        "peers": 3 * NS,
        "decode": NS,
    }
    loader.tick(lambda: done(50, 5.5, (0.0, 2.0, 0.0, 0.0), peer_wait_s=4.0), ended=True)
    assert {cause: ns for cause, ns in work_of(cache).stall_ns.items() if ns} == {
        **{"peers": 4 * NS, "decode": NS, "other": NS // 2}
    }
    assert loader.epoch_times().stall_s["peers"] == 4.0


SPENT = {"storage": 30, "decode": 30, "augment": 20, "item": 0, "batch": 10, "cores": 10}


@pytest.mark.parametrize(
    ("threads", "computing", "parts"),
    [
        (0, 1000, SPENT),  # nothing overlaps
        (1, 0, SPENT),
        (2, 15, {**SPENT, "decode": 15, "augment": 10, "batch": 5}),  # half of preparing is hidden
        (2, 30, {**SPENT, "decode": 0, "augment": 0, "batch": 0}),  # all of it
        (2, 40, {**SPENT, "storage": 10, "decode": 0, "augment": 0, "batch": 0}),
        (2, 48, {**dict.fromkeys(SPENT, 0), "cores": 4}),
        (2, 60, SPENT),  # the model says that nobody waits; somebody does
    ],
)
def test_what_hides_behind_the_step_is_no_cause_of_a_wait(threads, computing, parts):
    """Two threads prepare for 60, wait 30 for storage and 10 for a core."""
    assert stall_parts(SPENT, threads, computing) == parts


def test_a_step_hides_what_preparing_takes(cache, cores, monkeypatch):
    """In 10 s the loop computes 6 s and waits 4 s. Two threads prepare for 10 s and wait 10 s for storage."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    loader = Telemetry(cache, None)
    begin(loader, done())
    now[0] += 10.0
    cores.update({1: (5 * NS, 0), 2: (5 * NS, 0)})
    loader.tick(lambda: done(50, 4.0, (10.0, 7.0, 3.0, 0.0)), ended=True)
    assert {cause for cause, ns in work_of(cache).stall_ns.items() if ns} == {"storage"}
    assert work_of(cache).stall_ns["storage"] == 4 * NS


def test_reads_that_nobody_waited_for_are_no_cause_of_a_wait(cache, cores):
    """Thirty files were read at a time, and the threads that prepare waited for one second of it."""
    loader = Telemetry(cache, None)
    begin(loader, done())
    loader.tick(lambda: done(50, 2.0, (60.0, 3.0, 0.0, 0.0), blocked_s=1.0), ended=True)
    seen = work_of(cache)
    assert (seen.stall_ns["storage"], seen.stall_ns["decode"]) == (NS // 2, 3 * NS // 2)


def test_what_a_loader_did_with_another_cache_is_not_published(cache, cores):
    loader = Telemetry(cache, None)
    begin(loader, done(1000, 5.0, read_bytes=77))
    loader.tick(lambda: done(1010, 6.0, (0.0, 1.0, 0.0, 0.0), read_bytes=80), ended=True)
    seen = work_of(cache)
    assert (seen.delivered, seen.read_bytes, sum(seen.stall_ns.values())) == (10, 3, NS)


def test_later_work_does_not_change_why_a_former_wait_was(cache, cores):
    loader = Telemetry(cache, None)
    begin(loader, done())
    loader.tick(lambda: done(10, 1.0, (1.0, 0.0, 0.0, 0.0)), ended=True)
    loader.tick(lambda: done(20, 1.0, (1.0, 9.0, 0.0, 0.0)), ended=True)
    seen = work_of(cache)
    assert (seen.stall_ns["storage"], seen.stall_ns["decode"]) == (NS, 0)


def test_items_that_are_made_whole(cache, cores):
    """2 s of user's code and 3 s in which it waited for something that is not a core."""
    loader = Telemetry(cache, None)
    begin(loader, done())
    cores[1] = (2 * NS, NS)
    loader.tick(lambda: done(10, 3.0, items_s=(2.0, 6.0)), ended=True)
    seen = work_of(cache)
    spent = {cause: ns // NS for cause, ns in seen.spent_ns.items() if ns}
    assert spent == {"storage": 3, "item": 2, "cores": 1}
    assert sum(seen.stall_ns.values()) == 3 * NS


def test_stages_under_way_are_no_work_of_their_own(cache, cores):
    """The kernel counts CPU time at once, and a stage when its batch is complete."""
    loader = Telemetry(cache, None)
    begin(loader, done())
    cores[1] = (5 * NS, 0)
    loader.tick(lambda: done(0, 0.0, (0.0, 0.0, 4.5, 0.0)), ended=True)
    cores[1] = (6 * NS, 0)
    loader.tick(lambda: done(10, 0.0, (0.0, 0.0, 6.0, 0.0)), ended=True)
    cores[1] = (9 * NS, 0)
    loader.tick(lambda: done(20, 0.0, (0.0, 0.0, 9.0, 0.0)), ended=True)
    assert work_of(cache).spent_ns["batch"] == NS // 2, "no more than was under way once"


def test_a_wait_without_anybody_at_work_is_other(cache, cores, monkeypatch):
    monkeypatch.setattr(telemetry, "EVERY_S", 0.0)
    loader = Telemetry(cache, None)
    begin(loader, done())
    loader.tick(lambda: done(0, 0.6))
    assert sum(work_of(cache).stall_ns.values()) == 0, "who worked may be known with the next batch"
    loader.tick(lambda: done(0, 1.2))
    assert work_of(cache).stall_ns["other"] == round(1.2 * NS)
    loader.tick(lambda: done(0, 1.3), ended=True)
    assert work_of(cache).stall_ns["other"] == round(1.3 * NS), "no batch follows"


def test_a_thread_that_did_other_things_before_counts_from_here(cache, cores):
    cores[1] = (100 * NS, 50 * NS)
    loader = Telemetry(cache, None)
    begin(loader, done())
    cores[1] = (101 * NS, 50 * NS)
    loader.tick(lambda: done(10), ended=True)
    assert sum(work_of(cache).spent_ns.values()) == NS


def test_it_is_published_four_times_a_second_at_the_most(cache, cores, monkeypatch):
    now, asked = [100.0], []

    def work():
        asked.append(now[0])
        return done(len(asked))

    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    loader = Telemetry(cache, None)
    begin(loader, done())
    for _ in range(1000):
        now[0] += 0.01
        loader.tick(work)
    assert 35 <= len(asked) <= 40
    loader.tick(work, ended=True)
    assert asked[-1] == now[0], "the end of an epoch is published at once"


def test_a_closed_cache_is_left_in_peace(cores):
    cache = seneca.SampleCache.create(f"telemetry-closed-{os.getpid()}", Dataset(), cache_bytes="1MiB")
    loader = Telemetry(cache, None)
    begin(loader, done())
    cache.close()
    loader.tick(lambda: done(10), ended=True)


def test_a_job_without_a_name_is_its_command_line(cache, cores, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/somewhere/train.py", "--lr", "0.1"])
    begin(Telemetry(cache, None), done())
    assert work_of(cache).name == "train.py --lr 0.1"


def test_cores_used_is_what_the_kernel_says():
    ran, waited = cores_used(os.getpid())
    began = time.process_time()
    while time.process_time() - began < 0.05:
        pass
    more, _ = cores_used(os.getpid())
    assert more - ran >= 0.04 * NS and waited >= 0
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert cores_used(gone.pid) == (0, 0)
