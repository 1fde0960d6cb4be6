"""The virtual clock: jobs that prepare, consume and wait."""

from collections import defaultdict

import numpy as np
import pytest
from papers.simulate import Batch, Job, Scenario, run, simulate
from papers.simulate.host import Host
from simulated_jobs import Alone, N


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
    assert len(policy.known) == 8 * 64 + 640  # it learns of a draw when it is next asked: none after the end


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
