"""What a draw of 256 costs as the dataset grows, and as jobs come: the growth curves of bench_scale.py.

Jobs draw in turn, so nobody waits. ``begin`` is an epoch's beginning, in a row that was used before.
"""

from __future__ import annotations

import pytest
from scale_loop import ScaleJobs, compile_loop
from stages import Clock

CLOCK = Clock()
BATCH = 256
COPIES = 16_384  # more than eight jobs have in flight
WARM = 60  # draws of each job before

pytestmark = pytest.mark.benchmark(group="scale", timer=CLOCK)


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    return compile_loop(tmp_path_factory.mktemp("scale"))


def timed(benchmark, pytestconfig, seconds_of):
    def a_round():
        CLOCK.seconds += seconds_of()

    benchmark.pedantic(a_round, rounds=pytestconfig.getoption("--rounds"))


@pytest.mark.parametrize("samples", [10_000, 100_000, 1_000_000, 14_000_000])
def test_draw_by_samples(benchmark, pytestconfig, program, samples):
    with ScaleJobs(program, samples, 4, COPIES, BATCH) as jobs:
        jobs.open(0)
        jobs.warm(WARM)
        timed(benchmark, pytestconfig, lambda: jobs.draw_in_turn(1)[:, 0].mean())


@pytest.mark.parametrize("members", [1, 2, 4, 8])
def test_draw_by_members(benchmark, pytestconfig, program, members):
    with ScaleJobs(program, 1_000_000, members, COPIES, BATCH) as jobs:
        jobs.open(0)
        jobs.warm(WARM)
        timed(benchmark, pytestconfig, lambda: jobs.draw_in_turn(1)[:, 0].mean())


@pytest.mark.parametrize("samples", [10_000, 100_000, 1_000_000, 14_000_000])
def test_begin_by_samples(benchmark, pytestconfig, program, samples):
    with ScaleJobs(program, samples, 1, COPIES, BATCH) as jobs:
        epochs = iter(range(1, 1_000_000))
        jobs.open(0)

        def begin():
            jobs.close()
            return jobs.open(next(epochs))[0]

        timed(benchmark, pytestconfig, begin)
