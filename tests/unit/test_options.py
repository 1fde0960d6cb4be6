"""Seneca's own arguments: what is understood, and what is said about the rest."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from seneca.options import Options, parse_bytes, parse_keep, parse_split
from seneca.partition import Split, default_split


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("1B", 1),
        (1, 1),
        ("1024", 1024),
        ("512B", 512),
        ("2kB", 2_000),
        ("512MB", 512_000_000),
        ("8GiB", 8 << 30),
        (" 8 gib ", 8 << 30),
        ("1.5KiB", 1536),
        ("3TiB", 3 << 40),
        ("9007199254740993", 2**53 + 1),
        (4096, 4096),
    ],
)
def test_amounts_of_memory_are_read_exactly(text, amount):
    assert parse_bytes(text) == amount


@pytest.mark.parametrize(
    "text", ["", "GiB", "8 G", "8GiBs", "-1", "1e9", "٣MB", "0", 0, -5, 1.5, True, None, "0.1B"]
)
def test_what_is_no_amount_of_memory_is_refused(text):
    with pytest.raises(ValueError, match="amount of memory"):
        parse_bytes(text)


@pytest.mark.parametrize("text", ["8", " 5 ", "1023", "1.5"])
def test_a_small_number_without_a_unit_is_refused_with_what_to_write(text):
    number = text.strip()
    with pytest.raises(ValueError) as raised:
        parse_bytes(text)
    assert str(raised.value) == (
        f'{text!r} means bytes; write "{number}GiB", or "{number}B" if bytes are meant'
    )


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("10min", 600), ("90 s", 90), ("1.5h", 5400), ("2d", 172_800), (90, 90), (0.5, 0.5), (0, 0), (None, 0),
     (False, 0), (True, math.inf), (math.inf, math.inf)],
)  # fmt: skip
def test_a_time_is_read(value, seconds):
    assert parse_keep(value) == seconds


@pytest.mark.parametrize(
    "value", ["10", "min", "-1s", "10 m", "", -1, math.nan, -math.inf, 2**32, [], "200000d"]
)
def test_what_is_no_time_is_refused(value):
    with pytest.raises(ValueError, match='keep is a time such as "10min"'):
        parse_keep(value)


def test_the_environment_says_how_long_where_the_argument_does_not(monkeypatch):
    assert Options().keep_wanted == 0
    monkeypatch.setenv("SENECA_KEEP", "2min")
    assert (Options().keep_wanted, Options(keep="1h").keep_wanted, Options(keep=False).keep_wanted) == (
        120, 3600, 0,
    )  # fmt: skip
    monkeypatch.setenv("SENECA_KEEP", "soon")
    with pytest.raises(ValueError, match="SENECA_KEEP: keep is a time"):
        Options()


def test_a_split_is_read_as_the_paper_writes_it():
    assert Split.parse("58-42-0") == Split(0.58, 0.42, 0.0)
    assert parse_split((0.5, 0.25, 0.25)) == Split(0.5, 0.25, 0.25)
    assert parse_split("20-38-42-0") == parse_split((0.2, 0.38, 0.42, 0)) == Split(0.2, 0.42, 0, recoded=0.38)
    assert parse_split("auto") == "auto"
    assert parse_split(default_split()) is not None


@pytest.mark.parametrize(
    "text", ["", "58-42", "58-42-1", "58-42-0-1", "1-2-3-4-90", "a-b-c", "110--10-0", "nan-50-50", "50,25,25"]
)
def test_what_is_no_split_is_refused_with_an_example(text):
    with pytest.raises(ValueError, match='"58-42-0"'):
        parse_split(text)


@pytest.mark.parametrize(
    "value",
    [(1, 1, 1), (0.5, 0.6, -0.1), (float("nan"), 1, 0), (0.5, 0.5), (0.2,) * 5, (0.5, 0.5, 0.5, 0), 7],
)
def test_fractions_that_are_no_shares_are_refused(value):
    with pytest.raises(ValueError, match="fraction"):
        parse_split(value)


@given(st.integers(0, 100), st.integers(0, 100))
def test_whole_percents_survive_being_written_and_read(a, b):
    low, high = sorted((a, b))
    text = f"{low}-{high - low}-{100 - high}"
    assert str(Split.parse(text)) == text


@given(st.floats(0, 1), st.floats(0, 1))
def test_any_split_is_written_in_percents_that_sum_to_100(a, b):
    low, high = sorted((a, b))
    parts = [int(part) for part in str(Split(low, high - low, 1 - high)).split("-")]
    assert sum(parts) == 100 and min(parts) >= 0


def test_the_default_split_uses_the_whole_cache():
    split = default_split()
    assert split.encoded + split.decoded + split.augmented == pytest.approx(1)


def test_options_keep_what_was_written_and_say_what_it_means():
    options = Options(cache="mine", cache_bytes="8GiB", split="58-42-0", share="none", on_error="skip")
    assert (options.cache_bytes, options.split) == ("8GiB", "58-42-0")
    assert (options.bytes_wanted, options.split_wanted) == (8 << 30, Split(0.58, 0.42, 0))
    assert (Options().bytes_wanted, Options().split_wanted) == ("auto", "auto")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"cache": ""}, "cache"),
        ({"cache": 8}, "cache"),
        ({"cache": True}, "cache"),
        ({"cache_bytes": "lots"}, "cache_bytes"),
        ({"cache_bytes": 0}, "cache_bytes"),
        ({"split": "half"}, "split"),
        ({"split": 5}, "split"),
        ({"share": "all"}, 'share is "augmented" or "decoded" or "exact" or "none"'),
        ({"on_error": None}, 'on_error is "raise" or "skip"'),
        ({"memory_format": torch.preserve_format}, "memory_format is torch.contiguous_format or torch.chann"),
        ({"memory_format": None}, "memory_format"),
        ({"uint8_batches": "yes"}, "uint8_batches is True, False, or None"),
        ({"uint8_batches": 1}, "uint8_batches is True, False, or None"),
    ],
)
def test_a_wrong_option_fails_at_once_and_is_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        Options(**arguments)


def test_the_memory_format_is_torchs_and_known_by_its_name():
    assert not Options().channels_last
    assert not Options(memory_format=torch.contiguous_format).channels_last
    options = Options(memory_format=torch.channels_last)
    assert options.channels_last and options.memory_format is torch.channels_last


@pytest.mark.parametrize("cache", ["auto", "mine", None, Split(1, 0, 0)])
def test_a_cache_is_a_name_an_object_or_none(cache):
    assert Options(cache=cache).cache is cache
