"""What comparisons that agreed say about samples that were not compared."""

import math

import pytest

from seneca.confidence import WANTED, differing_at_most, in_words, wanted


@pytest.mark.parametrize("compared", [1, 10, 100, 3000, 10**6])
def test_the_bound_is_where_agreement_by_luck_has_five_percent(compared):
    assert math.isclose((1 - differing_at_most(compared)) ** compared, 0.05, rel_tol=1e-6)


def test_many_comparisons_follow_the_rule_of_three():
    assert math.isclose(differing_at_most(WANTED), 3 / WANTED, rel_tol=0.01)


def test_nothing_compared_says_nothing():
    assert differing_at_most(0) == 1.0 and in_words(0, 10) == "no sample compared so far"


def test_few_samples_are_all_wanted():
    assert wanted(100) == 100 and wanted(10**6) == WANTED


@pytest.mark.parametrize(
    "compared, n, text",
    [
        (1, 10, "1 sample compared, none differed: with 95 % confidence fewer than 95 % do"),
        (59, 1000, "59 samples compared, none differed: with 95 % confidence fewer than 5 % do"),
        (300, 1000, "300 samples compared, none differed: with 95 % confidence fewer than 1 % do"),
        (3104, 10**6, "3,104 samples compared, none differed: with 95 % confidence fewer than 0.1 % do"),
        (
            10**6,
            10**7,
            "1,000,000 samples compared, none differed: with 95 % confidence fewer than 0.0003 % do",
        ),
        (48, 48, "all 48 samples compared, none differed"),
    ],
)
def test_the_words(compared, n, text):
    assert in_words(compared, n) == text


@pytest.mark.parametrize("compared", range(1, 4000, 37))
def test_the_words_never_promise_more_than_the_bound(compared):
    percent = float(in_words(compared, 10**9).rpartition("fewer than ")[2].split(" ")[0])
    assert percent >= 100 * differing_at_most(compared) > percent / 3
