"""The steps of a pipeline in Pillow and NumPy, for systems without the native core.

Same meaning, same distributions, pixels equal up to rounding; but not the same random numbers,
and an order of magnitude less speed. Tests hold the native core to it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from PIL import Image

from seneca._pipeline.plan import Pipeline, Step, short_side_size

__all__ = ["augment", "normalize"]


def augment(steps: Sequence[Step], picture: Image.Image, rng: np.random.Generator) -> np.ndarray:
    """Run steps on an RGB picture: uint8 of shape (height, width, 3)."""
    for kind, args in steps:
        if kind == "resize":
            picture = _resize(picture, args["size"])
        elif kind == "center_crop":
            picture = _center_crop(picture, *args["size"])
        elif kind == "random_resized_crop":
            box = _random_box(picture.height, picture.width, args["scale"], args["ratio"], rng)
            picture = _resize(picture.crop(box), args["size"])
        elif rng.random() < args["p"]:
            picture = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return np.asarray(picture)


def normalize(pipeline: Pipeline, pixels: np.ndarray) -> np.ndarray:
    """``(pixel / 255 - mean) / std`` in (3, height, width), float32."""
    mean, std = (np.array(channels, np.float32) for channels in (pipeline.mean, pipeline.std))
    values = (pixels.astype(np.float32) / 255 - mean) / std
    return np.ascontiguousarray(values.transpose(2, 0, 1))


def _resize(picture: Image.Image, size: int | tuple[int, int]) -> Image.Image:
    if isinstance(size, int):
        size = short_side_size(picture.height, picture.width, size)
    height, width = size
    return picture.resize((width, height), Image.Resampling.BILINEAR)


def _center_crop(picture: Image.Image, height: int, width: int) -> Image.Image:
    # A box that reaches beyond the picture is filled with black. A missing odd row or column
    # goes to the far side, as in torchvision; hence two ways to round.
    top, left = (
        -((wanted - had) // 2) if wanted > had else round((had - wanted) / 2)
        for had, wanted in ((picture.height, height), (picture.width, width))
    )
    return picture.crop((left, top, left + width, top + height))


def _random_box(
    height: int, width: int, scale: Sequence[float], ratio: Sequence[float], rng: np.random.Generator
) -> tuple[int, int, int, int]:
    """Left, top, right and bottom of a crop, drawn as torchvision draws it."""
    for _ in range(10):
        area = height * width * rng.uniform(scale[0], scale[1])
        aspect = math.exp(rng.uniform(math.log(ratio[0]), math.log(ratio[1])))
        w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < w <= width and 0 < h <= height:
            top = int(rng.integers(0, height - h + 1))
            left = int(rng.integers(0, width - w + 1))
            return left, top, left + w, top + h
    # Ten tries missed: the largest crop in the middle whose ratio is allowed.
    w, h = width, height
    if width / height < ratio[0]:
        h = round(width / ratio[0])
    elif width / height > ratio[1]:
        w = round(height * ratio[1])
    top, left = (height - h) // 2, (width - w) // 2
    return left, top, left + w, top + h
