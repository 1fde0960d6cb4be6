"""Pictures with boxes: the pictures natively, or whole items if their transforms run as Python."""

from __future__ import annotations

from typing import Any

from seneca.data.kinds.annotated import run_in_python, run_natively
from seneca.data.kinds.kind import Request, Support
from seneca.data.open_images import OpenImagesDetection
from seneca.data.tv_boxes import Targets, boxes_of, has_boxes
from seneca.transforms._pipeline import compile_transform
from seneca.transforms._recognise import recognise_boxes

__all__ = ["matches", "support"]


def matches(dataset: Any) -> bool:
    """Whether items are a picture and its boxes, of a dataset of torchvision's or Seneca's for detection."""
    return type(dataset) is OpenImagesDetection or has_boxes(dataset)


def support(request: Request) -> Support:
    """Support for pictures with boxes."""
    boxed = request.base if type(request.base) is OpenImagesDetection else boxes_of(request.base)
    if isinstance(boxed, str):
        return run_in_python(request, boxed)
    known = recognise_boxes(boxed.transforms)
    if isinstance(known, str):
        return run_in_python(request, f"its transforms run as Python, because {known}")
    table = boxed.table() if known.needs_boxes else None
    pipeline = compile_transform(
        known.transform,
        channels_last=request.channels_last,
        max_pixels=boxed.max_pixels,
        moves=True,
        boxes=None if table is None else table.digest(),
    )
    return run_natively(
        request,
        boxed,
        pipeline,
        how="and torchvision moves the boxes likewise, in this process",
        targets=Targets(boxed, boxed.keys, known, table),
    )
