"""The control groups of this process, which limit its memory and CPU time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

__all__ = ["groups_of", "oom_kills"]

PROC = Path("/proc")
GROUPS = Path("/sys/fs/cgroup")


def groups_of(controller: str) -> Iterator[tuple[Path, int]]:
    """The groups that this process is in, and their parents. Each of them may limit the process.

    Args:
        controller: The limited resource: ``memory`` or ``cpu``.

    Yields:
        A group's folder, and the version of control groups, 1 or 2, which says how its files are named. The
        folder may have no files of the controller.
    """
    try:
        lines = (PROC / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            root, version = GROUPS, 2
        elif controller in controllers.split(","):
            root, version = GROUPS / controller, 1
        else:
            continue
        group = root / path.lstrip("/")
        yield root, version  # in a container the path may be the host's and not exist here
        while group != root and root in group.parents:
            yield group, version
            group = group.parent


def oom_kills() -> int:
    """The number of processes of this group that the kernel killed for lack of memory; 0 if it does not
    tell."""
    for group, version in groups_of("memory"):
        events = group / ("memory.events" if version == 2 else "memory.oom_control")
        try:
            lines = events.read_text().splitlines()
        except OSError:
            continue
        for line in lines:
            name, _, count = line.partition(" ")
            if name == "oom_kill":
                return int(count)
    return 0
