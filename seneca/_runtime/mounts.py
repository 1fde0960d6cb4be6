"""The file systems that this process sees, as the kernel lists them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

__all__ = ["Mount", "mount_of"]

MOUNTS = "proc/self/mountinfo"


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


def mount_of(path: str, root: Path | None = None) -> Mount | None:
    """The file system of an absolute path; None: the kernel does not say.

    Args:
        path: The path. It need not be there.
        root: A folder that stands for ``/``; None: this host's own.
    """
    mounts = list(_mounts(root))
    if root is None:
        path = os.path.realpath(path)
    around = None
    for mount in mounts:
        inside = path == mount.point or path.startswith(mount.point.rstrip("/") + "/")
        # Of two on one folder the later hides the earlier.
        if inside and (around is None or len(mount.point) >= len(around.point)):
            around = mount
    device = _device_of(path) if root is None else None
    if device is None or (around is not None and around.device == device):
        return around
    # A mount further up hides that one, or none that can be seen is around the path.
    return next((mount for mount in mounts if mount.device == device), around)


def _device_of(path: str) -> str | None:
    try:
        number = os.stat(path).st_dev
    except OSError:
        return None
    return f"{os.major(number)}:{os.minor(number)}"


def _mounts(root: Path | None) -> Iterator[Mount]:
    try:
        text = ((root or Path("/")) / MOUNTS).read_bytes().decode(errors="replace")
    except OSError:
        return
    # The kernel escapes space, tab, newline and backslash in a name, and no other white space.
    for line in filter(None, text.split("\n")):
        before, _, after = line.partition(" - ")
        _, _, device, _, point, *options = before.split(" ")
        kind, source, more = after.split(" ", 2)
        point = re.sub(r"\\(\d{3})", lambda found: chr(int(found[1], 8)), point)
        yield Mount(point, device, kind, source, frozenset(f"{options[0]},{more}".split(",")))
