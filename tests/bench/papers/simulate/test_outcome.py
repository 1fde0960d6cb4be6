"""What was counted, and the bound that it is held to."""

import numpy as np
from papers.simulate.outcome import Outcome, Tally


def indices(*numbers):
    return np.array(numbers, np.uint32)


def test_what_is_read_in_advance_is_read_and_prepared():
    outcome = Outcome(12, (4, 2, 2, 8), 2, (16,), (1,), (0.0,), 1.0)
    assert (outcome.preparations, outcome.reads) == (10, 6)
    assert (outcome.efficiency, outcome.hits) == (1.2, 1 - 6 / 16)


def test_nothing_prepared_is_no_division_by_zero():
    nothing = Outcome(0, (0, 0, 0, 0), 0, (), (), (), 0.0)
    assert (nothing.efficiency, nothing.hits) == (1.0, 1.0)


def test_in_each_stretch_the_most_that_any_job_consumed_counts():
    tally = Tally([None, None], 10)
    tally.consume(0, indices(0, 1, 2))
    tally.consume(1, indices(5))
    tally.next_stretch()
    tally.consume(1, indices(6, 7))
    tally.next_stretch()
    assert tally.bound == 3 + 2
    tally.forget()
    assert tally.bound == 0


def test_of_subsets_each_part_that_jobs_have_in_common_counts_by_itself():
    tally = Tally([indices(0, 1, 2, 3), indices(2, 3, 4, 5)], 6)
    tally.consume(0, indices(0, 2, 3))
    tally.consume(1, indices(2, 4, 5))
    tally.next_stretch()
    assert tally.bound == 1 + 2 + 2  # the first's own, what both have, the second's own
