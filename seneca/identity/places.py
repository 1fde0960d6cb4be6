"""What the paths in a dataset's state lead to. Equal texts do not tell that.

Two jobs may name equal paths and mean different files, in two working folders or in two containers. The
files may also have been written anew in between. Therefore a path that exists counts with what the file
system says of it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence

__all__ = ["SAMPLED", "facts_of", "sample_of"]

SAMPLED = 64  # texts of a container with more than MANY
MANY = 4096
LONGEST = 4096  # characters of a path


def sample_of(texts: Sequence[str | bytes]) -> list[str | bytes]:
    """A fixed part of many texts: the first, the last, and others evenly between; all, if they are few."""
    if len(texts) <= MANY:
        return list(texts)
    return [texts[i * (len(texts) - 1) // (SAMPLED - 1)] for i in range(SAMPLED)]


def facts_of(texts: Iterable[str | bytes]) -> list[tuple[object, ...]]:
    """What the file system says of those texts that are existing paths.

    Returns:
        One entry for each path, sorted: path, kind, device and inode. A regular file also has size and time
            of modification. A folder has no time, because writing into it changes its time. If one of the
            paths is relative, device and inode of the current folder follow.
    """
    facts: list[tuple[object, ...]] = []
    relative = False
    for text in sorted(
        {os.fsencode(text) if isinstance(text, str) else text for text in texts if _may_be(text)}
    ):
        try:
            status = os.stat(text)
        except (OSError, ValueError):
            continue
        place = text, stat.S_IFMT(status.st_mode), status.st_dev, status.st_ino
        facts.append((*place, status.st_size, status.st_mtime_ns) if stat.S_ISREG(status.st_mode) else place)
        relative |= not os.path.isabs(text)
    if relative:
        here = os.stat(".")
        facts.append(("relative to", here.st_dev, here.st_ino))
    return facts


def _may_be(text: str | bytes) -> bool:
    if not 0 < len(text) <= LONGEST:
        return False
    if isinstance(text, bytes):
        return b"\n" not in text and b"\0" not in text
    return "\n" not in text and "\0" not in text and _can_be_encoded(text)


def _can_be_encoded(text: str) -> bool:
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        return False
    return True
