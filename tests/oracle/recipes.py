"""Warps, blurs, and RandAugment and its like, in Pillow and NumPy: the part of ``pictures`` for these."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from PIL import Image, ImageEnhance, ImageOps

from oracle.policies import PAIRS
from oracle.steps import STEPS, step

__all__ = ["inverse_affine", "operate", "spaced"]

Rng = np.random.Generator
Colour = tuple[int, int, int]
Range = tuple[float, float]

BLACK = (0, 0, 0)


def _warp(picture: Image.Image, matrix: Sequence[float], interpolation: str, fill: Colour) -> Image.Image:
    resample = Image.Resampling[interpolation.upper()]
    return picture.transform(picture.size, Image.Transform.AFFINE, tuple(matrix), resample, fillcolor=fill)


def inverse_affine(
    center: Sequence[float],
    degrees: float,
    away: Sequence[float],
    scale: float,
    shear: Sequence[float],
) -> list[float]:
    """The inverse of: shear, scale, rotate clockwise, all around ``center``, then shift by ``away``."""
    turn, along, across = (math.radians(angle) for angle in (degrees, *shear))
    a = math.cos(turn - across) / math.cos(across)
    b = -a * math.tan(along) - math.sin(turn)
    c = math.sin(turn - across) / math.cos(across)
    d = -c * math.tan(along) + math.cos(turn)
    rows = (d / scale, -b / scale), (-c / scale, a / scale)
    made: list[float] = []
    for row, middle in zip(rows, center, strict=True):
        moved = row[0] * (-center[0] - away[0]) + row[1] * (-center[1] - away[1]) + middle
        made += [*row, moved]
    return made


@step
def _random_rotation(
    picture: Image.Image,
    rng: Rng,
    degrees: Range,
    interpolation: str = "bilinear",
    center: Range | None = None,
    fill: Colour = BLACK,
) -> Image.Image:
    resample = Image.Resampling[interpolation.upper()]
    return picture.rotate(rng.uniform(*degrees), resample, center=center, fillcolor=fill)


@step
def _random_affine(
    picture: Image.Image,
    rng: Rng,
    degrees: Range,
    translate: Range = (0, 0),
    scale: Range = (1, 1),
    shear: tuple[float, float, float, float] = (0, 0, 0, 0),
    interpolation: str = "bilinear",
    fill: Colour = BLACK,
    center: Range | None = None,
) -> Image.Image:
    middle = (picture.width * 0.5, picture.height * 0.5) if center is None else center
    angle = rng.uniform(*degrees)
    most = translate[0] * picture.width, translate[1] * picture.height
    away = [round(rng.uniform(-side, side)) for side in most]
    factor = rng.uniform(*scale)
    sheared = rng.uniform(*shear[:2]), rng.uniform(*shear[2:])
    return _warp(picture, inverse_affine(middle, angle, away, factor, sheared), interpolation, fill)


@step
def _gaussian_blur(picture: Image.Image, rng: Rng, kernel_size: tuple[int, int], sigma: Range) -> Image.Image:
    deviation = rng.uniform(*sigma)
    values = np.asarray(picture, np.float32)
    for axis, count in enumerate(kernel_size):
        radius = count // 2
        weights = np.exp(-0.5 * (np.arange(-radius, radius + 1) / deviation) ** 2)
        margins = [(radius, radius) if other == axis else (0, 0) for other in range(3)]
        padded = np.pad(values, margins, "reflect")
        length = values.shape[axis]
        mixed = (
            (weight / weights.sum()).astype(np.float32) * padded.take(range(k, k + length), axis)
            for k, weight in enumerate(weights)
        )
        values = np.sum(list(mixed), axis=0, dtype=np.float32)
    return Image.fromarray(np.clip(np.rint(values), 0, 255).astype(np.uint8))


def _perhaps(change: Callable[..., Image.Image]) -> Callable[..., Image.Image]:
    """A change that is made with a probability."""

    def changed(picture: Image.Image, rng: Rng, p: float, **args: Any) -> Image.Image:
        return change(picture, **args) if rng.random() < p else picture

    return changed


def spaced(first: float, last: float, bins: int, k: int) -> float:
    """One of ``bins`` numbers from ``first`` to ``last``."""
    return (first * (bins - 1 - k) + last * k) / (bins - 1)


def _magnitude(name: str, size: tuple[int, int], bins: int, k: int, wide: bool) -> float:
    """The magnitude of bin ``k``: a threshold for ``solarize``, a number of bits for ``posterize``."""
    if name == "posterize":
        return 8 - round(k * (6 if wide else 4) / (bins - 1))
    if name == "solarize":
        return spaced(255, 0, bins, k)
    if name in ("shear_x", "shear_y"):
        greatest = 0.99 if wide else 0.3
    elif name in ("translate_x", "translate_y"):
        greatest = 32 if wide else 150 / 331 * size[name == "translate_y"]
    elif name == "rotate":
        greatest = 135 if wide else 30
    else:
        greatest = 0.99 if wide else 0.9
    return spaced(0, greatest, bins, k)


def operate(
    picture: Image.Image, name: str, magnitude: float, interpolation: str, fill: Colour
) -> Image.Image:
    """Apply one operation of a recipe."""
    middle = picture.width * 0.5, picture.height * 0.5
    along = name.endswith("_x")
    if name.startswith("shear"):
        angle = math.degrees(math.atan(magnitude))
        shear = (angle, 0.0) if along else (0.0, angle)
        return _warp(picture, inverse_affine((0, 0), 0, (0, 0), 1, shear), interpolation, fill)
    if name.startswith("translate"):
        away = (int(magnitude), 0) if along else (0, int(magnitude))
        return _warp(picture, inverse_affine(middle, 0, away, 1, (0, 0)), interpolation, fill)
    if name == "rotate":
        return picture.rotate(magnitude, Image.Resampling[interpolation.upper()], fillcolor=fill)
    return _OPERATIONS[name](picture, magnitude)


@step
def _rand_augment(
    picture: Image.Image,
    rng: Rng,
    num_ops: int,
    magnitude: int,
    num_magnitude_bins: int,
    interpolation: str = "bilinear",
    fill: Colour = BLACK,
) -> Image.Image:
    for name in rng.choice(CHOSEN_FROM, num_ops):
        amount = _magnitude(name, picture.size, num_magnitude_bins, magnitude, False)
        sign = rng.choice((-1, 1)) if name in SIGNED else 1
        picture = operate(picture, name, sign * amount, interpolation, fill)
    return picture


@step
def _trivial_augment_wide(
    picture: Image.Image,
    rng: Rng,
    num_magnitude_bins: int,
    interpolation: str = "bilinear",
    fill: Colour = BLACK,
) -> Image.Image:
    name, k = rng.choice(CHOSEN_FROM), int(rng.integers(num_magnitude_bins))
    amount = _magnitude(name, picture.size, num_magnitude_bins, k, True)
    sign = rng.choice((-1, 1)) if name in SIGNED else 1
    return operate(picture, name, sign * amount, interpolation, fill)


@step
def _auto_augment(
    picture: Image.Image,
    rng: Rng,
    policy: str,
    interpolation: str = "bilinear",
    fill: Colour = BLACK,
) -> Image.Image:
    for name, p, k in PAIRS[policy][int(rng.integers(len(PAIRS[policy])))]:
        amount = _magnitude(name, picture.size, 10, k, False)
        sign = rng.choice((-1, 1)) if name in SIGNED else 1
        if rng.random() < p:
            picture = operate(picture, name, sign * amount, interpolation, fill)
    return picture


def _sharpen(picture: Image.Image, sharpness_factor: float) -> Image.Image:
    return ImageEnhance.Sharpness(picture).enhance(sharpness_factor)


_OPERATIONS: dict[str, Callable[[Image.Image, float], Image.Image]] = {
    "brightness": lambda picture, m: ImageEnhance.Brightness(picture).enhance(1 + m),
    "color": lambda picture, m: ImageEnhance.Color(picture).enhance(1 + m),
    "contrast": lambda picture, m: ImageEnhance.Contrast(picture).enhance(1 + m),
    "sharpness": lambda picture, m: _sharpen(picture, 1 + m),
    "posterize": lambda picture, m: ImageOps.posterize(picture, int(m)),
    "solarize": lambda picture, m: ImageOps.solarize(picture, m),  # type: ignore[arg-type]
    "auto_contrast": lambda picture, _: ImageOps.autocontrast(picture),
    "equalize": lambda picture, _: ImageOps.equalize(picture),
    "invert": lambda picture, _: ImageOps.invert(picture),
    "identity": lambda picture, _: picture,
}
MOVING = ("shear_x", "shear_y", "translate_x", "translate_y", "rotate")
SIGNED = (*MOVING, "brightness", "color", "contrast", "sharpness")
CHOSEN_FROM = (*SIGNED, "posterize", "solarize", "auto_contrast", "equalize", "identity")

STEPS.update(
    random_invert=_perhaps(ImageOps.invert),
    random_posterize=_perhaps(lambda picture, bits: ImageOps.posterize(picture, bits)),
    random_solarize=_perhaps(lambda picture, threshold: ImageOps.solarize(picture, threshold)),
    random_autocontrast=_perhaps(ImageOps.autocontrast),
    random_equalize=_perhaps(ImageOps.equalize),
    random_adjust_sharpness=_perhaps(_sharpen),
)
