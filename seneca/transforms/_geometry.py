"""Transforms that move, cut and resize pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from seneca.transforms._arguments import (
    MOST_FACTOR,
    PADDING_MODES,
    NotNative,
    antialiasing,
    colour,
    fill_of,
    filter_name,
    filter_of,
    filter_or_random,
    margins,
    one_of,
    pair,
    probability,
    rising,
    side,
)
from seneca.transforms._base import MOVES, Step, Transform, ValueKind, step
from seneca.transforms._genuine import is_v1

__all__ = [
    "CenterCrop",
    "Pad",
    "RandomCrop",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "RandomVerticalFlip",
    "Resize",
    "ResizeKeepRatio",
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

    kinds = fixed_kinds = ("resize",)
    on_tensors = ("bytes",)
    masks = MOVES
    boxes = MOVES

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

    def __repr__(self) -> str:
        return (
            f"Resize(size={self.size}, interpolation={self.interpolation}, "
            f"max_size={self.max_size}, antialias={self.antialias})"
        )

    @classmethod
    def from_torchvision(cls, given: Any, holds: ValueKind) -> Transform:
        if given.size is None:
            raise NotNative("Resize has size=None")
        return cls(given.size, filter_of("Resize", given, holds), given.max_size)


@dataclass(frozen=True, repr=False)
class CenterCrop(Transform):
    """Cut out the middle. A smaller picture gets margins.

    Args:
        size: ``(height, width)``, or one int for a square.
        fill: The colour of constant margins, from 0 to 255: one number, or red, green and blue.
        padding_mode: How margins are filled, as for :class:`Pad`.

    Raises:
        TypeError: ``size`` is neither an int nor a pair of them, or ``fill`` neither a number nor a sequence.
        ValueError: A side is not positive, ``fill`` is not a colour, or the mode is unknown.
    """

    kinds = fixed_kinds = ("center_crop",)
    on_tensors = ("bytes", "floats")
    masks = MOVES
    boxes = MOVES
    timm = ("CenterCropOrPad",)

    size: int | Sequence[int]
    fill: int | Sequence[int] = 0
    padding_mode: str = "constant"

    def __post_init__(self) -> None:
        self._set(
            size=pair(self.size),
            fill=colour(self.fill),
            padding_mode=one_of("padding_mode", PADDING_MODES, self.padding_mode),
        )

    def __repr__(self) -> str:
        return f"CenterCrop(size={self.size})"

    @classmethod
    def from_torchvision(cls, given: Any, holds: ValueKind) -> Transform:
        return cls(given.size)

    @classmethod
    def from_timm(cls, given: Any) -> Transform:
        return cls(given.size, given.fill, given.padding_mode)


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
        ValueError: A margin is negative, ``fill`` is not a colour, or the mode is unknown.
    """

    kinds = fixed_kinds = ("pad",)
    on_tensors = ("bytes", "floats")
    masks = MOVES
    boxes = MOVES

    padding: int | Sequence[int]
    fill: int | Sequence[int] = 0
    padding_mode: str = "constant"

    def __post_init__(self) -> None:
        self._set(
            padding=margins(self.padding),
            fill=colour(self.fill),
            padding_mode=one_of("padding_mode", PADDING_MODES, self.padding_mode),
        )

    def __repr__(self) -> str:
        return f"Pad(padding={self.padding}, fill={self.fill}, padding_mode={self.padding_mode})"

    @classmethod
    def from_torchvision(cls, given: Any, holds: ValueKind) -> Transform:
        return cls(given.padding, fill_of("Pad", given, holds), given.padding_mode)


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

    kinds = ("random_crop",)
    on_tensors = ("bytes", "floats")
    masks = MOVES
    boxes = MOVES
    has_moves = True
    timm = ("RandomCropOrPad",)

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

    def __repr__(self) -> str:
        return f"RandomCrop(size={self.size}, padding={self.padding})"

    def steps(self) -> tuple[Step, ...]:
        return step("random_crop", **{**vars(self), "padding": self.padding or (0, 0, 0, 0)})

    @classmethod
    def from_torchvision(cls, given: Any, holds: ValueKind) -> Transform:
        padding = given.padding
        if not is_v1(given) and padding is not None:
            left, right, top, bottom = padding  # v2 stores it in this order
            padding = left, top, right, bottom
            if given.pad_if_needed and given.padding_mode in ("reflect", "symmetric"):
                # v2 mirrors once for both kinds of margins. v1 and Seneca mirror twice.
                mode = f"padding_mode={given.padding_mode!r}"
                raise NotNative(f"RandomCrop of v2 has padding, pad_if_needed and {mode} at once")
        fill = fill_of("RandomCrop", given, holds)
        return cls(given.size, padding, given.pad_if_needed, fill, given.padding_mode)

    @classmethod
    def from_timm(cls, given: Any) -> Transform:
        # Both pad by as much as is missing, and cut at a uniform place.
        return cls(given.size, None, True, given.fill, given.padding_mode)

    @staticmethod
    def box_params(given: Any, drawn: list[int], boxes: Any) -> dict[str, Any]:
        """As ``RandomCrop.make_params`` has it, but for the place."""
        left, right, top, bottom = given.padding or (0, 0, 0, 0)
        height, width = boxes.canvas_size[0] + top + bottom, boxes.canvas_size[1] + left + right
        if given.pad_if_needed:
            down, across = max(0, given.size[0] - height), max(0, given.size[1] - width)
            left, top, right, bottom = left + across, top + down, right + across, bottom + down
            height, width = height + 2 * down, width + 2 * across
        padding = [left, top, right, bottom]
        return {
            **_part(drawn),
            "needs_crop": (height, width) != tuple(given.size),
            "needs_pad": any(padding),
            "padding": padding,
        }


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

    kinds = ("random_resized_crop",)
    on_tensors = ("bytes",)
    masks = MOVES
    boxes = MOVES
    has_moves = True
    timm = ("RandomResizedCropAndInterpolation",)

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

    def __repr__(self) -> str:
        scale, ratio = (tuple(round(x, 4) for x in bounds) for bounds in (self.scale, self.ratio))
        return (
            f"RandomResizedCrop(size={self.size}, scale={scale}, ratio={ratio}, "
            f"interpolation={self.interpolation}, antialias={self.antialias})"
        )

    @classmethod
    def from_torchvision(cls, given: Any, holds: ValueKind) -> Transform:
        interpolation = filter_of("RandomResizedCrop", given, holds)
        return cls(given.size, given.scale, given.ratio, interpolation)

    @classmethod
    def from_timm(cls, given: Any) -> Transform:
        return cls(given.size, given.scale, given.ratio, given.interpolation)

    @staticmethod
    def box_params(given: Any, drawn: list[int], boxes: Any) -> dict[str, Any]:
        return _part(drawn)


