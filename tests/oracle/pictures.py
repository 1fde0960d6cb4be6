"""A pipeline in Pillow and NumPy; and transforms that run it in place of the native core."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps

from oracle import fields, recipes, timm_recipes  # noqa: F401 - they enter operations of theirs
from oracle.sizes import draw_filter
from oracle.steps import STEPS, step
from seneca.errors import LeftToPillowError, PlanError
from seneca.transforms import _apply
from seneca.transforms._pipeline import Pipeline, Step, short_side_size

__all__ = ["augment", "finish", "run_here"]

Rng = np.random.Generator
Margins = tuple[int, int, int, int]
Range = tuple[float, float]

NO_MARGINS = (0, 0, 0, 0)
BLACK = (0, 0, 0)


def augment(steps: Sequence[Step], picture: Image.Image, rng: Rng) -> np.ndarray:
    """Run steps on an RGB picture: uint8 of shape (height, width, 3)."""
    return np.asarray(_run(steps, picture, rng))


def _run(steps: Sequence[Step], picture: Image.Image, rng: Rng) -> Image.Image:
    for kind, args in steps:
        picture = STEPS[kind](picture, rng, **args)
    return picture


def finish(pipeline: Pipeline, pixels: np.ndarray, rng: Rng) -> np.ndarray:
    """Make the tensor of AUGMENTED pixels, (3, height, width): uint8, or float32 before rounding to the
    dtype."""
    if pipeline.dtype == "uint8":
        values = pixels.copy()
    else:
        mean, std = (np.array(channels, np.float32) for channels in (pipeline.mean, pipeline.std))
        values = (pixels.astype(np.float32) / (255 if pipeline.scale else 1) - mean) / std
    if pipeline.erase is not None:
        _erase(values, rng, **pipeline.erase)
    return np.ascontiguousarray(values.transpose(2, 0, 1))


def run_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the test ends, make here what transforms that are called by hand and datasets make."""

    def augmented(pipeline: Pipeline, pixels: np.ndarray, seed: int, _: int | None) -> torch.Tensor:
        rng = np.random.default_rng(seed)
        values = finish(pipeline, augment(pipeline.steps, Image.fromarray(pixels), rng), rng)
        return torch.from_numpy(values).to(getattr(torch, pipeline.dtype))

    class LeftToPillow:
        def augment_encoded(self, *_: object) -> None:
            raise LeftToPillowError("all pictures are")

        def head(self, _: object, pixels: np.ndarray) -> np.ndarray:
            return pixels  # augment() does the deterministic steps too

    monkeypatch.setattr(_apply, "_augmented", augmented)
    monkeypatch.setattr(_apply, "codec_of", lambda _: LeftToPillow())


@step
def _resize(
    picture: Image.Image,
    rng: Rng,
    size: int | tuple[int, int],
    interpolation: str = "bilinear",
    antialias: bool = True,
    max_size: int | None = None,
) -> Image.Image:
    if isinstance(size, int):
        size = short_side_size(picture.height, picture.width, size, max_size)
    height, width = size
    if antialias:
        return picture.resize((width, height), draw_filter(interpolation, rng))
    down = _plain_weights(picture.height, height, interpolation)
    across = _plain_weights(picture.width, width, interpolation)
    pixels = _to_bytes(np.einsum("xw,hwc->hxc", across, np.asarray(picture, np.float64)))
    return Image.fromarray(_to_bytes(np.einsum("yh,hxc->yxc", down, pixels)))


def _to_bytes(values: np.ndarray) -> np.ndarray:
    return np.clip(np.rint(values), 0, 255).astype(np.uint8)


def _plain_weights(had: int, wanted: int, interpolation: str) -> np.ndarray:
    """The weights with which each new pixel of a side mixes the old ones: torch without antialiasing."""
    at = (np.arange(wanted) + 0.5) * had / wanted - 0.5
    weights = np.zeros((wanted, had))
    for tap in (-1, 0, 1, 2):
        nearest = np.floor(at).astype(int) + tap
        x = np.abs(at - nearest)
        if interpolation == "bilinear":
            weight = np.clip(1 - x, 0, None)
        else:  # Keys' cubic with a = -0.75
            far = -0.75 * (x * x * x - 5 * x * x + 8 * x - 4)
            weight = np.where(x <= 1, (1.25 * x - 2.25) * x * x + 1, far)
        np.add.at(weights, (np.arange(wanted), nearest.clip(0, had - 1)), weight)
    return weights


