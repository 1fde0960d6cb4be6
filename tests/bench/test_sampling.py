"""bench_sampling: what it holds the engine and the other policies to, and what it writes."""

import json
from dataclasses import replace

import bench_sampling
import numpy as np
import pytest
from papers.policies import POLICIES
from papers.simulate import Job, Scenario, run, simulate
from simulated_jobs import Alone, N
from sizes import size


def test_a_copy_that_few_still_want_is_served_first():
    """Eight jobs whose pace jitters drift apart; copies that one of them still needs would fill the stage."""
    jobs = [Job(start=0.1 * place, end=2, jitter=0.3) for place in range(8)]
    outcome = simulate(Scenario(jobs, 5000, batch=3), stage=100)
    assert outcome.efficiency > 0.95


def test_epochs_that_nobody_completes_leave_nothing_to_count():
    scenario = Scenario([Job(epochs=2), Job(epochs=1)], N, warm=2)
    with pytest.raises(ValueError, match="not every job has completed 2 epochs"):
        run(scenario, POLICIES["minio"](scenario, N // 2))


ONCE = [bench_sampling.OURS, *(name for name in POLICIES if name != "shade")]

SMALL = bench_sampling.Size(samples=2000, batch=8, epochs=2)

UNDER_WAY = 0.015  # of what is drawn: three batches a job and the stage, when counting begins


@pytest.mark.small(3)
@pytest.mark.parametrize("policy", ONCE)
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
    small = ["--samples", size("300", "1000"), "--peer-samples", "500", "--batch", "2", "--epochs", "4"]
    small += ["--workers", "1"]
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
