"""Transforms of the resulting tensor: its type, its statistics, and erasing."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from seneca.transforms._arguments import channels, probability, rising, whole
from seneca.transforms._base import Transform, step
from seneca.transforms._pipeline import DTYPES, Step

if TYPE_CHECKING:
    import torch

__all__ = ["ConvertImageDtype", "Normalize", "PILToTensor", "RandomErasing", "ToDtype", "ToTensor"]

NOISES = ("random", "random colour")
MOST_BOXES = 1000  # MAX_BOXES in csrc/codec/plan.c


@dataclass(frozen=True)
class ToTensor(Transform):
    """Make a float32 tensor in [0, 1]. This is also the result without any transform of the tensor."""

    def steps(self) -> tuple[Step, ...]:
        return step("to_tensor")


@dataclass(frozen=True)
class PILToTensor(Transform):
    """Make a uint8 tensor, from 0 to 255. It has a quarter of the bytes of float32.

    Example:
        >>> import numpy
        >>> from seneca import transforms as T
        >>> transform = T.Compose([T.CenterCrop(8), T.PILToTensor()])
        >>> transform(numpy.full((8, 8, 3), 200, numpy.uint8))[0, 0, 0]
        tensor(200, dtype=torch.uint8)
    """

    def steps(self) -> tuple[Step, ...]:
        return step("pil_to_tensor")


@dataclass(frozen=True)
class ToDtype(Transform):
    """Make a tensor of another type, as torchvision's v2 does.

    Values are computed in float32 and rounded once, whatever the order in the list.

    Args:
        dtype: ``torch.uint8``, ``float16``, ``bfloat16`` or ``float32``, or its name.
        scale: Whether 0 to 255 in uint8 becomes 0 to 1 in floats, and the reverse. If not, floats hold 0 to
            255.

    Raises:
        ValueError: ``dtype`` is another type.

    Example:
        >>> ToDtype("float16", scale=True)
        ToDtype(dtype='float16', scale=True)
    """

    dtype: torch.dtype | str
    scale: bool = False

    def __post_init__(self) -> None:
        self._set(dtype=_dtype(self.dtype), scale=bool(self.scale))

    def steps(self) -> tuple[Step, ...]:
        return step("to_dtype", dtype=self.dtype, scale=self.scale)


@dataclass(frozen=True)
class ConvertImageDtype(Transform):
    """``ToDtype(dtype, scale=True)`` under its older name.

    Args:
        dtype: The type, as for :class:`ToDtype`.

    Raises:
        ValueError: ``dtype`` is another type.
    """

    dtype: torch.dtype | str

    def __post_init__(self) -> None:
        self._set(dtype=_dtype(self.dtype))

    def steps(self) -> tuple[Step, ...]:
        return step("to_dtype", dtype=self.dtype, scale=True)


@dataclass(frozen=True, repr=False)
class Normalize(Transform):
    """Compute ``(value - mean) / std`` for each channel.

    Args:
        mean: Red, green and blue, in the units of the tensor: [0, 1], unless ``ToDtype`` left 0 to 255.
        std: Red, green and blue, none of them 0.
        inplace: Accepted as torchvision accepts it; it has no effect here.

    Raises:
        ValueError: ``mean`` or ``std`` is not three finite numbers, or ``std`` has a 0.
    """

    mean: Sequence[float]
    std: Sequence[float]
    inplace: bool = False

    def __post_init__(self) -> None:
        self._set(mean=channels("mean", self.mean), std=channels("std", self.std))
        if 0 in self.std:
            raise ValueError(f"std: dividing by 0 gives no number; got {self.std}")

    def steps(self) -> tuple[Step, ...]:
        return step("normalize", mean=self.mean, std=self.std)

    def __repr__(self) -> str:
        return f"Normalize(mean={list(self.mean)}, std={list(self.std)})"


@dataclass(frozen=True, repr=False)
class RandomErasing(Transform):
    """Overwrite a random rectangle with a given probability ("Random Erasing Data Augmentation", Zhong et
    al.).

    The rectangle is drawn again for each delivery. Therefore two jobs that share a picture erase different
    parts.

    Args:
        p: The probability, in [0, 1].
        scale: The least and the greatest share of the picture's area, within [0, 1].
        ratio: The least and the greatest ratio of height to width of the rectangle.
        value: What is written: one number, or three (red, green, blue), in the units of the tensor at this
            place in the list. ``"random"`` writes normal noise of mean 0 and deviation 1, with a number for
            each pixel and channel. ``"random colour"`` writes such noise with one number for each channel.
        inplace: Accepted as torchvision accepts it; it has no effect here.
        count: How many rectangles, which share the area, or the fewest and the most of them. torchvision
            erases one, timm as many as its ``re_count`` says.

    Raises:
        TypeError: ``scale`` or ``ratio`` is not a sequence, or ``value`` is of another kind.
        ValueError: ``p`` or ``scale`` is outside [0, 1], a pair falls, ``value`` is another word, or has
            not one or three numbers, or ``count`` is not from 1 to 1000.
    """

    p: float = 0.5
    scale: Sequence[float] = (0.02, 0.33)
    ratio: Sequence[float] = (0.3, 3.3)
    value: float | str | Sequence[float] = 0
    inplace: bool = False
    count: int | Sequence[int] = 1

    def __post_init__(self) -> None:
        count = self.count if isinstance(self.count, (list, tuple)) else (self.count, self.count)
        fewest, most = (whole("count", number, 1, MOST_BOXES) for number in count)
        if fewest > most:
            raise ValueError(f"count: the fewest and the most in this order, but got {self.count!r}")
        self._set(
            count=(fewest, most),
            p=probability(self.p),
            scale=rising("scale", self.scale, zero=True, greatest=1),
            ratio=rising("ratio", self.ratio),
            value=_erasing_value(self.value),
        )

    def steps(self) -> tuple[Step, ...]:
        return step(
            "random_erasing", p=self.p, scale=self.scale, ratio=self.ratio, value=self.value, count=self.count
        )

    def __repr__(self) -> str:
        count = f", count={self.count}" if self.count != (1, 1) else ""
        return (
            f"RandomErasing(p={self.p}, scale={self.scale}, ratio={self.ratio}, value={self.value!r}, "
            f"inplace={self.inplace}{count})"
        )


def _dtype(given: torch.dtype | str) -> str:
    """The name of a type that the native core can write."""
    name = str(given).removeprefix("torch.")
    if name not in DTYPES:
        raise ValueError(f"dtype: one of {', '.join(f'torch.{n}' for n in DTYPES)}, but got {given!r}")
    return name


def _erasing_value(value: object) -> str | tuple[float, float, float]:
    """``value`` of RandomErasing: three numbers, or a word."""
    if isinstance(value, str):
        if value not in NOISES:
            raise ValueError(f'value: the only words are "random" and "random colour", but got {value!r}')
        return value
    if isinstance(value, numbers.Real):
        return channels("value", [float(value)] * 3)
    if not isinstance(value, (list, tuple)):
        raise TypeError(f'value: a number, three numbers or "random", but got {value!r}')
    return channels("value", tuple(value) * 3 if len(value) == 1 else value)