@step
def _center_crop(
    picture: Image.Image,
    rng: Rng,
    size: tuple[int, int],
    fill: tuple[int, int, int] = BLACK,
    padding_mode: str = "constant",
) -> Image.Image:
    # A missing odd row or column goes to the far side, as in torchvision. Therefore there are two ways to
    # round.
    down, across = max(0, size[0] - picture.height), max(0, size[1] - picture.width)
    if down or across:
        padding = across // 2, down // 2, across - across // 2, down - down // 2
        picture = _pad(picture, rng, padding, fill, padding_mode)
    top, left = (
        round((had - wanted) / 2) for had, wanted in zip((picture.height, picture.width), size, strict=True)
    )
    return picture.crop((left, top, left + size[1], top + size[0]))


@step
def _pad(
    picture: Image.Image,
    _rng: Rng,
    padding: Margins = NO_MARGINS,
    fill: tuple[int, int, int] = BLACK,
    padding_mode: str = "constant",
) -> Image.Image:
    if padding_mode == "constant":
        return ImageOps.expand(picture, padding, fill)
    left, top, right, bottom = padding
    around = ((top, bottom), (left, right), (0, 0))
    return Image.fromarray(np.pad(np.asarray(picture), around, padding_mode))  # type: ignore[call-overload]


@step
def _random_crop(
    picture: Image.Image,
    rng: Rng,
    size: tuple[int, int],
    padding: Margins = NO_MARGINS,
    pad_if_needed: bool = False,
    fill: tuple[int, int, int] = BLACK,
    padding_mode: str = "constant",
) -> Image.Image:
    picture = _pad(picture, rng, padding, fill, padding_mode)
    height, width = size
    if pad_if_needed:
        x, y = max(0, width - picture.width), max(0, height - picture.height)
        picture = _pad(picture, rng, (x, y, x, y), fill, padding_mode)
    if height > picture.height or width > picture.width:
        raise PlanError(
            f"RandomCrop of {height} x {width} from a picture of {picture.height} x {picture.width}: "
            "resize it first, or use pad_if_needed=True"
        )
    top, left = _random_place(picture.height - height, picture.width - width, rng)
    return picture.crop((left, top, left + width, top + height))


@step
def _random_resized_crop(
    picture: Image.Image,
    rng: Rng,
    size: tuple[int, int],
    scale: Range,
    ratio: Range,
    interpolation: str = "bilinear",
    antialias: bool = True,
) -> Image.Image:
    box = _random_box(picture.height, picture.width, scale, ratio, rng)
    return _resize(picture.crop(box), rng, size, interpolation, antialias)


def _random_box(height: int, width: int, scale: Range, ratio: Range, rng: Rng) -> Margins:
    """Left, top, right and bottom of a crop, drawn as torchvision draws it."""
    for _ in range(10):
        w, h = _random_sides(height * width, scale, ratio, rng)
        if 0 < w <= width and 0 < h <= height:
            top, left = _random_place(height - h, width - w, rng)
            return left, top, left + w, top + h
    # Ten tries have failed: take the largest crop in the middle whose ratio is allowed.
    w, h = width, height
    if width / height < ratio[0]:
        h = round(width / ratio[0])
    elif width / height > ratio[1]:
        w = round(height * ratio[1])
    top, left = (height - h) // 2, (width - w) // 2
    return left, top, left + w, top + h


def _random_sides(area: float, scale: Range, ratio: Range, rng: Rng) -> tuple[int, int]:
    """The sides of a random rectangle. The first side is the second times a random ratio."""
    area_wanted = area * rng.uniform(*scale)
    aspect = math.exp(rng.uniform(math.log(ratio[0]), math.log(ratio[1])))
    return round(math.sqrt(area_wanted * aspect)), round(math.sqrt(area_wanted / aspect))


def _random_place(height: int, width: int, rng: Rng) -> tuple[int, int]:
    """A random row and column, from 0 to ``height`` and ``width`` inclusive."""
    return int(rng.integers(height + 1)), int(rng.integers(width + 1))


