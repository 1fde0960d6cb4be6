"""The files in which lists of samples are kept for this user's processes: of folders, archives, buckets."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import NamedTuple

from seneca._runtime.user_cache import user_cache
from seneca.data.sources.kept_arrays import about_of

__all__ = ["UNUSED_DAYS", "KeptList", "kept_lists"]

FOLDERS = ("listings", "archives")
ENDINGS = (".paths", ".draft", ".listing", ".members", ".npz")  # the last: of earlier versions
UNUSED_DAYS = 30


class KeptList(NamedTuple):
    """One such file.

    Attributes:
        path: The file.
        of: What it lists: a folder, or the first of several files; "" if it does not say.
        size_bytes: Its size.
        used_at: When a process used it last, in seconds since 1970.
        needless: Why nobody needs it; None: somebody may.
    """

    path: Path
    of: str
    size_bytes: int
    used_at: float
    needless: str | None


def kept_lists() -> list[KeptList]:
    """All such files of this user, the one that was used last before the others."""
    found = []
    for folder in FOLDERS:
        with contextlib.suppress(OSError):  # there is no such folder
            for entry in os.scandir(user_cache() / folder):
                if entry.name.endswith(ENDINGS):
                    with contextlib.suppress(FileNotFoundError):
                        found.append(_kept_list(Path(entry.path), entry.stat(follow_symlinks=False)))
    return sorted(found, key=lambda one: -one.used_at)


def _kept_list(path: Path, status: os.stat_result) -> KeptList:
    about, needless = about_of(path), None
    of = next(iter((about or {}).get("of", ())), "")
    if time.time() - status.st_mtime > UNUSED_DAYS * 86400:
        needless = f"nobody has used it for {UNUSED_DAYS} days"
    elif path.suffix == ".draft":
        pass  # it is being written, or the next process that lists the folder writes it anew
    elif about is None:
        needless = "it is damaged, or of another version"
    elif "://" not in of and not os.path.lexists(of):
        needless = "what it lists is gone"
    return KeptList(path, of, status.st_size, status.st_mtime, needless)
