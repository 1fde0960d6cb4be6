"""Jobs that cannot be."""

from __future__ import annotations

import math

import pytest

from seneca.partition import (
    Jobs,
)

# --- jobs


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"count": 0}, "jobs are from 1 to 64"),
        ({"count": 65}, "jobs are from 1 to 64"),
        ({"step_per_s": 0.0}, "step_per_s"),
        ({"count": 2, "step_per_s": (1.0,)}, "step_per_s"),
        ({"batch_size": 0}, "batch_size"),
        ({"threads": -1}, "threads"),
        ({"ahead": -1}, "ahead"),
        ({"share": "everything"}, "share"),
    ],
)
def test_jobs_that_cannot_be_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Jobs(**arguments)


def test_loops_that_need_more_time_for_a_sample_have_other_paces():
    assert Jobs(2, step_per_s=(100.0, 50.0)).longer(0.01).paces == pytest.approx((50.0, 100 / 3))
    assert Jobs(1).longer(0.01).paces == pytest.approx((100.0,))
    assert Jobs(1).longer(0.0).paces == (math.inf,)
    assert Jobs(1, step_per_s=1.9).longer(0.0).paces == (1.9,)  # 1 / (1 / 1.9) is not
