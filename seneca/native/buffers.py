"""The memory of batches: tensors whose memory is used again once nobody holds them.

A fresh batch of 256 pictures has 150 MB of untouched pages. The kernel takes as long to clear these pages
as a core takes to fill them. Therefore each tensor has a mapping of its own. A mapping is used again
when the training loop holds neither its tensor nor a view of it.
"""

from __future__ import annotations

import math
import mmap
import sys
from typing import Any, NamedTuple

import numpy as np
import torch

from seneca.transforms._apply import NUMPY_TYPES, array_of

__all__ = ["ERASURE_BYTES", "BatchBuffers", "Buffer"]

SPARE = 2  # mappings kept beyond those under way
# What sys.getrefcount() returns for a mapping that only this pool's list, the loop and the call hold.
ONLY_OURS = 3
ERASURE_BYTES = 28  # top, left, height and width; then three floats
ALIGNED = 64  # bytes: masks begin at a multiple of this


class Buffer(NamedTuple):
    """The buffer of a batch: its memory, as torch sees it and as the native core writes it.

    Attributes:
        tensor: The pictures.
        arrays: The same as the core writes them; after them the masks, or the moves; then the erasures.
        masks: The masks of pairs, (samples, 1, height, width); None: there are none.
        moves: How pictures were moved that have boxes, uint32 (samples, n); None: not wanted.
        erasures: What is to be erased of the pictures, as the core's ``sn_erasure``: int32 (samples, n, 7).
            None: nothing is, or the core erases.
    """

    tensor: torch.Tensor
    arrays: tuple[np.ndarray, ...]
    masks: torch.Tensor | None = None
    moves: np.ndarray | None = None
    erasures: torch.Tensor | None = None


class BatchBuffers:
    """Makes buffers for batches of samples of one shape.

    Args:
        shape: The shape of one sample: channels, height and width; or channels and frames.
        dtype: A dtype of torch's that the native core writes.
        channels_last: Whether the channels of a pixel are adjacent in memory. The array is then
            (samples, height, width, channels), while the tensor keeps torch's order of dimensions.
        at_once: The most batches that are under way.
        pinned: Whether to take page-locked memory, from which a GPU copies directly.
        masks: Of pairs: the dtype of their masks. None: there are none.
        moves: How many numbers say how a picture was moved; 0: none do.
        erasures: How many rectangles of a picture are erased by whoever takes the batch, at the most.

    Example:
        >>> half = {"dtype": torch.float16, "channels_last": True}
        >>> buffer = BatchBuffers((3, 4, 4), **half, at_once=1, pinned=False)(2)
        >>> buffer.tensor.shape, buffer.arrays[0].shape
        (torch.Size([2, 3, 4, 4]), (2, 4, 4, 3))
        >>> buffer.tensor.is_contiguous(memory_format=torch.channels_last)
        True
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        *,
        dtype: torch.dtype = torch.float32,
        channels_last: bool = False,
        at_once: int,
        pinned: bool,
        masks: torch.dtype | None = None,
        moves: int = 0,
        erasures: int = 0,
    ) -> None:
        channels, *sides = shape
        self._shapes: list[Any] = [((*sides, channels) if channels_last else shape, dtype)]
        if masks is not None:
            self._shapes.append(((1, *sides), masks))
        self._moves = moves
        self._erasures = erasures
        self._channels_last = channels_last
        self._most = at_once + SPARE
        self._pinned = pinned
        self._mappings: list[mmap.mmap] = []

    def __call__(self, samples: int) -> Buffer:
        """A buffer for so many samples. Its contents are undefined."""
        shapes = [((samples, *shape), dtype) for shape, dtype in self._shapes]
        if self._pinned:  # torch's own allocator uses page-locked memory again
            tensors = [torch.empty(shape, dtype=dtype, pin_memory=True) for shape, dtype in shapes]
            arrays = [array_of(tensor) for tensor in tensors]
        else:
            tensors, arrays = self._in_one_mapping(shapes)
        pictures = tensors[0].permute(0, 3, 1, 2) if self._channels_last else tensors[0]
        moves = erasures = None
        if self._moves:
            moves = np.empty((samples, self._moves), np.uint32)
            arrays.append(moves)
        if self._erasures:  # some bytes a sample, in memory of their own
            shape = samples, self._erasures, ERASURE_BYTES // 4
            erasures = torch.empty(shape, dtype=torch.int32, pin_memory=self._pinned, device="cpu")
            arrays.append(array_of(erasures))
        masks = tensors[1] if len(tensors) > 1 else None
        return Buffer(pictures, tuple(arrays), masks, moves, erasures)

    def _in_one_mapping(self, shapes: list[Any]) -> tuple[list[torch.Tensor], list[np.ndarray]]:
        """Tensors of these shapes, one behind the other in a mapping, and arrays of the same memory."""
        counts = [math.prod(shape) for shape, _ in shapes]
        sizes = [
            -(-count * dtype.itemsize // ALIGNED) * ALIGNED
            for count, (_, dtype) in zip(counts, shapes, strict=True)
        ]
        mapping = self._mapping(sum(sizes))
        tensors, arrays, offset = [], [], 0
        for count, size, (shape, dtype) in zip(counts, sizes, shapes, strict=True):
            tensors.append(torch.frombuffer(mapping, dtype=dtype, count=count, offset=offset).view(shape))
            # Not array_of(tensor), which would hold the storage for as long as the array lives.
            array = np.frombuffer(mapping, NUMPY_TYPES[dtype], count=count, offset=offset)
            arrays.append(array.reshape(shape))
            offset += size
        return tensors, arrays

    def _mapping(self, size: int) -> mmap.mmap:
        for mapping in self._mappings:
            if len(mapping) >= size and sys.getrefcount(mapping) == ONLY_OURS:
                return mapping
        fresh = mmap.mmap(-1, max(size, mmap.PAGESIZE), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        fresh.madvise(mmap.MADV_HUGEPAGE)
        self._mappings = [*self._mappings[-(self._most - 1) :], fresh]
        return fresh
