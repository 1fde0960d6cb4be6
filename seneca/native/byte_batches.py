"""Batches as bytes: the threads write uint8 pictures, and another place lays them out and normalises them.

A float32 batch is four times as large as its pixels. Copied to a GPU as uint8, it takes a quarter of the
time, and the CPU leaves out the last stage of each sample. That stage then runs on the device, or in the
user's training step.

::

    threads --uint8, erasures--> Unfinished --copied ahead--> normalised and erased on the device
                    |
                    +--without device=--> the training step: images = loader.normalizer(images)
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import torch
from torch.utils.data import default_collate

from seneca.data.support import Support
from seneca.native.collate import mixes
from seneca.native.normalizer import Normalizer
from seneca.transforms._pipeline import Pipeline

__all__ = ["COMPLETE", "Travel", "Unfinished", "finished", "of_bytes", "travel_of", "unfinished"]

MOST_ERASURES = 16  # of a picture: on the device each takes a pass over the whole batch


class Travel(NamedTuple):
    """How the batches of an epoch leave the threads.

    Attributes:
        normalizer: What is left to do of a uint8 batch. None: batches are complete.
        on_device: Whether the loader does that on its device. If not, the user does.
        why_not: Why batches are complete, though uint8 ones were wanted; empty: they are not, or were not.
        remedy: What would make uint8 batches possible.
    """

    normalizer: Normalizer | None = None
    on_device: bool = False
    why_not: str = ""
    remedy: str = ""

    def required(self) -> None:
        """Raise if batches cannot be uint8.

        Raises:
            ValueError: They cannot.
        """
        if self.why_not:
            raise ValueError(f"uint8_batches=True, but {self.why_not}: {self.remedy}")

    def describe(self, device: torch.device | None) -> str:
        """Describe it; empty: nobody has asked for uint8 batches."""
        if self.why_not:
            return f"batches do not travel as bytes, because {self.why_not}"
        if self.normalizer is None:
            return ""
        if self.on_device:
            return f"batches travel as bytes, and {device} normalises them"
        return "batches are uint8, and loader.normalizer does the rest"


COMPLETE = Travel()


class Unfinished(NamedTuple):
    """A batch whose pictures are still uint8.

    Attributes:
        data: The batch: a sequence, of which the first are the pictures.
        normalizer: What is left to do.
        erasures: What is to be erased of them, see :meth:`Normalizer.forward`. None: nothing.
    """

    data: Any
    normalizer: Normalizer
    erasures: torch.Tensor | None


def unfinished(data: Any, normalizer: Normalizer, erasures: torch.Tensor | None) -> Unfinished:
    """A batch of uint8 pictures, with as many erasures as one of its pictures has."""
    if erasures is not None:
        (used,) = (erasures[:, :, 2] > 0).any(0).nonzero(as_tuple=True)
        erasures = erasures[:, : int(used[-1]) + 1] if len(used) else None
    return Unfinished(data, normalizer, erasures)


def finished(data: Any, normalizer: Normalizer, erasures: torch.Tensor | None) -> Any:
    """The batch as the user gets it, of the parts of an unfinished one."""
    pictures, *rest = data
    return type(data)((normalizer(pictures, erasures), *rest))


def _is_accelerator(device: torch.device | None) -> bool:
    """Whether batches on this device are copies, which come over a bus."""
    return device is not None and device.type not in ("cpu", "meta")


def of_bytes(support: Support) -> Support:
    """A native dataset whose pipeline ends before the pixels are normalised, laid out and erased."""
    assert support.pipeline is not None
    leaves_erasing = support.pipeline.erase is not None
    pipeline = dataclasses.replace(
        support.pipeline, dtype="uint8", channels_last=True, leaves_erasing=leaves_erasing
    )
    return dataclasses.replace(support, pipeline=pipeline)


def travel_of(
    loader: Any, device: torch.device | None, support: Support | None, not_native_because: str | None
) -> Travel:
    """How the batches of a loader leave its threads.

    Args:
        loader: The loader, for ``uint8_batches``, ``collate_fn``, and whether it makes batches at all.
        device: Its device.
        support: The support of its dataset. None: torch alone loads it.
        not_native_because: Why the native path cannot serve it, or None.
    """
    wanted = loader.uint8_batches
    if not (_is_accelerator(device) if wanted is None else wanted):
        return Travel(why_not="uint8_batches=False") if _is_accelerator(device) else COMPLETE
    if support is None or support.pipeline is None or not_native_because is not None:
        why = f"torch's workers make its items ({not_native_because})"
        return Travel(why_not=why, remedy="use what runs natively (docs/transforms.md), or leave it out")
    pipeline = support.pipeline
    if pipeline.dtype == "uint8":
        return COMPLETE
    if pipeline.sound:
        return Travel(why_not="sounds are floats", remedy="leave uint8_batches out")
    why_not, remedy = _obstacle_of_user(loader, support) or _obstacle_of_erasing(pipeline, device) or ("", "")
    if why_not:
        return Travel(why_not=why_not, remedy=remedy)
    normalizer = Normalizer(
        pipeline.mean,
        pipeline.std,
        divisor=255.0 if pipeline.scale else 1.0,
        dtype=getattr(torch, pipeline.dtype),
        memory_format=torch.channels_last if pipeline.channels_last else torch.contiguous_format,
    )
    return Travel(normalizer, on_device=device is not None)


def _obstacle_of_user(loader: Any, support: Support) -> tuple[str, str] | None:
    """Why the user's functions need complete batches, and what to do; None: they do not."""
    if loader.batch_sampler is None:
        return "batch_size=None yields single pictures", "give a batch_size, or leave uint8_batches out"
    if mixes(loader, support):
        why = "MixUp or CutMix computes with floats in the batch's own memory"
        return why, "mix in the training step, or leave uint8_batches out"
    if loader.collate_fn is not default_collate:
        why = "collate_fn sees the batch, and may compute with its floats"
        return why, "leave collate_fn out, or leave uint8_batches out"
    return None


def _obstacle_of_erasing(pipeline: Pipeline, device: torch.device | None) -> tuple[str, str] | None:
    """Why RandomErasing needs complete batches, and what to do; None: it does not."""
    erase = pipeline.erase
    if erase is None or erase["p"] == 0:
        return None
    if "deviation" in erase and erase.get("noise", "values") == "values":
        why = "RandomErasing draws a number for each pixel on the CPU"
        return why, "give RandomErasing a value, or leave uint8_batches out"
    most = erase.get("count", (1, 1))[1]
    if most > MOST_ERASURES:
        why = (
            f"RandomErasing erases up to {most} rectangles of a picture, and a device at most {MOST_ERASURES}"
        )
        return why, "erase fewer, or leave uint8_batches out"
    if device is None:
        why = "RandomErasing's rectangles differ from batch to batch, and loader.normalizer does not get them"
        return why, "give device=, erase in the training step, or leave uint8_batches out"
    return None
