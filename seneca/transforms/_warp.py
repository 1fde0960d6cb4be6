"""Transforms that map a picture onto itself by a random affine map."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from seneca.transforms._arguments import angles, colour, point, rising, warp_filter
from seneca.transforms._base import Transform, step
from seneca.transforms._pipeline import Step

__all__ = ["RandomAffine", "RandomRotation"]


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

    def steps(self) -> tuple[Step, ...]:
        return step(
            "random_affine",
            degrees=self.degrees,
            translate=self.translate,
            scale=self.scale,
            shear=self.shear,
            interpolation=self.interpolation,
            fill=self.fill,
            center=self.center,
        )


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
