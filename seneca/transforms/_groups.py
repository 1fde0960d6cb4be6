"""Transforms of transforms: some of a list, one of it, all in a random order; or one, marked as static."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from seneca.transforms._arguments import probability
from seneca.transforms._base import BY_KIND, Step, Transform, step

__all__ = ["RandomApply", "RandomChoice", "RandomOrder", "Static"]


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


@dataclass(frozen=True, repr=False)
class Static:
    """Mark a callable as deterministic: equal pictures give equal results, on every call.

    Seneca cannot see whether a function draws random numbers. It keeps the result of your function only if
    you mark it. Calling the mark calls the function; therefore it can stand wherever the function stood.

    Args:
        transform: Any callable that takes one value.

    Raises:
        TypeError: ``transform`` cannot be called.

    Example:
        >>> from PIL import Image, ImageOps
        >>> equalize = Static(ImageOps.equalize)
        >>> equalize
        Static(ImageOps.equalize)
        >>> equalize(Image.new("RGB", (4, 3))).size
        (4, 3)
    """

    transform: Callable[[Any], Any]

    def __post_init__(self) -> None:
        if not callable(self.transform):
            raise TypeError(f"transform: a callable, such as a function, but got {self.transform!r}")

    def __call__(self, value: Any) -> Any:
        """Call the marked transform with ``value``."""
        return self.transform(value)

    def __repr__(self) -> str:
        return f"Static({_called(self.transform)})"


def _called(transform: object) -> str:
    """A callable's name for people: the own name of a function or class, else its ``repr``."""
    module, name = getattr(transform, "__module__", None), getattr(transform, "__qualname__", None)
    if name is None:
        return repr(transform)
    return name if module is None else f"{module.rpartition('.')[2]}.{name}"


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
