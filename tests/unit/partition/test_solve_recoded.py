"""The solver where samples can be kept RECODED."""

from __future__ import annotations

import dataclasses
import random

import numpy as np
import pytest
from hypothesis import given, settings
from partitions import all_jobs, profiles
from profiles import RECODED, round_profile
from sizes import size

from seneca.partition import (
    BOTTLENECK,
    PAPER,
    TORCH,
    Cost,
    Jobs,
    Model,
    Reading,
    Size,
    Split,
    bottleneck,
    refine,
    solve,
)
from seneca.partition.solve import shares_grid


def recodable(**changes):
    return round_profile(**{**RECODED, **changes})


def every_split(parts):
    """All splits among four forms: 176,851 of a hundred parts."""
    encoded, recoded, decoded = np.meshgrid(*[np.arange(parts + 1)] * 3, indexing="ij")
    inside = encoded + recoded + decoded <= parts
    encoded, recoded, decoded = encoded[inside], recoded[inside], decoded[inside]
    return np.stack([encoded, recoded, decoded, parts - encoded - recoded - decoded], axis=1) / parts


def a_host(seed):
    """A profile and jobs, the same for a seed. The cache has 0.1 to 10 times the bytes of the files."""
    rng = random.Random(seed)

    def between(low, high):
        return low * (high / low) ** rng.random()

    file_bytes, samples = between(1e4, 1e6), int(between(1e3, 1e7))
    augment_s, decode_s = between(1e-5, 5e-3), between(1e-4, 1e-2)
    prepare_s = augment_s + decode_s
    cache_bytes = int(samples * file_bytes * between(0.1, 10))
    profile = recodable(
        samples=samples,
        cores=rng.randint(1, 64),
        cache_bytes=cache_bytes,
        free_memory_bytes=int(cache_bytes * rng.choice([1, 1, 1.5, 3])),
        storage=(Reading(8, between(1e6, 1e10), between(1e-5, 1e-1)),),
        memory_bytes_per_s=between(1e9, 1e11),
        encoded=Size(file_bytes),
        recoded=Size(file_bytes * rng.uniform(1.0, 1.3)),
        decoded=Size(file_bytes * between(1.5, 12)),
        augment=Cost(augment_s, augment_s),
        prepare=Cost(prepare_s, 1.3 * prepare_s),
        redraw=Cost(0.3 * prepare_s, 0.4 * prepare_s),
        recodable=rng.choice([1.0, 0.97, rng.random()]),
    )
    return profile, Jobs(rng.randint(1, 4), step_per_s=rng.choice([None, between(10, 1e4)]))


def test_the_grid_has_the_splits_without_recoded_and_those_without_augmented():
    shares = shares_grid(0.01, recoded=True)
    assert shares.shape == (2 * 5151 - 101, 4) and len(np.unique(shares, axis=0)) == len(shares)
    assert np.allclose(shares.sum(axis=1), 1) and (shares >= 0).all()
    assert (shares[:, 1] * shares[:, 3] == 0).all()
    assert (shares[:5151] == shares_grid(0.01)).all(), "they come first"


@pytest.mark.parametrize("seed", range(size(8, 40)))
def test_no_split_among_four_is_better_than_the_solved_one_but_by_rounding(seed):
    profile, jobs = a_host(seed)
    best = BOTTLENECK.estimate(profile, every_split(100), jobs).samples_per_s.max()
    assert solve(profile, jobs).samples_per_s >= best * 0.995
    assert refine(profile, jobs).samples_per_s >= best * (1 - 1e-5)


@given(profiles, all_jobs)
@settings(max_examples=size(10, 50), deadline=None)
def test_without_a_stage_no_split_among_four_is_better_at_all(profile, jobs):
    alone = dataclasses.replace(jobs, share="none")
    best = BOTTLENECK.estimate(profile, every_split(20), alone).samples_per_s.max()
    assert solve(profile, alone, step=0.05).samples_per_s >= best * (1 - 2e-6)


@given(profiles, all_jobs)
@settings(max_examples=size(10, 50), deadline=None)
def test_another_form_never_makes_the_best_split_worse(profile, jobs):
    without = dataclasses.replace(profile, recodable=0.0)
    assert solve(profile, jobs).samples_per_s >= solve(without, jobs).samples_per_s * (1 - 2e-6)


