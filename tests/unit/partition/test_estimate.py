"""What models answer, for one split and for many."""

import pytest
from profiles import round_profile

from seneca.partition import BOTTLENECK, PAPER, TORCH, Jobs, Split
from seneca.partition.estimate import shares_of


@pytest.mark.parametrize("model", [BOTTLENECK, PAPER], ids=lambda model: model.name)
def test_both_forms_of_a_model_say_the_same_of_a_split(model):
    # The step and what the loop takes to get a batch are the limit.
    profile = round_profile(take_s=1e-3)
    split, jobs = Split(0.5, 0.3, 0.2), Jobs(2, step_per_s=100.0)
    one, many = model.predict(profile, split, jobs), model.estimate(profile, shares_of(split), jobs)
    assert many.samples_per_s.tolist() == [pytest.approx(one.samples_per_s)]
    assert many.memory_bytes.tolist() == [pytest.approx(one.memory_bytes)]
    assert one.mix["recoded"] == 0.0 and sum(one.mix.values()) == pytest.approx(1)


def test_a_split_is_taken_as_one_row():
    assert shares_of(Split(0.5, 0.3, 0.2)).tolist() == [[0.5, 0.0, 0.3, 0.2]]
    assert shares_of(Split(0.4, 0.3, 0.2, recoded=0.1)).tolist() == [[0.4, 0.1, 0.3, 0.2]]


def test_only_seneca_has_recoded_samples():
    assert [model.name for model in (BOTTLENECK, PAPER, TORCH) if model.has_recoded] == ["bottleneck"]
