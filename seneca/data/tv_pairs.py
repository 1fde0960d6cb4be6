"""torchvision's datasets of pictures with masks or boxes, recognised as such.

Its transforms treat a PIL image as a picture, and leave plain numbers alone. Therefore masks and boxes have
to be wrapped, with ``torchvision.datasets.wrap_dataset_for_transforms_v2``. torchvision is known by the names
of its types, and never imported.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Sequence
from typing import Any, TypeVar

from PIL import Image

from seneca.data.segmentation import SegmentationFolder
from seneca.data.tv_boxes import DETECTION, Boxed, boxed_of
from seneca.transforms._apply import MASK_MODES
from seneca.transforms._genuine import is_theirs

__all__ = ["Pairs", "pairs_of"]

WRAPPERS = "torchvision.tv_tensors._dataset_wrapper"
WRAP = "wrap it with torchvision.datasets.wrap_dataset_for_transforms_v2"


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


_known: dict[int, tuple[weakref.ref[Any], Pairs | Boxed]] = {}


def pairs_of(dataset: Any) -> SegmentationFolder | Pairs | Boxed | str | None:
    """The pairs of a dataset, or its pictures with boxes.

    Returns:
        The pairs or pictures; for a dataset that has not changed the same object each time. Or the reason why
        items of pictures and what belongs to them do not run natively. None: it is no such dataset.
    """
    if type(dataset) is SegmentationFolder:
        return dataset
    inner = _unwrapped(dataset)
    kind: type = type(dataset if inner is None else inner)
    name = f"{kind.__module__}.{kind.__qualname__}"
    if getattr(sys.modules.get(kind.__module__), kind.__qualname__, None) is not kind:
        return None
    if name in DETECTION:
        if inner is None:
            return f"its boxes are plain numbers, which transforms of v2 leave alone: {WRAP}"
        boxed = boxed_of(name, dataset)
        return boxed if isinstance(boxed, str) else _remembered(dataset, boxed)
    paths = _paths_of(name, dataset if inner is None else inner)
    if paths is None or not is_theirs(vars(kind).get("__getitem__")):
        return None
    if inner is None:
        return f"its masks are PIL images, which transforms of v2 take for pictures: {WRAP}"
    pictures, masks = paths
    if (mode := _mode_of(masks[0])) is not None:
        return f"masks have one byte a pixel to run natively, but {masks[0]} has Pillow's mode {mode!r}"
    samples = list(zip(pictures, masks, strict=True))
    return _remembered(dataset, Pairs(os.fspath(inner.root), samples, dataset.transforms))


def _unwrapped(dataset: Any) -> Any:
    """The dataset in torchvision's wrapper; None: it is not wrapped, or the wrapper was changed."""
    kind = type(dataset)
    wrapper = getattr(sys.modules.get(WRAPPERS), "VisionDatasetTVTensorWrapper", None)
    bases: Sequence[Any] = kind.__bases__
    if wrapper is None or len(bases) != 2 or bases[0] is not wrapper:
        return None
    inner = vars(dataset).get("_dataset")
    own = {name for name in vars(kind) if name not in ("__module__", "__doc__", "__parameters__")}
    changed = own or not is_theirs(wrapper.__getitem__) or inner is None or vars(inner).get("transforms")
    of_wrapper = getattr(vars(dataset).get("_wrapper"), "__module__", None)
    if changed or type(inner) is not bases[1] or of_wrapper != WRAPPERS:
        return None
    return inner


def _paths_of(name: str, dataset: Any) -> tuple[list[str], list[str]] | None:
    """The pictures and the masks of a known dataset for segmentation; None: it is none."""
    if name == "torchvision.datasets.voc.VOCSegmentation":
        pictures, masks = dataset.images, dataset.targets
    elif name == "torchvision.datasets.oxford_iiit_pet.OxfordIIITPet" and dataset._target_types == [
        "segmentation"
    ]:
        pictures, masks = dataset._images, dataset._segs
    else:
        return None
    if len(pictures) != len(masks) or not pictures:
        return None
    return list(map(os.fspath, pictures)), list(map(os.fspath, masks))


def _mode_of(path: str) -> str | None:
    """Pillow's mode of a mask that does not run natively; None: it does, or cannot be read."""
    try:
        with Image.open(path) as file:
            return None if file.mode in MASK_MODES else file.mode
    except Exception:  # Pillow raises any; the epoch meets the same, and names the file
        return None


T = TypeVar("T", Pairs, Boxed)


def _remembered(dataset: Any, now: T) -> T:
    """The object that was made of this dataset before, which becomes what ``now`` is."""
    known = _known.get(id(dataset))
    if known is None or known[0]() is not dataset:
        number = id(dataset)
        gone = weakref.ref(dataset, lambda _: _known.pop(number, None))
        known = _known[number] = gone, now
    before: T = known[1]  # type: ignore[assignment]
    if before.samples != now.samples:
        before.samples = now.samples
    vars(before).update({**vars(now), "samples": before.samples})
    return before
