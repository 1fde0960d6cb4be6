"""Translate one transform of timm's into Seneca's of the same meaning: see ``_translate``.

The names of timm's begin with ``timm.`` here, because torchvision has transforms of the same names. timm is
known by the names of its types and functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

from seneca.transforms._base import Transform
from seneca.transforms._genuine import is_theirs
from seneca.transforms._geometry import CenterCrop, RandomCrop, RandomResizedCrop
from seneca.transforms._sizes import ResizeKeepRatio
from seneca.transforms._tensor import RandomErasing
from seneca.transforms._timm import TimmAugment, TimmAugMix

__all__ = ["TIMM", "TIMM_PIXELS", "NotNative", "timm_erasing"]

TIMM = ("timm.data.transforms", "timm.data.auto_augment", "timm.data.random_erasing")
FULL_MAGNITUDE = 10.0  # what timm takes for the greatest, where none is given
SHIFT = 0.45  # likewise for shifts

Level = str | tuple[str, dict[str, float]] | None

# For each name of an operation: the function that does it, and the one that makes its argument of a
# magnitude.
FUNCTIONS: dict[str, tuple[str, Level]] = {
    "AutoContrast": ("auto_contrast", None),
    "Equalize": ("equalize", None),
    "Invert": ("invert", None),
    "Rotate": ("rotate", "_rotate_level_to_arg"),
    "Posterize": ("posterize", "_posterize_level_to_arg"),
    "PosterizeIncreasing": ("posterize", "_posterize_increasing_level_to_arg"),
    "PosterizeOriginal": ("posterize", "_posterize_original_level_to_arg"),
    "Solarize": ("solarize", "_solarize_level_to_arg"),
    "SolarizeIncreasing": ("solarize", "_solarize_increasing_level_to_arg"),
    "SolarizeAdd": ("solarize_add", "_solarize_add_level_to_arg"),
    "Color": ("color", "_enhance_level_to_arg"),
    "ColorIncreasing": ("color", "_enhance_increasing_level_to_arg"),
    "Contrast": ("contrast", "_enhance_level_to_arg"),
    "ContrastIncreasing": ("contrast", "_enhance_increasing_level_to_arg"),
    "Brightness": ("brightness", "_enhance_level_to_arg"),
    "BrightnessIncreasing": ("brightness", "_enhance_increasing_level_to_arg"),
    "Sharpness": ("sharpness", "_enhance_level_to_arg"),
    "SharpnessIncreasing": ("sharpness", "_enhance_increasing_level_to_arg"),
    "ShearX": ("shear_x", "_shear_level_to_arg"),
    "ShearY": ("shear_y", "_shear_level_to_arg"),
    "TranslateXRel": ("translate_x_rel", "_translate_rel_level_to_arg"),
    "TranslateYRel": ("translate_y_rel", "_translate_rel_level_to_arg"),
    "Desaturate": ("desaturate", ("_minmax_level_to_arg", {"min_val": 0.5, "max_val": 1.0})),
    "GaussianBlur": ("gaussian_blur", ("_minmax_level_to_arg", {"min_val": 0.1, "max_val": 2.0})),
    "GaussianBlurRand": ("gaussian_blur_rand", "_minmax_level_to_arg"),
}


class NotNative(Exception):
    """A transform does not run natively. The message is the reason."""


def _level(function: Any) -> Level:
    """A function of timm's by its name, with the arguments that ``functools.partial`` has bound."""
    if function is None:
        return None
    inner = getattr(function, "func", function)
    name = str(getattr(inner, "__name__", inner))
    return (name, dict(function.keywords)) if inner is not function else name


def _part(name: str, op: Any) -> tuple[str, float, float]:
    """One of timm's ``AugmentOp``: the operation, its probability and its magnitude."""
    kind = type(op)
    if (kind.__module__, kind.__qualname__) != (TIMM[1], "AugmentOp") or not is_theirs(kind.__call__):
        raise NotNative(f"{name} has {kind.__qualname__}, which is not an AugmentOp of timm's")
    known = FUNCTIONS.get(op.name)
    functions = (op.aug_fn, getattr(op.level_fn, "func", op.level_fn))
    found = (getattr(op.aug_fn, "__name__", None), _level(op.level_fn))
    if known != found or not all(map(is_theirs, functions)):
        raise NotNative(f"{name} has the operation {op.name}, which is not one that the native path knows")
    return op.name, op.prob, op.magnitude


def _common(name: str, ops: Sequence[Any]) -> dict[str, Any]:
    """What all operations of a recipe have in common."""
    found = [
        {
            "magnitude_std": op.magnitude_std,
            "magnitude_max": op.magnitude_max or FULL_MAGNITUDE,
            "translate": op.hparams.get("translate_pct", SHIFT),
            "interpolation": op.kwargs["resample"],
            "fill": op.kwargs["fillcolor"],
        }
        for op in ops
    ]
    if any(one != found[0] for one in found):
        raise NotNative(f"{name} has operations with different arguments")
    return found[0]


def _rand_augment(step: Any) -> Transform:
    parts = [[_part("timm.RandAugment", op)] for op in step.ops]
    weights = None if step.choice_weights is None else [float(weight) for weight in step.choice_weights]
    common = _common("timm.RandAugment", step.ops)
    return TimmAugment(parts, weights, step.num_layers, weights is not None, **common)


def _auto_augment(step: Any) -> Transform:
    chains = [[_part("timm.AutoAugment", op) for op in chain] for chain in step.policy]
    return TimmAugment(chains, **_common("timm.AutoAugment", [op for chain in step.policy for op in chain]))


def _aug_mix(step: Any) -> Transform:
    if step.blended:
        raise NotNative("timm.AugMixAugment has blended=True: leave b1 out of its text")
    parts = [_part("timm.AugMixAugment", op) for op in step.ops]
    common = _common("timm.AugMixAugment", step.ops)
    return TimmAugMix(parts, step.width, step.depth, step.alpha, **common)


def _resize_keep_ratio(step: Any) -> Transform:
    return ResizeKeepRatio(
        step.size,
        step.longest,
        step.interpolation,
        step.random_scale_prob,
        step.random_scale_range,
        step.random_scale_area,
        step.random_aspect_prob,
        step.random_aspect_range,
    )


TIMM_PIXELS: dict[str, Callable[[Any, Literal["picture"]], Transform]] = {
    "timm.RandomResizedCropAndInterpolation": lambda step, _: RandomResizedCrop(
        step.size, step.scale, step.ratio, step.interpolation
    ),
    "timm.CenterCropOrPad": lambda step, _: CenterCrop(step.size, step.fill, step.padding_mode),
    # Both pad by as much as is missing, and cut at a uniform place.
    "timm.RandomCropOrPad": lambda step, _: RandomCrop(step.size, None, True, step.fill, step.padding_mode),
    "timm.ResizeKeepRatio": lambda step, _: _resize_keep_ratio(step),
    "timm.RandAugment": lambda step, _: _rand_augment(step),
    "timm.AutoAugment": lambda step, _: _auto_augment(step),
    "timm.AugMixAugment": lambda step, _: _aug_mix(step),
}


def timm_erasing(step: Any) -> RandomErasing:
    """timm's RandomErasing, on one picture's tensor."""
    value = "random" if step.per_pixel else "random colour" if step.rand_color else 0.0
    ratio = [math.exp(bound) for bound in step.log_aspect_ratio]
    count = step.min_count, step.max_count
    return RandomErasing(step.probability, (step.min_area, step.max_area), ratio, value, count=count)
