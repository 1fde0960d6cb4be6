"""Transforms of torchvision's references for detection, and how boxes move with their picture.

The native core moves the picture, and says how: ``sn_moves`` in ``csrc/codec/sn_plan.h``. torchvision's own
steps then move the boxes, with these numbers in place of drawn ones. Therefore the values, the type, the
format and the order of roundings are torchvision's.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from seneca.transforms._arguments import (
    MOST_FACTOR,
    colour,
    fill_of,
    filter_name,
    filter_of,
    pair,
    probability,
    rising,
    side,
    whole,
)
from seneca.transforms._base import (
    BY_NAME,
    MOVES,
    NativeTransform,
    Step,
    Transform,
    ValueKind,
    step,
)

__all__ = [
    "SANITIZE",
    "BoxTransform",
    "RandomIoUCrop",
    "RandomResize",
    "RandomShortestSize",
    "RandomZoomOut",
    "ScaleJitter",
]

SANITIZE = "SanitizeBoundingBoxes"
MOST_SIZES = 16  # SN_MAX_SIZES in csrc/codec/sn_plan.h
MOST_TRIALS = 1_000  # SN_MAX_TRIALS there


def _new_size(given: Any, drawn: list[int], boxes: Any) -> dict[str, Any]:
    return {"size": tuple(drawn[2:])}


@dataclass(frozen=True)
class ScaleJitter(Transform):
    """Resize a picture so that it fits a size times a random factor ("Simple Copy-Paste", Ghiasi et al.).

    Args:
        target_size: Two numbers. torchvision divides the first by the width and the second by the height.
        scale_range: The least and the greatest factor.
        interpolation: ``"bilinear"`` or ``"bicubic"``, or torchvision's or Pillow's constant.

    Raises:
        TypeError: ``target_size`` is no pair of ints, or ``scale_range`` no sequence.
        ValueError: A side or a factor is not positive, the range falls, or the filter does not run natively.
    """

    kinds = ("scale_jitter",)
    renamed: ClassVar = {"target_size": "size", "scale_range": "scale"}
    any_size = True
    on_tensors = ("bytes",)
    masks = MOVES
    boxes = MOVES
    has_moves = True

    target_size: Sequence[int]
    scale_range: Sequence[float] = (0.1, 2.0)
    interpolation: Any = "bilinear"

    def __post_init__(self) -> None:
        self._set(
            target_size=pair(self.target_size),
            scale_range=rising("scale_range", self.scale_range, greatest=MOST_FACTOR),
            interpolation=filter_name(self.interpolation),
        )

    @classmethod
    def from_torchvision(cls, given: Any, holds: ValueKind) -> Transform:
        return cls(given.target_size, given.scale_range, filter_of("ScaleJitter", given, holds))

    box_params = staticmethod(_new_size)


@dataclass(frozen=True)
class RandomShortestSize(Transform):
    """Resize a picture so that its shorter side has one of some lengths, chosen at random.

    Args:
        min_size: One length, or at most 16 of them.
        max_size: The greatest length of the longer side; ``None``: any.
        interpolation: ``"bilinear"`` or ``"bicubic"``, or torchvision's or Pillow's constant.

    Raises:
        TypeError: A length is no int.
        ValueError: A length is not positive, there are none or too many, or the filter does not run natively.
    """

    kinds = ("random_shortest_size",)
    renamed: ClassVar = {"min_size": "sizes"}
    any_size = True
    on_tensors = ("bytes",)
    masks = MOVES
    boxes = MOVES
    has_moves = True

    min_size: int | Sequence[int]
    max_size: int | None = None
    interpolation: Any = "bilinear"

    def __post_init__(self) -> None:
        given = self.min_size if isinstance(self.min_size, (list, tuple)) else (self.min_size,)
        if not 1 <= len(given) <= MOST_SIZES:
            raise ValueError(f"min_size: 1 to {MOST_SIZES} lengths run natively, but got {len(given)}")
        self._set(
            min_size=tuple(side("min_size", length) for length in given),
            max_size=None if self.max_size is None else side("max_size", self.max_size),
            interpolation=filter_name(self.interpolation),
        )

    @classmethod
    def from_torchvision(cls, given: Any, holds: ValueKind) -> Transform:
        return cls(given.min_size, given.max_size, filter_of("RandomShortestSize", given, holds))

    box_params = staticmethod(_new_size)


@dataclass(frozen=True)
class RandomResize(Transform):
    """Resize a picture so that its shorter side has a random length.

    Args:
        min_size, max_size: The length is at least ``min_size`` and below ``max_size``.
        interpolation: ``"bilinear"`` or ``"bicubic"``, or torchvision's or Pillow's constant.

    Raises:
        TypeError: A length is no int.
        ValueError: A length is not positive, ``max_size`` is not above ``min_size``, or the filter does not
            run natively.
    """

    kinds = ("random_resize",)
    any_size = True
    on_tensors = ("bytes",)
    masks = MOVES
    boxes = MOVES
    has_moves = True

    min_size: int
    max_size: int
    interpolation: Any = "bilinear"

    def __post_init__(self) -> None:
        least = side("min_size", self.min_size)
        self._set(
            min_size=least,
            max_size=side("max_size", self.max_size, least + 1),
            interpolation=filter_name(self.interpolation),
        )

    def steps(self) -> tuple[Step, ...]:
        lengths = (self.min_size, self.max_size - 1)
        return step("random_resize", size=lengths, interpolation=self.interpolation)

    @classmethod
    def from_torchvision(cls, given: Any, holds: ValueKind) -> Transform:
        return cls(given.min_size, given.max_size, filter_of("RandomResize", given, holds))

    box_params = staticmethod(_new_size)


@dataclass(frozen=True)
class RandomZoomOut(Transform):
    """Put a picture on a larger canvas at a random place, with a given probability ("SSD", Liu et al.).

    Args:
        fill: The colour of the canvas, from 0 to 255: one number, or red, green and blue.
        side_range: The least and the greatest factor of the sides, from 1.
        p: The probability, in [0, 1].

    Raises:
        TypeError: ``fill`` is neither a number nor a sequence of numbers, or ``side_range`` no sequence.
        ValueError: ``fill`` is not a colour, the range falls or begins below 1, or ``p`` is outside [0, 1].
    """

    kinds = ("random_zoom_out",)
    renamed: ClassVar = {"side_range": "scale"}
    any_size = True
    on_tensors = ("bytes", "floats")
    masks = MOVES
    boxes = MOVES
    has_moves = True

    fill: int | Sequence[int] = 0
    side_range: Sequence[float] = (1.0, 4.0)
    p: float = 0.5

    def __post_init__(self) -> None:
        sides = rising("side_range", self.side_range, greatest=MOST_FACTOR)
        if sides[0] < 1:
            raise ValueError(f"side_range: from 1, but got {self.side_range!r}")
        self._set(fill=colour(self.fill), side_range=sides, p=probability(self.p))

    @classmethod
    def from_torchvision(cls, given: Any, holds: ValueKind) -> Transform:
        return cls(fill_of("RandomZoomOut", given, holds), given.side_range, given.p)

    @staticmethod
    def box_params(given: Any, drawn: list[int], boxes: Any) -> dict[str, Any]:
        top, left, height, width = drawn
        right, bottom = width - left - boxes.canvas_size[1], height - top - boxes.canvas_size[0]
        return {"padding": [left, top, right, bottom]}


@dataclass(frozen=True)
class RandomIoUCrop(Transform):
    """Crop so that a box is overlapped by a share that is drawn ("SSD", Liu et al.). It needs boxes.

    Args:
        scale: The range of the factors by which the width and the height shrink.
        ratio: The range of the crop's ratio of width to height.
        overlaps: One of these is drawn. A box whose centre is in the crop must overlap it by that much
            (Jaccard). From 1: the picture stays whole.
        trials: After so many crops that do not fit, another overlap is drawn.
    """

    kinds = ("random_iou_crop",)
    any_size = True
    on_tensors = ("bytes", "floats", "normalised")
    masks = "needs boxes, and torchvision refuses it without them: leave it out"
    boxes = MOVES
    has_moves = True
    needs_boxes = True

    scale: Sequence[float] = (0.3, 1.0)
    ratio: Sequence[float] = (0.5, 2.0)
    overlaps: Sequence[float] = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)
    trials: int = 40

    def __post_init__(self) -> None:
        self._set(
            scale=rising("min_scale, max_scale", self.scale, greatest=1.0),
            ratio=rising("min_aspect_ratio, max_aspect_ratio", self.ratio),
            overlaps=tuple(map(float, self.overlaps)),
            trials=whole("trials", self.trials, 1, MOST_TRIALS),
        )
        if not 1 <= len(self.overlaps) <= MOST_SIZES or min(self.overlaps) < 0:
            raise ValueError(f"sampler_options: 1 to {MOST_SIZES} overlaps from 0, but got {self.overlaps}")

    @classmethod
    def from_torchvision(cls, given: Any, holds: ValueKind) -> Transform:
        scale, ratio = (given.min_scale, given.max_scale), (given.min_aspect_ratio, given.max_aspect_ratio)
        return cls(scale, ratio, given.options, given.trials)

    @staticmethod
    def box_params(given: Any, drawn: list[int], boxes: Any) -> dict[str, Any]:
        """As ``RandomIoUCrop.make_params`` has it, for the part that the core has chosen."""
        top, left, height, width = drawn
        import torch  # loaded: the boxes are its

        functional = sys.modules["torchvision.transforms.v2.functional"]
        plain = boxes.as_subclass(torch.Tensor)
        sides = functional.convert_bounding_box_format(plain, boxes.format, type(boxes.format).XYXY)
        x, y = 0.5 * (sides[..., 0] + sides[..., 2]), 0.5 * (sides[..., 1] + sides[..., 3])
        is_within = (left < x) & (x < left + width) & (top < y) & (y < top + height)
        return {
            "top": top,
            "left": left,
            "height": height,
            "width": width,
            "is_within_crop_area": is_within,
        }


class BoxTransform(NamedTuple):
    """The transform of a picture with boxes.

    Attributes:
        transform: Seneca's transform of the picture.
        steps: torchvision's steps that do something to boxes, in their order; each with its name.
        is_image: Whether the picture ends as a ``tv_tensors.Image``.
    """

    transform: NativeTransform
    steps: tuple[tuple[str, Any], ...]
    is_image: bool

    @property
    def needs_boxes(self) -> bool:
        """Whether what the core does depends on the boxes."""
        return any(BY_NAME.get(name, Transform).needs_boxes for name, _ in self.steps)

    def moved(self, target: Any, moves: np.ndarray) -> Any:
        """Apply torchvision's steps to a target whose picture was moved like this.

        Args:
            target: A dict with ``tv_tensors.BoundingBoxes`` of the whole picture.
            moves: One ``sn_moves``: uint32.
        """
        from torch.utils._pytree import tree_leaves

        drawn: Iterator[list[int]] = iter(moves[2:].reshape(-1, 4).tolist())
        for name, theirs in self.steps:
            if name == SANITIZE:
                _, target = theirs(None, target)
                continue
            kind = BY_NAME.get(name, Transform)
            if kind.needs_boxes:
                theirs.check_inputs([_any_picture(), *tree_leaves(target)])  # raises as torchvision would
            rect = next(drawn) if kind.has_moves else [0, 0, 0, 0]
            if not kind.has_moves or any(rect):  # all 0: the step did nothing
                target = _moved(kind, theirs, rect, target)
        return target


@functools.cache
def _any_picture() -> Any:
    import torch

    return torch.empty(3, 1, 1)


def _moved(kind: type[Transform], theirs: Any, rect: list[int], target: Any) -> Any:
    from torch.utils._pytree import tree_map_only

    boxes = sys.modules["torchvision.tv_tensors"].BoundingBoxes
    return tree_map_only(
        boxes, lambda some: theirs.transform(some, kind.box_params(theirs, rect, some)), target
    )
