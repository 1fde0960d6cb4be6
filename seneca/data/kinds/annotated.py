"""Support for (picture, mask) and (picture, boxes) datasets: one transform moves both parts of an item."""

from __future__ import annotations

import dataclasses
from typing import Any

from seneca.data.kinds import items
from seneca.data.kinds.kind import Request, Support, class_name
from seneca.data.tv_boxes import Targets
from seneca.errors import NotFingerprinted
from seneca.transforms._pipeline import Pipeline

__all__ = ["run_in_python", "run_natively"]


def run_in_python(request: Request, reason: str) -> Support:
    """The support if transforms do not run natively. ``reason`` says why."""
    whole = _share_items(request)
    return dataclasses.replace(whole, why=(reason, *whole.why))


def run_natively(
    request: Request, pictures: Any, pipeline: Pipeline, *, how: str, targets: Targets | None = None
) -> Support:
    """The support if ``pipeline`` is the whole transform.

    Args:
        request: What is asked.
        pictures: Has ``root``, ``samples`` and ``max_pixels``, for :func:`seneca.data.files.files_of`.
        pipeline: The compiled transform.
        how: How both parts of an item are moved, for people.
        targets: See :class:`Support`.
    """
    # torch's workers share whole items, if they have to load the dataset.
    whole = _share_items(request) if request.for_workers else request.support("unshared", "cache=None")
    files = request.files_of(pictures)
    return dataclasses.replace(
        whole,
        name="native",
        why=(f"{class_name(request.base)} and its transforms run in the native core, {how}",),
        files=files,
        pipeline=pipeline,
        targets=targets,
        total_bytes=files.total_bytes() if request.shares else 0,
        max_pixels=pictures.max_pixels,
        made_of=None,
    )


def _share_items(request: Request) -> Support:
    try:
        return items.support(request)
    except NotFingerprinted as error:
        return request.support("unshared", str(error))