@dataclass(frozen=True)
class RandomHorizontalFlip(Transform):
    """Mirror left and right with a given probability.

    Args:
        p: The probability, in [0, 1].

    Raises:
        ValueError: ``p`` is outside [0, 1].
    """

    kinds = ("random_hflip",)
    keeps_size = True
    on_tensors = ("bytes", "floats", "normalised")
    masks = MOVES
    boxes = MOVES
    has_moves = True

    p: float = 0.5

    def __post_init__(self) -> None:
        self._set(p=probability(self.p))

    @classmethod
    def from_torchvision(cls, given: Any, holds: ValueKind) -> Transform:
        return cls(given.p)


@dataclass(frozen=True)
class RandomVerticalFlip(Transform):
    """Mirror top and bottom with a given probability.

    Args:
        p: The probability, in [0, 1].

    Raises:
        ValueError: ``p`` is outside [0, 1].
    """

    kinds = ("random_vflip",)
    keeps_size = True
    on_tensors = ("bytes", "floats", "normalised")
    masks = MOVES
    boxes = MOVES
    has_moves = True

    p: float = 0.5

    def __post_init__(self) -> None:
        self._set(p=probability(self.p))

    @classmethod
    def from_torchvision(cls, given: Any, holds: ValueKind) -> Transform:
        return cls(given.p)


@dataclass(frozen=True)
class ResizeKeepRatio(Transform):
    """Resize, keeping the ratio of the sides, until one of them fits, as timm's transform of this name does.

    Args:
        size: ``(height, width)``, or one int for both.
        longest: 0: the picture covers this size. 1: the picture fits into it. A number between
            0 and 1: the factor lies between the two, in proportion.
        interpolation: ``"bilinear"``, ``"bicubic"``, or ``"random"``, which chooses between them.
        random_scale_prob: The probability that the result's sides are multiplied by a random factor.
        random_scale_range: The least and the greatest factor.
        random_scale_area: Whether ``random_scale_range`` is of the share of the area that a crop will see.
            Then the factor of the sides is one over its root.
        random_aspect_prob: The probability that the ratio of the sides is changed.
        random_aspect_range: The least and the greatest factor of the ratio.

    Raises:
        TypeError: ``size`` is neither an int nor a pair of them, or a range is no sequence.
        ValueError: A side is not positive, a probability or ``longest`` is outside [0, 1], a range is not
            positive and rising, or the filter does not run natively.
    """

    kinds = ("resize_keep_ratio", "random_resize_keep_ratio")
    fixed_kinds = ("resize_keep_ratio",)
    any_size = True
    timm = ("ResizeKeepRatio",)

    size: int | Sequence[int]
    longest: float = 0.0
    interpolation: Any = "bilinear"
    random_scale_prob: float = 0.0
    random_scale_range: Sequence[float] = (0.85, 1.05)
    random_scale_area: bool = False
    random_aspect_prob: float = 0.0
    random_aspect_range: Sequence[float] = (0.9, 1.11)

    def __post_init__(self) -> None:
        if not 0 <= self.longest <= 1:
            raise ValueError(f"longest: from 0 to 1, but got {self.longest!r}")
        self._set(
            size=pair(self.size),
            longest=float(self.longest),
            interpolation=filter_or_random(self.interpolation),
            random_scale_prob=probability(self.random_scale_prob),
            random_scale_range=rising("random_scale_range", self.random_scale_range, greatest=MOST_FACTOR),
            random_scale_area=bool(self.random_scale_area),
            random_aspect_prob=probability(self.random_aspect_prob),
            random_aspect_range=rising("random_aspect_range", self.random_aspect_range, greatest=MOST_FACTOR),
        )

    def steps(self) -> tuple[Step, ...]:
        if not self.random_scale_prob and not self.random_aspect_prob and self.interpolation != "random":
            return step(
                "resize_keep_ratio", size=self.size, longest=self.longest, interpolation=self.interpolation
            )
        return step(
            "random_resize_keep_ratio",
            size=self.size,
            longest=self.longest,
            interpolation=self.interpolation,
            p=self.random_scale_prob,
            scale=self.random_scale_range,
            by_area=self.random_scale_area,
            aspect_p=self.random_aspect_prob,
            ratio=self.random_aspect_range,
        )

    @classmethod
    def from_timm(cls, given: Any) -> Transform:
        return cls(
            given.size,
            given.longest,
            given.interpolation,
            given.random_scale_prob,
            given.random_scale_range,
            given.random_scale_area,
            given.random_aspect_prob,
            given.random_aspect_range,
        )


def _part(drawn: list[int]) -> dict[str, Any]:
    return dict(zip(("top", "left", "height", "width"), drawn, strict=True))
