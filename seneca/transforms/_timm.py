"""The recipes of timm's ``auto_augment``: RandAugment, AutoAugment and AugMix with its operations and levels.

timm's own objects are recognised; few will write these by hand.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from seneca.transforms._arguments import colour, warp_filter_or_random, whole
from seneca.transforms._base import Transform, step
from seneca.transforms._pipeline import Step

__all__ = ["TIMM_OPERATIONS", "TimmAugMix", "TimmAugment"]

# In timm's words and in the order of enum sn_timm_operation in csrc/codec/sn_plan.h.
TIMM_OPERATIONS = (
    "AutoContrast",
    "Equalize",
    "Invert",
    "Rotate",
    "Posterize",
    "PosterizeIncreasing",
    "PosterizeOriginal",
    "Solarize",
    "SolarizeIncreasing",
    "SolarizeAdd",
    "Color",
    "ColorIncreasing",
    "Contrast",
    "ContrastIncreasing",
    "Brightness",
    "BrightnessIncreasing",
    "Sharpness",
    "SharpnessIncreasing",
    "ShearX",
    "ShearY",
    "TranslateXRel",
    "TranslateYRel",
    "Desaturate",
    "GaussianBlur",
    "GaussianBlurRand",
)
MOST_PARTS = 50  # SN_MAX_PARTS in csrc/codec/sn_plan.h
MOST_EDITS = 32  # SN_RECIPE_MAX in csrc/codec/operations/recipe.h
MOST_DEPTH = 3  # of a chain of AugMix, where it is drawn
MOST_MAGNITUDE = 1000.0

Part = tuple[str, float, float]


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
            **({"distinct": True} if self.distinct else {}),
            **_numbers(self),
        )


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
