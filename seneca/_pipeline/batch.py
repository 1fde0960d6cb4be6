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

__all__ = ["Room", "Rooms"]

SPARE = 2  # mappings kept beyond those that are under way
# What sys.getrefcount() tells of a mapping that only this room's list, the loop and the call hold.
ONLY_OURS = 3


class Room(NamedTuple):
    """Room for a batch: one memory, as torch sees it and as the native core writes it."""

    tensor: torch.Tensor
    array: np.ndarray


class Rooms:
    """Makes rooms for batches of samples of one shape.

    Args:
        shape: Of one sample.
        at_once: How many batches are under way at the most.
        pinned: Whether to take page-locked memory, which a GPU copies from directly.

    Example:
        >>> rooms = Rooms((3, 4, 4), at_once=1, pinned=False)
        >>> room = rooms(2)
        >>> room.tensor.shape
        torch.Size([2, 3, 4, 4])
    """

    def __init__(self, shape: tuple[int, ...], *, at_once: int, pinned: bool) -> None:
        self._shape = shape
        self._most = at_once + SPARE
        self._pinned = pinned
        self._mappings: list[mmap.mmap] = []

    def __call__(self, samples: int) -> Room:
        """Room for so many samples, float32, its contents undefined."""
        shape = (samples, *self._shape)
        if self._pinned:  # torch's own allocator uses page-locked memory again
            tensor = torch.empty(shape, dtype=torch.float32, pin_memory=True)
            return Room(tensor, tensor.numpy())
        mapping = self._mapping(int(np.prod(shape)) * 4)
        tensor = torch.frombuffer(mapping, dtype=torch.float32, count=int(np.prod(shape))).view(shape)
        # Not tensor.numpy(): that would hold the storage for as long as the array lives.
        array = np.frombuffer(mapping, np.float32, count=int(np.prod(shape))).reshape(shape)
        return Room(tensor, array)

    def _mapping(self, size: int) -> mmap.mmap:
        for mapping in self._mappings:
            if len(mapping) >= size and sys.getrefcount(mapping) == ONLY_OURS:
                return mapping
        fresh = mmap.mmap(-1, max(size, mmap.PAGESIZE), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        fresh.madvise(mmap.MADV_HUGEPAGE)
        self._mappings = [*self._mappings[-(self._most - 1) :], fresh]
        return fresh
