"""The real engine under a virtual clock."""

import os
from collections import defaultdict

import numpy as np
import pytest
from papers.simulate import Engine, Job, Scenario, run, simulate
from simulated_jobs import N


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
        name = os.path.basename(engine.path)
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
