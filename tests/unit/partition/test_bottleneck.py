"""The model of the bottleneck: values worked out by hand, and what must always hold."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from partitions import AUGMENTED, DECODED, ENCODED, all_jobs, profiles
from profiles import ROUND, round_profile
from sizes import size

from seneca.partition import (
    BOTTLENECK,
    PAPER,
    Jobs,
    Reading,
    Split,
    bottleneck,
    solve,
    split_as_written,
)
from seneca.partition.solve import shares_grid

# --- the bottleneck model, by hand


def test_half_the_files_kept_leave_half_to_storage():
    found = bottleneck(ROUND, ENCODED, Jobs())
    assert found.mix == {"storage": 0.5, "encoded": 0.5, "recoded": 0.0, "decoded": 0.0}
    assert found.ceilings["storage"] == pytest.approx(50e6 / (0.5 * 97_952))
    assert found.ceilings["cpu"] == pytest.approx(4 / (1.6e-3 + 0.5 * 1e-4 + 1e-4))
    assert found.ceilings["threads"] == pytest.approx(4 / (1e-3 + 0.5 * (1e-4 + 5e-3) + 1e-4))
    assert found.ceilings["memory bandwidth"] == pytest.approx(10e9 / (2 * 97_952 + 602_112))
    assert found.ceilings["step"] == math.inf
    assert (found.samples_per_s, found.limited_by) == (pytest.approx(1020.908), "storage")
    assert found.memory_bytes == pytest.approx(5e9)


def test_decoded_pictures_cost_their_augmenting_in_every_epoch():
    found = bottleneck(ROUND.with_memory(50_000_000_000), DECODED, Jobs())
    assert found.mix["decoded"] == 1.0
    assert found.ceilings["cpu"] == pytest.approx(4 / (4e-4 + 1e-4))
    assert found.ceilings["storage"] == math.inf
    assert (found.samples_per_s, found.limited_by) == (pytest.approx(8000), "cpu")


def test_decoded_fills_first_and_encoded_takes_of_the_rest():
    found = bottleneck(ROUND.with_memory(40_000_000_000), Split(0.25, 0.75, 0), Jobs())
    assert found.mix == {
        "storage": 0.0,
        "encoded": pytest.approx(0.4),
        "recoded": 0.0,
        "decoded": pytest.approx(0.6),
    }
    assert found.memory_bytes == pytest.approx(0.6 * 50e9 + 0.4 * 10e9)


def test_what_is_read_is_what_neither_the_cache_nor_the_page_cache_has():
    found = bottleneck(round_profile(free_memory_bytes=5_000_000_000 + 2_448_800_000), ENCODED, Jobs())
    # The page cache has room for half of the files that are not kept.
    assert found.page_cache == pytest.approx(0.2814, abs=1e-4)
    assert found.ceilings["storage"] == pytest.approx(50e6 / (0.5 * (1 - found.page_cache) * 97_952))


def test_the_page_cache_with_room_for_all_files_leaves_nothing_to_storage():
    found = bottleneck(round_profile(cache_bytes=4096, free_memory_bytes=10**11), ENCODED, Jobs())
    assert (found.page_cache, found.ceilings["storage"], found.limited_by) == (1.0, math.inf, "cpu")


def page_cache_with_room_for(share):
    samples = 2000
    profile = round_profile(
        samples=samples, cache_bytes=4096, free_memory_bytes=4096 + int(share * samples * 97_952)
    )
    return bottleneck(profile, AUGMENTED, Jobs()).page_cache


@pytest.mark.small(1)
@pytest.mark.parametrize("share", [0.1, 0.4, 0.9])
def test_the_page_cache_serves_as_a_simulated_one_does(share):
    rng, samples, hits = np.random.default_rng(3), 2000, []
    held = list(range(int(share * samples)))
    places = {file: place for place, file in enumerate(held)}
    for epoch in range(8):
        for file in rng.permutation(samples).tolist():
            if epoch >= 3:
                hits.append(file in places)
            if file not in places:
                place = int(rng.integers(len(held)))
                del places[held[place]]
                held[place], places[file] = file, place
    assert page_cache_with_room_for(share) == pytest.approx(np.mean(hits), abs=0.01)


@pytest.mark.parametrize(("share", "missed"), [(0.65, 0.53), (0.35, 0.85)])
def test_the_page_cache_misses_as_often_as_coordl_measured(share, missed):
    """Mohan et al., VLDB 2021."""
    assert 1 - page_cache_with_room_for(share) == pytest.approx(missed, abs=0.015)


@pytest.mark.parametrize(
    ("share", "served"), [(0.0, 0.0), (1e-7, 0.0), (0.999999, 1.0), (1.0, 1.0), (7.0, 1.0)]
)
def test_the_page_cache_serves_nothing_without_room_and_everything_with_room_for_all(share, served):
    assert page_cache_with_room_for(share) == pytest.approx(served, abs=1e-5)


def test_jobs_share_what_the_fastest_of_them_has_prepared():
    found = bottleneck(ROUND, AUGMENTED, Jobs(2))
    assert found.prepared == pytest.approx(1 - 0.995 / 2)
    assert found.mix["storage"] == 1.0
    assert found.samples_per_s == pytest.approx(50e6 / 97_952 / found.prepared)
    assert found.per_job == (found.samples_per_s / 2,) * 2


def test_jobs_of_unequal_pace_share_and_the_fast_one_prepares():
    profile = round_profile(storage=(Reading(1, 1e12, 0.0),))
    found = bottleneck(profile, AUGMENTED, Jobs(2, step_per_s=(600.0, 200.0)))
    assert (found.per_job, found.limited_by) == ((600.0, 200.0), "step")
    assert found.prepared * 800 == pytest.approx(600 + 0.005 * 200)


def test_who_is_slow_by_itself_leaves_the_rest_to_the_others():
    found = bottleneck(ROUND, AUGMENTED, Jobs(2, step_per_s=(1e6, 100.0), share="none"))
    assert found.per_job == (pytest.approx(50e6 / 97_952 - 100), 100.0)
    assert found.limited_by == "storage"


def test_what_three_paces_leave_goes_to_the_fastest():
    found = bottleneck(ROUND, AUGMENTED, Jobs(3, step_per_s=(100.0, 1e6, 50.0), share="none"))
    assert found.per_job == (100.0, pytest.approx(50e6 / 97_952 - 150), 50.0)


@pytest.mark.parametrize("jobs", [Jobs(2, share="decoded"), Jobs(2, share="none")])
def test_jobs_that_do_not_share_copies_prepare_all_themselves(jobs):
    assert bottleneck(ROUND, AUGMENTED, jobs).prepared == 1.0


def test_a_transform_without_random_numbers_stages_nothing():
    assert bottleneck(round_profile(deterministic=True), ENCODED, Jobs(4)).prepared == 1.0
    assert bottleneck(round_profile(deterministic=True), ENCODED, Jobs(4)).mix["encoded"] == 0.5


def test_the_stage_takes_its_need_before_anything_is_kept():
    found = bottleneck(ROUND, ENCODED, Jobs(2))
    need = 2 * 2 * 3 * 256 * 151_552
    assert found.mix["encoded"] == pytest.approx((5e9 - need) / 1e5 / 100_000)
    assert found.memory_bytes == pytest.approx(5e9)


def test_no_more_is_under_way_than_the_jobs_epochs_have():
    few = round_profile(samples=300)
    found = bottleneck(few, ENCODED, Jobs(2))
    assert found.mix["encoded"] == 1.0
    assert found.memory_bytes == pytest.approx(2 * 2 * 300 * 151_552 + 300 * 1e5)
    assert found.prepared == pytest.approx(1 - 0.995 / 2)


def test_a_stage_without_room_shares_less():
    little = ROUND.with_memory(1536 * 151_552 // 2)  # half of what two jobs have under way
    assert bottleneck(little, AUGMENTED, Jobs(2)).prepared == pytest.approx(1 - 0.82 / 2)


def test_few_threads_wait_for_a_storage_that_could_give_more():
    far = round_profile(storage=(Reading(1, 1e6, 0.1), Reading(16, 16e6, 0.1)))
    found = bottleneck(far, AUGMENTED, Jobs(threads=2))
    assert found.limited_by == "threads"
    assert found.samples_per_s == pytest.approx(2 / (1e-3 + 1e-4 + 0.1 + 1e-4))


def test_threads_do_not_wait_for_files_that_are_read_ahead():
    far = round_profile(storage=(Reading(1, 1e6, 0.1), Reading(64, 64e6, 0.1)))
    threads_alone = bottleneck(far, AUGMENTED, Jobs(threads=2)).samples_per_s
    ahead = bottleneck(far, AUGMENTED, Jobs(threads=2, reads_ahead=30))
    assert ahead.limited_by == "storage"
    assert ahead.samples_per_s == pytest.approx(32e6 / far.encoded.mean_bytes) and threads_alone < 20
    without = bottleneck(far, AUGMENTED, Jobs(threads=0, reads_ahead=30)).samples_per_s
    assert without == pytest.approx(bottleneck(far, AUGMENTED, Jobs(threads=1)).samples_per_s)


splits = st.sampled_from(shares_grid(0.05, recoded=True).tolist()).map(split_as_written)

GROWN = {
    "storage": lambda p, j: (p.with_storage(2 * p.storage_bytes_per_s), j),
    "cpu": lambda p, j: (dataclasses.replace(p, cores=2 * p.cores), j),
    "threads": lambda p, j: (p, dataclasses.replace(j, threads=2 * j.threads)),
    "memory bandwidth": lambda p, j: (dataclasses.replace(p, memory_bytes_per_s=2 * p.memory_bytes_per_s), j),
    "step": lambda p, j: (p, dataclasses.replace(j, step_per_s=tuple(2 * pace for pace in j.paces))),
}


@given(profiles, splits, all_jobs)
@settings(max_examples=size(20, 50), deadline=None)
def test_the_least_ceiling_is_the_throughput_and_has_the_name(profile, split, jobs):
    found = bottleneck(profile, split, jobs)
    assert found.samples_per_s == pytest.approx(min(found.ceilings.values()))
    assert found.ceilings[found.limited_by] == pytest.approx(found.samples_per_s)
    assert sum(found.per_job) == pytest.approx(found.samples_per_s)
    assert all(rate <= pace for rate, pace in zip(found.per_job, jobs.paces, strict=True))
    assert max(found.per_job) / found.samples_per_s - 1e-9 <= found.prepared <= 1
    assert sum(found.mix.values()) == pytest.approx(1)
    assert found.memory_bytes <= profile.cache_bytes * (1 + 1e-9)


@given(profiles, splits, all_jobs)
@settings(max_examples=size(20, 50), deadline=None)
def test_more_of_what_limits_gives_more_and_more_of_the_rest_nothing(profile, split, jobs):
    before = bottleneck(profile, split, jobs)
    others = [value for name, value in before.ceilings.items() if name != before.limited_by]
    assume(min(others) > before.samples_per_s * 1.01)  # else two limit at once
    for name, grow in GROWN.items():
        if name == "threads" and before.limited_by == "storage":
            continue  # more threads read more at once, and storage gives them more
        if name == "step" and min(jobs.paces) < max(before.per_job):
            continue  # a slow job that becomes faster takes of what the others share
        more = bottleneck(*(changed := grow(profile, jobs))[:1], split, changed[1]).samples_per_s
        if name == before.limited_by:
            assert more > before.samples_per_s * 1.005
        elif not (name == "storage" and before.limited_by == "threads"):  # faster storage is quicker, too
            assert more == pytest.approx(before.samples_per_s)


@given(profiles, splits, all_jobs, st.floats(1.0, 10.0))
@settings(max_examples=size(20, 50), deadline=None)
def test_throughput_never_falls_when_a_resource_grows(profile, split, jobs, factor):
    before = bottleneck(profile, split, jobs).samples_per_s
    for changed in (
        profile.with_storage(profile.storage_bytes_per_s * factor),
        dataclasses.replace(profile, cores=math.ceil(profile.cores * factor)),
        dataclasses.replace(profile, memory_bytes_per_s=profile.memory_bytes_per_s * factor),
        dataclasses.replace(profile, free_memory_bytes=int(profile.free_memory_bytes * factor)),
    ):
        assert bottleneck(changed, split, jobs).samples_per_s >= before * (1 - 1e-9)


@given(profiles, all_jobs)
@settings(max_examples=size(10, 25), deadline=None)
def test_more_memory_never_makes_the_best_split_worse(profile, jobs):
    # Every split of a grid keeps the same in twice the memory on a grid twice as fine; the stage, whose
    # need does not grow with it, is left out.
    alone = dataclasses.replace(jobs, share="none")
    before = solve(profile, alone, step=0.02).samples_per_s
    twice = profile.with_memory(2 * profile.cache_bytes)
    assert solve(twice, alone, step=0.01).samples_per_s >= before * (1 - 2e-6)


@pytest.mark.small(1)
@pytest.mark.parametrize("model", [BOTTLENECK, PAPER], ids=lambda model: model.name)
@given(profile=profiles, jobs=all_jobs)
@settings(max_examples=10, deadline=None)
def test_many_splits_at_once_are_as_each_by_itself(model, profile, jobs):
    shares = shares_grid(0.1, recoded=model.has_recoded)
    together = model.estimate(profile, shares, jobs)
    for i in (0, 7, 33, len(shares) - 1):
        alone = model.predict(profile, split_as_written(shares[i].tolist()), jobs)
        assert alone.samples_per_s == pytest.approx(together.samples_per_s[i])
        assert alone.memory_bytes == pytest.approx(together.memory_bytes[i])
