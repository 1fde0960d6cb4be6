"""How much memory this process may still take, and which limit says so."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from seneca._runtime.cgroups import groups_of

__all__ = ["Limit", "free_memory", "limits", "meminfo", "most_memory", "until_throttled"]

PROC = Path("/proc")

MEMORY = {1: "memory.limit_in_bytes memory.usage_in_bytes", 2: "memory.max memory.current"}
# The further limit: in version 1 on memory and swap together, in version 2 on swap alone.
SWAP = {
    1: "memory.memsw.limit_in_bytes memory.memsw.usage_in_bytes",
    2: "memory.swap.max memory.swap.current",
}
AT_HAND = ("MemFree", "Active(file)", "Inactive(file)", "KReclaimable")  # in /proc/meminfo
HIGH = "memory.high memory.current"  # in version 2: beyond it the kernel slows the group's programs down
KERNEL = "memory.kmem.usage_in_bytes"  # in version 1, whose memory.stat does not have it

# Fields of memory.stat, by the version. FILES: the files in the usage. MAPPED: the mapped bytes, and the
# shared memory that may be among them. CACHES: what else the kernel can take back. In version 1, fields
# with "total_" include the group's children.
FILES = {1: ("total_inactive_file", "total_active_file"), 2: ("inactive_file", "active_file")}
MAPPED = {1: ("total_mapped_file", "total_shmem"), 2: ("file_mapped", "shmem")}
CACHES = {1: (), 2: ("slab_reclaimable",)}


class Limit(NamedTuple):
    """The memory that the host or a control group still allows.

    Args:
        free: Bytes that can be had if only the page cache shrinks. The files from which a group's programs
            run do not count, because they are needed again at once.
        most: Bytes that can be had at all, if the kernel drops every file and writes what it can to swap.
            If more is taken, the kernel kills a process.
        name: The host or the group, in words.
    """

    free: int
    most: int
    name: str


def free_memory(root: Path | None = None) -> int:
    """The bytes that the kernel and this process's control groups still allow without swapping.

    The page cache counts as free, because the kernel gives it up.

    Args:
        root: A folder that stands for ``/``; None: this host's own.
    """
    return max(0, min(limit.free for limit in limits(root)))


def most_memory() -> Limit:
    """The limit that is reached first if a process takes all memory that it can get."""
    return min(limits(), key=lambda limit: limit.most)


def until_throttled(root: Path | None = None) -> int | None:
    """The bytes until a control group slows this process down instead of refusing memory; None: none does."""
    return min((left for left in _until_throttled(root) if left is not None), default=None)


def _until_throttled(root: Path | None) -> Iterator[int | None]:
    for group, version in groups_of("memory", root):
        if version == 2:
            try:
                yield _left(group, HIGH)
            except OSError:
                continue  # no such controller here


def meminfo(root: Path | None = None) -> dict[str, int]:
    """The fields of /proc/meminfo, in bytes.

    Without /proc: what a system call says, which knows of no page cache that could be given up.
    """
    try:
        with open((PROC if root is None else root / "proc") / "meminfo") as file:
            lines = [line.split(":", 1) for line in file]
    except OSError:
        pages = {"MemTotal": "SC_PHYS_PAGES", "MemAvailable": "SC_AVPHYS_PAGES"}
        return {field: os.sysconf(name) * os.sysconf("SC_PAGE_SIZE") for field, name in pages.items()}
    return {name: int(value.split()[0]) * 1024 for name, value in lines}


def limits(root: Path | None = None) -> Iterator[Limit]:
    """All limits that this process may reach: first the host's own, then those of its control groups."""
    fields = meminfo(root)
    available, swap = fields["MemAvailable"], fields.get("SwapFree", 0)
    # MemAvailable is cautious: it subtracts a reserve for the kernel.
    at_hand = sum(fields.get(name, 0) for name in AT_HAND)
    yield Limit(available, max(available, at_hand) + swap, "this host")
    for group, version in groups_of("memory", root):
        try:
            left = _left(group, MEMORY[version])
            stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        except OSError:
            continue  # no such controller here
        if left is None:
            continue
        files, caches = (sum(int(stat.get(name, 0)) for name in names[version]) for names in (FILES, CACHES))
        in_maps, shared = (int(stat.get(name, 0)) for name in MAPPED[version])
        at_hand = left + files + caches + (_number(group / KERNEL) or 0)
        swap_left = _left_of_swap(group, version)
        if swap_left is None:
            most = at_hand + swap
        elif version == 1:
            most = min(at_hand + swap, at_hand - left + swap_left)
        else:
            most = at_hand + min(swap, swap_left)
        name = f"the memory control group {group}"
        yield Limit(left + max(0, files - max(0, in_maps - shared)), most, name)


def _left(group: Path, names: str) -> int | None:
    """The bytes that are left below a group's limit; None: there is no limit."""
    limit, used = ((group / name).read_text().strip() for name in names.split())
    return None if limit == "max" else int(limit) - int(used)


def _left_of_swap(group: Path, version: int) -> int | None:
    try:
        return _left(group, SWAP[version])
    except OSError:
        return None  # the kernel does not count it


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except OSError:
        return None
