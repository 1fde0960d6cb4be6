"""What it costs to choose a split: 5,151 of them in one call of the model, and finer around the best."""

import pytest

from seneca.partition import BOTTLENECK, PAPER, Cost, Jobs, Profile, Reading, Size, refine, solve

pytestmark = pytest.mark.benchmark(group="solve")

A_MILLION = Profile(
    host="a host",
    dataset="some files",
    pipeline="a transform",
    samples=1_281_167,
    cores=16,
    cache_bytes=64 << 30,
    free_memory_bytes=128 << 30,
    storage=(Reading(1, 20e6, 5e-3), Reading(4, 70e6, 6e-3), Reading(16, 200e6, 8e-3)),
    storage_cold=True,
    fetch=Cost(3e-5, 3e-5),
    decode=Cost(1.5e-3, 1.8e-3),
    augment=Cost(1.5e-4, 2e-4),
    prepare=Cost(1.1e-3, 1.3e-3),
    batch=Cost(8e-5, 1e-4),
    memory_bytes_per_s=40e9,
    encoded=Size(110e3, 60e3),
    decoded=Size(600e3, 400e3),
    augmented=Size(150_528.0),
    batch_bytes=602_112,
)


@pytest.mark.parametrize("model", [BOTTLENECK, PAPER], ids=lambda model: model.name)
@pytest.mark.parametrize("jobs", [1, 4])
def test_solve(benchmark, model, jobs):
    benchmark(solve, A_MILLION, Jobs(jobs), model=model)


def test_solve_for_jobs_of_eight_paces(benchmark):
    benchmark(solve, A_MILLION, Jobs(8, step_per_s=tuple(250.0 * (i + 1) for i in range(8))))


def test_refine(benchmark):
    benchmark(refine, A_MILLION, Jobs(4))
