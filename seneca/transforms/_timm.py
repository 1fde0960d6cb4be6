"""The recipes of timm's ``auto_augment``: RandAugment, AutoAugment and AugMix with its operations and levels.

timm's own objects are recognised; few will write these by hand.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from seneca.transforms._arguments import NotNative, colour, warp_filter_or_random, whole
from seneca.transforms._base import Step, Transform, step
from seneca.transforms._genuine import TIMM_RECIPES, is_library_code

__all__ = ["TIMM_OPERATIONS", "TimmAugMix", "TimmAugment"]

Part = tuple[str, float, float]
Level = str | tuple[str, dict[str, float]] | None

# In the order of enum sn_timm_operation in csrc/codec/sn_plan.h: for each name of timm's the function that
# does it, and the one that makes its argument of a magnitude.
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
TIMM_OPERATIONS = tuple(FUNCTIONS)
MOST_PARTS = 50  # SN_MAX_PARTS in csrc/codec/sn_plan.h
MOST_EDITS = 32  # SN_RECIPE_MAX in csrc/codec/operations/recipe.h
MOST_DEPTH = 3  # of a chain of AugMix, where it is drawn
MOST_MAGNITUDE = 1000.0
FULL_MAGNITUDE = 10.0  # what timm takes for the greatest, where none is given
SHIFT = 0.45  # likewise for shifts


@dataclass(frozen=True)
class TimmAugment(Transform):
    """Choose some chains of timm's operations and apply them, as its ``RandAugment`` and ``AutoAugment`` do.

    Args:
        chains: For each chain its operations: the name in timm's words, the probability that it is applied,
            and its magnitude, of which 10 is the full one. RandAugment has chains of one operation,
            AutoAugment of two.
        weights: How probable each chain is; the numbers are divided by their sum. ``None``: all are equally
            so.
        num_layers: How many chains are applied, one after the other.
        distinct: Whether no chain is chosen twice.
        magnitude_std: The deviation of magnitudes around those that are given; infinite: magnitudes are
            uniform between 0 and those.
        magnitude_max: The greatest magnitude that a deviation may lead to.
        translate: The greatest shift, as a share of the side.
        interpolation: ``"nearest"``, ``"bilinear"``, ``"bicubic"``, or ``"random"``, which chooses between
            the last two for each warp.
        fill: The colour of what lies outside the picture, from 0 to 255: one number, or red, green, blue.

    Raises:
        TypeError: ``fill`` is neither a number nor a sequence of numbers, or a count is no int.
        ValueError: A name is not timm's, a number is out of range, or more than 50 operations are given or
            more than 32 could follow each other.

    Example:
        >>> from seneca import transforms as T
        >>> chains = [[("Rotate", 0.5, 9)], [("Equalize", 0.5, 9)]]
        >>> recipe = T.TimmAugment(chains, num_layers=2, magnitude_std=0.5)
        >>> train = T.Compose([T.RandomResizedCrop(224), recipe, T.ToTensor()])
    """

    kinds = ("timm_augment",)
    keeps_size = True
    timm = ("RandAugment", "AutoAugment")

    chains: Sequence[Sequence[Part]]
    weights: Sequence[float] | None = None
    num_layers: int = 1
    distinct: bool = False
    magnitude_std: float = 0.0
    magnitude_max: float = 10.0
    translate: float = 0.45
    interpolation: Any = "random"
    fill: int | Sequence[int] = 128

    def __post_init__(self) -> None:
        chains = tuple(tuple(_part(*part) for part in chain) for chain in self.chains)
        _check_chains(chains)
        most = MOST_EDITS // max(map(len, chains))
        self._set(
            chains=chains,
            weights=_weights(self.weights, len(chains)),
            num_layers=whole(
                "num_layers", self.num_layers, 0, min(most, len(chains)) if self.distinct else most
            ),
            distinct=bool(self.distinct),
            **_common(self),
        )

    def steps(self) -> tuple[Step, ...]:
        assert self.weights is not None
        return step(
            "timm_augment",
            chains=tuple(zip(self.weights, self.chains, strict=True)),
            num_layers=self.num_layers,
            distinct=self.distinct,
            **_numbers(self),
        )

    @classmethod
    def from_timm(cls, given: Any) -> Transform:
        if type(given).__qualname__ == "RandAugment":
            parts = [[_part_of("timm.RandAugment", op)] for op in given.ops]
            weights = (
                None if given.choice_weights is None else [float(weight) for weight in given.choice_weights]
            )
            common = _common_of("timm.RandAugment", given.ops)
            return cls(parts, weights, given.num_layers, weights is not None, **common)
        chains = [[_part_of("timm.AutoAugment", op) for op in chain] for chain in given.policy]
        return cls(chains, **_common_of("timm.AutoAugment", [op for chain in given.policy for op in chain]))


@dataclass(frozen=True)
class TimmAugMix(Transform):
    """Blend a picture with chains of timm's operations, as its ``AugMixAugment`` does.

    Args:
        operations: The operations that chains are made of: name, probability and magnitude, as for
            :class:`TimmAugment`. Each is equally probable.
        width: How many chains are blended.
        depth: How many operations a chain has; 0 or below: 1 to 3, drawn for each chain.
        alpha: The parameter of the Dirichlet and beta distributions from which the weights are drawn.
        magnitude_std, magnitude_max, translate, interpolation, fill: As for :class:`TimmAugment`.

    Raises:
        TypeError: ``fill`` is neither a number nor a sequence of numbers, or a count is no int.
        ValueError: A name is not timm's, a number is out of range, or all chains together could have more
            than 30 operations, with one more for each chain.
    """

    kinds = ("timm_aug_mix",)
    keeps_size = True
    timm = ("AugMixAugment",)

    operations: Sequence[Part]
    width: int = 3
    depth: int = -1
    alpha: float = 1.0
    magnitude_std: float = math.inf
    magnitude_max: float = 10.0
    translate: float = 0.3
    interpolation: Any = "random"
    fill: int | Sequence[int] = 128

    def __post_init__(self) -> None:
        operations = tuple(_part(*part) for part in self.operations)
        _check_chains(tuple((part,) for part in operations))
        depth, width = mixed_chains("width", self.width, "depth", self.depth)
        self._set(operations=operations, width=width, depth=depth, alpha=spread(self.alpha), **_common(self))

    def steps(self) -> tuple[Step, ...]:
        share = 1 / len(self.operations)
        return step(
            "timm_aug_mix",
            chains=tuple((share, (part,)) for part in self.operations),
            num_layers=self.width,
            chain_depth=self.depth,
            alpha=self.alpha,
            **_numbers(self),
        )

    @classmethod
    def from_timm(cls, given: Any) -> Transform:
        if given.blended:
            raise NotNative("timm.AugMixAugment has blended=True: leave b1 out of its text")
        parts = [_part_of("timm.AugMixAugment", op) for op in given.ops]
        common = _common_of("timm.AugMixAugment", given.ops)
        return cls(parts, given.width, given.depth, given.alpha, **common)


def mixed_chains(width_name: str, width: int, depth_name: str, depth: int) -> tuple[int, int]:
    """Depth, 0 where it is drawn, and width of a mix, checked."""
    most = MOST_EDITS - 2  # edits, of which each chain takes one more than it is deep
    depth = max(0, whole(depth_name, depth, -(2**31), 2**31 - 1))
    if depth >= most:
        raise ValueError(f"{depth_name}: at most {most - 1} run natively, but got {depth}")
    return depth, whole(width_name, width, 1, most // ((depth or MOST_DEPTH) + 1))


def spread(alpha: float) -> float:
    """``alpha`` of a mix: a positive number."""
    if not 0 < alpha <= 1000:
        raise ValueError(f"alpha: a positive number up to 1000, but got {alpha!r}")
    return float(alpha)


def _part(name: str, p: float, magnitude: float) -> Part:
    if name not in TIMM_OPERATIONS:
        raise ValueError(
            f"{name!r} is no operation that runs natively; there are {', '.join(TIMM_OPERATIONS)}"
        )
    return name, _number("probability", p, 1.0), _number("magnitude", magnitude, MOST_MAGNITUDE)


def _check_chains(chains: tuple[tuple[Part, ...], ...]) -> None:
    if not chains or not all(chains):
        raise ValueError("operations: there are none")
    if sum(map(len, chains)) > MOST_PARTS:
        raise ValueError(f"more than {MOST_PARTS} operations do not run natively")


def _weights(given: Sequence[float] | None, count: int) -> tuple[float, ...]:
    weights = [1.0] * count if given is None else [_number("weight", weight, math.inf) for weight in given]
    if len(weights) != count or not 0 < sum(weights) < math.inf:
        raise ValueError(f"weights: a number for each chain, not all of them 0, but got {given!r}")
    return tuple(weight / sum(weights) for weight in weights)


def _number(name: str, value: Any, greatest: float) -> float:
    if not isinstance(value, numbers.Real) or not 0 <= float(value) <= greatest:
        raise ValueError(f"{name}: a number from 0 to {greatest:g}, but got {value!r}")
    return float(value)


def _common(given: TimmAugment | TimmAugMix) -> dict[str, Any]:
    """The arguments that both have, checked."""
    return {
        "magnitude_std": _number("magnitude_std", given.magnitude_std, math.inf),
        "magnitude_max": _number("magnitude_max", given.magnitude_max, MOST_MAGNITUDE),
        "translate": _number("translate", given.translate, 1.0),
        "interpolation": warp_filter_or_random(given.interpolation),
        "fill": colour(given.fill),
    }


def _numbers(given: TimmAugment | TimmAugMix) -> dict[str, Any]:
    """The same, as arguments of a step."""
    return {
        "deviation": given.magnitude_std,
        "most": given.magnitude_max,
        "share": given.translate,
        "interpolation": given.interpolation,
        "fill": given.fill,
    }


def _level(function: Any) -> Level:
    """A function of timm's by its name, with the arguments that ``functools.partial`` has bound."""
    if function is None:
        return None
    inner = getattr(function, "func", function)
    name = str(getattr(inner, "__name__", inner))
    return (name, dict(function.keywords)) if inner is not function else name


def _part_of(name: str, op: Any) -> tuple[str, float, float]:
    """One of timm's ``AugmentOp``: the operation, its probability and its magnitude."""
    kind = type(op)
    if (kind.__module__, kind.__qualname__) != (TIMM_RECIPES, "AugmentOp") or not is_library_code(
        kind.__call__
    ):
        raise NotNative(f"{name} has {kind.__qualname__}, which is not an AugmentOp of timm's")
    known = FUNCTIONS.get(op.name)
    functions = (op.aug_fn, getattr(op.level_fn, "func", op.level_fn))
    found = (getattr(op.aug_fn, "__name__", None), _level(op.level_fn))
    if known != found or not all(map(is_library_code, functions)):
        raise NotNative(f"{name} has the operation {op.name}, which is not one that the native path knows")
    return op.name, op.prob, op.magnitude


def _common_of(name: str, ops: Sequence[Any]) -> dict[str, Any]:
    """The common arguments of all operations of a recipe."""
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
