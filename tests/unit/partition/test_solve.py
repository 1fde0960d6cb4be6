"""The solver: the best split of a grid."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from partitions import all_jobs, profiles
from profiles import ROUND, round_profile

from seneca.partition import (
    BOTTLENECK,
    Cost,
    Jobs,
    Model,
    Reading,
    Size,
    bottleneck,
    refine,
    solve,
    split_as_written,
)
from seneca.partition.solve import shares_grid

# --- the solver


def test_the_grid_has_every_whole_percent_once():
    shares = shares_grid(0.01)
    assert shares.shape == (5151, 4) and not shares[:, 1].any()
    assert len(np.unique(shares, axis=0)) == 5151
    assert np.allclose(shares.sum(axis=1), 1) and (shares >= 0).all()
    percents = [split_as_written(one) for one in shares.tolist()]
    assert len({str(split) for split in percents}) == 5151


def test_the_whole_grid_is_one_call_of_the_model():
    asked = []

    def estimate(profile, shares, jobs):
        asked.append(len(shares))
        return BOTTLENECK.estimate(profile, shares, jobs)

    solve(ROUND, model=Model("counted", bottleneck, estimate))
    assert asked == [5151]
    refine(ROUND, model=Model("counted", bottleneck, estimate))
    assert sum(asked) < 2 * 5151 + 500


@given(profiles, all_jobs)
@settings(max_examples=15, deadline=None)
def test_no_split_of_the_grid_is_better_than_the_solved_one(profile, jobs):
    found = solve(profile, jobs)
    grid = shares_grid(0.01, recoded=profile.recodable > 0)
    every = BOTTLENECK.estimate(profile, grid, jobs).samples_per_s
    assert found.samples_per_s >= every.max() * (1 - 2e-6)
    assert refine(profile, jobs).samples_per_s >= found.samples_per_s * (1 - 2e-6)
    assert solve(profile, jobs) == found


def test_what_is_refined_is_not_a_little_worse_each_time():
    """Rates next to the best count as equal to it, in each step; here that added up."""
    profile = dataclasses.replace(
        ROUND,
        samples=137_312,
        cores=1,
        cache_bytes=5_045_347,
        free_memory_bytes=5_045_347,
        storage=(Reading(1, 1_975_970.0, 0.0),),
        memory_bytes_per_s=100e6,
        encoded=Size(386_561.0),
        decoded=Size(15_970.0),
        fetch=Cost(1 / 64, 1 / 64),
        prepare=Cost(7 / 128, 21 / 128),
        augment=Cost(3 / 64, 9 / 64),
        batch=Cost(1 / 64, 1 / 64),
    )
    jobs = Jobs(batch_size=1, ahead=0, threads=1, reads_ahead=0)
    assert refine(profile, jobs).samples_per_s >= solve(profile, jobs).samples_per_s * (1 - 2e-6)


def test_the_best_split_balances_what_runs_out():
    # 20 GB: DECODED saves CPU, ENCODED saves storage; neither alone is best.
    found = solve(ROUND.with_memory(20_000_000_000))
    assert (str(found.split), found.limited_by) == ("32-68-0", "cpu")
    fine = refine(ROUND.with_memory(20_000_000_000))
    assert fine.samples_per_s > found.samples_per_s
    assert abs(fine.split.encoded - found.split.encoded) <= 0.011


def test_of_equal_splits_the_one_with_less_memory_wins():
    slow = solve(round_profile(cache_bytes=100_000_000_000), Jobs(step_per_s=50.0))
    assert slow.limited_by == "step"
    assert str(slow.split) == "100-0-0" and slow.memory_bytes == pytest.approx(10e9)


def test_less_memory_goes_before_encoded():
    shrunk = round_profile(cache_bytes=100_000_000_000, decoded=Size(17_952.0))  # smaller than its file
    found = solve(shrunk, Jobs(step_per_s=50.0))
    assert found.mix["decoded"] == 1.0 and found.memory_bytes == pytest.approx(2e9)


def test_where_all_splits_fill_the_memory_encoded_keeps_most():
    assert str(solve(round_profile(cache_bytes=1_000_000), Jobs(step_per_s=1.0)).split) == "100-0-0"


def test_a_share_for_the_stage_that_it_has_anyway_is_not_asked_for():
    # The stage of two jobs takes a tenth of this memory by itself; DECODED saves CPU, which limits.
    profile = round_profile(cache_bytes=4_656_000_000, storage=(Reading(1, 1e12, 0.0),))
    assert str(solve(profile, Jobs(2)).split) == "0-100-0"


@pytest.mark.parametrize("jobs", [1, 2, 4, 8])
def test_where_all_fit_decoded_no_memory_is_left_idle(jobs):
    """A measurement of few pictures may take them for smaller than they are."""
    few = round_profile(samples=300, cache_bytes=1_000_000_000, memory_bytes_per_s=1e12)
    found = solve(few, Jobs(jobs))
    assert str(found.split) == "0-100-0" and found.mix["decoded"] == 1.0
    larger = dataclasses.replace(few, decoded=Size(1.6 * few.decoded.mean_bytes))
    assert bottleneck(larger, found.split, Jobs(jobs)).mix["decoded"] == 1.0


@pytest.mark.parametrize("step", [0, -0.1, 1.5])
def test_a_grid_that_is_none_is_refused(step):
    with pytest.raises(ValueError, match="step is above 0 and at most 1"):
        solve(ROUND, step=step)
