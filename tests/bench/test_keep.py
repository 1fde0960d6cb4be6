"""bench_keep: what it compares with, and what it prints."""

import itertools

import bench_keep
import numpy as np
import pytest


def best(draws, room):
    """Whatever is evicted, or not kept at all: the most hits, by trying everything."""
    states = {frozenset(): 0}
    for sample in draws.tolist():
        reached: dict[frozenset, int] = {}
        for kept, hits in states.items():
            after = hits + (sample in kept)
            for size in range(room + 1):
                for choice in itertools.combinations(kept | {sample}, size):
                    reached[frozenset(choice)] = max(after, reached.get(frozenset(choice), 0))
        states = reached
    return max(states.values()) / len(draws)


@pytest.mark.parametrize("seed", range(4))
def test_belady_is_the_best_that_there_is(seed):
    draws = np.random.default_rng(seed).integers(0, 6, 16).astype(np.uint32)
    assert bench_keep.belady(draws, 2) == best(draws, 2) >= bench_keep.first(draws, 2)


def test_jobs_with_orders_of_their_own_find_more_than_what_came_first(capsys):
    bench_keep.main(["--samples", "2000", "--epochs", "3", "--jobs", "1", "4", "--cached", "0.2"])
    assert "Belady" in capsys.readouterr().out
    alone, four = (bench_keep.simulated(2000, jobs, 0.2, 3) for jobs in (1, 4))
    assert alone["seneca"] == pytest.approx(alone["first"]), "one job can do no better"
    assert alone["belady"] == pytest.approx(alone["first"])
    assert four["first"] * 1.5 < four["seneca"] < four["belady"]
