"""Transforms of tones and of sharpness. The first five give each value of a channel a new value."""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from seneca.transforms._arguments import kernel, probability, rising
from seneca.transforms._base import Transform, step
from seneca.transforms._pipeline import Step

__all__ = [
    "GaussianBlur",
    "RandomAdjustSharpness",
    "RandomAutocontrast",
    "RandomEqualize",
    "RandomInvert",
    "RandomPosterize",
    "RandomSolarize",
]


@dataclass(frozen=True)
class RandomInvert(Transform):
    """Replace each value ``v`` by ``255 - v``, with a given probability.

    Args:
        p: The probability, in [0, 1].

    Raises:
        ValueError: ``p`` is outside [0, 1].
    """

    p: float = 0.5

    def __post_init__(self) -> None:
        self._set(p=probability(self.p))

    def steps(self) -> tuple[Step, ...]:
        return step("random_invert", p=self.p)


@dataclass(frozen=True)
class RandomPosterize(Transform):
    """Keep only the highest bits of each value, with a given probability.

    Args:
        bits: How many bits are kept, from 0 to 8.
        p: The probability, in [0, 1].

    Raises:
        TypeError: ``bits`` is no int.
        ValueError: ``bits`` is not between 0 and 8, or ``p`` is outside [0, 1].

    Example:
        >>> RandomPosterize(3, p=0.2)
        RandomPosterize(bits=3, p=0.2)
    """

    bits: int
    p: float = 0.5

    def __post_init__(self) -> None:
        try:
            bits = operator.index(self.bits)
        except TypeError:
            raise TypeError(f"bits: an int, but got {self.bits!r}") from None
        if not 0 <= bits <= 8:
            raise ValueError(f"bits: between 0 and 8, but got {bits}")
        self._set(bits=bits, p=probability(self.p))

    def steps(self) -> tuple[Step, ...]:
        return step("random_posterize", p=self.p, bits=self.bits)


@dataclass(frozen=True)
class RandomSolarize(Transform):
    """Invert the values from a threshold on, with a given probability.

    Args:
        threshold: The least value that is inverted. Values are from 0 to 255.
        p: The probability, in [0, 1].

    Raises:
        TypeError: ``threshold`` is no number.
        ValueError: ``threshold`` is not finite, or ``p`` is outside [0, 1].
    """

    threshold: float
    p: float = 0.5

    def __post_init__(self) -> None:
        self._set(threshold=_number("threshold", self.threshold), p=probability(self.p))

    def steps(self) -> tuple[Step, ...]:
        return step("random_solarize", p=self.p, threshold=self.threshold)


@dataclass(frozen=True)
class RandomAutocontrast(Transform):
    """Stretch each channel so that it reaches from 0 to 255, with a given probability.

    Args:
        p: The probability, in [0, 1].

    Raises:
        ValueError: ``p`` is outside [0, 1].
    """

    p: float = 0.5

    def __post_init__(self) -> None:
        self._set(p=probability(self.p))

    def steps(self) -> tuple[Step, ...]:
        return step("random_autocontrast", p=self.p)


@dataclass(frozen=True)
class RandomEqualize(Transform):
    """Spread the values of each channel evenly, with a given probability.

    Args:
        p: The probability, in [0, 1].

    Raises:
        ValueError: ``p`` is outside [0, 1].
    """

    p: float = 0.5

    def __post_init__(self) -> None:
        self._set(p=probability(self.p))

    def steps(self) -> tuple[Step, ...]:
        return step("random_equalize", p=self.p)


@dataclass(frozen=True)
class RandomAdjustSharpness(Transform):
    """Blur or sharpen with a given probability, as Pillow's ``ImageEnhance.Sharpness`` does.

    Args:
        sharpness_factor: 0 blurs, 1 changes nothing, 2 doubles the sharpness; not negative.
        p: The probability, in [0, 1].

    Raises:
        TypeError: ``sharpness_factor`` is no number.
        ValueError: ``sharpness_factor`` is negative or above a million, or ``p`` is outside [0, 1].
    """

    sharpness_factor: float
    p: float = 0.5

    def __post_init__(self) -> None:
        factor = _number("sharpness_factor", self.sharpness_factor)
        if not 0 <= factor <= 1e6:
            raise ValueError(f"sharpness_factor: from 0 to 1000000, but got {factor}")
        self._set(sharpness_factor=factor, p=probability(self.p))

    def steps(self) -> tuple[Step, ...]:
        return step("random_adjust_sharpness", p=self.p, sharpness_factor=self.sharpness_factor)


@dataclass(frozen=True)
class GaussianBlur(Transform):
    """Blur with a normal distribution of random deviation.

    At its edges a picture is mirrored without its outermost pixels.

    Args:
        kernel_size: Width and height of the part that a pixel is mixed from, or one number for both: odd,
            at most 255. torchvision has them in this order.
        sigma: The least and the greatest standard deviation in pixels, or one number for both.

    Raises:
        TypeError: ``kernel_size`` is neither an int nor a pair of them.
        ValueError: A side is even, not positive or above 255; or ``sigma`` is not positive, or falling.

    Example:
        >>> GaussianBlur(23, sigma=(0.1, 2))
        GaussianBlur(kernel_size=(23, 23), sigma=(0.1, 2.0))
    """

    kernel_size: int | Sequence[int]
    sigma: float | Sequence[float] = (0.1, 2.0)

    def __post_init__(self) -> None:
        sigma: Any = self.sigma
        if isinstance(sigma, numbers.Real):
            sigma = (sigma, sigma)
        self._set(kernel_size=kernel(self.kernel_size), sigma=rising("sigma", sigma, greatest=1e6))

    def steps(self) -> tuple[Step, ...]:
        width, height = self.kernel_size  # type: ignore[misc]
        return step("gaussian_blur", kernel_size=(height, width), sigma=self.sigma)


def _number(name: str, value: object) -> float:
    if not isinstance(value, numbers.Real):
        raise TypeError(f"{name}: a number, but got {value!r}")
    if not math.isfinite(value):
        raise ValueError(f"{name}: a finite number, but got {value!r}")
    return float(value)
