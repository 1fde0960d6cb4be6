"""Transforms that choose among operations: of a list that they are given, or of a published recipe."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from seneca.transforms._arguments import (
    NotNative,
    colour,
    fill_of,
    one_of,
    probability,
    warp_filter,
    warping_of,
    whole,
)
from seneca.transforms._base import BY_KIND, Step, Transform, ValueKind, refused, step
from seneca.transforms._genuine import is_library_code, is_v1
from seneca.transforms._timm import mixed_chains, spread

__all__ = [
    "AugMix",
    "AutoAugment",
    "RandAugment",
    "RandomApply",
    "RandomChoice",
    "RandomOrder",
    "TrivialAugmentWide",
]

POLICIES = ("imagenet", "cifar10", "svhn")
MOST_OPS = 8  # SN_MAX_COUNT in csrc/codec/sn_plan.h
MOST_BINS = 1024


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

    kinds = ("random_apply",)
    keeps_size = True

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

    kinds = ("random_choice",)
    keeps_size = True

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

    kinds = ("random_order",)
    keeps_size = True

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
        if not all(inner.kind in BY_KIND and BY_KIND[inner.kind].keeps_size for inner in transform.steps()):
            raise ValueError(
                f"transforms: {type(transform).__name__} changes the size of a picture or works on the "
                "tensor; put it in front of the group, or behind it"
            )
    return members


@dataclass(frozen=True)
class RandAugment(Transform):
    """Apply some of 14 operations, each chosen at random, with one magnitude ("RandAugment", Cubuk et al.).

    The operations are torchvision's: identity, shears, shifts, rotation, brightness, colour, contrast,
    sharpness, posterize, solarize, autocontrast and equalize. Those with a sign get a random one.

    Args:
        num_ops: How many operations, one after the other; at most 8.
        magnitude: Which of the ``num_magnitude_bins`` magnitudes, from 0. A negative one counts from the end.
        num_magnitude_bins: How many magnitudes there are, from 2 to 1024.
        interpolation: ``"nearest"``, ``"bilinear"`` or ``"bicubic"``, or torchvision's or Pillow's constant.
        fill: The colour of what lies outside the picture, from 0 to 255: one number, or red, green, blue.
            ``None`` is black.

    Raises:
        TypeError: ``fill`` is neither a number nor a sequence of numbers, or a count is no int.
        ValueError: A count is out of range, ``fill`` is not a colour, or the filter does not run natively.

    Example:
        >>> from seneca import transforms as T
        >>> train = T.Compose([T.RandomResizedCrop(224), T.RandAugment(2, 9), T.ToTensor()])
    """

    kinds = ("rand_augment",)
    keeps_size = True
    masks = refused("masks")
    boxes = refused("boxes")

    num_ops: int = 2
    magnitude: int = 9
    num_magnitude_bins: int = 31
    interpolation: Any = "nearest"
    fill: int | Sequence[int] | None = None

    def __post_init__(self) -> None:
        bins = whole("num_magnitude_bins", self.num_magnitude_bins, 2, MOST_BINS)
        magnitude = whole("magnitude", self.magnitude, -bins, bins - 1)
        self._set(
            num_ops=whole("num_ops", self.num_ops, 0, MOST_OPS),
            magnitude=magnitude % bins,
            num_magnitude_bins=bins,
            **_common(self),
        )

    @classmethod
    def from_torchvision(cls, given: Any, holds: ValueKind) -> Transform:
        common = _common_of("RandAugment", given, holds)
        return cls(given.num_ops, given.magnitude, given.num_magnitude_bins, **common)


@dataclass(frozen=True)
class TrivialAugmentWide(Transform):
    """Apply one of 14 operations with one of its magnitudes, both chosen at random ("TrivialAugment",
    Müller and Hutter).

    Args:
        num_magnitude_bins: How many magnitudes there are, from 2 to 1024.
        interpolation, fill: As for :class:`RandAugment`.

    Raises:
        TypeError: ``fill`` is neither a number nor a sequence of numbers, or the count is no int.
        ValueError: The count is out of range, ``fill`` is not a colour, or the filter does not run natively.
    """

    kinds = ("trivial_augment_wide",)
    keeps_size = True
    masks = refused("masks")
    boxes = refused("boxes")

    num_magnitude_bins: int = 31
    interpolation: Any = "nearest"
    fill: int | Sequence[int] | None = None

    def __post_init__(self) -> None:
        bins = whole("num_magnitude_bins", self.num_magnitude_bins, 2, MOST_BINS)
        self._set(num_magnitude_bins=bins, **_common(self))

    @classmethod
    def from_torchvision(cls, given: Any, holds: ValueKind) -> Transform:
        return cls(given.num_magnitude_bins, **_common_of("TrivialAugmentWide", given, holds))


@dataclass(frozen=True)
class AutoAugment(Transform):
    """Apply one of 25 learned pairs of operations, chosen at random ("AutoAugment", Cubuk et al.).

    Args:
        policy: On what the pairs were learned: ``"imagenet"``, ``"cifar10"`` or ``"svhn"``, or torchvision's
            ``AutoAugmentPolicy``.
        interpolation, fill: As for :class:`RandAugment`.

    Raises:
        TypeError: ``fill`` is neither a number nor a sequence of numbers.
        ValueError: The policy is unknown, ``fill`` is not a colour, or the filter does not run natively.

    Example:
        >>> AutoAugment("cifar10").policy
        'cifar10'
    """

    kinds = ("auto_augment",)
    keeps_size = True
    masks = refused("masks")
    boxes = refused("boxes")

    policy: Any = "imagenet"
    interpolation: Any = "nearest"
    fill: int | Sequence[int] | None = None

    def __post_init__(self) -> None:
        policy = getattr(self.policy, "value", self.policy)
        self._set(policy=one_of("policy", POLICIES, policy), **_common(self))

    @classmethod
    def from_torchvision(cls, given: Any, holds: ValueKind) -> Transform:
        policies = given.policies if is_v1(given) else given._policies
        if policies != given._get_policies(given.policy):
            raise NotNative("AutoAugment has other policies than torchvision's")
        return cls(given.policy, **_common_of("AutoAugment", given, holds))


@dataclass(frozen=True)
class AugMix(Transform):
    """Blend a picture with chains of random operations ("AugMix", Hendrycks et al.).

    Args:
        severity: The magnitude of each operation is drawn from so many of the least of 10 magnitudes.
        mixture_width: How many chains are blended. ``mixture_width * (n + 1)`` is at most 30, where ``n`` is
            the largest number of operations that a chain may have.
        chain_depth: How many operations a chain has; 0 or below: 1 to 3, drawn for each chain.
        alpha: The parameter of the Dirichlet and beta distributions from which the weights are drawn.
        all_ops: Whether brightness, contrast, colour and sharpness are among the operations.
        interpolation: ``"nearest"`` or ``"bilinear"``, or torchvision's or Pillow's constant.
        fill: The colour of what lies outside the picture, from 0 to 255: one number, or red, green, blue.
            ``None`` is black, which fades in at the picture's edge, as torchvision has it on tensors.

    Raises:
        TypeError: ``fill`` is neither a number nor a sequence of numbers, or a count is no int.
        ValueError: A number is out of range, ``fill`` is not a colour, or the filter does not run natively.

    Example:
        >>> AugMix(severity=5).chain_depth
        0
    """

    kinds = ("aug_mix",)
    on_tensors = ("bytes",)  # torchvision makes a tensor of a picture for it
    keeps_size = True
    masks = refused("masks")
    boxes = refused("boxes")

    severity: int = 3
    mixture_width: int = 3
    chain_depth: int = -1
    alpha: float = 1.0
    all_ops: bool = True
    interpolation: Any = "bilinear"
    fill: int | Sequence[int] | None = None

    def __post_init__(self) -> None:
        depth, width = mixed_chains("mixture_width", self.mixture_width, "chain_depth", self.chain_depth)
        self._set(
            severity=whole("severity", self.severity, 1, 10),
            mixture_width=width,
            chain_depth=depth,
            alpha=spread(self.alpha),
            all_ops=bool(self.all_ops),
            interpolation=one_of("interpolation", ("nearest", "bilinear"), warp_filter(self.interpolation)),
            fill=None if self.fill is None else colour(self.fill),
        )

    def steps(self) -> tuple[Step, ...]:
        # Not by step(): here, black that is given differs from no colour.
        return (Step("aug_mix", {name: arg for name, arg in vars(self).items() if arg is not None}),)

    @classmethod
    def from_torchvision(cls, given: Any, holds: ValueKind) -> Transform:
        common = _common_of("AugMix", given, holds)
        shape = given.severity, given.mixture_width, given.chain_depth
        return cls(*shape, given.alpha, given.all_ops, **common)


def _common(given: RandAugment | TrivialAugmentWide | AutoAugment) -> dict[str, Any]:
    """The arguments that all of them have, checked."""
    return {
        "interpolation": warp_filter(given.interpolation),
        "fill": colour(0 if given.fill is None else given.fill),
    }


def _common_of(name: str, given: Any, holds: ValueKind) -> dict[str, Any]:
    """The arguments that torchvision's recipes have in common."""
    spaces = ("_AUGMENTATION_SPACE", "_PARTIAL_AUGMENTATION_SPACE")
    made = [one for space in spaces for one, _ in getattr(type(given), space, {}).values()]
    if {*spaces} & vars(given).keys() or not all(map(is_library_code, made)):
        raise NotNative(f"{name} has other operations than torchvision's")
    # Of AugMix, None differs from black: it fades in at the edge.
    fill = None if name == "AugMix" and given.fill is None else fill_of(name, given, holds)
    return {"interpolation": warping_of(name, given), "fill": fill}
