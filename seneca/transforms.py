"""Transforms with torchvision's names, arguments and meaning, which run without Python.

Each is a frozen description. A loader compiles it once and runs it in the native core; called on
one picture it gives what the loader would give for it. Tensors come out as float32 in [0, 1],
normalised where :class:`Normalize` ends the list, so ``ToTensor`` is understood.

Example:
    >>> from seneca import transforms as T
    >>> train = T.Compose([
    ...     T.RandomResizedCrop(224),
    ...     T.RandomHorizontalFlip(),
    ...     T.Normalize(T.IMAGENET_MEAN, T.IMAGENET_STD),
    ... ])
    >>> evaluation = T.Compose([T.Resize(256), T.CenterCrop(224)])
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from seneca._pipeline.plan import NativeTransform, Step

if TYPE_CHECKING:
    import numpy
    import PIL.Image
    import torch

__all__ = [
    "IMAGENET_MEAN",
    "IMAGENET_STD",
    "CenterCrop",
    "Compose",
    "Normalize",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "Resize",
    "ToTensor",
]

IMAGENET_MEAN = (0.485, 0.456, 0.406)
"""Mean of ImageNet's red, green and blue, in [0, 1]; what pretrained weights expect."""

IMAGENET_STD = (0.229, 0.224, 0.225)
"""Standard deviation of ImageNet's red, green and blue, in [0, 1]."""

MAX_SIDE = 65_535  # no JPEG is larger
PIL_BILINEAR = 2  # PIL.Image.BILINEAR, which torchvision takes too


class Transform(NativeTransform):
    """What all transforms here have: they run natively, and on one picture when called."""

    def __call__(self, img: PIL.Image.Image | numpy.ndarray) -> torch.Tensor:
        """Transform one picture as a loader would.

        Random numbers come from torch's global generator, one draw a call.

        Args:
            img: A PIL image, or uint8 of shape (height, width, 3).

        Returns:
            float32 of shape (3, height, width).

        Raises:
            PlanError: The size of the result would depend on the picture.
            TypeError: ``img`` is neither.
        """
        # Only here: describing a transform needs no torch, and the command line starts quickly.
        from seneca._pipeline.sample import transform_picture

        return transform_picture(self, img)


@dataclass(frozen=True, init=False, repr=False)
class Compose(Transform):
    """Transforms one after the other.

    Args:
        transforms: Transforms of this module, in order; :class:`Normalize` last, if at all.

    Raises:
        TypeError: Something else is among them; such a list belongs into torchvision's
            ``Compose``, which the loader runs as Python.
    """

    transforms: tuple[Transform, ...]

    def __init__(self, transforms: Sequence[Transform]) -> None:
        for transform in transforms:
            if not isinstance(transform, Transform):
                raise TypeError(
                    f"transforms: {transform!r} is not one of seneca.transforms; compose it with "
                    "torchvision's Compose instead, which runs as Python in worker processes"
                )
        object.__setattr__(self, "transforms", tuple(transforms))

    def steps(self) -> tuple[Step, ...]:
        return tuple(step for transform in self.transforms for step in transform.steps())

    def __iter__(self) -> Iterator[Transform]:
        return iter(self.transforms)

    def __repr__(self) -> str:
        return "\n".join(["Compose(", *(f"    {transform}" for transform in self.transforms), ")"])


@dataclass(frozen=True, repr=False)
class Resize(Transform):
    """Resize with Pillow's antialiased bilinear filter.

    Args:
        size: ``(height, width)``, or one int for the shorter side (the ratio is kept).
        interpolation: ``"bilinear"``, or torchvision's or Pillow's constant for it.
        max_size: Only ``None``.
        antialias: Only ``True``.

    Raises:
        TypeError: ``size`` is neither an int nor a pair of them.
        ValueError: A side that is not positive, or an option that does not run natively.
    """

    size: int | Sequence[int]
    interpolation: Any = "bilinear"
    max_size: None = None
    antialias: bool = True

    def __post_init__(self) -> None:
        both = isinstance(self.size, (list, tuple)) and len(self.size) != 1
        object.__setattr__(self, "size", _pair(self.size) if both else _pair(self.size)[0])
        _set_interpolation(self)
        if self.max_size is not None:
            raise ValueError(
                f"max_size: only None runs natively, but got {self.max_size!r}; give both sides in size"
            )

    def steps(self) -> tuple[Step, ...]:
        return (Step("resize", {"size": self.size}),)

    def __repr__(self) -> str:
        return (
            f"Resize(size={self.size}, interpolation={self.interpolation}, "
            f"max_size={self.max_size}, antialias={self.antialias})"
        )


@dataclass(frozen=True, repr=False)
class CenterCrop(Transform):
    """Cut out the middle; a smaller picture is padded with black.

    Args:
        size: ``(height, width)``, or one int for a square.

    Raises:
        TypeError: ``size`` is neither an int nor a pair of them.
        ValueError: A side that is not positive.
    """

    size: int | Sequence[int]

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", _pair(self.size))

    def steps(self) -> tuple[Step, ...]:
        return (Step("center_crop", {"size": self.size}),)

    def __repr__(self) -> str:
        return f"CenterCrop(size={self.size})"


