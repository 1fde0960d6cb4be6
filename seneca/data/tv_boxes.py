"""torchvision's datasets for detection: their pictures run natively, and their targets are torchvision's.

A target is made anew each time from the annotations, by the code of the dataset and of its wrapper. Only the
pictures go through the cache. Therefore jobs with other annotations can share them.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from PIL import Image

from seneca.data.tv_wrapper import WRAP, known_name, remembered, unwrapped
from seneca.transforms._detection import BoxTransform
from seneca.transforms._genuine import is_library_code

__all__ = ["BoxTable", "Boxed", "Targets", "boxes_of", "has_boxes"]

COCO, VOC = "torchvision.datasets.coco.CocoDetection", "torchvision.datasets.voc.VOCDetection"
DETECTION = (COCO, VOC)
OWN_METHODS = ("__getitem__", "_load_image", "_load_target", "parse_voc_xml")


class Boxed:
    """The pictures of a wrapped dataset for detection, and the annotations that belong to them.

    Args:
        name: The name of the dataset's type, one of ``DETECTION``.
        dataset: The wrapped dataset.

    Attributes:
        root: The folder in which the files are.
        samples: ``(path of the picture, number)`` of every sample.
        transforms: The function of a picture and its target.
        keys: What names the annotations of each sample: the id of its picture, or a file.
        max_pixels: The most pixels that a picture may have. None: only Pillow's limit counts.
    """

    max_pixels: int | None = None

    def __init__(self, name: str, dataset: Any) -> None:
        self._name, self._inner, self._wrapper = name, dataset._dataset, dataset._wrapper
        self.root = os.fspath(self._inner.root)
        self.samples = [(path, number) for number, path in enumerate(_paths(name, self._inner))]
        self.transforms = dataset.transforms
        self.keys = list(self._keys_now())

    def _keys_now(self) -> list[Any]:
        keys: list[Any] = self._inner.ids if self._name == COCO else self._inner.annotations
        return keys

    def _annotations(self, key: Any) -> Any:
        if self._name == COCO:
            return self._inner._load_target(key)
        parse = sys.modules["torchvision.datasets.voc"].ET_parse
        return self._inner.parse_voc_xml(parse(key).getroot())

    def table(self) -> BoxTable:
        """The boxes of all samples, as the wrapper would make them."""
        boxes: list[list[float]] = []
        begins = [0]
        for key in self.keys:
            boxes += self._boxes_of(key)
            begins.append(len(boxes))
        sides = np.array(boxes, np.float32).reshape(-1, 4)
        if self._name == COCO:
            sides[:, 2:] += sides[:, :2]
        return BoxTable(sides, np.array(begins, np.uint64))

    def _boxes_of(self, key: Any) -> list[list[float]]:
        """Of one sample: XYWH of COCO, XYXY of VOC."""
        annotations = self._annotations(key)
        if self._name == COCO:
            return [one["bbox"] for one in annotations]
        sides = "xmin", "ymin", "xmax", "ymax"
        objects = annotations["annotation"]["object"]
        return [[int(one["bndbox"][side]) for side in sides] for one in objects]

    def target(self, number: int, key: Any, height: int, width: int) -> Any:
        """The target of a sample before transforms, whose picture has this size.

        Raises:
            RuntimeError: The key of the sample now differs from ``key``.
        """
        inner, keys = self._inner, self._keys_now()
        if number >= len(keys) or keys[number] != key:
            raise RuntimeError(
                f"sample {number} of {type(inner).__name__} was {key!r} when the epoch began, and differs "
                "now: change the dataset between two epochs"
            )
        annotations = self._annotations(key)
        # The wrapper asks a picture for its size alone.
        return self._wrapper(number, (Image.new("L", (width, height), None), annotations))[1]


class BoxTable(NamedTuple):
    """The boxes of all samples, as the core reads them.

    Attributes:
        sides: Left, top, right and bottom of each, float32 ``(n, 4)``, one sample's after another's.
        begins: Where each sample's begin, uint64, with the end of the last.
        are_shares: Whether they are shares of the picture's sides, which the core knows once it has read its
            header.
    """

    sides: np.ndarray
    begins: np.ndarray
    are_shares: bool = False

    def digest(self) -> str:
        """What distinguishes these boxes from others."""
        digest = hashlib.blake2b(b"shares" if self.are_shares else b"", digest_size=16)
        for part in (self.begins, self.sides):
            digest.update(np.ascontiguousarray(part).view(np.uint8).data)
        return digest.hexdigest()


class Annotated(Protocol):
    """What makes targets."""

    def target(self, number: int, key: Any, height: int, width: int) -> Any:
        """The target of a sample before transforms, whose picture has this size."""


class Targets(NamedTuple):
    """Makes the items of a dataset for detection, once the native core has moved the pictures.

    Attributes:
        boxed: The annotations, such as a :class:`Boxed`.
        keys: Those of the epoch, as in :class:`Boxed`.
        known: The transform.
        table: The boxes, if the transform reads them.
    """

    boxed: Annotated
    keys: Sequence[Any]
    known: BoxTransform
    table: BoxTable | None = None

    def picture(self, picture: torch.Tensor) -> Any:
        """The picture of an item, of the type that torchvision's transforms make."""
        if not self.known.is_image:
            return picture
        return sys.modules["torchvision.tv_tensors"].Image(picture.as_subclass(torch.Tensor))

    def target(self, number: int, moves: np.ndarray) -> Any:
        """The target of an item, whose picture was moved like this (:meth:`BoxTransform.moved`)."""
        height, width = moves[:2].tolist()
        target = self.boxed.target(number, self.keys[number], height, width)
        return self.known.moved(target, moves)


def has_boxes(dataset: Any) -> bool:
    """Whether it is a dataset of torchvision's for detection, wrapped or not. It reads no annotation."""
    return known_name(dataset) in DETECTION


def boxes_of(dataset: Any) -> Boxed | str:
    """The pictures and annotations of a dataset that :func:`has_boxes`.

    Returns:
        These; for a dataset that has not changed the same object each time. Or the reason why its items do
        not run natively.
    """
    inner, name = unwrapped(dataset), known_name(dataset)
    if inner is None:
        return f"its boxes are plain numbers, which transforms of v2 leave alone: {WRAP}"
    kind, keys = type(inner), vars(dataset).get("_target_keys")
    changed = [
        one for one in OWN_METHODS if one in vars(inner) or not is_library_code(getattr(kind, one, None))
    ]
    if changed:
        return f"{kind.__name__}.{changed[0]} was replaced"
    if name == COCO and keys is not None and (keys == "all" or "masks" in keys):
        return 'masks of instances do not run natively: leave "masks" out of target_keys'
    try:
        boxed = Boxed(str(name), dataset)
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        return f"its annotations name no files of pictures ({error!r})"
    return remembered(dataset, boxed)


def _paths(name: str, inner: Any) -> list[str]:
    """The file of every picture."""
    if name == VOC:
        return list(map(os.fspath, inner.images))
    return [os.path.join(inner.root, inner.coco.loadImgs(one)[0]["file_name"]) for one in inner.ids]
