"""Jobs on one cache are killed one after the other, and others go on from their checkpoints.

Nothing is lost, and nothing comes twice.

SENECA_TEST_JOB_KILLS says how many jobs are killed in all.
"""

import os
import random
import sys
import time
from multiprocessing import resource_tracker

import pytest
from checkpointed_jobs import Training
from job_processes import TIME_OUT_S, Host
from sizes import size
from subjects_of_storms import SUBJECTS

import seneca

KILLS = int(os.environ.get("SENECA_TEST_JOB_KILLS") or size(20, 60))
MANY = 60  # kills, with which the last storms run too: their processes import torch
FORKED = 3  # storms, the first ones, in which nothing imports torch
BEGINS_S = 0.1  # so long at the most a job takes until its first batch, on a free core
LONGEST_S = 0.06  # from a job's first batch until it is killed: some epochs

THREADS = {"num_workers": 2, "cache_bytes": "1MiB", "split": "20-40-20-20"}
ALONE = {"num_workers": 0, "cache_bytes": "256KiB", "split": "0-0-100"}
WORKERS = {"num_workers": 1, "cache_bytes": "1MiB", "multiprocessing_context": "fork"}
SERVED = {**WORKERS, "multiprocessing_context": "forkserver"}
# How the jobs begin, what they load, how, their share of the kills, and how many there are at a time.
# Where each imports torch, all of that is small.
STORMS = {
    "threads": ("fork", "pictures", THREADS, 0.45, 3),
    "no threads": ("fork", "pictures", ALONE, 0.2, 3),
    "torch's workers": ("fork", "any items", WORKERS, 0.2, 3),
    "forkserver": ("forkserver", "any items", WORKERS, 0.14, 3),
    "spawn": ("spawn", "any items", WORKERS, 0.005, 1),
    "workers of a forkserver": ("fork", "any items", SERVED, 0.005, 1),
}


@pytest.mark.parametrize("storm", list(STORMS)[: None if KILLS >= MANY else FORKED])
def test_whoever_is_killed_each_sample_comes_once(host: Host, seed, monkeypatch, children, storm):
    method, kind, options, share, at_once = STORMS[storm]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))  # of the server that forks
    resource_tracker.ensure_running()  # as spawn and forkserver do; it stays
    before = children.find()
    kills = max(1, round(KILLS * share))
    rng = random.Random(seed)
    (host.folder / "data").mkdir()
    dataset = SUBJECTS[kind].open(host.folder / "data")
    options = {**options, "cache": host.name, "check_every": 10}
    trainings = [
        Training(host.folder / f"training {number}", method, kind, options, dataset)
        for number in range(at_once)
    ]
    begun = time.monotonic()
    amid_work = 0
    try:
        for kill in range(kills):
            victim = rng.choice(trainings)
            deadline = time.monotonic() + TIME_OUT_S
            # Every fourth is killed wherever it is, which may be before its first batch.
            if kill > 0 and rng.random() < 0.25:
                time.sleep(rng.uniform(0.0, BEGINS_S))
            else:
                while not victim.has_delivered():
                    assert victim.runs() and time.monotonic() < deadline, "a job that has begun gets no batch"
                    time.sleep(0.001)
                time.sleep(rng.uniform(0.0, LONGEST_S))
            amid_work += victim.has_delivered()
            victim.kill()
            victim.begin()
        took_s = time.monotonic() - begun
        for training in trainings:
            (training.folder / "end").touch()
        for training in trainings:
            training.end()
    finally:
        for training in trainings:
            training.close()
    resumed, whole = (sum(getattr(each, count) for each in trainings) for count in ("resumed", "whole"))
    print(
        f"{storm}: {kills} kills in {took_s:.1f} s, {amid_work} of these after a batch;"
        f" {resumed} jobs went on amid an epoch; {whole} whole epochs"
    )
    assert amid_work > 0 and whole > 0 and (resumed > 0 or kills < 10)
    children.assert_leave(before)
    assert host.segments() == [] or seneca.SampleCache.remove(host.name)
