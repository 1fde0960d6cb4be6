"""The shares of a cache that its three kept forms get."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["Split", "default_split"]


@dataclass(frozen=True)
class Split:
    """Fractions of the payload memory for each form; together they are 1.

    Written as whole percents in the order encoded, decoded, augmented: ``58-42-0``, as in the
    paper (Desai et al., FAST '26), where they are x_E, x_D and x_A.

    Args:
        encoded: Fraction for files as storage gave them, in [0, 1] (x_E).
        decoded: Fraction for decoded pictures, in [0, 1] (x_D).
        augmented: Fraction for augmented pictures, in [0, 1] (x_A).

    Raises:
        ValueError: A fraction outside [0, 1], or a sum other than 1.

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
        """Read ``"58-42-0"``: percents for encoded, decoded and augmented.

        Raises:
            ValueError: Not three numbers, or not percents that sum to 100.
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
    """What ``split="auto"`` means where nothing can be measured: 60-20-20.

    Encoded payloads are some five times smaller than decoded ones, so they keep most samples off
    slow storage for their bytes and get most. Decoded ones save the CPU, and augmented ones give
    the stage, through which jobs share their work, room beyond its minimum.
    """
    return Split(encoded=0.6, decoded=0.2, augmented=0.2)
