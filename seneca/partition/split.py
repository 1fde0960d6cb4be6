"""The shares of a cache's memory that its four forms get."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Split", "default_split", "split_as_written"]


@dataclass(frozen=True)
class Split:
    """Fractions of the payload memory for each form. Together they are 1.

    A split is written as whole percents. Three numbers are encoded, decoded, augmented: ``58-42-0``. The
    paper (Desai et al., FAST '26) does the same, and calls them x_E, x_D and x_A. Four numbers are encoded,
    recoded, decoded, augmented: ``20-38-42-0``. Three are written if RECODED has none of the percents.

    The arguments are in another order than the four numbers: ``recoded`` is the last, and may be left out.

    Args:
        encoded: The fraction for files as storage gave them, in [0, 1] (x_E).
        decoded: The fraction for decoded samples, in [0, 1] (x_D).
        augmented: The fraction for augmented copies, in [0, 1] (x_A).
        recoded: The fraction for recoded files, in [0, 1]. The paper has no such form.

    Raises:
        ValueError: A fraction is outside [0, 1], or the sum is not 1.

    Example:
        >>> Split.parse("58-42-0")
        Split(encoded=0.58, decoded=0.42, augmented=0.0, recoded=0.0)
        >>> Split.parse("20-38-42-0")
        Split(encoded=0.2, decoded=0.42, augmented=0.0, recoded=0.38)
        >>> str(Split(0.5, 0.25, 0.25))
        '50-25-25'
        >>> str(Split(0.5, 0.125, 0.125, recoded=0.25))
        '50-25-13-12'
    """

    encoded: float
    decoded: float
    augmented: float
    recoded: float = 0.0

    def __post_init__(self) -> None:
        fractions: tuple[float, ...] = (self.encoded, self.decoded, self.augmented)
        if self.recoded != 0:
            fractions = (*fractions, self.recoded)
        if not all(0 <= fraction <= 1 for fraction in fractions):  # NaN fails here too
            raise ValueError(f"each fraction of a split lies in [0, 1], but got {fractions}")
        if not math.isclose(sum(fractions), 1, abs_tol=1e-6):
            raise ValueError(f"the fractions of a split sum to 1, but {fractions} sum to {sum(fractions):g}")

    @classmethod
    def parse(cls, text: str) -> Split:
        """Read percents from ``"58-42-0"``, or from ``"20-38-42-0"`` with RECODED in the second place.

        Raises:
            ValueError: The text has neither three nor four numbers, or they are not percents that sum to
                100.
        """
        try:
            return split_as_written([float(part) / 100 for part in text.split("-")])
        except ValueError:
            raise ValueError(
                f"split={text!r} is neither encoded-decoded-augmented nor encoded-recoded-decoded-augmented "
                'in percent; write three or four numbers that sum to 100, as in "58-42-0" or "20-38-42-0"'
            ) from None

    def __str__(self) -> str:
        # Rounding the running sums, not each share, keeps the sum at 100.
        sums = (self.encoded, self.encoded + self.recoded, self.encoded + self.recoded + self.decoded)
        first, second, third = (round(100 * one) for one in sums)
        recoded = f"{second - first}-" if second > first else ""
        return f"{first}-{recoded}{third - second}-{100 - third}"


def split_as_written(fractions: Sequence[float]) -> Split:
    """A split of three or four fractions, in the order in which a split is written.

    Raises:
        ValueError: There are fewer or more, or they are no fractions of a split.

    Example:
        >>> split_as_written([0.2, 0.38, 0.42, 0.0]).recoded
        0.38
    """
    if len(fractions) == 3:
        encoded, decoded, augmented = fractions
        return Split(encoded, decoded, augmented)
    encoded, recoded, decoded, augmented = fractions
    return Split(encoded, decoded, augmented, recoded)


def default_split() -> Split:
    """The split that ``split="auto"`` uses if nothing can be measured: 60-20-20.

    Encoded payloads are some five times smaller than decoded ones. For the same bytes they keep the most
    samples off slow storage; therefore they get the most. Decoded payloads save CPU time. Augmented copies
    get room for the stage beyond its minimum, because jobs share their work through it.
    """
    return Split(encoded=0.6, decoded=0.2, augmented=0.2)
