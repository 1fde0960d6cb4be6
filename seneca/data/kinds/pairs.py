"""Pictures with masks: natively, or by whole items if their transforms run as Python."""

from __future__ import annotations

from typing import Any

from seneca.data.kinds.annotated import run_in_python, run_natively
from seneca.data.kinds.kind import Request, Support
from seneca.data.tv_pairs import has_masks, pairs_of
from seneca.transforms._pipeline import compile_transform
from seneca.transforms._recognise import recognise_pair

__all__ = ["matches", "support"]


def matches(dataset: Any) -> bool:
    """Whether items are a picture and its mask, of Seneca's dataset or of torchvision's."""
    return has_masks(dataset)


def support(request: Request) -> Support:
    """Support for pictures with masks."""
    pairs = pairs_of(request.base)
    if isinstance(pairs, str):
        return run_in_python(request, pairs)
    known = recognise_pair(pairs.transforms)
    if isinstance(known, str):
        return run_in_python(request, f"its transforms run as Python, because {known}")
    pipeline = compile_transform(
        known.transform,
        channels_last=request.channels_last,
        max_pixels=pairs.max_pixels,
        mask=known.mask,
    )
    return run_natively(request, pairs, pipeline, how="for pictures and masks alike")