def test_recoded_gets_what_saves_most():
    # All could be RECODED in 12 GB, and DECODED in 50 GB. Storage is slow, and the cores are not enough.
    found = solve(recodable(recodable=1.0).with_memory(12_000_000_000))
    assert (str(found.split), found.limited_by) == ("0-100-0-0", "cpu")
    more = solve(recodable(recodable=1.0).with_memory(30_000_000_000))
    assert more.split.recoded > 0 and more.split.decoded > 0 and more.mix["storage"] < 1e-3
    assert more.samples_per_s > found.samples_per_s


def test_pictures_that_cannot_be_recoded_are_kept_encoded():
    found = refine(recodable().with_memory(11_800_000_000))  # 0.9 of 12 GB and 0.1 of 10 GB
    assert found.mix["recoded"] == pytest.approx(0.9, abs=1e-3)
    assert found.mix["encoded"] == pytest.approx(0.1, abs=1e-3)
    assert str(found.split) == "8-92-0-0"


def test_of_equal_splits_the_one_with_less_memory_wins():
    slow = solve(recodable(cache_bytes=100_000_000_000), Jobs(step_per_s=50.0))
    assert slow.limited_by == "step"
    assert str(slow.split) == "100-0-0" and slow.memory_bytes == pytest.approx(10e9)


def test_memory_that_is_left_over_is_for_decoded_then_for_recoded():
    # A redraw is as cheap as to augment: nothing is gained by DECODED, and it takes more memory.
    cheap = recodable(redraw=Cost(1e-4, 1e-4), recodable=1.0, memory_bytes_per_s=1e15)
    found = solve(cheap.with_memory(100_000_000_000))
    assert found.mix["recoded"] == 1.0 and found.memory_bytes == pytest.approx(12e9)
    assert str(found.split) == "0-100-0-0"
    most = solve(dataclasses.replace(cheap, recodable=0.9).with_memory(100_000_000_000))
    assert (most.mix["recoded"], most.mix["encoded"]) == (0.9, pytest.approx(0.1))
    assert str(most.split) == "1-99-0-0", "one percent is enough for the tenth that stays ENCODED"


def test_where_all_splits_fill_the_memory_encoded_keeps_most_and_then_recoded():
    small = recodable(cache_bytes=1_000_000)
    assert str(solve(small, Jobs(step_per_s=1.0)).split) == "100-0-0"

    def no_encoded(profile, shares, jobs):
        found = BOTTLENECK.estimate(profile, shares, jobs)
        return dataclasses.replace(found, samples_per_s=np.where(shares[:, 0] > 0.005, 0.0, 1.0))

    assert str(solve(small, model=Model("other", bottleneck, no_encoded)).split) == "0-100-0-0"


def test_where_nothing_can_be_recoded_no_share_is_tried_and_no_time_spent():
    asked = []

    def estimate(profile, shares, jobs):
        asked.append(shares)
        return BOTTLENECK.estimate(profile, shares, jobs)

    counted = Model("counted", bottleneck, estimate)
    refine(recodable(recodable=0.0), model=counted)
    assert len(asked[0]) == 5151 and all(len(shares) <= 26 for shares in asked[1:])
    assert not any(shares[:, 1].any() for shares in asked)
    del asked[:]
    refine(recodable(), model=counted)
    assert len(asked[0]) == 2 * 5151 - 101 and all(len(shares) <= 126 for shares in asked[1:])


@pytest.mark.parametrize("model", [PAPER, TORCH], ids=lambda model: model.name)
def test_models_without_the_form_are_asked_for_none_of_it(model):
    profile = recodable(item=Cost(1e-3, 1e-3))
    without = dataclasses.replace(profile, recodable=0.0)
    assert solve(profile, model=model) == solve(without, model=model)
    assert refine(profile, model=model).split.recoded == 0


def test_a_finer_split_is_found_among_four():
    profile = recodable().with_memory(30_000_000_000)
    found, fine = solve(profile), refine(profile)
    assert fine.samples_per_s > found.samples_per_s
    assert (
        max(abs(getattr(fine.split, form) - getattr(found.split, form)) for form in vars(Split(1, 0, 0)))
        < 0.03
    )
