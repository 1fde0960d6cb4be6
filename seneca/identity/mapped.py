"""Finds the file from which an array is mapped. The array counts by that file, and its bytes are not read.

A corpus that is mapped may be larger than the memory. The kernel lists each mapping of a process with the
file and the place in it, whoever made the mapping, and whatever objects use it: ``np.memmap``, an array
or a tensor over one, ``torch.load(mmap=True)``, ``torch.from_file()``. A mapping stands for its file while
both have the same content:

* A private mapping has pages of its own once it was written to. The kernel counts them as anonymous, or as
  swapped out.
* A shared mapping is the file. The file's time must change with what any mapping of it writes. The first
  write to a clean page sets the time, and later writes to that page do not. Therefore a file that this
  process may write through a mapping is written out before its time is read. A file system in memory has no
  clean pages, and does not set the time.
* The path must still lead to the file that is mapped.
"""

from __future__ import annotations

import bisect
import functools
import os
from collections.abc import Iterator
from typing import NamedTuple

from seneca._runtime.mappings import Mapping, file_mappings
from seneca._runtime.mounts import mount_of

__all__ = ["Mappings", "Place"]

_IN_MEMORY = frozenset({"tmpfs", "devtmpfs", "ramfs", "hugetlbfs"})


class Place(NamedTuple):
    """A file, and a place in it, in bytes."""

    path: str
    at: int


class Mappings:
    """The mappings of this process, as they are when they are first asked for."""

    def __init__(self) -> None:
        self._equal: dict[int, bool] = {}  # by first address: whether a mapping has its file's content

    @functools.cached_property
    def _all(self) -> list[Mapping]:
        try:
            return file_mappings()
        except OSError:  # no /proc here: then no mapping is known
            return []

    @functools.cached_property
    def _own_pages(self) -> dict[int, bool]:
        found: dict[int, bool] = {}
        for begin, has in _with_pages_of_their_own():
            found[begin] = found.get(begin, False) or has
        return found

    def place_of(self, first: int, low: int, high: int) -> Place | None:
        """The place of an array in the file that it is mapped from; None: its content must be read.

        Args:
            first: The address of its first element.
            low, high: All its elements are from the first of these addresses up to the second.
        """
        around = self._around(low, high)
        if not around or not all(map(self._is_equal, around)):
            return None
        return Place(around[0].path, around[0].at + first - around[0].begin)

    def _around(self, low: int, high: int) -> list[Mapping]:
        """The mappings that hold these addresses, if they are of one piece of a file. Else none.

        The kernel divides a mapping whose parts have other rights, or were advised of other use.
        """
        at = bisect.bisect_right(self._all, low, key=lambda one: one.begin) - 1
        found: list[Mapping] = []
        for one in self._all[at:] if at >= 0 else ():
            if found and not one.follows(found[-1]):
                break
            found.append(one)
            if one.end >= high:
                return found
        return []

    def _is_equal(self, mapping: Mapping) -> bool:
        if mapping.begin not in self._equal:
            self._equal[mapping.begin] = (
                _is_file(mapping)
                and not (mapping.private and self._own_pages.get(mapping.begin, True))
                and self._has_a_time(mapping)
            )
        return self._equal[mapping.begin]

    def _has_a_time(self, mapping: Mapping) -> bool:
        """Whether the file has a time that changes with whatever this process writes to it from now on.

        A file that nobody here can write through a mapping is not written out: it may be large and new.
        """
        if not any(one.inode == mapping.inode and one.writable and not one.private for one in self._all):
            return True
        mount = mount_of(mapping.path)
        return mount is not None and mount.kind not in _IN_MEMORY and _is_written_out(mapping.path)


def _with_pages_of_their_own() -> Iterator[tuple[int, bool]]:
    """The first address of each mapping, and whether it has pages that are not its file's."""
    begin = 0
    try:
        with open("/proc/self/smaps", "rb") as lines:
            for line in lines:
                name, *values = line.split(None, 2)
                if not name.endswith(b":"):
                    begin = int(name.partition(b"-")[0], 16)
                elif name in (b"Anonymous:", b"Swap:"):
                    yield begin, values[0] != b"0"
    except OSError:
        return


def _is_file(mapping: Mapping) -> bool:
    """Whether the path still leads to the file that is mapped."""
    try:
        return os.stat(mapping.path).st_ino == mapping.inode
    except OSError:
        return False


def _is_written_out(path: str) -> bool:
    """Write the dirty pages of a file to it. Whether that could be done."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        os.fdatasync(file)
        return True
    except OSError:
        return False
    finally:
        os.close(file)
