"""The files of caches: where they are stored, their names, whose they are, and which of them nobody uses."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import stat
from multiprocessing.util import Finalize

from seneca import errors
from seneca._core.segment import sweep
from seneca._runtime.finalizers import LAST
from seneca._runtime.private_files import user_name
from seneca._runtime.regular_files import above_standard, kind_of
from seneca._runtime.segment_folder import FIT, SHM, fault_of, segment_folder

__all__ = [
    "checked",
    "file_name_of",
    "folder_in_force",
    "identity_of",
    "opened",
    "others",
    "path_of",
    "refused",
    "sweep_at_end",
    "sweep_others",
    "sweep_unused",
    "user_name",
]


def folder_in_force() -> str:
    """The folder in which this process searches for segments now.

    Raises:
        SegmentFolderError: ``SENECA_DIR`` names one that cannot hold segments.
    """
    return checked(segment_folder())


def checked(folder: str) -> str:
    """The folder, if it can hold segments.

    Raises:
        SegmentFolderError: They cannot; the message says why.
        SegmentError: Likewise, and nobody has named the folder: there is no ``/dev/shm``.
    """
    if (fault := fault_of(folder)) is not None:
        raise errors.SegmentFolderError(str(fault))
    if folder == SHM and not os.path.isdir(folder):
        raise errors.SegmentError(
            f"there is no folder {SHM}; mount a tmpfs there, or let SENECA_DIR name a folder on "
            f"{', '.join(FIT[:-1])} or {FIT[-1]}"
        )
    return folder


def file_name_of(name: str) -> str:
    """The name of a cache's file. It contains the user's id, because users do not share."""
    if not re.fullmatch(r"[\w.-]{1,200}", name, re.ASCII):
        raise ValueError(f"a cache's name has letters, digits, '_', '-' and '.', but got {name!r}")
    return f"seneca-{os.geteuid()}-{name}"


def path_of(name: str, folder: str) -> str:
    """The file of a cache in a folder of segments."""
    return os.path.join(folder, file_name_of(name))


def identity_of(path: str) -> int:
    """64 bits that distinguish a cache's file from those of all other caches, also on other hosts.

    Containers of one machine have the same boot, but not the same file.

    Raises:
        OSError: There is no such file.
    """
    status = os.stat(path)
    with open("/proc/sys/kernel/random/boot_id", "rb") as boot:
        text = f"{boot.read()!r} {status.st_dev} {status.st_ino}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def opened(path: str, *, creates: bool = False) -> int:
    """A descriptor of a cache's file, which may be anything: the core checks whose it is.

    Args:
        path: The file.
        creates: Whether to make an empty file if there is none.

    Raises:
        OSError: There is none, it may not be opened, or it is a link or a folder.
    """
    # O_NONBLOCK: opening a FIFO or a device must not block.
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    return above_standard(os.open(path, flags | os.O_CREAT if creates else flags, 0o600))


def refused(path: str) -> errors.SegmentOwnerError | None:
    """Why this file cannot be used as it is now; None: nothing is wrong with it."""
    try:
        status = os.lstat(path)
    except OSError:
        return None  # gone meanwhile
    kind, mine, mode = kind_of(status.st_mode), status.st_uid == os.geteuid(), stat.S_IMODE(status.st_mode)
    faults = []
    if kind is not None:
        faults.append(f"is {kind} and not a regular file")
    if not mine:
        faults.append(f"belongs to another user, {user_name(status.st_uid)}")
    elif kind is None and mode & 0o077:
        faults.append(f"may be opened by other users: its mode is {mode:04o} and not 0600")
    elif kind is None and mode != 0o600:
        faults.append(f"may not be opened by its owner: its mode is {mode:04o} and not 0600")
    elif kind is None and status.st_nlink > 1:
        faults.append("has another name (a hard link), so it may be any file")
    if not faults:
        return None
    remedy = "remove it" if mine else "have its owner remove it"
    return errors.SegmentOwnerError(
        f"{path} {' and '.join(faults)}; {remedy}, or choose another name for the cache"
    )


def sweep_others(path: str) -> None:
    """Remove this user's other segments in the same folder that no living process uses."""
    for other in others(path):
        sweep_unused(other)


def others(path: str) -> list[str]:
    """This user's files, in the same folder, of any caches but this one."""
    return [other for other in _segments_in(os.path.dirname(path)) if other != path]


def _segments_in(folder: str) -> list[str]:
    """This user's files of caches in a folder."""
    prefix = f"seneca-{os.geteuid()}-"
    return [os.path.join(folder, entry) for entry in os.listdir(folder) if entry.startswith(prefix)]


def sweep_unused(path: str) -> None:
    """Remove this segment if no living process uses it."""
    try:
        fd = opened(path)
    except OSError:
        return  # gone meanwhile, or no segment in spite of its name
    sweep(fd, path)


def sweep_at_end() -> None:
    """When this process ends, remove the caches that nobody uses, after it has left its own.

    Its workers may have been the last that used a cache. multiprocessing ends them by a signal, and they do
    not leave it then.
    """
    _sweep_at_end_of(os.getpid(), segment_folder())


@functools.cache
def _sweep_at_end_of(pid: int, folder: str) -> None:
    def end() -> None:
        with contextlib.suppress(OSError):  # there is no such folder, and therefore no cache in it
            for path in _segments_in(folder):
                sweep_unused(path)

    Finalize(None, end, exitpriority=LAST - 1)  # not in a fork of this process
