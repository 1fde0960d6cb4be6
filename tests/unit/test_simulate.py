"""The virtual clock, and the real engine under it."""

import json
import os
import sys
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

import bench_sampling
import sampling_policies

from seneca.simulate import Batch, Engine, Job, Scenario, run, simulate
from seneca.simulate.host import Host

N = 3000


class Alone:
    """A policy without any sharing: each job prepares its own, in order."""

    def __init__(self, n_samples):
        self.n_samples = n_samples
        self.at = {}
        self.told = []
        self.here = set()

    def join(self, job):
        self.here.add(job)

    def leave(self, job):
        self.here.remove(job)

    def begin(self, job, epoch):
        self.at[job] = 0

    def end(self, job):
        del self.at[job]

    def draw(self, job, wanted):
        first, self.at[job] = self.at[job], min(self.at[job] + wanted, self.n_samples)
        if first == self.at[job]:
            return None
        indices = np.arange(first, self.at[job], dtype=np.uint32)
        return Batch(indices, np.zeros(len(indices), np.uint8))

    def prepared(self, job, batch, first, end):
        self.told += batch.indices[batch.misses[first:end]].tolist()


def test_a_host_of_some_threads_prepares_in_order_and_as_fast_as_it_can():
    host = Host(rate=4, threads=2)  # a sample takes 0.5
    assert host.prepare(0, 3).tolist() == [0.5, 0.5, 1.0]
    assert host.prepare(0.25, 1).tolist() == [1.0]  # the thread that is free from 0.5
    assert host.prepare(5, 5).tolist() == [5.5, 5.5, 6.0, 6.0, 6.5]
    assert host.prepare(5.5, 2).tolist() == [6.5, 7.0]


def test_a_job_that_prepares_half_of_what_it_consumes_waits_half_of_its_time():
    jobs = [Job(epochs=2)]
    outcome = run(Scenario(jobs, 6400, preparing=0.5), Alone(6400))
    assert outcome.preparations == outcome.bound == outcome.delivered[0] == 12800
    assert outcome.time == pytest.approx(4, rel=0.02)
    assert outcome.stalled[0] == pytest.approx(2, rel=0.05)


def test_a_job_that_need_not_wait_consumes_at_its_own_pace():
    times = []
    scenario = Scenario([Job(speed=2, start=1, epochs=1)], 640, preparing=np.inf)
    outcome = run(scenario, Alone(640), lambda *a: times.append(a[3]))
    assert times == pytest.approx([1 + 0.05 * batch for batch in range(10)])
    assert outcome.time == pytest.approx(1.5) and outcome.stalled == (0,)


def test_the_pace_jitters_around_its_mean():
    times = []
    scenario = Scenario([Job(epochs=1, jitter=0.3)], 64000, preparing=np.inf)
    run(scenario, Alone(64000), lambda *a: times.append(a[3]))
    steps = np.diff(times) * 1000
    assert steps.mean() == pytest.approx(1, abs=0.05) and steps.std() == pytest.approx(0.3, abs=0.05)


def test_jobs_wait_for_a_place_in_the_order_in_which_they_came():
    order = []
    jobs = [Job(start=0.1 * number, epochs=1) for number in (2, 0, 1)]
    run(Scenario(jobs, 64, preparing=np.inf, at_once=1), Alone(64), lambda *a: order.append((a[0], a[3])))
    assert order == [(1, 0.0), (2, 1.0), (0, 2.0)]


def test_a_job_leaves_at_its_end_in_mid_epoch():
    jobs = [Job(end=0.55), Job(epochs=1)]
    policy = Alone(640)
    outcome = run(Scenario(jobs, 640, preparing=np.inf), policy)
    assert outcome.delivered == (6 * 64, 640) and outcome.epochs == (0, 1)
    assert policy.here == set() and policy.at == {}
    assert len(policy.told) == 8 * 64 + 640  # a draw is told of when it is next asked: none after the end


def test_the_bound_is_what_the_fastest_attached_job_consumes():
    jobs = [Job(epochs=1), Job(speed=2, start=0.5, epochs=1)]  # alone for a half, then overtaken, to the end
    outcome = run(Scenario(jobs, 6400, preparing=np.inf), Alone(6400))
    assert outcome.bound == pytest.approx(1.5 * 6400, abs=2 * 64)
    assert outcome.efficiency == pytest.approx(0.75, abs=0.02)


def test_of_subsets_the_bound_counts_what_they_have_in_common_once():
    halves = [np.arange(6400, dtype=np.uint32)[part] for part in (slice(0, 3200), slice(1600, 4800))]
    jobs = [Job(epochs=1, samples=own) for own in halves]

    class Own(Alone):
        def draw(self, job, wanted):
            batch = super().draw(job, wanted)
            return batch and Batch(halves[job][batch.indices], batch.forms)

    assert run(Scenario(jobs, 6400, preparing=np.inf), Own(3200)).bound == 4800


