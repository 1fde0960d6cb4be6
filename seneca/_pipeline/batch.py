"""Where batches are put: tensors whose memory is used again once nobody holds them.

A fresh batch of 256 pictures is 150 MB of untouched pages, and the kernel takes as long to clear
these as a core takes to fill them. A tensor here lies in a mapping of its own; when the training
loop, and everything that it derived without copying, has let go of it, the next batch goes there.
"""

from __future__ import annotations

import mmap
import sys
from typing import NamedTuple

import numpy as np
import torch

__all__ = ["Room", "Rooms", "array_of"]

SPARE = 2  # mappings kept beyond those that are under way
# What sys.getrefcount() tells of a mapping that only this room's list, the loop and the call hold.
ONLY_OURS = 3

# How the native core writes each type. NumPy has no bfloat16; its bits go by as whole numbers.
NUMPY_TYPES = {
    torch.uint8: np.uint8,
    torch.float16: np.float16,
    torch.bfloat16: np.uint16,
    torch.float32: np.float32,
}


def array_of(tensor: torch.Tensor) -> np.ndarray:
    """The memory of a tensor as the native core writes it."""
    if tensor.dtype is torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(np.uint16)
    return tensor.numpy()


class Room(NamedTuple):
    """Room for a batch: one memory, as torch sees it and as the native core writes it."""

    tensor: torch.Tensor
    array: np.ndarray


class Rooms:
    """Makes rooms for batches of samples of one shape.

    Args:
        shape: Of one sample: channels, height and width.
        dtype: One of torch's that the native core writes.
        channels_last: Whether the channels of a pixel lie together in memory; the array is then
            (samples, height, width, channels), while the tensor keeps torch's order of sides.
        at_once: How many batches are under way at the most.
        pinned: Whether to take page-locked memory, which a GPU copies from directly.

    Example:
        >>> rooms = Rooms((3, 4, 4), dtype=torch.float16, channels_last=True, at_once=1, pinned=False)
        >>> room = rooms(2)
        >>> room.tensor.shape, room.array.shape
        (torch.Size([2, 3, 4, 4]), (2, 4, 4, 3))
        >>> room.tensor.is_contiguous(memory_format=torch.channels_last)
        True
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        *,
        dtype: torch.dtype = torch.float32,
        channels_last: bool = False,
        at_once: int,
        pinned: bool,
    ) -> None:
        channels, height, width = shape
        self._shape = (height, width, channels) if channels_last else shape
        self._dtype = dtype
        self._channels_last = channels_last
        self._most = at_once + SPARE
        self._pinned = pinned
        self._mappings: list[mmap.mmap] = []

    def __call__(self, samples: int) -> Room:
        """Room for so many samples, its contents undefined."""
        shape = (samples, *self._shape)
        if self._pinned:  # torch's own allocator uses page-locked memory again
            tensor = torch.empty(shape, dtype=self._dtype, pin_memory=True)
            array = array_of(tensor)
        else:
            count = int(np.prod(shape))
            mapping = self._mapping(count * self._dtype.itemsize)
            tensor = torch.frombuffer(mapping, dtype=self._dtype, count=count).view(shape)
            # Not array_of(tensor): that would hold the storage for as long as the array lives.
            array = np.frombuffer(mapping, NUMPY_TYPES[self._dtype], count=count).reshape(shape)
        return Room(tensor.permute(0, 3, 1, 2) if self._channels_last else tensor, array)

    def _mapping(self, size: int) -> mmap.mmap:
        for mapping in self._mappings:
            if len(mapping) >= size and sys.getrefcount(mapping) == ONLY_OURS:
                return mapping
        fresh = mmap.mmap(-1, max(size, mmap.PAGESIZE), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        fresh.madvise(mmap.MADV_HUGEPAGE)
        self._mappings = [*self._mappings[-(self._most - 1) :], fresh]
        return fresh
