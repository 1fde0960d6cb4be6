"""Transforms that map a picture onto itself: by a random affine map, in perspective, or by random shifts."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from seneca.transforms._arguments import (
    NotNative,
    angles,
    colour,
    fill_of,
    one_of,
    point,
    probability,
    rising,
    warp_filter,
    warping_of,
)
from seneca.transforms._base import MOVES, Step, Transform, ValueKind, not_yet, step
from seneca.transforms._genuine import is_v1

__all__ = ["ElasticTransform", "RandomAffine", "RandomPerspective", "RandomRotation"]

MOST_SIGMA = 31.5  # of ElasticTransform; SN_GRID_MAX_RADIUS in operations/grid.h is four times this, and more


@dataclass(frozen=True)
class RandomRotation(Transform):
    """Rotate by a random angle. The size stays.

    Args:
        degrees: The least and the greatest angle, counter-clockwise; or one number ``x`` for the range from
            ``-x`` to ``x``.
        interpolation: ``"nearest"``, ``"bilinear"`` or ``"bicubic"``, or torchvision's or Pillow's constant.
        expand: Only ``False``: with ``True`` each result would have a size of its own.
        center: ``(x, y)``, around which the picture turns; ``None`` for its middle.
        fill: The colour of what lies outside the picture, from 0 to 255: one number, or red, green, blue.

    Raises:
        TypeError: ``degrees``, ``center`` or ``fill`` is neither a number nor a sequence of numbers.
        ValueError: ``degrees`` is negative or falling, ``expand`` is true, ``fill`` is not a colour, or the
            filter does not run natively.

    Example:
        >>> RandomRotation(10, "bilinear").degrees
        (-10.0, 10.0)
    """

    kinds = ("random_rotation",)
    keeps_size = True
    masks = MOVES
    boxes = not_yet("boxes", "RandomResizedCrop")

    degrees: float | Sequence[float]
    interpolation: Any = "nearest"
    expand: bool = False
    center: Sequence[float] | None = None
    fill: int | Sequence[int] = 0

    def __post_init__(self) -> None:
        if self.expand:
            raise ValueError("expand: each result would have a size of its own; use expand=False")
        self._set(
            degrees=angles("degrees", self.degrees),
            interpolation=warp_filter(self.interpolation),
            expand=False,
            center=None if self.center is None else point("center", self.center),
            fill=colour(self.fill),
        )

    def steps(self) -> tuple[Step, ...]:
        return step(
            "random_rotation",
            degrees=self.degrees,
            interpolation=self.interpolation,
            center=self.center,
            fill=self.fill,
        )

    @classmethod
    def from_torchvision(cls, given: Any, holds: ValueKind) -> Transform:
        fill = fill_of("RandomRotation", given, holds)
        return cls(given.degrees, warping_of("RandomRotation", given), given.expand, given.center, fill)


@dataclass(frozen=True)
class RandomAffine(Transform):
    """Rotate, shift, scale and shear by random amounts. The size stays.

    Args:
        degrees: The range of the angle, clockwise, as for :class:`RandomRotation`.
        translate: The greatest shift along the width and along the height, as shares of these in [0, 1];
            ``None`` for none.
        scale: The least and the greatest factor; ``None`` for 1.
        shear: Angles in degrees: one number ``x`` for the range from ``-x`` to ``x`` along the width, the
            least and the greatest angle along the width, or the same for width and height: four numbers.
            ``None`` for no shear.
        interpolation, fill, center: As for :class:`RandomRotation`.

    Raises:
        TypeError: An argument is neither a number nor a sequence of numbers.
        ValueError: A range is falling, ``translate`` is outside [0, 1], ``scale`` is not positive, ``fill``
            is not a colour, or the filter does not run natively.

    Example:
        >>> RandomAffine(0, translate=(0.1, 0.1)).shear is None
        True
    """

    kinds = ("random_affine",)
    keeps_size = True
    masks = MOVES
    boxes = not_yet("boxes", "RandomResizedCrop")

    degrees: float | Sequence[float]
    translate: Sequence[float] | None = None
    scale: Sequence[float] | None = None
    shear: float | Sequence[float] | None = None
    interpolation: Any = "nearest"
    fill: int | Sequence[int] = 0
    center: Sequence[float] | None = None

    def __post_init__(self) -> None:
        self._set(
            degrees=angles("degrees", self.degrees),
            translate=None if self.translate is None else _shares(self.translate),
            scale=None if self.scale is None else rising("scale", self.scale, greatest=1e6),
            shear=None if self.shear is None else _shears(self.shear),
            interpolation=warp_filter(self.interpolation),
            fill=colour(self.fill),
            center=None if self.center is None else point("center", self.center),
        )

    @classmethod
    def from_torchvision(cls, given: Any, holds: ValueKind) -> Transform:
        fill = fill_of("RandomAffine", given, holds)
        interpolation = warping_of("RandomAffine", given)
        return cls(
            given.degrees, given.translate, given.scale, given.shear, interpolation, fill, given.center
        )


@dataclass(frozen=True)
class RandomPerspective(Transform):
    """Move the four corners inwards by random distances, with a given probability. The size stays.

    Where the four corners happen to lie on a line, the picture stays as it is.

    Args:
        distortion_scale: How far corners move at the most, as a share of half of the sides, in [0, 1].
        p: The probability, in [0, 1].
        interpolation, fill: As for :class:`RandomRotation`.

    Raises:
        TypeError: ``fill`` is neither a number nor a sequence of numbers.
        ValueError: ``distortion_scale`` or ``p`` is outside [0, 1], ``fill`` is not a colour, or the filter
            does not run natively.

    Example:
        >>> RandomPerspective(0.6, p=1.0).interpolation
        'bilinear'
    """

    kinds = ("random_perspective",)
    keeps_size = True
    masks = not_yet("masks", "RandomAffine")
    boxes = not_yet("boxes", "RandomResizedCrop")

    distortion_scale: float = 0.5
    p: float = 0.5
    interpolation: Any = "bilinear"
    fill: int | Sequence[int] = 0

    def __post_init__(self) -> None:
        if not 0 <= self.distortion_scale <= 1:
            raise ValueError(f"distortion_scale: from 0 to 1, but got {self.distortion_scale!r}")
        self._set(
            distortion_scale=float(self.distortion_scale),
            p=probability(self.p),
            interpolation=warp_filter(self.interpolation),
            fill=colour(self.fill),
        )

    @classmethod
    def from_torchvision(cls, given: Any, holds: ValueKind) -> Transform:
        fill = fill_of("RandomPerspective", given, holds)
        return cls(given.distortion_scale, given.p, warping_of("RandomPerspective", given), fill)


@dataclass(frozen=True)
class ElasticTransform(Transform):
    """Shift each pixel by a smooth random field, which resembles moving water. The size stays.

    Args:
        alpha: How strong the shifts are: one number, or two, along the width and along the height. Noise in
            [-1, 1] is blurred and multiplied by half of it; the result is in pixels.
        sigma: The deviation of the blur in pixels, likewise; 0 for no blur.
        interpolation: ``"nearest"`` or ``"bilinear"``, or torchvision's or Pillow's constant.
        fill: The colour of what lies outside the picture, from 0 to 255: one number, or red, green, blue.

    Raises:
        TypeError: ``alpha`` or ``sigma`` is neither a number nor a pair, or ``fill`` is neither a number nor
            a sequence of numbers.
        ValueError: ``sigma`` is negative or above 31.5, or 0 along one side only. Or ``fill`` is not a
            colour, or the filter does not run natively.

    Example:
        >>> ElasticTransform(120.0).alpha
        (120.0, 120.0)
    """

    kinds = ("elastic_transform",)
    keeps_size = True
    on_tensors = ("bytes",)  # torchvision makes a tensor of a picture for it
    masks = not_yet("masks", "RandomAffine")
    boxes = not_yet("boxes", "RandomResizedCrop")

    alpha: float | Sequence[float] = 50.0
    sigma: float | Sequence[float] = 5.0
    interpolation: Any = "bilinear"
    fill: int | Sequence[int] = 0

    def __post_init__(self) -> None:
        sigma = _both("sigma", self.sigma)
        if not (min(sigma) >= 1e-6 and max(sigma) <= MOST_SIGMA) and sigma != (0.0, 0.0):
            raise ValueError(f"sigma: up to {MOST_SIGMA}, and 0 along both sides or none; got {self.sigma!r}")
        self._set(
            alpha=_both("alpha", self.alpha),
            sigma=sigma,
            interpolation=one_of("interpolation", ("nearest", "bilinear"), warp_filter(self.interpolation)),
            fill=colour(self.fill),
        )

    @classmethod
    def from_torchvision(cls, given: Any, holds: ValueKind) -> Transform:
        if given.fill is None:
            raise NotNative("ElasticTransform has fill=None, which fades at the edges: use fill=0")
        fill = given.fill if is_v1(given) else fill_of("ElasticTransform", given, holds)
        alpha, sigma = (tuple(pair) for pair in (given.alpha, given.sigma))
        return cls(alpha, sigma, warping_of("ElasticTransform", given), fill)


def _both(name: str, value: float | Sequence[float]) -> tuple[float, float]:
    """Two numbers; one number stands for both."""
    if isinstance(value, numbers.Real):
        return point(name, (float(value),) * 2)
    is_one = isinstance(value, (list, tuple)) and len(value) == 1
    return point(name, tuple(value) * 2 if is_one else value)  # type: ignore[arg-type]


def _shares(value: Sequence[float]) -> tuple[float, float]:
    along, across = point("translate", value)
    if not (0 <= along <= 1 and 0 <= across <= 1):
        raise ValueError(f"translate: shares in [0, 1], but got {value!r}")
    return along, across


def _shears(value: float | Sequence[float]) -> tuple[float, float, float, float]:
    """Least and greatest angle along the width and along the height."""
    if not isinstance(value, numbers.Real) and isinstance(value, (list, tuple)) and len(value) == 4:
        return *angles("shear", value[:2]), *angles("shear", value[2:])
    return *angles("shear", value), 0.0, 0.0
