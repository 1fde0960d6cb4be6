"""torchvision's datasets of pictures with masks, recognised as such.

Its transforms treat a PIL image as a picture. Therefore masks have to be wrapped, with
``torchvision.datasets.wrap_dataset_for_transforms_v2``. torchvision is known by the names of its types, and
never imported.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from PIL import Image

from seneca.data.segmentation import SegmentationFolder
from seneca.data.tv_wrapper import WRAP, known_name, remembered, unwrapped
from seneca.transforms._apply import MASK_MODES
from seneca.transforms._genuine import is_library_code

__all__ = ["Pairs", "has_masks", "pairs_of"]

SEGMENTATION = {  # types of torchvision's: the attributes that have the files of pictures and of masks
    "torchvision.datasets.voc.VOCSegmentation": ("images", "targets"),
    "torchvision.datasets.oxford_iiit_pet.OxfordIIITPet": ("_images", "_segs"),
}


class Pairs:
    """The pairs of a dataset of torchvision's.

    Attributes:
        root: The folder in which the files are.
        samples: ``(path of the picture, path of the mask)`` of every pair.
        transforms: The function of a picture and its mask.
        max_pixels: The most pixels that a picture may have. None: only Pillow's limit counts.
    """

    are_pairs = True
    max_pixels: int | None = None

    def __init__(self, root: str, samples: Sequence[tuple[str, str]], transforms: Any) -> None:
        self.root, self.samples, self.transforms = root, samples, transforms


def has_masks(dataset: Any) -> bool:
    """Whether items are a picture and its mask. It reads no file."""
    return type(dataset) is SegmentationFolder or bool(_files_in(dataset)[0])


def pairs_of(dataset: Any) -> SegmentationFolder | Pairs | str:
    """The pairs of a dataset that :func:`has_masks`.

    Returns:
        The pairs; for a dataset that has not changed the same object each time. Or the reason why they do not
        run natively.
    """
    if type(dataset) is SegmentationFolder:
        return dataset
    inner = unwrapped(dataset)
    if inner is None:
        return f"its masks are PIL images, which transforms of v2 take for pictures: {WRAP}"
    pictures, masks = (list(map(os.fspath, files)) for files in _files_in(dataset))
    if (mode := _mode_of(masks[0])) is not None:
        return f"masks have one byte a pixel to run natively, but {masks[0]} has Pillow's mode {mode!r}"
    samples = list(zip(pictures, masks, strict=True))
    return remembered(dataset, Pairs(os.fspath(inner.root), samples, dataset.transforms))


def _files_in(dataset: Any) -> tuple[Sequence[Any], Sequence[Any]]:
    """The pictures and the masks of a dataset of torchvision's for segmentation; none: of any other."""
    name, inner = known_name(dataset), unwrapped(dataset)
    inner = dataset if inner is None else inner
    if name not in SEGMENTATION or not is_library_code(vars(type(inner)).get("__getitem__")):
        return (), ()
    if getattr(inner, "_target_types", ["segmentation"]) != ["segmentation"]:  # of OxfordIIITPet
        return (), ()
    pictures, masks = (getattr(inner, attribute) for attribute in SEGMENTATION[name])
    return (pictures, masks) if len(pictures) == len(masks) else ((), ())


def _mode_of(path: str) -> str | None:
    """Pillow's mode of a mask that does not run natively; None: it does, or cannot be read."""
    try:
        with Image.open(path) as file:
            return None if file.mode in MASK_MODES else file.mode
    except Exception:  # Pillow raises any; the epoch meets the same, and names the file
        return None