@pytest.mark.parametrize("jitter", [0, 0.3])
def test_the_engine_gives_each_job_each_of_its_samples_once_an_epoch(jitter):
    given = defaultdict(list)
    own = np.arange(0, N, 3, dtype=np.uint32)
    jobs = [
        Job(epochs=2, jitter=jitter),
        Job(speed=2, start=0.1, epochs=3, jitter=jitter),
        Job(epochs=2, samples=own),
    ]
    outcome = simulate(
        Scenario(jobs, N, batch=50),
        stage=600,
        delivered=lambda job, epoch, indices, _: given[job, epoch].extend(indices),
    )
    for (job, _), indices in given.items():
        assert sorted(indices) == (own.tolist() if job == 2 else list(range(N)))
    assert outcome.epochs == (2, 3, 2) and outcome.delivered == (2 * N, 3 * N, 2 * len(own))
    assert sum(outcome.served) == sum(outcome.delivered)
    assert outcome.preparations == sum(outcome.served[:3])
    assert outcome.preparations < 0.8 * sum(outcome.delivered)


def test_equal_arguments_give_equal_outcomes():
    jobs = [Job(epochs=1, jitter=0.3), Job(start=0.1, epochs=1, jitter=0.3)]
    outcomes = []
    for seed in (1, 1, 2):
        orders = []
        outcome = simulate(
            Scenario(jobs, N, seed=seed),
            stage=500,
            delivered=lambda *a, orders=orders: orders.append(a[2].tolist()),
        )
        outcomes.append((outcome, orders))
    assert outcomes[0] == outcomes[1] != outcomes[2]


