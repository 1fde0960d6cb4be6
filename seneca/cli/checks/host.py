"""The host as the checks of ``seneca doctor`` see it. A test may give a folder that stands for ``/``."""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from seneca._runtime.cgroups import cpu_quota

__all__ = ["SHM", "Host", "Mount", "Space"]

SHM = "/dev/shm"


class Mount(NamedTuple):
    """A mounted file system.

    Args:
        point: The folder where it is mounted.
        device: Its number, as ``0:53``.
        kind: The kind of file system, as ``tmpfs``.
        source: What is mounted.
        options: The options of the mount and of the file system.
    """

    point: str
    device: str
    kind: str
    source: str
    options: frozenset[str]


class Space(NamedTuple):
    """The room of a file system, in bytes and in files. ``inodes`` 0: the number of files is not limited."""

    total_bytes: int
    free_bytes: int
    inodes: int
    free_inodes: int


@dataclass(frozen=True)
class Host:
    """What can be read from a host without changing it.

    Args:
        root: The folder that stands for ``/``.
        uid: The user.
        affinity: The cores on which this process may run.
    """

    root: Path = Path("/")
    uid: int = field(default_factory=os.geteuid)
    affinity: frozenset[int] = field(default_factory=lambda: frozenset(os.sched_getaffinity(0)))

    def path(self, name: str) -> Path:
        """The place of an absolute path below ``root``."""
        return self.root / name.lstrip("/")

    def read(self, name: str) -> str | None:
        """The text of a file, without the space around it; None: it is not there or may not be read."""
        try:
            return self.path(name).read_text(errors="replace").strip()
        except OSError:
            return None

    def mount_of(self, name: str) -> Mount | None:
        """The file system on which an absolute path lies; None: the kernel does not tell."""
        around = None
        for line in (self.read("/proc/self/mountinfo") or "").splitlines():
            before, _, after = line.partition(" - ")
            _, _, device, _, point, *options = before.split()
            kind, source, more = after.split(" ", 2)
            point = re.sub(r"\\(\d{3})", lambda found: chr(int(found[1], 8)), point)
            inside = name == point or name.startswith(point.rstrip("/") + "/")
            # Of two on one folder the later hides the earlier.
            if inside and (around is None or len(point) >= len(around.point)):
                set_to = frozenset(f"{options[0]},{more}".split(","))
                around = Mount(point, device, kind, source, set_to)
        return around

    def space(self, name: str) -> Space:
        """The room of the file system on which a path lies.

        Raises:
            OSError: There is no such path.
        """
        told = os.statvfs(self.path(name))
        return Space(
            told.f_blocks * told.f_frsize, told.f_bavail * told.f_frsize, told.f_files, told.f_favail
        )

    @property
    def machine_cores(self) -> int:
        """The cores of the machine that are online, whoever may use them."""
        told = self.read("/sys/devices/system/cpu/online")
        if not told:
            return len(self.affinity)
        ranges = (part.partition("-") for part in told.split(","))
        return sum(int(last or first) - int(first) + 1 for first, _, last in ranges)

    @property
    def cores(self) -> int:
        """The cores that this process may use, by its affinity and its control groups."""
        quota = cpu_quota(self.root)
        return max(1, len(self.affinity) if quota is None else min(len(self.affinity), math.ceil(quota)))

    @property
    def in_container(self) -> bool:
        """Whether this process runs in a container, as far as the container tells."""
        marks = ("/.dockerenv", "/run/.containerenv", "/run/systemd/container")
        return (
            any(self.path(mark).exists() for mark in marks) or "container" in os.environ or self.in_kubernetes
        )

    @property
    def in_kubernetes(self) -> bool:
        """Whether this process runs in a pod of Kubernetes."""
        return "KUBERNETES_SERVICE_HOST" in os.environ
