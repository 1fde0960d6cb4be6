"""The control groups of this process, which limit its memory and CPU time."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

__all__ = ["Cores", "cores_allowed", "cpu_quota", "groups_of", "oom_kills"]

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


class Cores(NamedTuple):
    """The cores that a process may use.

    Attributes:
        number: How many; with a quota, their worth of CPU time.
        group: A number that processes have in common if these are the same cores, or the same quota.
    """

    number: float
    group: int


def cores_allowed() -> Cores:
    """The cores that this process may use, by its affinity and its control groups."""
    allowed = sorted(os.sched_getaffinity(0))
    quota, inode = _limit(None)
    if quota is None or quota >= len(allowed):
        quota, inode = float(len(allowed)), 0
    digest = hashlib.blake2b(f"{allowed} {inode}".encode(), digest_size=8).digest()
    return Cores(quota, int.from_bytes(digest, "little"))


def cpu_quota(root: Path | None = None) -> float | None:
    """The cores' worth of CPU time that the groups of this process allow; None: they do not limit it.

    Args:
        root: As for :func:`groups_of`.
    """
    return _limit(root)[0]


def _limit(root: Path | None) -> tuple[float | None, int]:
    """The least quota of all groups; and the inode of its group, which names it in all containers."""
    quotas = []
    for group, version in groups_of("cpu", root):
        try:
            quota, period = _quota(group, version)
            if quota not in ("max", "-1"):
                quotas.append((int(quota) / int(period), group.stat().st_ino))
        except OSError:
            continue  # no such controller here
    return min(quotas, default=(None, 0))


def _quota(group: Path, version: int) -> list[str]:
    """The CPU time that a group may take in a period, and the period, as the files have them."""
    if version == 2:
        return (group / "cpu.max").read_text().split()
    return [(group / f"cpu.cfs_{name}_us").read_text().strip() for name in ("quota", "period")]


def oom_kills(root: Path | None = None) -> int:
    """The number of processes of this group that the kernel killed for lack of memory; 0 if it does not
    say."""
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
