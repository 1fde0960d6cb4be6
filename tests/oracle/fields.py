"""Perspective, random shifts, and AugMix, in Pillow and NumPy: the part of ``pictures`` for these."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image

from oracle.recipes import inverse_affine, operate, spaced
from oracle.steps import step

__all__: list[str] = []

Rng = np.random.Generator
Colour = tuple[int, int, int]
Pair = tuple[float, float]

BLACK = (0, 0, 0)

# What rounding may leave of a number that is 0, in a map in perspective.
NOTHING = (1e-12, 1e-12, 1e-9, 1e-12, 1e-12, 1e-9, 1e-15, 1e-15)


@step
def _random_perspective(
    picture: Image.Image,
    rng: Rng,
    distortion_scale: float,
    p: float,
    interpolation: str = "bilinear",
    fill: Colour = BLACK,
) -> Image.Image:
    if rng.random() >= p:
        return picture
    width, height = picture.size
    most = int(distortion_scale * (width // 2)), int(distortion_scale * (height // 2))
    had = [(0, 0), (width - 1, 0), (width - 1, height - 1), (0, height - 1)]
    rows, right = [], []
    for x, y in had:
        in_x, in_y = (int(rng.integers(limit + 1)) for limit in most)
        to_x, to_y = abs(x - in_x) if x else in_x, abs(y - in_y) if y else in_y
        rows.append([to_x, to_y, 1, 0, 0, 0, -x * to_x, -x * to_y])
        rows.append([0, 0, 0, to_x, to_y, 1, -y * to_x, -y * to_y])
        right += [x, y]
    try:
        found = np.linalg.solve(np.array(rows, float), np.array(right, float))
    except np.linalg.LinAlgError:
        return picture  # the corners lie on a line
    found = np.where(np.abs(found) < NOTHING, 0, found.astype(np.float32))
    resample = Image.Resampling[interpolation.upper()]
    return picture.transform(
        picture.size, Image.Transform.PERSPECTIVE, found.tolist(), resample, fillcolor=fill
    )


def _looked_up(
    pixels: np.ndarray, xs: np.ndarray, ys: np.ndarray, interpolation: str, fill: Colour | None
) -> np.ndarray:
    """Colours at places between pixels, as torch's grid_sample() looks them up, with zeros outside."""
    height, width, _ = pixels.shape
    source = np.concatenate([pixels, np.ones((height, width, 1))], 2).astype(np.float32)

    def seen(y: np.ndarray, x: np.ndarray) -> np.ndarray:
        inside = (y >= 0) & (y < height) & (x >= 0) & (x < width)
        at = y.clip(0, height - 1).astype(int), x.clip(0, width - 1).astype(int)
        return source[at] * inside[..., None]

    if interpolation == "nearest":
        found = seen(np.rint(ys), np.rint(xs))
    else:
        top, left = np.floor(ys), np.floor(xs)
        down, across = (ys - top)[..., None], (xs - left)[..., None]
        upper = seen(top, left) * (1 - across) + seen(top, left + 1) * across
        lower = seen(top + 1, left) * (1 - across) + seen(top + 1, left + 1) * across
        found = upper * (1 - down) + lower * down
    values, share = found[..., :3], found[..., 3:]
    if fill is not None:
        values = values * share + np.array(fill, np.float32) * (1 - share)
    return np.rint(values).clip(0, 255).astype(np.uint8)


def _field(size: tuple[int, int], rng: Rng, sigma: Pair, direction: int) -> np.ndarray:
    """Blurred noise; the kernel is as wide in both directions as this one's sigma asks."""
    noise = rng.uniform(-1, 1, size)
    if sigma[direction] == 0:
        return noise
    radius = int(8 * sigma[direction] + 1) // 2
    for axis, deviation in ((1, sigma[0]), (0, sigma[1])):
        weights = np.exp(-0.5 * (np.arange(-radius, radius + 1) / deviation) ** 2)
        weights /= weights.sum()
        padded = np.pad(noise, [(radius, radius) if axis == k else (0, 0) for k in (0, 1)], "reflect")
        noise = np.apply_along_axis(np.convolve, axis, padded, weights, "valid")
    return noise


