"""How much memory this process and others may still take."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

__all__ = ["free_memory"]

PROC = Path("/proc")
GROUPS = Path("/sys/fs/cgroup")

# Of both versions of control groups: limit, usage, and what of the usage are files that the kernel
# gives up when it is asked for memory. In a group of the first version that sums up its children.
FIRST = ("memory.limit_in_bytes", "memory.usage_in_bytes", ("total_inactive_file", "total_active_file"))
SECOND = ("memory.max", "memory.current", ("inactive_file", "active_file"))


def free_memory() -> int:
    """What the kernel and this process's control groups still allow, in bytes.

    Memory that holds files in the page cache counts as free: the kernel gives it up.
    """
    with open(PROC / "meminfo") as file:
        fields = dict(line.split(":", 1) for line in file)
    free = int(fields["MemAvailable"].split()[0]) * 1024
    for group, (limit, usage, reclaimable) in _groups():
        try:
            at_most = (group / limit).read_text().strip()
            used = int((group / usage).read_text())
            stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        except OSError:
            continue  # no such controller here
        if at_most != "max":
            free = min(free, int(at_most) - used + sum(int(stat.get(name, 0)) for name in reclaimable))
    return max(0, free)


def _groups() -> Iterator[tuple[Path, tuple[str, str, tuple[str, str]]]]:
    """The groups that this process is in, and those that these are in, each of which may limit it."""
    try:
        lines = (PROC / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            root, version = GROUPS, SECOND
        elif "memory" in controllers.split(","):
            root, version = GROUPS / "memory", FIRST
        else:
            continue
        group = root / path.lstrip("/")
        yield root, version  # in a container the path may be the host's, which is not there
        while group != root and root in group.parents:
            yield group, version
            group = group.parent
