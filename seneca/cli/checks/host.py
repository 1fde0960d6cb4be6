"""The host as the checks of ``seneca doctor`` see it. A test may give a folder that stands for ``/``."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from seneca._runtime.cgroups import cpu_quota
from seneca._runtime.mounts import Mount, mount_of
from seneca._runtime.segment_folder import SHM, Fault, fault_of, lies_in_memory, segment_folder

__all__ = ["SHM", "Host", "Space"]


class Space(NamedTuple):
    """The room of a file system, in bytes and in files. ``inodes`` 0: the number of files is not limited."""

    total_bytes: int
    free_bytes: int
    inodes: int
    free_inodes: int


@dataclass(frozen=True)
class Host:
    """Facts that can be read from a host without changing it.

    Args:
        root: The folder that stands for ``/``.
        uid: The user.
        affinity: The cores on which this process may run.
        folder: Where the segments of caches are stored.
    """

    root: Path = Path("/")
    uid: int = field(default_factory=os.geteuid)
    affinity: frozenset[int] = field(default_factory=lambda: frozenset(os.sched_getaffinity(0)))
    folder: str = field(default_factory=segment_folder)

    @property
    def other_root(self) -> Path | None:
        """The folder that stands for ``/``; None: it is this host's own."""
        return None if self.root == Path("/") else self.root

    @property
    def folder_fault(self) -> Fault | None:
        """Why segments cannot be stored in their folder; None: they can, or it is ``/dev/shm``."""
        return fault_of(self.folder, self.other_root)

    @property
    def caches_in_memory(self) -> bool:
        """Whether caches are memory, and no files on a disk."""
        return lies_in_memory(self.folder, self.other_root)

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
        """The file system of an absolute path; None: the kernel does not say."""
        return mount_of(name, self.other_root)

    def space(self, name: str) -> Space:
        """The room of a path's file system.

        Raises:
            OSError: There is no such path.
        """
        space = os.statvfs(self.path(name))
        return Space(
            space.f_blocks * space.f_frsize, space.f_bavail * space.f_frsize, space.f_files, space.f_favail
        )

    @property
    def machine_cores(self) -> int:
        """The cores of the machine that are online, whoever may use them."""
        online = self.read("/sys/devices/system/cpu/online")
        if not online:
            return len(self.affinity)
        ranges = (part.partition("-") for part in online.split(","))
        return sum(int(last or first) - int(first) + 1 for first, _, last in ranges)

    @property
    def cores(self) -> int:
        """The cores that this process may use, by its affinity and its control groups."""
        quota = cpu_quota(self.root)
        return max(1, len(self.affinity) if quota is None else min(len(self.affinity), math.ceil(quota)))

    @property
    def in_container(self) -> bool:
        """Whether this process runs in a container, as far as the container shows."""
        marks = ("/.dockerenv", "/run/.containerenv", "/run/systemd/container")
        return (
            any(self.path(mark).exists() for mark in marks) or "container" in os.environ or self.in_kubernetes
        )

    @property
    def in_kubernetes(self) -> bool:
        """Whether this process runs in a pod of Kubernetes."""
        return "KUBERNETES_SERVICE_HOST" in os.environ