@step
def _elastic_transform(
    picture: Image.Image,
    rng: Rng,
    alpha: Pair,
    sigma: Pair,
    interpolation: str = "bilinear",
    fill: Colour = BLACK,
) -> Image.Image:
    pixels = np.asarray(picture)
    ys, xs = np.mgrid[: pixels.shape[0], : pixels.shape[1]].astype(float)
    xs += _field(pixels.shape[:2], rng, sigma, 0) * alpha[0] / 2
    ys += _field(pixels.shape[:2], rng, sigma, 1) * alpha[1] / 2
    return Image.fromarray(_looked_up(pixels, xs, ys, interpolation, fill))


MIXED = (
    "shear_x",
    "shear_y",
    "translate_x",
    "translate_y",
    "rotate",
    "posterize",
    "solarize",
    "auto_contrast",
    "equalize",
    "brightness",
    "color",
    "contrast",
    "sharpness",
)
WITHOUT_COLOURS = 9
MOVING = MIXED[:5]
GREATEST = {"shear_x": 0.3, "shear_y": 0.3, "rotate": 30.0}


def _mixed_magnitude(name: str, size: tuple[int, int], k: int) -> float:
    if name == "posterize":
        return 4 - round(k * 4 / 9)
    if name == "solarize":
        return spaced(255, 0, 10, k)
    if name.startswith("translate"):
        return spaced(0, size[name == "translate_y"] / 3, 10, k)
    return spaced(0, GREATEST.get(name, 0.9), 10, k)


def _moved(
    picture: Image.Image, name: str, amount: float, interpolation: str, fill: Colour | None
) -> Image.Image:
    """A warp, as torchvision makes it of a tensor."""
    middle: Sequence[float] = (picture.width * 0.5, picture.height * 0.5)
    degrees, away, shear = 0.0, [0, 0], [0.0, 0.0]
    axis = int(name.endswith("_y"))
    if name == "rotate":
        degrees = -amount
    elif name.startswith("translate"):
        away[axis] = int(amount)
    else:
        middle, shear[axis] = (0, 0), float(np.degrees(np.arctan(amount)))
    a, b, c, d, e, f = inverse_affine(middle, degrees, away, 1, shear)
    pixels = np.asarray(picture)
    ys, xs = np.mgrid[: pixels.shape[0], : pixels.shape[1]] + 0.5
    at = a * xs + b * ys + c - 0.5, d * xs + e * ys + f - 0.5
    return Image.fromarray(_looked_up(pixels, *at, interpolation, fill))


@step
def _aug_mix(
    picture: Image.Image,
    rng: Rng,
    severity: int,
    mixture_width: int,
    chain_depth: int,
    alpha: float,
    all_ops: bool,
    interpolation: str,
    fill: Colour | None = None,
) -> Image.Image:
    own, other = rng.dirichlet([alpha, alpha]).astype(np.float32)
    mixed = own * np.asarray(picture, np.float32)
    names = MIXED if all_ops else MIXED[:WITHOUT_COLOURS]
    for weight in rng.dirichlet([alpha] * mixture_width).astype(np.float32):
        changed = picture
        for name in rng.choice(names, chain_depth or int(rng.integers(1, 4))):
            amount = _mixed_magnitude(name, picture.size, int(rng.integers(severity)))
            if name in MOVING or name in MIXED[WITHOUT_COLOURS:]:
                amount *= rng.choice((-1, 1))
            if name in MOVING:
                changed = _moved(changed, name, amount, interpolation, fill)
            else:
                changed = operate(changed, name, amount, interpolation, BLACK)
        mixed += weight * other * np.asarray(changed, np.float32)
    return Image.fromarray(mixed.clip(0, 255).astype(np.uint8))
