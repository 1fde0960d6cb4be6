"""The control groups that this process is in, which limit what it may take."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

__all__ = ["groups_of"]

PROC = Path("/proc")
GROUPS = Path("/sys/fs/cgroup")


def groups_of(controller: str) -> Iterator[tuple[Path, int]]:
    """The groups that this process is in, and those that these are in, each of which may limit it.

    Args:
        controller: What is limited: ``memory``, ``cpu``.

    Yields:
        A group's folder, which may have no files of the controller's, and the version of control groups,
        1 or 2, that says how these are named.
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
        yield root, version  # in a container the path may be the host's, which is not there
        while group != root and root in group.parents:
            yield group, version
            group = group.parent
