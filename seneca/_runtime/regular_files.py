"""Opens regular files without waiting. Any other kind of file is refused and named.

Opening a FIFO waits until another process writes to it, and reading a terminal or a device may wait too.
Such a file among the samples would stop an epoch for ever.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import threading
import time
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["Piece", "above_standard", "kind_of", "open_regular", "read_regular", "standard_streams_taken"]

# With O_NONBLOCK a FIFO is opened at once, and regular files are read as before. Some systems lack some of
# these flags.
FLAGS = sum({getattr(os, name, 0) for name in ("O_RDONLY", "O_CLOEXEC", "O_NONBLOCK", "O_BINARY")})

LEASE_S = 60.0  # the kernel breaks a lease after 45 s (/proc/sys/fs/lease-break-time)
RETRY_S = 0.01

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


def above_standard(fd: int) -> int:
    """The same open file behind a number that is no standard stream's; ``fd`` is closed if it was one.

    A process may begin with its standard streams closed. What it opens next gets the number 0, 1 or 2, and
    whatever a library prints goes into that file. Therefore each descriptor that is kept goes through here.
    ``csrc/base/sn_descriptor.h`` does the same in C.
    """
    if fd > 2:
        return fd
    import fcntl  # here, because Windows has none

    try:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
    finally:
        os.close(fd)


@contextlib.contextmanager
def standard_streams_taken() -> Iterator[None]:
    """For a library that keeps what it opens: meanwhile nothing gets a closed standard stream's number."""
    with _taking:
        taken = []
        try:
            # Whatever is written to such a descriptor fails, as if the stream were closed.
            while (fd := os.open("/", os.O_PATH | os.O_CLOEXEC)) <= 2:
                taken.append(fd)
            os.close(fd)
            yield
        finally:
            for one in taken:
                os.close(one)


_taking = threading.Lock()


def open_regular(path: str | os.PathLike[str]) -> int:
    """Open a regular file for reading, and no other kind of file. Links are followed.

    The kind is read from the open file. Therefore the file cannot be exchanged for another in between.

    Returns:
        The file descriptor.

    Raises:
        IsADirectoryError: The path is a directory.
        OSError: The path is no regular file, or it cannot be opened.
    """
    give_up_at = time.monotonic() + LEASE_S
    while True:
        try:
            fd = above_standard(os.open(path, FLAGS))
            break
        except OSError as error:
            if error.errno == errno.ENXIO:
                raise _refusal(errno.ENXIO, "a socket or a missing device", path) from None
            # EAGAIN: another process has a lease on the file (fcntl(2)), and the kernel now breaks it.
            if error.errno != errno.EAGAIN or time.monotonic() > give_up_at:
                raise
        time.sleep(RETRY_S)
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
