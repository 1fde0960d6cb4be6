"""Transforms of colour, of tones and of sharpness: pixels stay where they are."""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from seneca.transforms._arguments import NotNative, kernel, probability, rising
from seneca.transforms._base import STAYS, Step, Transform, ValueKind, step

__all__ = [
    "ColorJitter",
    "GaussianBlur",
    "Grayscale",
    "RandomAdjustSharpness",
    "RandomAutocontrast",
    "RandomChannelPermutation",
    "RandomEqualize",
    "RandomGrayscale",
    "RandomInvert",
    "RandomPhotometricDistort",
    "RandomPosterize",
    "RandomSolarize",
]


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

    kinds = ("color_jitter",)
    keeps_size = True
    masks = STAYS
    boxes = STAYS

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

    def __repr__(self) -> str:
        return (
            f"ColorJitter(brightness={self.brightness}, contrast={self.contrast}, "
            f"saturation={self.saturation}, hue={self.hue})"
        )

    def steps(self) -> tuple[Step, ...]:
        made = super().steps()
        return made if made[0].args else ()

    @classmethod
    def from_torchvision(cls, given: Any, holds: ValueKind) -> Transform:
        return cls(given.brightness, given.contrast, given.saturation, given.hue)


@dataclass(frozen=True)
class RandomPhotometricDistort(Transform):
    """Change brightness, contrast, saturation and hue and exchange channels, each with a given probability
    ("SSD", Liu et al.).

    Contrast comes second or fourth, with equal probability. Channels are exchanged last.

    Args:
        brightness, contrast, saturation, hue: The range of each factor, as for :class:`ColorJitter`.
        p: The probability of each change, in [0, 1].

    Raises:
        TypeError: A range is neither a number nor a pair.
        ValueError: A range goes beyond its bounds, or is falling, or ``p`` is outside [0, 1].
    """

    kinds = ("random_photometric_distort",)
    keeps_size = True
    masks = STAYS
    boxes = STAYS

    brightness: float | Sequence[float] | None = (0.875, 1.125)
    contrast: float | Sequence[float] | None = (0.5, 1.5)
    saturation: float | Sequence[float] | None = (0.5, 1.5)
    hue: float | Sequence[float] | None = (-0.05, 0.05)
    p: float = 0.5

    def __post_init__(self) -> None:
        self._set(
            brightness=_factors("brightness", self.brightness),
            contrast=_factors("contrast", self.contrast),
            saturation=_factors("saturation", self.saturation),
            hue=_factors("hue", self.hue, unchanged=0.0, bounds=(-0.5, 0.5)),
            p=probability(self.p),
        )

    @classmethod
    def from_torchvision(cls, given: Any, holds: ValueKind) -> Transform:
        return cls(given.brightness, given.contrast, given.saturation, given.hue, given.p)


@dataclass(frozen=True)
class RandomChannelPermutation(Transform):
    """Put the three channels into a random order. Each order has the same probability."""

    kinds = ("random_channel_permutation",)
    keeps_size = True
    masks = STAYS
    boxes = STAYS
    on_tensors = ("bytes", "floats")

    @classmethod
    def from_torchvision(cls, given: Any, holds: ValueKind) -> Transform:
        return cls()


@dataclass(frozen=True)
class Grayscale(Transform):
    """Make a picture grey. It keeps three channels, which are then equal: torchvision's ``Grayscale(3)``."""

    kinds = fixed_kinds = ("grayscale",)
    keeps_size = True
    masks = STAYS
    boxes = STAYS

    @classmethod
    def from_torchvision(cls, given: Any, holds: ValueKind) -> Transform:
        if given.num_output_channels != 3:
            raise NotNative(
                "Grayscale makes one channel, and a native batch has three: use num_output_channels=3"
            )
        return cls()


