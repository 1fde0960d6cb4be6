"""Resizes to a size that is drawn, in Pillow: the part of ``pictures`` for these."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageOps

from oracle.steps import STEPS, step

__all__ = ["draw_filter"]

Rng = np.random.Generator
Range = tuple[float, float]


def draw_filter(interpolation: str, rng: Rng) -> Image.Resampling:
    """Pillow's constant; of bilinear and bicubic, where the name is ``"random"``."""
    drawn = rng.choice(("bilinear", "bicubic")) if interpolation == "random" else interpolation
    return Image.Resampling[drawn.upper()]


def _to(picture: Image.Image, height: float, width: float, resample: Image.Resampling) -> Image.Image:
    return picture.resize((max(1, int(width)), max(1, int(height))), resample)


@step
def _resize_keep_ratio(
    picture: Image.Image,
    rng: Rng,
    size: tuple[int, int],
    longest: float,
    interpolation: str = "bilinear",
    p: float = 0.0,
    scale: Range = (1.0, 1.0),
    by_area: bool = False,
    aspect_p: float = 0.0,
    ratio: Range = (1.0, 1.0),
) -> Image.Image:
    down, across = picture.height / size[0], picture.width / size[1]
    by = max(down, across) * longest + min(down, across) * (1 - longest)
    factor = aspect = 1.0
    if p and rng.random() < p:
        factor = rng.uniform(*scale)
        factor = 1 / math.sqrt(factor) if by_area else factor
    if aspect_p and rng.random() < aspect_p:
        aspect = math.sqrt(math.exp(rng.uniform(math.log(ratio[0]), math.log(ratio[1]))))
    height, width = (
        round(picture.height * (factor / aspect) / by),
        round(picture.width * (factor * aspect) / by),
    )
    return _to(picture, height, width, draw_filter(interpolation, rng))


@step
def _scale_jitter(
    picture: Image.Image, rng: Rng, size: tuple[int, int], scale: Range, interpolation: str = "bilinear"
) -> Image.Image:
    fits = np.float32(min(size[1] / picture.height, size[0] / picture.width))
    factor = fits * np.float32(rng.uniform(*scale))
    height, width = np.float32(picture.height) * factor, np.float32(picture.width) * factor
    return _to(picture, float(height), float(width), draw_filter(interpolation, rng))


@step
def _random_shortest_size(
    picture: Image.Image,
    rng: Rng,
    sizes: Sequence[int],
    max_size: int | None = None,
    interpolation: str = "bilinear",
) -> Image.Image:
    factor = int(rng.choice(sizes)) / min(picture.size)
    if max_size is not None:
        factor = min(factor, max_size / max(picture.size))
    return _to(picture, picture.height * factor, picture.width * factor, draw_filter(interpolation, rng))


@step
def _random_resize(
    picture: Image.Image, rng: Rng, size: tuple[int, int], interpolation: str = "bilinear"
) -> Image.Image:
    length, shorter = int(rng.integers(size[0], size[1] + 1)), min(picture.size)
    sides = (length * side // shorter for side in (picture.height, picture.width))
    return _to(picture, *sides, draw_filter(interpolation, rng))


@step
def _random_zoom_out(
    picture: Image.Image, rng: Rng, p: float, scale: Range, fill: tuple[int, int, int] = (0, 0, 0)
) -> Image.Image:
    if rng.random() >= p:
        return picture
    factor = np.float32(rng.uniform(*scale))
    more = [int(np.float32(side) * factor) - side for side in picture.size]
    left, top = (int(side * rng.random()) for side in more)
    return ImageOps.expand(picture, (left, top, more[0] - left, more[1] - top), fill)


STEPS["random_resize_keep_ratio"] = _resize_keep_ratio
