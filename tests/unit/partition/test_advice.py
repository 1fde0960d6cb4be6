"""What more of something is worth."""

from __future__ import annotations

import dataclasses

import pytest
from partitions import ENCODED
from profiles import RECODED, ROUND, round_profile

from seneca.partition import (
    Jobs,
    bottleneck,
    cores_that_help,
    curve,
    least_memory,
    solve,
    worth,
)

# --- advice


def test_more_of_what_limits_is_worth_something():
    found = worth(ROUND, Jobs())
    assert found.gb_memory == pytest.approx(
        solve(ROUND.with_memory(6_000_000_000)).samples_per_s - solve(ROUND).samples_per_s
    )
    assert found.gb_memory > 0 and found.storage_100mb_per_s > 0 and found.core == 0


def test_what_does_not_limit_is_worth_nothing():
    found = worth(ROUND, Jobs(step_per_s=100.0))
    assert (found.gb_memory, found.core, found.storage_100mb_per_s) == (0, 0, 0)
    in_memory = worth(ROUND.with_memory(60_000_000_000), Jobs())
    assert in_memory.core == pytest.approx(2000)  # of 8,000 on 4
    assert (in_memory.gb_memory, in_memory.storage_100mb_per_s) == (0, 0)


def test_the_least_memory_is_where_waiting_ends():
    least = least_memory(ROUND, Jobs())
    wanted = bottleneck(ROUND.with_storage(1e18), ENCODED, Jobs()).samples_per_s
    assert 5_000_000_000 < least < 10_200_000_000
    assert solve(ROUND.with_memory(least)).samples_per_s >= wanted * 0.999
    assert solve(ROUND.with_memory(least - (2 << 20))).samples_per_s < wanted * 0.999


def test_the_least_memory_counts_recoded_samples_too():
    profile = round_profile(**RECODED)
    least = least_memory(profile, Jobs())
    wanted = bottleneck(profile.with_storage(1e18), ENCODED, Jobs()).samples_per_s
    assert solve(profile.with_memory(least)).samples_per_s >= wanted * 0.999
    assert solve(profile.with_memory(least - (2 << 20))).samples_per_s < wanted * 0.999
    assert least <= least_memory(ROUND, Jobs())


def test_who_does_not_wait_for_storage_needs_no_memory():
    assert least_memory(ROUND, Jobs(step_per_s=100.0)) is None
    assert least_memory(ROUND.with_storage(1e10), Jobs()) is None


def test_cores_help_until_something_else_limits():
    fast = ROUND.with_memory(10_000_000_000)
    enough = cores_that_help(fast, Jobs())
    assert enough > 4

    def reached(cores):
        return solve(dataclasses.replace(fast, cores=cores)).samples_per_s

    assert reached(enough) >= reached(1024) * 0.999 > reached(enough - 1)
    assert cores_that_help(ROUND, Jobs(step_per_s=100.0)) == 4


def test_a_curve_is_solved_at_each_value():
    points = curve([5_000_000_000, 20_000_000_000], lambda value: (ROUND.with_memory(value), Jobs()))
    assert [(value, str(best.split)) for value, best in points] == [
        (5_000_000_000, "100-0-0"),
        (20_000_000_000, "32-68-0"),
    ]
