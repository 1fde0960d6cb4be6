"""A fork copies the page tables of its process, and the kernel takes them apart at its end.

What torch and the tests import is a quarter of a gigabyte, 65,000 pages. In huge pages it is 130 entries.
"""

from __future__ import annotations

import ctypes

HUGE_PAGE = 2 << 20
MADV_COLLAPSE = 25  # since Linux 6.1; an older kernel refuses it, and forks cost more


def collapse() -> int:
    """Move this process's own memory, as far as it is whole huge pages, into such: bytes moved."""
    madvise = ctypes.CDLL(None).madvise
    moved = 0
    with open("/proc/self/maps") as maps:
        lines = maps.read().splitlines()
    for line in lines:
        addresses, rights, _, _, inode, *name = line.split()
        if rights != "rw-p" or inode != "0" or name not in ([], ["[heap]"]):
            continue
        first, end = (int(address, 16) for address in addresses.split("-"))
        first = -(-first // HUGE_PAGE) * HUGE_PAGE
        length = end // HUGE_PAGE * HUGE_PAGE - first
        if length > 0 and madvise(ctypes.c_void_p(first), ctypes.c_size_t(length), MADV_COLLAPSE) == 0:
            moved += length
    return moved
