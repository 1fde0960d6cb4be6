"""The memory of batches: tensors whose memory is used again once nobody holds them.

A fresh batch of 256 pictures has 150 MB of untouched pages. The kernel takes as long to clear these pages
as a core takes to fill them. Therefore each tensor lies in a mapping of its own. A mapping is used again
when the training loop holds neither its tensor nor a view of it.
"""

from __future__ import annotations

import mmap
import sys
from typing import NamedTuple

import numpy as np
import torch

from seneca.transforms._apply import NUMPY_TYPES, array_of

__all__ = ["BatchBuffers", "Buffer"]

SPARE = 2  # mappings kept beyond those under way
# What sys.getrefcount() returns for a mapping that only this pool's list, the loop and the call hold.
ONLY_OURS = 3


class Buffer(NamedTuple):
    """The buffer of a batch: one piece of memory, as torch sees it and as the native core writes it."""

    tensor: torch.Tensor
    array: np.ndarray


class BatchBuffers:
    """Makes buffers for batches of samples of one shape.

    Args:
        shape: The shape of one sample: channels, height and width.
        dtype: A dtype of torch's that the native core writes.
        channels_last: Whether the channels of a pixel lie together in memory. The array is then
            (samples, height, width, channels), while the tensor keeps torch's order of dimensions.
        at_once: The most batches that are under way.
        pinned: Whether to take page-locked memory, from which a GPU copies directly.

    Example:
        >>> half = {"dtype": torch.float16, "channels_last": True}
        >>> buffer = BatchBuffers((3, 4, 4), **half, at_once=1, pinned=False)(2)
        >>> buffer.tensor.shape, buffer.array.shape
        (torch.Size([2, 3, 4, 4]), (2, 4, 4, 3))
        >>> buffer.tensor.is_contiguous(memory_format=torch.channels_last)
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

    def __call__(self, samples: int) -> Buffer:
        """A buffer for so many samples. Its contents are undefined."""
        shape = (samples, *self._shape)
        if self._pinned:  # torch's own allocator uses page-locked memory again
            tensor = torch.empty(shape, dtype=self._dtype, pin_memory=True)
            array = array_of(tensor)
        else:
            count = int(np.prod(shape))
            mapping = self._mapping(count * self._dtype.itemsize)
            tensor = torch.frombuffer(mapping, dtype=self._dtype, count=count).view(shape)
            # Not array_of(tensor), which would hold the storage for as long as the array lives.
            array = np.frombuffer(mapping, NUMPY_TYPES[self._dtype], count=count).reshape(shape)
        return Buffer(tensor.permute(0, 3, 1, 2) if self._channels_last else tensor, array)

    def _mapping(self, size: int) -> mmap.mmap:
        for mapping in self._mappings:
            if len(mapping) >= size and sys.getrefcount(mapping) == ONLY_OURS:
                return mapping
        fresh = mmap.mmap(-1, max(size, mmap.PAGESIZE), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        fresh.madvise(mmap.MADV_HUGEPAGE)
        self._mappings = [*self._mappings[-(self._most - 1) :], fresh]
        return fresh
