"""The table of this host's cores: a small file in which each loader publishes what it needs.

::

    loader --publish()--> its row   the others' rows, as published lately --others()--> loader

It is one file for all caches and datasets of a user, beside the segments (``/dev/shm``, or ``SENECA_DIR``).
What it says are hints: a wrong row costs speed for some seconds, and no sample.

* A row belongs to the loader that holds the lock on its byte, an OFD lock. The kernel frees it with the
  process, however that ends. No loader waits for another's row.
* A row carries the time of its writing and a checksum. A reader leaves out rows that are half written, older
  than ``SILENT_S``, or not locked. A stopped process therefore falls silent, and a dead one is gone at once.
* Making and removing the file happens under its ``flock``. The last loader that leaves removes it. Killed
  processes may leave the file, which the next loader uses.
* The file is this user's alone. One that another user has made, or may open, is not used.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import struct
import time
import weakref
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from seneca._runtime.private_files import open_private
from seneca._runtime.segment_folder import segment_folder

__all__ = ["SILENT_S", "CoreNeed", "CoreTable", "core_table_path"]

logger = logging.getLogger(__name__)

PATIENCE_S = 1.0
SILENT_S = 10.0  # a loader that has published nothing for so long is not at work
ROWS = 256
ROW = struct.Struct("<QQddB3x")  # group, time in ns, prepare, loop, takes_all; the checksum follows
ROW_BYTES = 64
CHECKSUM = struct.Struct("<I")
LOCK = struct.Struct("hhqqi4x")  # struct flock: type, whence, start, length, pid


class CoreNeed(NamedTuple):
    """The need of a loader, as in :class:`seneca.partition.cores.Need`, and of which cores.

    Attributes:
        group: Names the cores. Loaders share cores with those of the same group.
    """

    group: int
    prepare: float
    loop: float
    takes_all: bool


def core_table_path() -> str:
    """Where the table of this user is stored. Its name is not one of a segment."""
    return os.path.join(segment_folder(), f"seneca.{os.geteuid()}.cores")


class CoreTable:
    """One loader's place on the table. In a forked child it is closed.

    Args:
        path: The file; :func:`core_table_path` by default. It is made if it is missing.

    Raises:
        NotPrivate: The file that is there is another user's, may be opened by others, or is no file.
        OSError: There can be no such file, or all rows are taken.
    """

    def __init__(self, path: str | None = None) -> None:
        self._path = path or core_table_path()
        self._file: int | None = None
        self._file, self._row = _joined(self._path)
        _open_tables.add(self)

    def publish(self, need: CoreNeed) -> None:
        """Write this loader's row."""
        if self._file is not None:
            row = ROW.pack(need.group, time.monotonic_ns(), need.prepare, need.loop, need.takes_all)
            os.pwrite(self._file, row + CHECKSUM.pack(zlib.crc32(row)), self._row * ROW_BYTES)

    def withdraw(self) -> None:
        """This loader needs nothing, until it publishes again."""
        if self._file is not None:
            os.pwrite(self._file, bytes(ROW_BYTES), self._row * ROW_BYTES)

    def others(self, group: int) -> list[CoreNeed]:
        """What the other loaders of this group have published lately."""
        if self._file is None:
            return []
        rows = os.pread(self._file, ROWS * ROW_BYTES, 0)
        since = time.monotonic_ns() - round(SILENT_S * 1e9)
        found = []
        for number in range(len(rows) // ROW_BYTES):
            row = rows[number * ROW_BYTES : number * ROW_BYTES + ROW.size]
            of_group, at, prepare, loop, takes_all = ROW.unpack(row)
            if number == self._row or of_group != group or at < since:
                continue
            (checksum,) = CHECKSUM.unpack_from(rows, number * ROW_BYTES + ROW.size)
            if checksum == zlib.crc32(row) and _is_held(self._file, number):
                found.append(CoreNeed(of_group, prepare, loop, bool(takes_all)))
        return found

    def close(self) -> None:
        """Leave the table. The last loader that leaves removes the file."""
        file, self._file = self._file, None
        if file is None:
            return
        try:
            with _locked(file):
                _lock(file, fcntl.F_UNLCK, self._row)
                held = any(_is_held(file, number) for number in range(ROWS))
                if not held and _leads_to(self._path, file):
                    os.unlink(self._path)
        except TimeoutError:
            logger.info("left the table of cores, without a check whether it can be removed", exc_info=True)
        finally:
            os.close(file)

    def _forget(self) -> None:
        """In a forked child: the row is the parent's, whose lock this copy of its file would keep alive."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)


def _joined(path: str) -> tuple[int, int]:
    """The table's file, and the row in it that this loader has."""
    while True:
        file = open_private(path, os.O_RDWR | os.O_CREAT)
        try:
            with _locked(file):
                if _leads_to(path, file):  # else its last user has just removed it
                    os.ftruncate(file, ROWS * ROW_BYTES)
                    return file, _claimed_row(file)
        except BaseException:
            os.close(file)
            raise
        os.close(file)


@contextlib.contextmanager
def _locked(file: int) -> Iterator[None]:
    """Alone among those who join and leave. They take some system calls, unless one was stopped meanwhile.

    Raises:
        TimeoutError: It is still locked after ``PATIENCE_S``.
    """
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() > until:
                raise TimeoutError("a stopped process has locked the table of cores") from None
            time.sleep(0.001)
    try:
        yield
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)


def _leads_to(path: str, file: int) -> bool:
    """Whether a path leads to an open file, and not to another that was made since."""
    try:
        return os.path.samestat(os.lstat(path), os.fstat(file))
    except FileNotFoundError:
        return False


def _claimed_row(file: int) -> int:
    for number in range(ROWS):
        if _lock(file, fcntl.F_WRLCK, number):
            return number
    raise OSError("all rows of the table of cores are taken")


def _lock(file: int, kind: int, number: int) -> bool:
    """Lock or unlock a row. Whether that could be done."""
    try:
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, LOCK.pack(kind, os.SEEK_SET, number, 1, 0))
    except BlockingIOError:
        return False
    return True


def _is_held(file: int, number: int) -> bool:
    """Whether another loader holds a row."""
    found = fcntl.fcntl(file, fcntl.F_OFD_GETLK, LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, number, 1, 0))
    return LOCK.unpack(found)[0] != fcntl.F_UNLCK


_open_tables: weakref.WeakSet[CoreTable] = weakref.WeakSet()


def _forget_all() -> None:
    for table in list(_open_tables):
        table._forget()


os.register_at_fork(after_in_child=_forget_all)
