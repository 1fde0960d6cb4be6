"""Transforms that move, cut and resize."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from seneca.transforms._arguments import (
    PADDING_MODES,
    antialiasing,
    colour,
    filter_name,
    filter_or_random,
    margins,
    one_of,
    pair,
    probability,
    rising,
    side,
)
from seneca.transforms._base import Transform, step
from seneca.transforms._pipeline import Step

__all__ = [
    "CenterCrop",
    "Pad",
    "RandomCrop",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "RandomVerticalFlip",
    "Resize",
]


@dataclass(frozen=True, repr=False)
class Resize(Transform):
    """Resize a picture as Pillow does.

    Args:
        size: ``(height, width)``; or one int for the shorter side, and the ratio is kept.
        interpolation: ``"bilinear"`` or ``"bicubic"``, or torchvision's or Pillow's constant.
        max_size: The greatest length of the longer side, only with one int as ``size``. If the longer side
            would be longer, it gets this length, and the shorter side follows.
        antialias: ``True`` or ``None``: widen the filter when shrinking, as Pillow always does. ``False``:
            do not widen it, as torchvision on tensors with ``antialias=False``.

    Raises:
        TypeError: ``size`` is neither an int nor a pair of them.
        ValueError: A side is not positive. Or the filter does not run natively. Or ``max_size`` is not
            above ``size``, or comes with both sides.

    Example:
        >>> Resize(256, max_size=300)
        Resize(size=256, interpolation=bilinear, max_size=300, antialias=True)
    """

    size: int | Sequence[int]
    interpolation: Any = "bilinear"
    max_size: int | None = None
    antialias: bool | None = True

    def __post_init__(self) -> None:
        both = isinstance(self.size, (list, tuple)) and len(self.size) != 1
        size = pair(self.size) if both else pair(self.size)[0]
        self._set(
            size=size,
            interpolation=filter_name(self.interpolation),
            antialias=antialiasing(self.antialias),
        )
        if self.max_size is None:
            return
        self._set(max_size=side("max_size", self.max_size))
        if isinstance(size, tuple):
            raise ValueError(f"max_size: only with one int as size, for the shorter side, but size is {size}")
        if self.max_size <= size:
            raise ValueError(f"max_size: above size, which is the shorter side; {self.max_size} <= {size}")

    def steps(self) -> tuple[Step, ...]:
        return step(
            "resize",
            size=self.size,
            interpolation=self.interpolation,
            max_size=self.max_size,
            antialias=self.antialias,
        )

    def __repr__(self) -> str:
        return (
            f"Resize(size={self.size}, interpolation={self.interpolation}, "
            f"max_size={self.max_size}, antialias={self.antialias})"
        )


@dataclass(frozen=True, repr=False)
class CenterCrop(Transform):
    """Cut out the middle. A smaller picture gets margins.

    Args:
        size: ``(height, width)``, or one int for a square.
        fill: The colour of constant margins, from 0 to 255: one number, or red, green and blue.
        padding_mode: How margins are filled, as for :class:`Pad`.

    Raises:
        TypeError: ``size`` is neither an int nor a pair of them, or ``fill`` neither a number nor a sequence.
        ValueError: A side is not positive, ``fill`` is not a colour, or the mode is another word.
    """

    size: int | Sequence[int]
    fill: int | Sequence[int] = 0
    padding_mode: str = "constant"

    def __post_init__(self) -> None:
        self._set(
            size=pair(self.size),
            fill=colour(self.fill),
            padding_mode=one_of("padding_mode", PADDING_MODES, self.padding_mode),
        )

    def steps(self) -> tuple[Step, ...]:
        return step("center_crop", size=self.size, fill=self.fill, padding_mode=self.padding_mode)

    def __repr__(self) -> str:
        return f"CenterCrop(size={self.size})"


@dataclass(frozen=True, repr=False)
class Pad(Transform):
    """Add margins.

    Args:
        padding: The width of the margins in pixels: one int for all sides, ``(left and right, top and
            bottom)``, or ``(left, top, right, bottom)``.
        fill: The colour of constant margins, from 0 to 255: one number, or red, green and blue.
        padding_mode: ``"constant"``: one colour. ``"edge"``: the outermost pixels are repeated.
            ``"reflect"``: the picture is mirrored without its outermost pixels. ``"symmetric"``: it is
            mirrored with them.

    Raises:
        TypeError: ``padding`` or ``fill`` is neither a number nor a sequence of numbers.
        ValueError: A margin is negative, ``fill`` is not a colour, or the mode is another word.
    """

    padding: int | Sequence[int]
    fill: int | Sequence[int] = 0
    padding_mode: str = "constant"

    def __post_init__(self) -> None:
        self._set(
            padding=margins(self.padding),
            fill=colour(self.fill),
            padding_mode=one_of("padding_mode", PADDING_MODES, self.padding_mode),
        )

    def steps(self) -> tuple[Step, ...]:
        return step("pad", padding=self.padding, fill=self.fill, padding_mode=self.padding_mode)

    def __repr__(self) -> str:
        return f"Pad(padding={self.padding}, fill={self.fill}, padding_mode={self.padding_mode})"


@dataclass(frozen=True, repr=False)
class RandomCrop(Transform):
    """Cut out a part of a given size. Every place has the same probability.

    Args:
        size: ``(height, width)``, or one int for a square.
        padding: Margins that are added first, as for :class:`Pad`; ``None`` for none.
        pad_if_needed: Whether a picture that is still too small is padded: it gets on both sides as many
            pixels as it lacks. If not, such a picture is an error.
        fill: The colour of constant margins, as for :class:`Pad`.
        padding_mode: How margins are filled, as for :class:`Pad`.

    Raises:
        TypeError: ``size``, ``padding`` or ``fill`` is neither a number nor a sequence of numbers.
        ValueError: A side is not positive, a margin is negative, ``fill`` is not a colour, or the mode is
            another word.

    Example:
        >>> RandomCrop(32, padding=4)
        RandomCrop(size=(32, 32), padding=(4, 4, 4, 4))
    """

    size: int | Sequence[int]
    padding: int | Sequence[int] | None = None
    pad_if_needed: bool = False
    fill: int | Sequence[int] = 0
    padding_mode: str = "constant"

    def __post_init__(self) -> None:
        self._set(
            size=pair(self.size),
            padding=None if self.padding is None else margins(self.padding),
            pad_if_needed=bool(self.pad_if_needed),
            fill=colour(self.fill),
            padding_mode=one_of("padding_mode", PADDING_MODES, self.padding_mode),
        )

    def steps(self) -> tuple[Step, ...]:
        return step(
            "random_crop",
            size=self.size,
            padding=self.padding or (0, 0, 0, 0),
            pad_if_needed=self.pad_if_needed,
            fill=self.fill,
            padding_mode=self.padding_mode,
        )

    def __repr__(self) -> str:
        return f"RandomCrop(size={self.size}, padding={self.padding})"


@dataclass(frozen=True, repr=False)
class RandomResizedCrop(Transform):
    """Cut out a random part and resize it. This is the usual augmentation of ImageNet training.

    Args:
        size: ``(height, width)`` of the result, or one int for a square.
        scale: The least and the greatest share of the picture's area that is cut out.
        ratio: The least and the greatest ratio of width to height of this part.
        interpolation, antialias: The filter, as for :class:`Resize`. ``"random"``, with ``antialias`` only:
            bilinear or bicubic, chosen for each picture.

    Raises:
        TypeError: ``size`` is neither an int nor a pair of them, or ``scale`` or ``ratio`` is not a
            sequence.
        ValueError: ``scale`` or ``ratio`` is not a rising pair of positive numbers, a side is not positive,
            or the filter does not run natively.
    """

    size: int | Sequence[int]
    scale: Sequence[float] = (0.08, 1.0)
    ratio: Sequence[float] = (3.0 / 4.0, 4.0 / 3.0)
    interpolation: Any = "bilinear"
    antialias: bool | None = True

    def __post_init__(self) -> None:
        self._set(
            size=pair(self.size),
            scale=rising("scale", self.scale),
            ratio=rising("ratio", self.ratio),
            interpolation=filter_or_random(self.interpolation),
            antialias=antialiasing(self.antialias),
        )
        if self.interpolation == "random" and not self.antialias:
            raise ValueError('interpolation: "random" runs natively with antialias=True only')

    def steps(self) -> tuple[Step, ...]:
        return step(
            "random_resized_crop",
            size=self.size,
            scale=self.scale,
            ratio=self.ratio,
            interpolation=self.interpolation,
            antialias=self.antialias,
        )

    def __repr__(self) -> str:
        scale, ratio = (tuple(round(x, 4) for x in bounds) for bounds in (self.scale, self.ratio))
        return (
            f"RandomResizedCrop(size={self.size}, scale={scale}, ratio={ratio}, "
            f"interpolation={self.interpolation}, antialias={self.antialias})"
        )


@dataclass(frozen=True)
class RandomHorizontalFlip(Transform):
    """Mirror left and right with a given probability.

    Args:
        p: The probability, in [0, 1].

    Raises:
        ValueError: ``p`` is outside [0, 1].
    """

    p: float = 0.5

    def __post_init__(self) -> None:
        self._set(p=probability(self.p))

    def steps(self) -> tuple[Step, ...]:
        return step("random_hflip", p=self.p)


@dataclass(frozen=True)
class RandomVerticalFlip(Transform):
    """Mirror top and bottom with a given probability.

    Args:
        p: The probability, in [0, 1].

    Raises:
        ValueError: ``p`` is outside [0, 1].
    """

    p: float = 0.5

    def __post_init__(self) -> None:
        self._set(p=probability(self.p))

    def steps(self) -> tuple[Step, ...]:
        return step("random_vflip", p=self.p)