@dataclass(frozen=True)
class RandomGrayscale(Transform):
    """Make a picture grey with a given probability. It keeps three channels, which are then equal.

    Args:
        p: The probability, in [0, 1].

    Raises:
        ValueError: ``p`` is outside [0, 1].
    """

    kinds = ("random_grayscale",)
    keeps_size = True
    masks = STAYS
    boxes = STAYS

    p: float = 0.1

    def __post_init__(self) -> None:
        self._set(p=probability(self.p))

    @classmethod
    def from_torchvision(cls, given: Any, holds: ValueKind) -> Transform:
        return cls(given.p)


@dataclass(frozen=True)
class RandomInvert(Transform):
    """Replace each value ``v`` by ``255 - v``, with a given probability.

    Args:
        p: The probability, in [0, 1].

    Raises:
        ValueError: ``p`` is outside [0, 1].
    """

    kinds = ("random_invert",)
    keeps_size = True
    on_tensors = ("bytes",)
    masks = STAYS
    boxes = STAYS

    p: float = 0.5

    def __post_init__(self) -> None:
        self._set(p=probability(self.p))

    @classmethod
    def from_torchvision(cls, given: Any, holds: ValueKind) -> Transform:
        return cls(given.p)


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

    kinds = ("random_posterize",)
    keeps_size = True
    masks = STAYS
    boxes = STAYS

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

    @classmethod
    def from_torchvision(cls, given: Any, holds: ValueKind) -> Transform:
        return cls(given.bits, given.p)


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

    kinds = ("random_solarize",)
    keeps_size = True
    masks = STAYS
    boxes = STAYS

    threshold: float
    p: float = 0.5

    def __post_init__(self) -> None:
        self._set(threshold=_number("threshold", self.threshold), p=probability(self.p))

    @classmethod
    def from_torchvision(cls, given: Any, holds: ValueKind) -> Transform:
        return cls(given.threshold, given.p)


@dataclass(frozen=True)
class RandomAutocontrast(Transform):
    """Stretch each channel so that it reaches from 0 to 255, with a given probability.

    Args:
        p: The probability, in [0, 1].

    Raises:
        ValueError: ``p`` is outside [0, 1].
    """

    kinds = ("random_autocontrast",)
    keeps_size = True
    masks = STAYS
    boxes = STAYS

    p: float = 0.5

    def __post_init__(self) -> None:
        self._set(p=probability(self.p))

    @classmethod
    def from_torchvision(cls, given: Any, holds: ValueKind) -> Transform:
        return cls(given.p)


@dataclass(frozen=True)
class RandomEqualize(Transform):
    """Spread the values of each channel evenly, with a given probability.

    Args:
        p: The probability, in [0, 1].

    Raises:
        ValueError: ``p`` is outside [0, 1].
    """

    kinds = ("random_equalize",)
    keeps_size = True
    masks = STAYS
    boxes = STAYS

    p: float = 0.5

    def __post_init__(self) -> None:
        self._set(p=probability(self.p))

    @classmethod
    def from_torchvision(cls, given: Any, holds: ValueKind) -> Transform:
        return cls(given.p)


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

    kinds = ("random_adjust_sharpness",)
    keeps_size = True
    masks = STAYS
    boxes = STAYS

    sharpness_factor: float
    p: float = 0.5

    def __post_init__(self) -> None:
        factor = _number("sharpness_factor", self.sharpness_factor)
        if not 0 <= factor <= 1e6:
            raise ValueError(f"sharpness_factor: from 0 to 1000000, but got {factor}")
        self._set(sharpness_factor=factor, p=probability(self.p))

    @classmethod
    def from_torchvision(cls, given: Any, holds: ValueKind) -> Transform:
        return cls(given.sharpness_factor, given.p)


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

    kinds = ("gaussian_blur",)
    keeps_size = True
    on_tensors = ("bytes",)
    masks = STAYS
    boxes = STAYS

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

    @classmethod
    def from_torchvision(cls, given: Any, holds: ValueKind) -> Transform:
        return cls(given.kernel_size, given.sigma)


def _number(name: str, value: object) -> float:
    if not isinstance(value, numbers.Real):
        raise TypeError(f"{name}: a number, but got {value!r}")
    if not math.isfinite(value):
        raise ValueError(f"{name}: a finite number, but got {value!r}")
    return float(value)


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
