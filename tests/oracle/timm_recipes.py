"""timm's recipes in Pillow and NumPy: the part of ``pictures`` for these."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from PIL import Image, ImageEnhance, ImageFilter, ImageOps

from oracle.sizes import draw_filter
from oracle.steps import step

__all__: list[str] = []

Rng = np.random.Generator
Colour = tuple[int, int, int]
Chains = Sequence[tuple[float, Sequence[tuple[str, float, float]]]]


class _Recipe:
    """What all operations of a recipe have in common."""

    def __init__(
        self, rng: Rng, deviation: float, most: float, share: float, interpolation: str, fill: Colour
    ) -> None:
        self.rng, self.deviation, self.most, self.share = rng, deviation, most, share
        self.interpolation, self.fill = interpolation, fill

    def apply(self, picture: Image.Image, name: str, p: float, magnitude: float) -> Image.Image:
        """One operation, or the picture itself."""
        if p < 1 and self.rng.random() >= p:
            return picture
        if math.isinf(self.deviation):
            magnitude = self.rng.uniform(0, magnitude)
        elif self.deviation > 0:
            magnitude = self.rng.normal(magnitude, self.deviation)
        return _OPERATIONS[name](self, picture, max(0.0, min(magnitude, self.most)) / 10)

    def signed(self, amount: float) -> float:
        return -amount if self.rng.random() < 0.5 else amount

    def warp(self, picture: Image.Image, matrix: Sequence[float]) -> Image.Image:
        resample = draw_filter(self.interpolation, self.rng)
        return picture.transform(
            picture.size, Image.Transform.AFFINE, tuple(matrix), resample, fillcolor=self.fill
        )

    def rotate(self, picture: Image.Image, level: float) -> Image.Image:
        degrees = self.signed(level * 30)
        return picture.rotate(degrees, draw_filter(self.interpolation, self.rng), fillcolor=self.fill)

    def either_way(self, level: float) -> float:
        return max(0.1, 1 + self.signed(level * 0.9))


def _posterize(picture: Image.Image, bits: int) -> Image.Image:
    return picture if bits >= 8 else ImageOps.posterize(picture, bits)


def _solarize_add(picture: Image.Image, amount: int) -> Image.Image:
    return picture.point([min(255, i + amount) if i < 128 else i for i in range(256)] * 3)


def _soften(picture: Image.Image, radius: float) -> Image.Image:
    return picture.filter(ImageFilter.GaussianBlur(radius))


_ENHANCED = {
    "Color": ImageEnhance.Color,
    "Contrast": ImageEnhance.Contrast,
    "Brightness": ImageEnhance.Brightness,
    "Sharpness": ImageEnhance.Sharpness,
}


def _one_way(name: str) -> Callable[[_Recipe, Image.Image, float], Image.Image]:
    return lambda _recipe, picture, level: _ENHANCED[name](picture).enhance(level * 1.8 + 0.1)


def _either_way(name: str) -> Callable[[_Recipe, Image.Image, float], Image.Image]:
    return lambda recipe, picture, level: _ENHANCED[name](picture).enhance(recipe.either_way(level))


# Functions of the recipe, the picture and the level, of which 1 is the full one.
_OPERATIONS: dict[str, Callable[[_Recipe, Image.Image, float], Image.Image]] = {
    "AutoContrast": lambda _, picture, level: ImageOps.autocontrast(picture),
    "Equalize": lambda _, picture, level: ImageOps.equalize(picture),
    "Invert": lambda _, picture, level: ImageOps.invert(picture),
    "Rotate": _Recipe.rotate,
    "Posterize": lambda _, picture, level: _posterize(picture, int(level * 4)),
    "PosterizeIncreasing": lambda _, picture, level: _posterize(picture, max(0, 4 - int(level * 4))),
    "PosterizeOriginal": lambda _, picture, level: _posterize(picture, int(level * 4) + 4),
    "Solarize": lambda _, picture, level: ImageOps.solarize(picture, min(256, int(level * 256))),
    "SolarizeIncreasing": lambda _, picture, level: ImageOps.solarize(
        picture, 256 - min(256, int(level * 256))
    ),
    "SolarizeAdd": lambda _, picture, level: _solarize_add(picture, min(128, int(level * 110))),
    **{name: _one_way(name) for name in _ENHANCED},
    **{f"{name}Increasing": _either_way(name) for name in _ENHANCED},
    "ShearX": lambda recipe, picture, level: recipe.warp(
        picture, (1, recipe.signed(level * 0.3), 0, 0, 1, 0)
    ),
    "ShearY": lambda recipe, picture, level: recipe.warp(
        picture, (1, 0, 0, recipe.signed(level * 0.3), 1, 0)
    ),
    "TranslateXRel": lambda recipe, picture, level: recipe.warp(
        picture, (1, 0, recipe.signed(level * recipe.share) * picture.width, 0, 1, 0)
    ),
    "TranslateYRel": lambda recipe, picture, level: recipe.warp(
        picture, (1, 0, 0, 0, 1, recipe.signed(level * recipe.share) * picture.height)
    ),
    "Desaturate": lambda _, picture, level: ImageEnhance.Color(picture).enhance(
        1 - min(1.0, 0.5 + 0.5 * level)
    ),
    "GaussianBlur": lambda _, picture, level: _soften(picture, min(2.0, 0.1 + 1.9 * level)),
    "GaussianBlurRand": lambda recipe, picture, level: _soften(
        picture, 0.1 + (2 * min(1.0, level) - 0.1) * recipe.rng.random()
    ),
}


@step
def _timm_augment(
    picture: Image.Image,
    rng: Rng,
    chains: Chains,
    num_layers: int,
    deviation: float,
    most: float,
    share: float,
    distinct: bool = False,
    interpolation: str = "bilinear",
    fill: Colour = (0, 0, 0),
) -> Image.Image:
    recipe = _Recipe(rng, deviation, most, share, interpolation, fill)
    weights = np.array([weight for weight, _ in chains])
    for chosen in rng.choice(len(chains), num_layers, replace=not distinct, p=weights / weights.sum()):
        for part in chains[chosen][1]:
            picture = recipe.apply(picture, *part)
    return picture


@step
def _timm_aug_mix(
    picture: Image.Image,
    rng: Rng,
    chains: Chains,
    num_layers: int,
    chain_depth: int,
    alpha: float,
    deviation: float,
    most: float,
    share: float,
    interpolation: str = "bilinear",
    fill: Colour = (0, 0, 0),
) -> Image.Image:
    recipe = _Recipe(rng, deviation, most, share, interpolation, fill)
    mixed = np.zeros((picture.height, picture.width, 3), np.float32)
    for weight in rng.dirichlet([alpha] * num_layers).astype(np.float32):
        changed = picture
        for chosen in rng.integers(len(chains), size=chain_depth or rng.integers(1, 4)):
            changed = recipe.apply(changed, *chains[chosen][1][0])
        mixed += weight * np.asarray(changed, np.float32)
    other = Image.fromarray(mixed.clip(0, 255).astype(np.uint8))
    return Image.blend(picture, other, float(rng.beta(alpha, alpha)))
