"""Transforms of colour: each pixel stays where it is."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from seneca._pipeline.plan import Step
from seneca.transforms._arguments import probability
from seneca.transforms._base import Transform, step

__all__ = ["ColorJitter", "RandomGrayscale"]


@dataclass(frozen=True, repr=False)
class ColorJitter(Transform):
    """Change brightness, contrast, saturation and hue by random factors, in a random order.

    A number ``x`` stands for factors from ``max(0, 1 - x)`` to ``1 + x``, for hue from ``-x`` to
    ``x``; a pair gives the range itself. Factors are drawn uniformly. 1 leaves a picture as it
    is, for hue 0 does; half a turn of hue is 0.5.

    Args:
        brightness: A number or a pair, not negative: what each pixel is multiplied by.
        contrast: Likewise: how far pixels are from the picture's mean grey.
        saturation: Likewise: how far pixels are from their own grey.
        hue: A number up to 0.5, or a pair within [-0.5, 0.5]: how far hues are turned.

    Raises:
        TypeError: An argument is neither a number nor a pair.
        ValueError: A range reaches outside its bounds, or falls.

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
    """Take the colour away, now and then; there are still three channels, all equal.

    Args:
        p: Probability of doing so.

    Raises:
        ValueError: ``p`` outside [0, 1].
    """

    p: float = 0.1

    def __post_init__(self) -> None:
        self._set(p=probability(self.p))

    def steps(self) -> tuple[Step, ...]:
        return step("random_grayscale", p=self.p)


def _factors(
    name: str, value: Any, unchanged: float = 1.0, bounds: tuple[float, float] = (0.0, math.inf)
) -> tuple[float, float] | None:
    """The range of a factor, or None where it would change nothing."""
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
