"""Philox and the stream of a sample: reference vectors, and what must and must not change it."""

import numpy as np
import pytest

from seneca._core.rng import Rng, philox

# Random123's kat_vectors, philox4x32-10.
KNOWN = [
    ((0, 0), (0, 0, 0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((2**32 - 1,) * 2, (2**32 - 1,) * 4, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0xA4093822, 0x299F31D0),
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("key", "counter", "expected"), KNOWN)
def test_philox_gives_the_reference_vectors(key, counter, expected):
    assert philox(key, counter) == expected


def numbers(*args, n=10):
    rng = Rng(*args)
    return [rng.u32() for _ in range(n)]


def test_a_stream_is_the_same_whenever_it_is_started():
    assert numbers(1, 2, 3, 4, 0) == numbers(1, 2, 3, 4, 0)


@pytest.mark.parametrize("changed", range(5))
def test_seed_nonce_epoch_index_and_stream_each_make_another_stream(changed):
    args = [1, 2, 3, 4, 0]
    other = list(args)
    other[changed] += 1
    assert not set(numbers(*args)) & set(numbers(*other))


def test_a_nonce_of_zero_is_no_nonce_and_seed_and_nonce_do_not_trade_places():
    assert numbers(5, 0, 0, 0) != numbers(0, 5, 0, 0)


def test_doubles_are_uniform_in_the_unit_interval():
    rng = Rng(11, 0, 0, 0)
    values = np.sort([rng.double() for _ in range(20_000)])
    assert values[0] >= 0 and values[-1] < 1
    distance = np.abs(values - np.arange(1, 20_001) / 20_000).max()
    assert distance < 1.95 / np.sqrt(20_000)  # Kolmogorov-Smirnov, one in a thousand; the seed is fixed


@pytest.mark.parametrize("n", [1, 2, 3, 7, 1000, 2**31 + 1, 2**32 - 1])
def test_below_stays_below_and_reaches_every_part(n):
    rng = Rng(13, 0, 0, n % 97)
    values = [rng.below(n) for _ in range(4000)]
    assert max(values) < n
    parts = min(n, 8)
    counts = np.bincount([value * parts // n for value in values], minlength=parts)
    assert counts.min() > 4000 / parts * 0.8
