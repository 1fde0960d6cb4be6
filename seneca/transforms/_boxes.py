"""torchvision's transforms of a picture and its boxes: Seneca moves the picture, torchvision the boxes.

The native core moves the picture, and says how: ``sn_moves`` in ``csrc/codec/sn_plan.h``. torchvision's own
steps then move the boxes, with these numbers in place of drawn ones. Therefore the values, the type, the
format and the order of roundings are torchvision's.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from torch.utils._pytree import tree_map_only

from seneca.transforms._base import BY_NAME, NativeTransform, Transform
from seneca.transforms._recognise import SANITIZE, walked

__all__ = ["BoxTransform", "recognise_boxes"]


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

    def moved(self, target: Any, moves: np.ndarray) -> Any:
        """Apply torchvision's steps to a target whose picture was moved like this.

        Args:
            target: A dict with ``tv_tensors.BoundingBoxes`` of the whole picture.
            moves: One ``sn_moves``: uint32.
        """
        drawn: Iterator[list[int]] = iter(moves[2:].reshape(-1, 4).tolist())
        for name, step in self.steps:
            if name == SANITIZE:
                _, target = step(None, target)
                continue
            kind = BY_NAME.get(name, Transform)
            rect = next(drawn) if kind.has_moves else [0, 0, 0, 0]
            if not kind.has_moves or any(rect):  # all 0: the step did nothing
                target = _moved(kind, step, rect, target)
        return target


def _moved(kind: type[Transform], step: Any, rect: list[int], target: Any) -> Any:
    boxes = sys.modules["torchvision.tv_tensors"].BoundingBoxes
    return tree_map_only(
        boxes, lambda some: step.transform(some, kind.box_params(step, rect, some.canvas_size)), target
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
    found = walked(transforms, "boxes")
    if isinstance(found, str):
        return found
    recogniser, transform = found
    return BoxTransform(transform, tuple(recogniser.box_steps), recogniser.is_image)
