"""Transforms whose result has a size that is drawn, or that hangs on the picture's. A crop follows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from seneca.transforms._arguments import (
    colour,
    filter_name,
    filter_or_random,
    pair,
    probability,
    rising,
    side,
)
from seneca.transforms._base import Transform, step
from seneca.transforms._pipeline import Step

__all__ = ["RandomShortestSize", "RandomZoomOut", "ResizeKeepRatio", "ScaleJitter"]

MOST_SIZES = 16  # SN_MAX_SIZES in csrc/codec/sn_plan.h
MOST_FACTOR = 65_535.0


@dataclass(frozen=True)
class ResizeKeepRatio(Transform):
    """Resize, keeping the ratio of the sides, until one of them fits, as timm's transform of this name does.

    Args:
        size: ``(height, width)``, or one int for both.
        longest: 0: the picture covers this size. 1: the picture fits into it. A number between
            0 and 1: the factor lies between the two, in proportion.
        interpolation: ``"bilinear"``, ``"bicubic"``, or ``"random"``, which chooses between them.
        random_scale_prob: The probability that the result's sides are multiplied by a random factor.
        random_scale_range: The least and the greatest factor.
        random_scale_area: Whether ``random_scale_range`` is of the share of the area that a crop will see.
            Then the factor of the sides is one over its root.
        random_aspect_prob: The probability that the ratio of the sides is changed.
        random_aspect_range: The least and the greatest factor of the ratio.

    Raises:
        TypeError: ``size`` is neither an int nor a pair of them, or a range is no sequence.
        ValueError: A side is not positive, a probability or ``longest`` is outside [0, 1], a range is not
            positive and rising, or the filter does not run natively.
    """

    size: int | Sequence[int]
    longest: float = 0.0
    interpolation: Any = "bilinear"
    random_scale_prob: float = 0.0
    random_scale_range: Sequence[float] = (0.85, 1.05)
    random_scale_area: bool = False
    random_aspect_prob: float = 0.0
    random_aspect_range: Sequence[float] = (0.9, 1.11)

    def __post_init__(self) -> None:
        if not 0 <= self.longest <= 1:
            raise ValueError(f"longest: from 0 to 1, but got {self.longest!r}")
        self._set(
            size=pair(self.size),
            longest=float(self.longest),
            interpolation=filter_or_random(self.interpolation),
            random_scale_prob=probability(self.random_scale_prob),
            random_scale_range=rising("random_scale_range", self.random_scale_range, greatest=MOST_FACTOR),
            random_scale_area=bool(self.random_scale_area),
            random_aspect_prob=probability(self.random_aspect_prob),
            random_aspect_range=rising("random_aspect_range", self.random_aspect_range, greatest=MOST_FACTOR),
        )

    def steps(self) -> tuple[Step, ...]:
        if not self.random_scale_prob and not self.random_aspect_prob and self.interpolation != "random":
            return step(
                "resize_keep_ratio", size=self.size, longest=self.longest, interpolation=self.interpolation
            )
        return step(
            "random_resize_keep_ratio",
            size=self.size,
            longest=self.longest,
            interpolation=self.interpolation,
            p=self.random_scale_prob,
            scale=self.random_scale_range,
            by_area=self.random_scale_area,
            aspect_p=self.random_aspect_prob,
            ratio=self.random_aspect_range,
        )


@dataclass(frozen=True)
class ScaleJitter(Transform):
    """Resize a picture so that it fits a size times a random factor ("Simple Copy-Paste", Ghiasi et al.).

    Args:
        target_size: Two numbers. torchvision divides the first by the width and the second by the height.
        scale_range: The least and the greatest factor.
        interpolation: ``"bilinear"`` or ``"bicubic"``, or torchvision's or Pillow's constant.

    Raises:
        TypeError: ``target_size`` is no pair of ints, or ``scale_range`` no sequence.
        ValueError: A side or a factor is not positive, the range falls, or the filter does not run natively.
    """

    target_size: Sequence[int]
    scale_range: Sequence[float] = (0.1, 2.0)
    interpolation: Any = "bilinear"

    def __post_init__(self) -> None:
        self._set(
            target_size=pair(self.target_size),
            scale_range=rising("scale_range", self.scale_range, greatest=MOST_FACTOR),
            interpolation=filter_name(self.interpolation),
        )

    def steps(self) -> tuple[Step, ...]:
        return step(
            "scale_jitter", size=self.target_size, scale=self.scale_range, interpolation=self.interpolation
        )


@dataclass(frozen=True)
class RandomShortestSize(Transform):
    """Resize a picture so that its shorter side has one of some lengths, chosen at random.

    Args:
        min_size: One length, or at most 16 of them.
        max_size: The greatest length of the longer side; ``None``: any.
        interpolation: ``"bilinear"`` or ``"bicubic"``, or torchvision's or Pillow's constant.

    Raises:
        TypeError: A length is no int.
        ValueError: A length is not positive, there are none or too many, or the filter does not run natively.
    """

    min_size: int | Sequence[int]
    max_size: int | None = None
    interpolation: Any = "bilinear"

    def __post_init__(self) -> None:
        given = self.min_size if isinstance(self.min_size, (list, tuple)) else (self.min_size,)
        if not 1 <= len(given) <= MOST_SIZES:
            raise ValueError(f"min_size: 1 to {MOST_SIZES} lengths run natively, but got {len(given)}")
        self._set(
            min_size=tuple(side("min_size", length) for length in given),
            max_size=None if self.max_size is None else side("max_size", self.max_size),
            interpolation=filter_name(self.interpolation),
        )

    def steps(self) -> tuple[Step, ...]:
        return step(
            "random_shortest_size",
            sizes=self.min_size,
            max_size=self.max_size,
            interpolation=self.interpolation,
        )


@dataclass(frozen=True)
class RandomZoomOut(Transform):
    """Put a picture on a larger canvas at a random place, with a given probability ("SSD", Liu et al.).

    Args:
        fill: The colour of the canvas, from 0 to 255: one number, or red, green and blue.
        side_range: The least and the greatest factor of the sides, from 1.
        p: The probability, in [0, 1].

    Raises:
        TypeError: ``fill`` is neither a number nor a sequence of numbers, or ``side_range`` no sequence.
        ValueError: ``fill`` is not a colour, the range falls or begins below 1, or ``p`` is outside [0, 1].
    """

    fill: int | Sequence[int] = 0
    side_range: Sequence[float] = (1.0, 4.0)
    p: float = 0.5

    def __post_init__(self) -> None:
        sides = rising("side_range", self.side_range, greatest=MOST_FACTOR)
        if sides[0] < 1:
            raise ValueError(f"side_range: from 1, but got {self.side_range!r}")
        self._set(fill=colour(self.fill), side_range=sides, p=probability(self.p))

    def steps(self) -> tuple[Step, ...]:
        return step("random_zoom_out", p=self.p, scale=self.side_range, fill=self.fill)