def test_what_is_kept_is_read_from_storage_once():
    scenario = Scenario([Job(epochs=3)], N)
    outcome = simulate(scenario, stage=400, kept=N)
    assert outcome.served == (N, 2 * N, 0, 0)
    half = simulate(scenario, stage=400, kept=N // 2)
    assert half.served[1] == pytest.approx(N, abs=N // 50)


def test_without_a_stage_each_job_prepares_all_of_its_own():
    scenario = Scenario([Job(epochs=2), Job(epochs=2)], N)
    assert simulate(scenario, stage=0).served == (4 * N, 0, 0, 0)
    kept = simulate(scenario, stage=0, kept=N).served
    assert sum(kept) == 4 * N and kept[3] == 0 and N <= kept[0] < 2 * N, "the files are read and kept once"
    with pytest.raises(ValueError, match="at least 0, but got -1 and 0"):
        simulate(scenario, stage=-1)


def test_what_a_job_leaves_unfinished_is_not_served():
    scenario = Scenario([Job(end=0.2, speed=3), Job(epochs=1)], N, preparing=0.01)
    with Engine(scenario, stage=1000) as engine:
        given = []
        outcome = run(scenario, engine, lambda *a: given.extend([a[2]] * (a[0] == 1)))
        assert engine.check() is None
    assert sorted(np.concatenate(given)) == list(range(N)) and outcome.epochs == (0, 1)


def test_nothing_is_left_in_shared_memory():
    def broken(*_):
        raise KeyError("mine")

    scenario = Scenario([Job(epochs=1), Job(epochs=1)], N)
    with pytest.raises(KeyError, match="mine"), Engine(scenario, stage=500) as engine:
        name = engine.name.lstrip("/")
        assert name in os.listdir("/dev/shm")
        run(scenario, engine, broken)
    assert name not in os.listdir("/dev/shm")


@pytest.mark.parametrize("wrong", [{"speed": 0}, {"epochs": None}, {"jitter": -1}])
def test_a_job_that_cannot_be_is_refused(wrong):
    with pytest.raises(ValueError, match=r"speed|leaves|jitter"):
        Job(**({"epochs": 1} | wrong))


def test_jobs_on_overlapping_subsets_are_not_served_first_what_they_share():
    """Each place of an epoch belongs to a class of samples, whatever the other job prepares."""
    n, size = 6000, 4000
    mixed = np.random.default_rng(1).permutation(n).astype(np.uint32)
    own = [mixed[:size], mixed[n - size :]]
    is_common = np.zeros(n, bool)
    is_common[mixed[n - size : size]] = True
    classes = defaultdict(list)
    jobs = [Job(size / n, 0.13 * place, epochs=2, samples=part, jitter=0.3) for place, part in enumerate(own)]
    outcome = simulate(
        Scenario(jobs, n, batch=16),
        stage=300,
        delivered=lambda job, epoch, i, _: classes[job, epoch].extend(is_common[i]),
    )
    for order in classes.values():
        common = np.flatnonzero(order)
        assert len(order) == size and len(common) == size // 2
        assert common.mean() == pytest.approx(size / 2, abs=4 * size / (12 * size / 2) ** 0.5)
    assert outcome.efficiency > 0.97, "and they do share it"


def test_a_copy_that_few_still_want_is_served_first():
    """Eight jobs whose pace jitters drift apart; copies that one of them still needs would fill the stage."""
    jobs = [Job(start=0.1 * place, end=2, jitter=0.3) for place in range(8)]
    outcome = simulate(Scenario(jobs, 5000, batch=3), stage=100)
    assert outcome.efficiency > 0.95


@pytest.mark.parametrize("policy", sampling_policies.POLICIES)
def test_policies_to_compare_with_deliver_each_sample_once_an_epoch(policy):
    given = defaultdict(list)
    own = np.arange(0, N, 2, dtype=np.uint32)
    jobs = [Job(epochs=2), Job(speed=2, start=0.3, epochs=3), Job(epochs=2, samples=own)]
    if policy == "threshold":
        jobs.pop()  # the paper's jobs have one dataset
    scenario = Scenario(jobs, N, batch=50)
    policy = sampling_policies.POLICIES[policy](scenario, N // 5)
    outcome = run(scenario, policy, lambda job, epoch, indices, _: given[job, epoch].extend(indices))
    for (job, _), indices in given.items():
        assert sorted(indices) == (own.tolist() if job == 2 else list(range(N)))
    assert len(given) == sum(outcome.epochs)


def test_policies_keep_what_they_say():
    scenario = Scenario([Job(epochs=4)], N, warm=1)

    def hits(policy):
        return run(scenario, sampling_policies.POLICIES[policy](scenario, N // 2)).hits

    assert hits("minio") == pytest.approx(0.5, abs=0.003), "of a warm cache, all that is in it"
    assert hits("page-cache") < 0.45  # of a new order the last half of the old one is there at first only
    twins = Scenario([Job(epochs=2), Job(epochs=2)], N, preparing=np.inf)
    together = run(twins, sampling_policies.Joader(twins, N // 5))
    assert together.efficiency > 0.9, "in step they draw alike"


def test_epochs_that_nobody_completes_leave_nothing_to_count():
    scenario = Scenario([Job(epochs=2), Job(epochs=1)], N, warm=2)
    with pytest.raises(ValueError, match="not every job has completed 2 epochs"):
        run(scenario, sampling_policies.POLICIES["minio"](scenario, N // 2))


POLICIES = [bench_sampling.OURS, *sampling_policies.POLICIES]
SMALL = bench_sampling.Size(samples=2000, batch=8, epochs=2)
UNDER_WAY = 0.015  # of what is drawn: three batches a job and the stage, when counting begins


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("cached", [0.2, 0.8])
@pytest.mark.parametrize("speeds", ["1:1:1", "4:2:1"])
def test_no_policy_prepares_or_reads_less_than_the_bound(policy, cached, speeds):
    jobs = SMALL.jobs(bench_sampling.SPEEDS[speeds])
    together = [replace(job, start=0.0) for job in jobs]  # no copy is older than a job that uses it
    cold = bench_sampling.one(policy, SMALL.scenario(together), cached)
    assert cold["efficiency"] <= 1 and cold["hits"] <= cold["bound"]
    warm = next(
        s for row, s in bench_sampling.memory(SMALL) if (row["cached"], row["speeds"]) == (cached, speeds)
    )
    found = bench_sampling.one(policy, warm, cached)
    assert found["hits"] <= found["bound"] + UNDER_WAY


def test_what_is_read_in_advance_is_no_hit():
    class Reads(Alone):
        def draw(self, job, wanted):
            batch = super().draw(job, wanted)
            if batch:
                batch.besides = len(batch.indices) // 2
            return batch

    outcome = run(Scenario([Job(epochs=1)], 640), Reads(640))
    assert (outcome.reads, outcome.preparations, outcome.hits) == (960, 960, -0.5)


def test_the_benchmark_writes_what_it_prints(tmp_path, capsys):
    path = tmp_path / "sampling.json"
    small = ["--samples", "1000", "--peer-samples", "500", "--batch", "2", "--epochs", "4", "--workers", "1"]
    bench_sampling.main(
        [*small, "--parts", "memory", "--policies", "seneca,minio", "--seeds", "2", "--json", str(path)]
    )
    results = json.loads(path.read_text())
    assert set(results) >= {"rows", "by_cache_size"}
    ours, other = (
        {row["cached"]: row for row in results["by_cache_size"] if (row["policy"], row["speeds"]) == who}
        for who in (("seneca", "1:1:1"), ("minio", "1:1:1"))
    )
    assert list(ours) == list(other) == [0.2, 0.4, 0.6, 0.8]
    assert ours[0.2]["bound"] == pytest.approx(0.73, abs=0.02)
    assert ours[0.2]["hits"] == pytest.approx(ours[0.2]["bound"], abs=0.06)
    assert (ours[0.2]["seeds"], other[0.2]["seeds"]) == (2, 1)
    assert ours[0.2]["lowest"] < ours[0.2]["hits"] and other[0.2]["lowest"] == other[0.2]["hits"]
    assert f"{ours[0.2]['hits']:.1%} hits at 20 %" in capsys.readouterr().out


def test_subsets_overlap_as_much_as_was_asked():
    for count, overlap in ((2, 0.0), (2, 0.25), (4, 0.5), (4, 1.0)):
        parts = bench_sampling.subsets(count, overlap, 10_000, 0)
        common = set.intersection(*(set(part.tolist()) for part in parts))
        assert len({len(part) for part in parts}) == 1
        assert len(common) == pytest.approx(overlap * len(parts[0]), abs=1 + (overlap == 0))
        assert len(set(np.concatenate(parts).tolist())) == pytest.approx(10_000, abs=count)
