"""The shares of a cache's memory that its three forms get."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["Split", "default_split"]


@dataclass(frozen=True)
class Split:
    """Fractions of the payload memory for each form. Together they are 1.

    A split is written as whole percents in the order encoded, decoded, augmented: ``58-42-0``. The paper
    (Desai et al., FAST '26) does the same, and calls them x_E, x_D and x_A.

    Args:
        encoded: The fraction for files as storage gave them, in [0, 1] (x_E).
        decoded: The fraction for decoded samples, in [0, 1] (x_D).
        augmented: The fraction for augmented copies, in [0, 1] (x_A).

    Raises:
        ValueError: A fraction is outside [0, 1], or the sum is not 1.

    Example:
        >>> Split.parse("58-42-0")
        Split(encoded=0.58, decoded=0.42, augmented=0.0)
        >>> str(Split(0.5, 0.25, 0.25))
        '50-25-25'
    """

    encoded: float
    decoded: float
    augmented: float

    def __post_init__(self) -> None:
        fractions = (self.encoded, self.decoded, self.augmented)
        if not all(0 <= fraction <= 1 for fraction in fractions):  # NaN fails here too
            raise ValueError(f"each fraction of a split lies in [0, 1], but got {fractions}")
        if not math.isclose(sum(fractions), 1, abs_tol=1e-6):
            raise ValueError(f"the fractions of a split sum to 1, but {fractions} sum to {sum(fractions):g}")

    @classmethod
    def parse(cls, text: str) -> Split:
        """Read percents for encoded, decoded and augmented from ``"58-42-0"``.

        Raises:
            ValueError: The text has not three numbers, or they are not percents that sum to 100.
        """
        try:
            encoded, decoded, augmented = (float(part) for part in text.split("-"))
            return cls(encoded / 100, decoded / 100, augmented / 100)
        except ValueError:
            raise ValueError(
                f"split={text!r} is not encoded-decoded-augmented in percent; "
                'write three numbers that sum to 100, as in "58-42-0"'
            ) from None

    def __str__(self) -> str:
        # Rounding the two running sums, not each share, keeps the sum at 100.
        first = round(100 * self.encoded)
        second = round(100 * (self.encoded + self.decoded))
        return f"{first}-{second - first}-{100 - second}"


def default_split() -> Split:
    """The split that ``split="auto"`` uses if nothing can be measured: 60-20-20.

    Encoded payloads are some five times smaller than decoded ones. For the same bytes they keep the most
    samples off slow storage; therefore they get the most. Decoded payloads save CPU time. Augmented copies
    get room for the stage beyond its minimum, because jobs share their work through it.
    """
    return Split(encoded=0.6, decoded=0.2, augmented=0.2)
