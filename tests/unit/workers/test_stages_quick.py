"""Items that take less time to make than a copy takes to stage and to take are not shared."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import seneca
from seneca.workers import stages
from seneca.workers.stages import AT, COUNTERS, ENOUGH, is_quicker_made


def counted(*, made_ns, stage_ns=30_000, take_ns=20_000, items=ENOUGH):
    """The counters after so many items of each kind, each of which took so long."""
    counts = np.zeros(len(COUNTERS), np.int64)
    for name in ("prepared", "staged", "augmented"):
        counts[AT[name]] = items
    for name, ns in (("item_ns", made_ns), ("stage_ns", stage_ns), ("take_ns", take_ns)):
        counts[AT[name]] = items * ns
    return counts


def terms(*, always=False, decoded=0):
    return SimpleNamespace(always=always, stages=SimpleNamespace(decoded=decoded))


@pytest.mark.parametrize("made_ns, is_quicker", [(49_000, True), (51_000, False)])
def test_what_is_quicker_is_compared(made_ns, is_quicker):
    assert is_quicker_made(terms(), counted(made_ns=made_ns)) is is_quicker


def test_nothing_is_said_before_enough_of_each_kind_are_measured():
    counts = counted(made_ns=1)
    counts[AT["staged"]] = ENOUGH - 1
    assert not is_quicker_made(terms(), counts)


def test_copies_that_others_wait_for_and_items_of_stages_are_shared_whatever_they_cost():
    assert not is_quicker_made(terms(always=True), counted(made_ns=1))
    assert not is_quicker_made(terms(decoded=7), counted(made_ns=1))


class Items(torch.utils.data.Dataset):
    def __len__(self):
        return 400

    def __getitem__(self, index):
        return torch.tensor([index]), index


@pytest.fixture
def few_are_enough(monkeypatch):
    monkeypatch.setattr(stages, "ENOUGH", 64)


def pair_of_jobs(name, monkeypatch, *, items_take_ns):
    """Two jobs, by whose clocks each call that makes items takes so long."""
    clock = itertools.count(0, items_take_ns) if items_take_ns else itertools.repeat(0)
    monkeypatch.setattr(stages, "time", SimpleNamespace(perf_counter_ns=clock.__next__, thread_time_ns=int))
    options = {"shuffle": True, "cache": name, "cache_bytes": "4MiB"}
    return [seneca.DataLoader(Items(), 8, job=job, **options) for job in "ab"]


def epoch_of(jobs):
    """One epoch of both, batch by batch; how many copies were staged in it."""
    before = sum(job.stats()["staged"] for job in jobs)
    for batches in zip(*jobs, strict=True):
        for items, labels in batches:
            assert items[:, 0].tolist() == labels.tolist()
    return sum(job.stats()["staged"] for job in jobs) - before


def test_jobs_stop_to_share_items_that_cost_nothing(name, few_are_enough, monkeypatch):
    jobs = pair_of_jobs(name, monkeypatch, items_take_ns=0)
    for _ in range(20):
        if epoch_of(jobs) == 0:
            break
    assert epoch_of(jobs) == 0
    assert "this job makes all items itself" in jobs[0].explain()


def test_jobs_go_on_to_share_items_that_cost_something(name, few_are_enough, monkeypatch):
    jobs = pair_of_jobs(name, monkeypatch, items_take_ns=10**9)
    assert all(epoch_of(jobs) > 0 for _ in range(6))
    assert "this job makes all items itself" not in jobs[0].explain()
