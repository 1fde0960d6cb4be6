"""torchvision's transforms of a picture and its boxes: Seneca moves the picture, torchvision the boxes.

The native core moves the picture, and says how: ``sn_moves`` in ``csrc/codec/sn_plan.h``. torchvision's own
steps then move the boxes, with these numbers in place of drawn ones. Therefore the values, the type, the
format and the order of roundings are torchvision's.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from torch.utils._pytree import tree_map_only

from seneca.transforms._base import Transform
from seneca.transforms._genuine import is_theirs, replaced_in_torchvision
from seneca.transforms._pairs import MOVES, WithPicture, steps_of
from seneca.transforms._pipeline import NativeTransform
from seneca.transforms._translate import NotNative, known_as

__all__ = ["BoxTransform", "recognise_boxes"]

Size = tuple[int, int]  # height, width
Rect = list[int]  # top, left, height, width; all 0: the step did nothing
Params = Callable[[Any, Rect, Size], dict[str, Any]]


def _of_part(_step: Any, drawn: Rect, _size: Size) -> dict[str, Any]:
    return dict(zip(("top", "left", "height", "width"), drawn, strict=True))


def _of_random_crop(step: Any, drawn: Rect, size: Size) -> dict[str, Any]:
    """As ``RandomCrop.make_params`` has it, but for the place."""
    left, right, top, bottom = step.padding or (0, 0, 0, 0)
    height, width = size[0] + top + bottom, size[1] + left + right
    if step.pad_if_needed:
        down, across = max(0, step.size[0] - height), max(0, step.size[1] - width)
        left, top, right, bottom = left + across, top + down, right + across, bottom + down
        height, width = height + 2 * down, width + 2 * across
    padding = [left, top, right, bottom]
    return {
        **_of_part(step, drawn, size),
        "needs_crop": (height, width) != tuple(step.size),
        "needs_pad": any(padding),
        "padding": padding,
    }


def _of_zoom(_step: Any, drawn: Rect, size: Size) -> dict[str, Any]:
    top, left, height, width = drawn
    return {"padding": [left, top, width - left - size[1], height - top - size[0]]}


def _nothing(_step: Any, _drawn: Rect, _size: Size) -> dict[str, Any]:
    return {}


def _new_size(_step: Any, drawn: Rect, _size: Size) -> dict[str, Any]:
    return {"size": tuple(drawn[2:])}


# The steps for which the native core has an entry, and the parameters that torchvision would have drawn.
DRAWN: dict[str, Params] = {
    "RandomCrop": _of_random_crop,
    "RandomHorizontalFlip": _nothing,
    "RandomResizedCrop": _of_part,
    "RandomShortestSize": _new_size,
    "RandomVerticalFlip": _nothing,
    "RandomZoomOut": _of_zoom,
    "ScaleJitter": _new_size,
}
# Those that draw nothing and do something to boxes. ON_BOXES and SANITIZE do nothing to pictures.
FIXED = frozenset({"CenterCrop", "ConvertImageDtype", "Pad", "Resize", "ToDtype", "ToPureTensor"})
ON_BOXES = frozenset({"ClampBoundingBoxes", "ConvertBoundingBoxFormat", "SetClampingMode"})
SANITIZE = "SanitizeBoundingBoxes"


class BoxTransform(NamedTuple):
    """What a picture with boxes goes through.

    Attributes:
        transform: Seneca's transform of the picture.
        steps: torchvision's steps that do something to boxes, in their order; each with its name.
        is_image: Whether the picture ends as a ``tv_tensors.Image``.
    """

    transform: NativeTransform
    steps: tuple[tuple[str, Any], ...]
    is_image: bool

    def moved(self, target: Any, moves: np.ndarray) -> Any:
        """What torchvision's steps make of a target whose picture was moved like this.

        Args:
            target: A dict with ``tv_tensors.BoundingBoxes`` of the whole picture.
            moves: One ``sn_moves``: uint32.
        """
        drawn: Iterator[Rect] = iter(moves[2:].reshape(-1, 4).tolist())
        for name, step in self.steps:
            if name == SANITIZE:
                _, target = step(None, target)
                continue
            rect = next(drawn) if name in DRAWN else [0, 0, 0, 0]
            if name not in DRAWN or rect[2]:
                target = _moved(DRAWN.get(name, _nothing), step, rect, target)
        return target


def _moved(params: Params, step: Any, rect: Rect, target: Any) -> Any:
    kind = sys.modules["torchvision.tv_tensors"].BoundingBoxes
    return tree_map_only(
        kind, lambda boxes: step.transform(boxes, params(step, rect, boxes.canvas_size)), target
    )


def recognise_boxes(transforms: object) -> BoxTransform | str:
    """Find Seneca's transforms of the same meaning for items ``(picture, target)``, whose target has boxes.

    Args:
        transforms: What a dataset calls with an RGB PIL image and a dict with ``tv_tensors.BoundingBoxes``.

    Returns:
        The transform; or the reason why there is none, to follow "... because".

    Example:
        >>> recognise_boxes(None)
        'there is no transform, so that the picture is a PIL image'
    """
    if transforms is None:
        return "there is no transform, so that the picture is a PIL image"
    if (replaced := replaced_in_torchvision()) is not None:
        return f"{replaced} was replaced"
    recogniser = _BoxRecogniser()
    try:
        for step in steps_of(transforms):
            recogniser.take(step)
        return BoxTransform(recogniser.result(), tuple(recogniser.steps), recogniser.is_image)
    except NotNative as reason:
        return str(reason)


class _BoxRecogniser(WithPicture):
    """Follows a picture, and collects the steps that do something to its boxes."""

    def __init__(self) -> None:
        super().__init__("boxes")
        self.steps: list[tuple[str, Any]] = []

    def take(self, step: Any) -> None:
        name = known_as(step)
        if name is not None and (name in DRAWN or name in FIXED or name in ON_BOXES or name == SANITIZE):
            self._take_for_boxes(name, step)
        if name in ON_BOXES or name == SANITIZE:
            return
        if name == "ToDtype" and (step := self.converting(step)) is None:
            return
        super().take(step)

    def _take_for_boxes(self, name: str, step: Any) -> None:
        if not hasattr(step, "transform"):
            raise NotNative(
                f"{name} of this torchvision cannot move boxes alone: use torchvision 0.21 or later"
            )
        if name == SANITIZE and (
            step.labels_getter not in ("default", None) or not is_theirs(step._labels_getter)
        ):
            raise NotNative(f'{name} has a labels_getter of your own: use labels_getter="default"')
        self.steps.append((name, copy.deepcopy(step)))  # an epoch goes on with the step as it was

    def translated(self, name: str, step: Any) -> Transform:
        margins = name == "Pad" or (name == "RandomCrop" and (step.padding or step.pad_if_needed))
        if margins and step.padding_mode != "constant":
            raise NotNative(
                f'torchvision pads no boxes with {step.padding_mode!r}: use padding_mode="constant"'
            )
        return super().translated(name, self.filled(step))

    def members(self, group: str, transform: Any) -> list[Transform]:
        for name in map(known_as, steps_of(transform)):
            if self.does(name) == MOVES:
                raise NotNative(f"{group} has {name}, which moves boxes: put it outside of {group}")
        return super().members(group, transform)
