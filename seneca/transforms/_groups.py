"""Transforms of transforms: some of a list, one of a list, or all in a random order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from seneca.transforms._arguments import probability
from seneca.transforms._base import Transform, step
from seneca.transforms._pipeline import Step

__all__ = ["RandomApply", "RandomChoice", "RandomOrder"]

# The steps that leave a picture its size, which is therefore known, whatever is drawn.
SAME_SIZE = frozenset(
    {
        "aug_mix",
        "auto_augment",
        "color_jitter",
        "elastic_transform",
        "gaussian_blur",
        "rand_augment",
        "random_adjust_sharpness",
        "random_affine",
        "random_apply",
        "random_autocontrast",
        "random_choice",
        "random_equalize",
        "random_grayscale",
        "random_hflip",
        "random_invert",
        "random_order",
        "random_perspective",
        "random_posterize",
        "random_rotation",
        "random_solarize",
        "random_vflip",
        "timm_aug_mix",
        "timm_augment",
        "trivial_augment_wide",
    }
)


@dataclass(frozen=True)
class RandomApply(Transform):
    """Apply a list of transforms with a given probability, or none of them.

    Args:
        transforms: Transforms of pixels that leave a picture its size.
        p: The probability, in [0, 1].

    Raises:
        TypeError: One of them is not of ``seneca.transforms``.
        ValueError: There are none, one of them changes the size or works on the tensor, or ``p`` is outside
            [0, 1].

    Example:
        >>> from seneca import transforms as T
        >>> jitter = T.RandomApply([T.ColorJitter(0.8, 0.8, 0.8, 0.2)], p=0.8)
    """

    transforms: Sequence[Transform]
    p: float = 0.5

    def __post_init__(self) -> None:
        self._set(transforms=_members(self.transforms), p=probability(self.p))

    def steps(self) -> tuple[Step, ...]:
        steps = tuple(inner for transform in self.transforms for inner in transform.steps())
        return step("random_apply", p=self.p, steps=steps) if steps else ()


@dataclass(frozen=True)
class RandomChoice(Transform):
    """Apply one of some transforms, chosen at random.

    Args:
        transforms: Transforms of pixels that leave a picture its size. A :class:`Compose` counts as one.
        p: How probable each is; the numbers are divided by their sum. ``None``: all are equally so.

    Raises:
        TypeError: One of them is not of ``seneca.transforms``.
        ValueError: There are none, or one of them changes the size or works on the tensor. Or ``p`` has not a
            number for each, a number is negative, or none is positive.

    Example:
        >>> from seneca import transforms as T
        >>> one = T.RandomChoice([T.RandomGrayscale(1), T.RandomSolarize(128, 1), T.GaussianBlur(3)])
    """

    transforms: Sequence[Transform]
    p: Sequence[float] | None = None

    def __post_init__(self) -> None:
        self._set(transforms=_members(self.transforms))
        weights = [1.0] * len(self.transforms) if self.p is None else [float(weight) for weight in self.p]
        total = sum(weights)
        if len(weights) != len(self.transforms):
            raise ValueError(f"p: a number for each transform, but got {len(weights)}: {self.p!r}")
        if min(weights) < 0 or not 0 < total < math.inf:
            raise ValueError(f"p: numbers that are not negative, and not all 0, but got {self.p!r}")
        self._set(p=tuple(weight / total for weight in weights))

    def steps(self) -> tuple[Step, ...]:
        branches = zip(self.p or (), self.transforms, strict=True)
        return step("random_choice", branches=tuple((p, one.steps()) for p, one in branches))


@dataclass(frozen=True)
class RandomOrder(Transform):
    """Apply all of some transforms, in a random order.

    Args:
        transforms: Transforms of pixels that leave a picture its size. A :class:`Compose` counts as one.

    Raises:
        TypeError: One of them is not of ``seneca.transforms``.
        ValueError: There are none, or one of them changes the size or works on the tensor.
    """

    transforms: Sequence[Transform]

    def __post_init__(self) -> None:
        self._set(transforms=_members(self.transforms))

    def steps(self) -> tuple[Step, ...]:
        return step("random_order", branches=tuple((0.0, one.steps()) for one in self.transforms))


def _members(transforms: Sequence[Transform]) -> tuple[Transform, ...]:
    """The transforms of a group, checked."""
    members = tuple(transforms)
    if not members:
        raise ValueError("transforms: there are none")
    for transform in members:
        if not isinstance(transform, Transform):
            raise TypeError(f"transforms: {transform!r} is not one of seneca.transforms")
        if any(inner.kind not in SAME_SIZE for inner in transform.steps()):
            raise ValueError(
                f"transforms: {type(transform).__name__} changes the size of a picture or works on the "
                "tensor; put it in front of the group, or behind it"
            )
    return members
