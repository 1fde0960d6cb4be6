"""How far compared samples of two jobs vouch for samples that were not compared."""

from __future__ import annotations

import math

__all__ = ["WANTED", "differing_at_most", "in_words", "wanted"]

WANTED = 3000  # comparisons without a difference: with 95 % confidence fewer than 0.1 % differ
CONFIDENCE = 0.95


def wanted(n_samples: int) -> int:
    """How many samples of a dataset to compare before sharing rests on enough: each one, if they are few."""
    return min(WANTED, n_samples)


def differing_at_most(compared: int) -> float:
    """The largest share of differing samples for which so many comparisons could agree by bad luck.

    If a larger share differed, a random choice of ``compared`` samples would hold none of them with a
    probability below 5 %. For many comparisons this is the rule of three, ``3 / compared``.

    Example:
        >>> round(differing_at_most(3000), 5)
        0.001
    """
    return 1 - (1 - CONFIDENCE) ** (1 / compared) if compared > 0 else 1.0


def in_words(compared: int, n_samples: int) -> str:
    """Describe how many samples were compared, and what that means.

    Example:
        >>> in_words(3104, 10_000)
        '3,104 samples compared, none differed: with 95 % confidence fewer than 0.1 % do'
        >>> in_words(48, 48)
        'all 48 samples compared, none differed'
        >>> in_words(0, 48)
        'no sample compared so far'
    """
    if compared <= 0:
        return "no sample compared so far"
    if compared >= n_samples:
        return f"all {n_samples:,} samples compared, none differed"
    percent = 100 * differing_at_most(compared)
    digits = 0 if percent >= 1 else math.ceil(-math.log10(percent))
    rounded = math.ceil(percent * 10**digits) / 10**digits
    samples = "1 sample" if compared == 1 else f"{compared:,} samples"
    return f"{samples} compared, none differed: with 95 % confidence fewer than {rounded:g} % do"
