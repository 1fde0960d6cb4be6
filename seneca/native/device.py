"""Copies each batch to a GPU while the training loop uses the batch before.

The copies run from page-locked memory, on a stream of their own, one batch ahead. A batch that travels as
bytes is normalised on the same stream, behind its copy. The training loop's stream waits for both before it
uses the batch.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from seneca._runtime.turns import turn
from seneca.epochs.progress import EpochProgress
from seneca.native.byte_batches import Unfinished, finished
from seneca.native.normalizer import Normalizer

__all__ = ["CopiedAhead", "check_device", "moved"]


def check_device(device: str | torch.device | None) -> torch.device | None:
    """Read the argument ``device``.

    Raises:
        ValueError: The argument names no device.
    """
    if device is None:
        return None
    try:
        return torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ValueError(
            f'device is "cuda", "cuda:1" or a torch.device, but got {device!r}: {error}'
        ) from None


def moved(batch: Any, device: torch.device) -> Any:
    """A batch with its tensors on ``device``, in the same containers. All else in it stays as it is."""
    if isinstance(batch, torch.Tensor):
        return batch.to(device, non_blocking=True)
    if isinstance(batch, Mapping):
        parts = {key: moved(part, device) for key, part in batch.items()}
        return parts if type(batch) is dict else type(batch)(parts)  # type: ignore[call-arg]
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(moved(part, device) for part in batch))
    if isinstance(batch, (list, tuple)):
        return type(batch)(moved(part, device) for part in batch)
    if isinstance(batch, Sequence) or not hasattr(batch, "to"):
        return batch  # such as a string or a number
    return batch.to(device)


def _tensors(batch: Any) -> Iterator[torch.Tensor]:
    if isinstance(batch, torch.Tensor):
        yield batch
    elif isinstance(batch, Mapping):
        for part in batch.values():
            yield from _tensors(part)
    elif isinstance(batch, (list, tuple)):
        for part in batch:
            yield from _tensors(part)


class CopiedAhead:
    """An iterator's batches on a device, each copied while the one before is in use.

    An error comes in the place of its batch. As with torch, iterating may go on after it.

    Args:
        batches: The iterator that makes the batches, torch's or Seneca's.
        device: The device that batches are copied to. Only with CUDA do copies run beside other work.
        progress: Of the epoch. It learns when a batch, an error or the end is handed out, which is after it
            was fetched. None: the batches report it themselves.
    """

    def __init__(self, batches: Any, device: torch.device, progress: EpochProgress | None = None) -> None:
        self._batches = batches
        self._device = device
        self._progress = progress or EpochProgress()
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self._normalizer: Normalizer | None = None  # that of the batches, on the device
        self._next: tuple[Any, BaseException | None] | None = None  # under way: a batch, or an error
        self._turn = threading.RLock()

    def __iter__(self) -> CopiedAhead:
        return self

    def __len__(self) -> int:
        return len(self._batches)

    def __next__(self) -> Any:
        with turn(self._turn):
            batch = self._progress.taken(self._take)
        self._progress.asked = None  # no signal handler runs from here until the caller has the batch
        return batch

    def _take(self) -> Any:
        if self._next is None:
            self._fetch()
        assert self._next is not None
        (batch, error), self._next = self._next, None
        self._progress.hand_out()
        if error is not None:
            raise error
        if self._stream is not None:
            here = torch.cuda.current_stream(self._device)
            here.wait_stream(self._stream)
            for tensor in _tensors(batch):
                tensor.record_stream(here)  # its memory is not used again before `here` is done with it
            self._fetch()
        return batch

    def _fetch(self) -> None:
        try:
            batch = next(self._batches)
            if self._stream is None:
                batch = self._there(batch)
            else:
                with torch.cuda.stream(self._stream):
                    batch = self._there(batch)
            self._next = batch, None
        except (Exception, StopIteration) as error:
            self._next = None, error

    def _there(self, batch: Any) -> Any:
        """A batch on the device, complete.

        What is allocated here belongs to the current stream. Bytes and constants are used on this stream
        alone. Therefore their memory may be used again in its order. The loop's stream uses the rest.
        """
        if not isinstance(batch, Unfinished):
            return moved(batch, self._device)
        if self._normalizer is None:
            self._normalizer = copy.deepcopy(batch.normalizer).to(self._device)
        data, erasures = moved((batch.data, batch.erasures), self._device)
        return finished(data, self._normalizer, erasures)
