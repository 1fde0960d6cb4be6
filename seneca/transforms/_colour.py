"""Transforms of colour: each pixel stays where it is."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from seneca.transforms._arguments import probability
from seneca.transforms._base import Transform, step
from seneca.transforms._pipeline import Step

__all__ = ["ColorJitter", "RandomGrayscale"]


@dataclass(frozen=True, repr=False)
class ColorJitter(Transform):
    """Change brightness, contrast, saturation and hue by random factors, in a random order.

    Each argument is a number or a pair. A pair (least, greatest) is the range of the factor. A number ``x``
    stands for the range from ``max(0, 1 - x)`` to ``1 + x``; for hue, from ``-x`` to ``x``. Factors are
    drawn uniformly. A factor of 1 changes nothing; for hue, 0 changes nothing, and 0.5 is half a turn.

    Args:
        brightness: Each pixel is multiplied by this factor, which is not negative.
        contrast: The factor for the distance of pixels from the picture's mean grey; not negative.
        saturation: The factor for the distance of pixels from their own grey; not negative.
        hue: How far hues are turned: a number up to 0.5, or a pair within [-0.5, 0.5].

    Raises:
        TypeError: An argument is neither a number nor a pair.
        ValueError: A range goes beyond its bounds, or is falling.

    Example:
        >>> ColorJitter(0.4, contrast=(0.9, 1.5), hue=0.1)
        ColorJitter(brightness=(0.6, 1.4), contrast=(0.9, 1.5), saturation=None, hue=(-0.1, 0.1))
    """

    brightness: float | Sequence[float] | None = 0
    contrast: float | Sequence[float] | None = 0
    saturation: float | Sequence[float] | None = 0
    hue: float | Sequence[float] | None = 0

    def __post_init__(self) -> None:
        self._set(
            brightness=_factors("brightness", self.brightness),
            contrast=_factors("contrast", self.contrast),
            saturation=_factors("saturation", self.saturation),
            hue=_factors("hue", self.hue, unchanged=0.0, bounds=(-0.5, 0.5)),
        )

    def steps(self) -> tuple[Step, ...]:
        made = step(
            "color_jitter",
            brightness=self.brightness,
            contrast=self.contrast,
            saturation=self.saturation,
            hue=self.hue,
        )
        return made if made[0].args else ()

    def __repr__(self) -> str:
        return (
            f"ColorJitter(brightness={self.brightness}, contrast={self.contrast}, "
            f"saturation={self.saturation}, hue={self.hue})"
        )


@dataclass(frozen=True)
class RandomGrayscale(Transform):
    """Make a picture grey with a given probability. It keeps three channels, which are then equal.

    Args:
        p: The probability, in [0, 1].

    Raises:
        ValueError: ``p`` is outside [0, 1].
    """

    p: float = 0.1

    def __post_init__(self) -> None:
        self._set(p=probability(self.p))

    def steps(self) -> tuple[Step, ...]:
        return step("random_grayscale", p=self.p)


def _factors(
    name: str, value: Any, unchanged: float = 1.0, bounds: tuple[float, float] = (0.0, math.inf)
) -> tuple[float, float] | None:
    """The range of a factor; None if it would change nothing."""
    if value is None:
        return None
    if isinstance(value, numbers.Real):
        if value < 0:
            raise ValueError(f"{name}: a single number is not negative, but got {value!r}; give a pair")
        low, high = unchanged - float(value), unchanged + float(value)
        if bounds[0] == 0:
            low = max(low, 0.0)
    elif isinstance(value, (list, tuple)) and len(value) == 2:
        low, high = float(value[0]), float(value[1])
    else:
        raise TypeError(f"{name}: a number or a pair (least, greatest), but got {value!r}")
    if not (bounds[0] <= low <= high <= bounds[1] and math.isfinite(high)):
        limits = "not negative" if bounds[1] == math.inf else f"within [{bounds[0]}, {bounds[1]}]"
        raise ValueError(f"{name}: least and greatest are {limits} and in this order, but got {value!r}")
    return None if low == high == unchanged else (low, high)
