"""A storm of kills: one after the other of four jobs on one cache is killed amid an epoch, and begun anew.

SENECA_TEST_KILLS says how many are killed in each storm.
"""

import os
import random
import signal
import time

import numpy as np
import pytest
from job_processes import TIME_OUT_S, Host
from sizes import size
from subjects_of_storms import SAMPLES, SUBJECTS, Levels

import seneca
from seneca.audit.check import check

KILLS = int(os.environ.get("SENECA_TEST_KILLS") or size(3, 15))
JOBS = 4
BATCH = 8
ALL_FORMS = "20-40-20-20"


def train(dataset, subject, options, end):
    """What a job does: whole epochs until the file ``end`` exists. Each item is that of its sample."""

    def work(log):
        loader = seneca.DataLoader(dataset, BATCH, shuffle=True, **options)
        epoch = 0
        while epoch == 0 or not end.exists():
            for batch in loader:
                ids = batch[1].tolist() if loader.last_indices is None else loader.last_indices
                subject.check(batch, ids)
                log(epoch, ids)
            epoch += 1

    return work


def whole_epochs(job):
    """Asserts that each epoch of a job has each sample once; the number of those that are whole."""
    epochs = job.delivered()
    for epoch, batches in epochs.items():
        ids = np.concatenate(batches)
        assert len(np.unique(ids)) == len(ids), f"epoch {epoch} of {job.log.name}"
        is_last = epoch == max(epochs)
        assert is_last or len(ids) == SAMPLES, f"epoch {epoch} of {job.log.name}"
    return sum(sum(map(len, batches)) == SAMPLES for batches in epochs.values())


def is_amid_an_epoch(job):
    delivered = job.delivered()
    return bool(delivered) and len(np.concatenate(delivered[max(delivered)])) < SAMPLES


@pytest.mark.small(1)
@pytest.mark.parametrize(
    "kind, options",
    [
        ("pictures", {"cache_bytes": "256KiB", "split": "0-0-100", "num_workers": 1}),
        ("pictures", {"cache_bytes": "1MiB", "split": ALL_FORMS, "num_workers": 2}),
        ("pairs", {"cache_bytes": "1MiB", "split": "20-30-50", "num_workers": 1}),
        ("boxes", {"cache_bytes": "1MiB", "split": "20-30-50", "num_workers": 1}),
        ("sounds", {"cache_bytes": "256KiB", "split": "20-30-50", "num_workers": 1}),
        ("any items", {"cache_bytes": "1MiB", "num_workers": 1}),
    ],
    ids=["whole items", "all forms", "pairs", "boxes", "sounds", "torch's workers"],
)
def test_a_storm_of_kills(host: Host, seed, monkeypatch, children, kind, options):
    before = children.find()
    subject = SUBJECTS[kind]
    (host.folder / "data").mkdir()
    dataset = subject.open(host.folder / "data")
    monkeypatch.setenv("SENECA_AUDIT", str(host.folder / "audit"))
    rng = random.Random(seed)
    end = host.folder / "end"
    options = {**options, **subject.options, "cache": host.name, "check_every": 10}
    work = train(dataset, subject, options, end)
    jobs = [host.start(work) for _ in range(JOBS)]
    for kill in range(KILLS):
        k = rng.randrange(JOBS)
        deadline = time.monotonic() + TIME_OUT_S
        while not jobs[k].delivered():
            assert jobs[k].runs() and time.monotonic() < deadline, "a job that has begun gets no batch"
            time.sleep(0.002)
        time.sleep(rng.uniform(0.0, 0.2))
        # Where cores are scarce, jobs spend most of their time between epochs.
        while kill % 2 == 0 and not is_amid_an_epoch(jobs[k]):
            assert jobs[k].runs() and time.monotonic() < deadline, "a job is never amid an epoch"
            time.sleep(0.002)
        jobs[k].kill()
        jobs[k] = host.start(work)
    end.touch()
    assert [job.wait() for job in jobs] == [0] * JOBS
    whole = sum(map(whole_epochs, host.jobs))
    assert all(sum(map(len, batches)) == SAMPLES for job in jobs for batches in job.delivered().values())
    amid = sum(map(is_amid_an_epoch, host.jobs))
    print(f"{KILLS} kills, {amid} of them amid an epoch; {whole} whole epochs")
    assert amid >= KILLS // 3
    report = check(host.folder / "audit")
    assert report.violations == []
    assert report.epochs >= whole
    assert options.get("split") != ALL_FORMS or report.served["recoded"] > 0
    assert kind == "any items" or report.checked[2] > 0
    children.assert_leave(before)
    assert host.segments() == []


def kill_the_job(worker):
    job = os.getppid()
    os.kill(job, signal.SIGKILL)
    while os.getppid() == job:
        time.sleep(0.001)


def test_a_worker_whose_job_is_killed_while_it_begins_leaves(host: Host, children):
    before = children.find()

    def work(log):
        next(iter(seneca.DataLoader(Levels(), BATCH, num_workers=1, cache=None, worker_init_fn=kill_the_job)))

    assert host.start(work).wait() == -signal.SIGKILL
    children.assert_leave(before)