@dataclass(frozen=True, repr=False)
class RandomResizedCrop(Transform):
    """Cut out a random part and resize it: the usual augmentation of ImageNet training.

    Args:
        size: ``(height, width)`` of the result, or one int for a square.
        scale: Least and greatest share of the picture's area that is cut out.
        ratio: Least and greatest width / height of what is cut out.
        interpolation: ``"bilinear"``, or torchvision's or Pillow's constant for it.
        antialias: Only ``True``.

    Raises:
        TypeError: ``size`` is neither an int nor a pair of them.
        ValueError: ``scale`` or ``ratio`` is not a rising pair of positive numbers, a side is not
            positive, or an option does not run natively.
    """

    size: int | Sequence[int]
    scale: Sequence[float] = (0.08, 1.0)
    ratio: Sequence[float] = (3.0 / 4.0, 4.0 / 3.0)
    interpolation: Any = "bilinear"
    antialias: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", _pair(self.size))
        object.__setattr__(self, "scale", _range("scale", self.scale))
        object.__setattr__(self, "ratio", _range("ratio", self.ratio))
        _set_interpolation(self)

    def steps(self) -> tuple[Step, ...]:
        return (Step("random_resized_crop", {"size": self.size, "scale": self.scale, "ratio": self.ratio}),)

    def __repr__(self) -> str:
        scale, ratio = (tuple(round(x, 4) for x in pair) for pair in (self.scale, self.ratio))
        return (
            f"RandomResizedCrop(size={self.size}, scale={scale}, ratio={ratio}, "
            f"interpolation={self.interpolation}, antialias={self.antialias})"
        )


@dataclass(frozen=True, repr=False)
class RandomHorizontalFlip(Transform):
    """Mirror left and right, now and then.

    Args:
        p: Probability of doing so.

    Raises:
        ValueError: ``p`` outside [0, 1].
    """

    p: float = 0.5

    def __post_init__(self) -> None:
        if not 0 <= self.p <= 1:
            raise ValueError(f"p is a probability in [0, 1], but got {self.p!r}")
        object.__setattr__(self, "p", float(self.p))

    def steps(self) -> tuple[Step, ...]:
        return (Step("random_hflip", {"p": self.p}),)

    def __repr__(self) -> str:
        return f"RandomHorizontalFlip(p={self.p})"


@dataclass(frozen=True)
class ToTensor(Transform):
    """Nothing: what leaves a pipeline is a tensor anyway.

    It is here so that a list written for torchvision works as it stands.
    """

    def steps(self) -> tuple[Step, ...]:
        return ()


@dataclass(frozen=True, repr=False)
class Normalize(Transform):
    """``(value - mean) / std`` for each channel of [0, 1]; the last transform of a list.

    Args:
        mean: Red, green and blue.
        std: Red, green and blue, none of them 0.
        inplace: Taken for torchvision's sake; it makes no difference here.

    Raises:
        ValueError: Not three numbers, or a 0 in ``std``.
    """

    mean: Sequence[float]
    std: Sequence[float]
    inplace: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean", _channels("mean", self.mean))
        object.__setattr__(self, "std", _channels("std", self.std))
        if 0 in self.std:
            raise ValueError(f"std: dividing by 0 gives no number; got {self.std}")

    def steps(self) -> tuple[Step, ...]:
        return (Step("normalize", {"mean": self.mean, "std": self.std}),)

    def __repr__(self) -> str:
        return f"Normalize(mean={list(self.mean)}, std={list(self.std)})"


def _side(value: object) -> int:
    """One side of ``size``."""
    try:
        side = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"size: a side is an int, but got {value!r}") from None
    if not 1 <= side <= MAX_SIDE:
        raise ValueError(f"size: a side is between 1 and {MAX_SIDE}, but got {side}")
    return side


def _pair(value: object) -> tuple[int, int]:
    """``size`` where it is a height and a width; one number stands for both."""
    sides = value if isinstance(value, (list, tuple)) else (value,)
    if not 1 <= len(sides) <= 2:
        raise ValueError(f"size: one int or (height, width), but got {value!r}")
    return _side(sides[0]), _side(sides[-1])


def _range(name: str, value: Sequence[float]) -> tuple[float, float]:
    """A least and a greatest value."""
    try:
        low, high = (float(bound) for bound in value)
    except (TypeError, ValueError):
        raise ValueError(f"{name}: a pair (least, greatest), but got {value!r}") from None
    if not 0 < low <= high < float("inf"):
        raise ValueError(f"{name}: least and greatest are positive and in this order, but got {value!r}")
    return low, high


def _channels(name: str, value: Sequence[float]) -> tuple[float, float, float]:
    """A number each for red, green and blue."""
    try:
        red, green, blue = (float(channel) for channel in value)
    except (TypeError, ValueError):
        raise ValueError(f"{name}: three numbers (red, green, blue), but got {value!r}") from None
    return red, green, blue


def _set_interpolation(transform: Resize | RandomResizedCrop) -> None:
    """Refuse what the native path does not run, and give equal meanings one spelling."""
    given = transform.interpolation
    if getattr(given, "value", given) not in ("bilinear", PIL_BILINEAR):
        raise ValueError(f'interpolation: only "bilinear" runs natively, but got {given!r}')
    if transform.antialias is not True:
        raise ValueError(
            f"antialias: only True runs natively (as Pillow resizes), but got {transform.antialias!r}"
        )
    object.__setattr__(transform, "interpolation", "bilinear")
