"""A split of a cache: read, written, refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seneca.partition.split import Split, default_split, split_as_written


@pytest.mark.parametrize(
    "text", ["58-42-0", "0-0-100", "33-33-34", "1-98-1", "20-38-42-0", "0-100-0-0", "1-1-97-1"]
)
def test_a_split_is_written_as_it_is_read(text):
    assert str(Split.parse(text)) == text


def test_written_percents_always_sum_to_100():
    assert str(Split(1 / 3, 1 / 3, 1 / 3)) == "33-34-33"
    assert str(Split(0.005, 0.99, 0.005)).count("-") == 2
    assert str(Split(0.25, 0.25, 0.25, recoded=0.25)) == "25-25-25-25"
    assert str(Split(1 / 6, 1 / 6, 1 / 2, recoded=1 / 6)) == "17-16-17-50"
    assert str(Split(1 / 8, 3 / 8, 1 / 8, recoded=3 / 8)) == "12-38-38-12"


@pytest.mark.parametrize(
    "text",
    ["", "50-50", "60-60-0", "a-b-c", "-10-60-50", "nan-50-50", "1-2-3-95", "1-nan-3-94", "1-2-3-4-90"],
)
def test_what_is_no_split_is_refused_with_an_example(text):
    with pytest.raises(
        ValueError, match='write three or four numbers that sum to 100, as in "58-42-0" or "20-38-42-0"'
    ):
        Split.parse(text)


@pytest.mark.parametrize(
    "fractions",
    [
        (1.5, -0.5, 0),
        (float("nan"), 0.5, 0.5),
        (0.5, 0.5, 0.5),
        (0.5, 0.5, 0.5, -0.5),
        (0.5, 0.5, 0, float("nan")),
    ],
)
def test_fractions_that_are_none_are_refused(fractions):
    with pytest.raises(ValueError, match="fraction"):
        Split(*fractions)


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_any_four_fractions_are_written_as_percents_that_can_be_read(a, b, c):
    first, second, third = sorted((a, b, c))
    text = str(Split(first, third - second, 1 - third, recoded=second - first))
    percents = [int(part) for part in text.split("-")]
    assert sum(percents) == 100 and min(percents) >= 0
    assert str(Split.parse(text)) == text


def test_three_numbers_have_no_share_for_recoded_and_four_have_it_second():
    assert Split.parse("58-42-0") == Split(0.58, 0.42, 0.0, recoded=0.0)
    assert Split.parse("20-38-42-0") == Split(encoded=0.2, recoded=0.38, decoded=0.42, augmented=0.0)
    assert Split.parse("58-0-42-0") == Split.parse("58-42-0")
    assert str(Split(0.58, 0.418, 0.0, recoded=0.002)) == "58-42-0"
    assert split_as_written([0.1, 0.2, 0.3, 0.4]) == Split(0.1, 0.3, 0.4, 0.2)


def test_the_default_is_60_20_20():
    assert default_split() == Split.parse("60-20-20")
