"""The model of the bottleneck for samples that are kept RECODED: values worked out by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from partitions import all_jobs, profiles
from profiles import RECODED, round_profile
from sizes import size

from seneca.partition import Cost, Jobs, Split, bottleneck

ALL_RECODED = Split(0.0, 0.0, 0.0, recoded=1.0)


def recodable(**changes):
    return round_profile(**{**RECODED, **changes})


def test_a_sample_that_is_kept_recoded_costs_a_redraw():
    found = bottleneck(recodable(), ALL_RECODED, Jobs())
    kept = 5e9 / 120_000 / 100_000
    assert found.mix == {
        "storage": pytest.approx(1 - kept),
        "encoded": 0.0,
        "recoded": pytest.approx(kept),
        "decoded": 0.0,
    }
    assert found.ceilings["storage"] == pytest.approx(50e6 / ((1 - kept) * 97_952))
    assert found.ceilings["cpu"] == pytest.approx(4 / (kept * 5e-4 + (1 - kept) * (1.6e-3 + 1e-4) + 1e-4))
    a_read = 1e-3 + 1e-4 + 5e-3
    assert found.ceilings["threads"] == pytest.approx(4 / (kept * 3e-4 + (1 - kept) * a_read + 1e-4))
    moved = kept * 117_952 + (1 - kept) * 3 * 97_952 + 602_112
    assert found.ceilings["memory bandwidth"] == pytest.approx(10e9 / moved)
    assert found.memory_bytes == pytest.approx(5e9)


def test_no_more_samples_are_recoded_than_can_be():
    found = bottleneck(recodable(recodable=0.25), ALL_RECODED, Jobs())
    assert (found.mix["recoded"], found.mix["storage"]) == (0.25, 0.75)
    assert found.memory_bytes == pytest.approx(0.25 * 12e9)


def test_decoded_fills_first_then_recoded_and_encoded_takes_the_rest():
    found = bottleneck(recodable().with_memory(40_000_000_000), Split(0.1, 0.5, 0.0, recoded=0.4), Jobs())
    assert found.mix == {
        "storage": pytest.approx(0.0, abs=1e-12),
        "encoded": pytest.approx(0.06),
        "recoded": pytest.approx(0.9 * 0.6),
        "decoded": pytest.approx(0.4),
    }
    assert found.memory_bytes == pytest.approx(0.4 * 50e9 + 0.54 * 12e9 + 0.06 * 10e9)
    assert found.ceilings["storage"] > 1e12


def test_samples_that_recoded_has_no_room_for_are_kept_encoded():
    found = bottleneck(recodable().with_memory(10_000_000_000), Split(0.5, 0.0, 0.0, recoded=0.5), Jobs())
    assert found.mix["recoded"] == pytest.approx(5 / 12)
    assert (found.mix["encoded"], found.mix["storage"]) == (0.5, pytest.approx(1 / 12))


def test_the_stage_takes_its_need_before_anything_is_recoded():
    found = bottleneck(recodable(), ALL_RECODED, Jobs(2))
    assert found.mix["recoded"] == pytest.approx((5e9 - 2 * 2 * 3 * 256 * 151_552) / 12e9)


def test_samples_without_stages_are_never_recoded():
    assert bottleneck(recodable(staged=False), ALL_RECODED, Jobs()).mix["storage"] == 1.0


def test_to_recode_is_paid_once_and_limits_nothing():
    dear = recodable(recode=Cost(1e3, 1e3))
    assert bottleneck(dear, ALL_RECODED, Jobs(2)) == bottleneck(recodable(), ALL_RECODED, Jobs(2))


def test_a_share_for_recoded_without_such_samples_is_left_empty():
    found = bottleneck(round_profile(), Split(0.5, 0.0, 0.0, recoded=0.5), Jobs())
    assert found.mix == {"storage": 0.75, "encoded": 0.25, "recoded": 0.0, "decoded": 0.0}
    assert found.memory_bytes == pytest.approx(2.5e9)


@given(profiles, all_jobs)
@settings(max_examples=size(20, 50), deadline=None)
def test_a_cheaper_redraw_is_never_worse(profile, jobs):
    split = Split(0.2, 0.2, 0.1, recoded=0.5)
    before = bottleneck(profile, split, jobs)
    assert before.mix["recoded"] <= profile.recodable * (1 - before.mix["decoded"]) + 1e-9
    cheap = round_profile(**{**vars(profile), "redraw": Cost(1e-9, 1e-9)})
    assert bottleneck(cheap, split, jobs).samples_per_s >= before.samples_per_s * (1 - 1e-9)
    assert math.isfinite(before.samples_per_s)
