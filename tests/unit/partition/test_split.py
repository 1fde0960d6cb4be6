"""A split of a cache: read, written, refused."""

import pytest

from seneca.partition.split import Split, default_split


@pytest.mark.parametrize("text", ["58-42-0", "0-0-100", "33-33-34", "1-98-1"])
def test_a_split_is_written_as_it_is_read(text):
    assert str(Split.parse(text)) == text


def test_written_percents_always_sum_to_100():
    assert str(Split(1 / 3, 1 / 3, 1 / 3)) == "33-34-33"
    assert str(Split(0.005, 0.99, 0.005)).count("-") == 2


@pytest.mark.parametrize("text", ["", "50-50", "60-60-0", "a-b-c", "-10-60-50", "nan-50-50", "1-2-3-94"])
def test_what_is_no_split_is_refused_with_an_example(text):
    with pytest.raises(ValueError, match='write three numbers that sum to 100, as in "58-42-0"'):
        Split.parse(text)


@pytest.mark.parametrize("fractions", [(1.5, -0.5, 0), (float("nan"), 0.5, 0.5), (0.5, 0.5, 0.5)])
def test_fractions_that_are_none_are_refused(fractions):
    with pytest.raises(ValueError, match="fraction"):
        Split(*fractions)


def test_the_default_is_60_20_20():
    assert default_split() == Split.parse("60-20-20")
