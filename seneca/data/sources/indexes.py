"""Indexes that other tools write beside tar archives: ``train-000.idx`` of NVIDIA DALI's ``wds2idx``.

Such an index says where members begin. It is a hint only. Storage is asked for many headers at once, and what
these say is read from the archive. Therefore an index of another archive costs time, and leads to no wrong
bytes.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable

import numpy as np

from seneca._runtime.regular_files import open_regular

__all__ = ["headers_ahead"]

FIRST_WORD = b"v1.2"  # of an index of DALI's; then come the number of samples, and a line for each
FIELDS = 4  # of each member in a line: ending, offset of its bytes, size, name
BEFORE = 3 * 512  # bytes before a member: its header, and an extended header with its block of words
AHEAD = 256  # headers that storage is asked for at once


def headers_ahead(file: int, path: str, size: int) -> Callable[[int, int], bytes]:
    """A function that reads ``(length, offset)`` of an archive, for one who reads all headers in their order.

    If there is an index beside the archive, storage is asked for the headers that come next.

    Args:
        file: The open archive.
        path: Its path.
        size: Its size in bytes.
    """
    offsets = _member_offsets(os.path.splitext(path)[0] + ".idx", size)
    if not len(offsets):
        return functools.partial(os.pread, file)
    asked, ask_again_at = 0, 0

    def read(length: int, at: int) -> bytes:
        nonlocal asked, ask_again_at
        if at >= ask_again_at:  # the first half of what was asked for is read
            first = max(asked, int(np.searchsorted(offsets, at)))
            asked = min(first + AHEAD, len(offsets))
            for offset in offsets[first:asked].tolist():
                os.posix_fadvise(file, max(0, offset - BEFORE), BEFORE, os.POSIX_FADV_WILLNEED)
            ask_again_at = int(offsets[(first + asked) // 2]) if asked < len(offsets) else size
        return os.pread(file, length, at)

    return read


def _member_offsets(path: str, size: int) -> np.ndarray:
    """Where the members of an archive begin, as an index says, sorted; empty: there is no such index."""
    nothing = np.zeros(0, np.int64)
    try:
        with open(open_regular(path), "rb") as file:
            # A member has 512 bytes or more in the archive, and fewer in its index.
            if os.fstat(file.fileno()).st_size > size or file.readline().split()[:1] != [FIRST_WORD]:
                return nothing
            lines = [line.split() for line in file]
    except OSError:
        return nothing
    found = [field for line in lines if len(line) % FIELDS == 0 for field in line[1::FIELDS]]
    offsets = np.array([int(field) for field in found if field.isdigit() and len(field) < 19], np.int64)
    return np.unique(offsets[offsets < size])