@step
def _random_hflip(picture: Image.Image, rng: Rng, p: float) -> Image.Image:
    return picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if rng.random() < p else picture


@step
def _random_vflip(picture: Image.Image, rng: Rng, p: float) -> Image.Image:
    return picture.transpose(Image.Transpose.FLIP_TOP_BOTTOM) if rng.random() < p else picture


@step
def _grayscale(picture: Image.Image, rng: Rng) -> Image.Image:
    return picture.convert("L").convert("RGB")


@step
def _random_grayscale(picture: Image.Image, rng: Rng, p: float) -> Image.Image:
    return _grayscale(picture, rng) if rng.random() < p else picture


@step
def _color_jitter(picture: Image.Image, rng: Rng, **ranges: Range) -> Image.Image:
    for name in rng.permutation(sorted(ranges)):
        picture = _ADJUST[name](picture, rng.uniform(*ranges[name]))
    return picture


@step
def _random_photometric_distort(picture: Image.Image, rng: Rng, p: float, **ranges: Range) -> Image.Image:
    factors = {name: rng.uniform(*ranges[name]) for name in ranges if rng.random() < p}
    order = ["brightness", "saturation", "hue"]
    order.insert(1 if rng.random() < 0.5 else 3, "contrast")
    for name in order:
        picture = _ADJUST[name](picture, factors[name]) if name in factors else picture
    return _random_channel_permutation(picture, rng) if rng.random() < p else picture


@step
def _random_channel_permutation(picture: Image.Image, rng: Rng) -> Image.Image:
    return Image.merge("RGB", [picture.split()[k] for k in rng.permutation(3)])


def _turn_hue(picture: Image.Image, factor: float) -> Image.Image:
    hue, saturation, value = picture.convert("HSV").split()
    turn = int(factor * 255)  # truncated, not rounded, as torchvision does
    turned = Image.fromarray(((np.asarray(hue, np.int32) + turn) % 256).astype(np.uint8))
    return Image.merge("HSV", (turned, saturation, value)).convert("RGB")


def _erase(
    values: np.ndarray,
    rng: Rng,
    p: float,
    scale: Range,
    ratio: Range,
    value: Sequence[float],
    deviation: Sequence[float] | None = None,
    noise: str = "values",
    count: tuple[int, int] = (1, 1),
) -> None:
    """Overwrite random rectangles of ``values``, (height, width, 3), with probability ``p``."""
    height, width, _ = values.shape
    if rng.random() >= p:
        return
    boxes = int(rng.integers(count[0], count[1] + 1))
    for _ in range(boxes):
        for _ in range(10):
            h, w = _random_sides(height * width / boxes, scale, ratio, rng)
            if h < height and w < width:
                top, left = _random_place(height - h, width - w, rng)
                shape = (h, w, 3) if noise == "values" else (1, 1, 3)
                new = value if deviation is None else rng.normal(value, deviation, shape)
                values[top : top + h, left : left + w] = new
                break


@step
def _random_apply(picture: Image.Image, rng: Rng, p: float, steps: Sequence[Step]) -> Image.Image:
    return _run(steps, picture, rng) if rng.random() < p else picture


Branches = Sequence[tuple[float, Sequence[Step]]]


@step
def _random_choice(picture: Image.Image, rng: Rng, branches: Branches) -> Image.Image:
    chosen = rng.choice(len(branches), p=[p for p, _ in branches])
    return _run(branches[chosen][1], picture, rng)


@step
def _random_order(picture: Image.Image, rng: Rng, branches: Branches) -> Image.Image:
    for k in rng.permutation(len(branches)):
        picture = _run(branches[k][1], picture, rng)
    return picture


_ADJUST: dict[str, Callable[[Image.Image, float], Image.Image]] = {
    "brightness": lambda picture, factor: ImageEnhance.Brightness(picture).enhance(factor),
    "contrast": lambda picture, factor: ImageEnhance.Contrast(picture).enhance(factor),
    "saturation": lambda picture, factor: ImageEnhance.Color(picture).enhance(factor),
    "hue": _turn_hue,
}
