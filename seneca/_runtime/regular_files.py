"""Opens regular files without waiting. Any other kind of file is refused and named.

Opening a FIFO waits until another process writes to it, and reading a terminal or a device may wait too.
Such a file among the samples would stop an epoch for ever.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from typing import NamedTuple

__all__ = ["Piece", "kind_of", "open_regular", "read_regular"]

# With O_NONBLOCK a FIFO is opened at once, and regular files are read as before. Some systems lack some of
# these flags.
FLAGS = sum({getattr(os, name, 0) for name in ("O_RDONLY", "O_CLOEXEC", "O_NONBLOCK", "O_BINARY")})

LEASE_S = 60.0  # the kernel breaks a lease after 45 s (/proc/sys/fs/lease-break-time)
LOOK_AGAIN_S = 0.01

KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class Piece(NamedTuple):
    """Some bytes of a file.

    Attributes:
        path: The file.
        offset, length: Which bytes. ``length`` None: all of them.
    """

    path: str
    offset: int = 0
    length: int | None = None

    def read(self) -> bytes:
        """The bytes. Errors are those of :func:`open_regular`, or that the file ends before them."""
        file = open_regular(self.path)
        try:
            return self.read_from(file)
        finally:
            os.close(file)

    def read_from(self, file: int) -> bytes:
        """The same, if ``file`` is open."""
        if self.length is None:
            with open(file, "rb", closefd=False) as whole:
                return whole.read()
        parts, missing = [], self.length
        while missing:
            part = os.pread(file, missing, self.offset + self.length - missing)
            if not part:
                raise OSError(errno.ESTALE, "ends before one of its samples does; open it again", self.path)
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)


def kind_of(mode: int) -> str | None:
    """The kind of file with this ``st_mode``, in words; None: a regular file."""
    return None if stat.S_ISREG(mode) else KINDS.get(stat.S_IFMT(mode), "no file")


def open_regular(path: str | os.PathLike[str]) -> int:
    """Open a regular file for reading, and no other kind of file. Links are followed.

    The kind is read from the open file. Therefore the file cannot be exchanged for another in between.

    Returns:
        The file descriptor.

    Raises:
        IsADirectoryError: The path is a directory.
        OSError: The path is another kind of file, or it cannot be opened.
    """
    give_up_at = time.monotonic() + LEASE_S
    while True:
        try:
            fd = os.open(path, FLAGS)
            break
        except OSError as error:
            if error.errno == errno.ENXIO:
                raise _refusal(errno.ENXIO, "a socket or a missing device", path) from None
            # EAGAIN: another process has a lease on the file (fcntl(2)), and the kernel now breaks it.
            if error.errno != errno.EAGAIN or time.monotonic() > give_up_at:
                raise
        time.sleep(LOOK_AGAIN_S)
    try:
        kind = kind_of(os.fstat(fd).st_mode)
    except BaseException:
        os.close(fd)
        raise
    if kind is None:
        return fd
    os.close(fd)
    raise _refusal(errno.EISDIR if kind == "a directory" else errno.EINVAL, kind, path)


def _refusal(number: int, kind: str, path: str | os.PathLike[str]) -> OSError:
    return OSError(number, f"is {kind}, not a regular file", os.fspath(path))


def read_regular(path: str | os.PathLike[str]) -> bytes:
    """Read all bytes of a regular file. Errors are those of :func:`open_regular`."""
    with open(open_regular(path), "rb") as file:
        return file.read()
