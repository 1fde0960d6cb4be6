"""Where nothing can be RECODED, answers are those of the models of three forms, as they were before it."""

from __future__ import annotations

import dataclasses
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from partitions import all_jobs, profiles
from profiles import RECODED, round_profile
from sizes import size

from seneca.partition import PAPER, Cost, Jobs, Reading, Size, Split, bottleneck, refine, solve, worth


def a_host(seed, **changes):
    """A profile and jobs, the same for a seed."""
    rng = random.Random(seed)

    def between(low, high):
        return low * (high / low) ** rng.random()

    def cost():
        one_s = between(1e-5, 1e-2)
        return Cost(one_s, one_s * rng.uniform(1, 3))

    file_bytes, samples = between(1e4, 1e6), int(between(1e3, 1e7))
    cache_bytes = int(samples * file_bytes * between(0.1, 10))
    augment, decode = cost(), cost()
    profile = round_profile(
        samples=samples,
        cores=rng.randint(1, 64),
        cache_bytes=cache_bytes,
        free_memory_bytes=int(cache_bytes * rng.choice([1, 1.5, 3])),
        storage=tuple(Reading(1 << i, between(1e6, 1e10), 1e-3) for i in range(3)),
        memory_bytes_per_s=between(1e9, 1e11),
        encoded=Size(file_bytes),
        decoded=Size(file_bytes * between(1.5, 12)),
        fetch=cost(),
        augment=augment,
        prepare=Cost(augment.one_s + decode.one_s, augment.all_s + decode.all_s),
        batch=cost(),
        **changes,
    )
    paces = tuple(between(10, 1e5) for _ in range(3))
    return profile, Jobs(3, step_per_s=rng.choice([None, paces]), share=rng.choice(["augmented", "none"]))


# Computed by the models before there was RECODED: seed, split, samples/s, what limits, bytes, refined split.
BEFORE = [
    (
        0,
        "100-0-0",
        1774.993082986585,
        "memory bandwidth",
        364589689754.0,
        (1.0, 0.0),
        2004.7867861845268,
        "100-0-0",
    ),
    (
        1,
        "22-78-0",
        4499.157491771438,
        "cpu",
        152565275484.39682,
        (0.21314453125000002, 0.78685546875),
        56814.16642454401,
        "0-0-100",
    ),
    (2, "100-0-0", 1123.3314000688176, "storage", 655361930622.0, (1.0, 0.0), 448.2019219995946, "100-0-0"),
    (
        3,
        "100-0-0",
        14618.840546613259,
        "memory bandwidth",
        2470331424.0,
        (1.0, 0.0),
        32885.96747531315,
        "100-0-0",
    ),
    (4, "100-0-0", 311.8762317497926, "step", 47516143.0, (1.0, 0.0), 311.8762317497926, "100-0-0"),
    (6, "100-0-0", 22855.14167180066, "cpu", 699142141278.0, (1.0, 0.0), 22343.239224102235, "100-0-0"),
    (7, "100-0-0", 2567.0284304206016, "storage", 357186799.0, (1.0, 0.0), 167863.24438072144, "0-15-85"),
    (8, "100-0-0", 6160.407252601208, "cpu", 35913158535.0, (1.0, 0.0), 15252.144837483722, "0-0-100"),
    (
        10,
        "44-56-0",
        2756.0990289864476,
        "cpu",
        10340461044.0,
        (0.436640625, 0.563359375),
        2730.296939435388,
        "67-33-0",
    ),
    (14, "100-0-0", 4601.302341434426, "step", 12589848130.913176, (1.0, 0.0), 4441.380218756293, "0-0-100"),
    (
        19,
        "55-45-0",
        1562.1162639477482,
        "step",
        342632981017.0,
        (0.55642578125, 0.44357421875),
        1180.625686790537,
        "81-19-0",
    ),
    (
        27,
        "3-97-0",
        1820.7404261013658,
        "memory bandwidth",
        1035080774070.086,
        (0.02595703125, 0.97404296875),
        3594.782663277096,
        "100-0-0",
    ),
    (
        33,
        "9-91-0",
        31460.66779686639,
        "memory bandwidth",
        185105224471.9324,
        (0.09072265624999999, 0.90927734375),
        41971.00547123073,
        "0-100-0",
    ),
    (
        218,
        "65-28-7",
        7738.889194964219,
        "step",
        853855050.9268945,
        (0.6482226562500001, 0.27910156250000007),
        7698.2586962734495,
        "2-98-0",
    ),
]


@pytest.mark.parametrize("line", BEFORE, ids=lambda line: f"seed {line[0]}")
@pytest.mark.parametrize("changes", [{}, {**RECODED, "recodable": 0.0}], ids=["unnamed", "named"])
def test_splits_and_predictions_are_those_of_three_forms(line, changes):
    seed, split, samples_per_s, limited_by, memory_bytes, refined, paper_per_s, of_paper = line
    profile, jobs = a_host(seed, **changes)
    found = solve(profile, jobs)
    assert (str(found.split), found.limited_by, found.mix["recoded"]) == (split, limited_by, 0.0)
    assert found.samples_per_s == pytest.approx(samples_per_s, rel=1e-9)
    assert found.memory_bytes == pytest.approx(memory_bytes, rel=1e-9)
    fine = refine(profile, jobs).split
    assert [fine.encoded, fine.recoded, fine.decoded] == pytest.approx(
        [refined[0], 0.0, refined[1]], abs=1e-9
    )
    printed = solve(profile, jobs, model=PAPER)
    assert (str(printed.split), printed.samples_per_s) == (of_paper, pytest.approx(paper_per_s, rel=1e-9))


fractions = st.tuples(st.integers(0, 100), st.integers(0, 100)).map(sorted)


@given(profiles, all_jobs, fractions)
@settings(max_examples=size(20, 50), deadline=None)
def test_what_is_said_of_recoded_means_nothing_where_none_can_be(profile, jobs, bounds):
    low, high = bounds
    named = dataclasses.replace(profile, recodable=0.0)
    unnamed = dataclasses.replace(named, recoded=Size(0.0), recode=Cost(0.0, 0.0), redraw=Cost(0.0, 0.0))
    split = Split(low / 100, (high - low) / 100, 1 - high / 100)
    assert bottleneck(named, split, jobs) == bottleneck(unnamed, split, jobs)
    assert solve(named, jobs) == solve(unnamed, jobs)


def test_the_worth_of_more_is_that_of_three_forms():
    profile, jobs = a_host(10)
    found = worth(profile, jobs)
    assert dataclasses.astuple(found) == pytest.approx(
        (29.49067040371665, 128.32272349117557, 54.0530893659361), rel=1e-6
    )
