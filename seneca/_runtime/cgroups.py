"""The control groups of this process, which limit its memory and CPU time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

__all__ = ["cpu_quota", "groups_of", "oom_kills"]

PROC = Path("/proc")
GROUPS = Path("/sys/fs/cgroup")


def groups_of(controller: str, root: Path | None = None) -> Iterator[tuple[Path, int]]:
    """The groups that this process is in, and their parents. Each of them may limit the process.

    Args:
        controller: The limited resource: ``memory`` or ``cpu``.
        root: A folder that stands for ``/``; None: this host's own.

    Yields:
        A group's folder, and the version of control groups, 1 or 2, which says how its files are named. The
        folder may have no files of the controller.
    """
    proc, groups = (PROC, GROUPS) if root is None else (root / "proc", root / "sys/fs/cgroup")
    try:
        lines = (proc / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            top, version = groups, 2
        elif controller in controllers.split(","):
            top, version = groups / controller, 1
        else:
            continue
        group = top / path.lstrip("/")
        yield top, version  # in a container the path may be the host's and not exist here
        while group != top and top in group.parents:
            yield group, version
            group = group.parent


def cpu_quota(root: Path | None = None) -> float | None:
    """The cores' worth of CPU time that the groups of this process allow; None: they do not limit it.

    Args:
        root: As for :func:`groups_of`.
    """
    quotas = []
    for group, version in groups_of("cpu", root):
        try:
            quota, period = _quota(group, version)
        except OSError:
            continue  # no such controller here
        if quota not in ("max", "-1"):
            quotas.append(int(quota) / int(period))
    return min(quotas, default=None)


def _quota(group: Path, version: int) -> list[str]:
    """The CPU time that a group may take in a period, and the period, as the files have them."""
    if version == 2:
        return (group / "cpu.max").read_text().split()
    return [(group / f"cpu.cfs_{name}_us").read_text().strip() for name in ("quota", "period")]


def oom_kills(root: Path | None = None) -> int:
    """The number of processes of this group that the kernel killed for lack of memory; 0 if it does not
    tell."""
    for group, version in groups_of("memory", root):
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
