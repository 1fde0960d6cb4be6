"""FileVerdicts on picture files, kept in a file: a later check need not decode what has not changed.

The file is an SQLite database with a row for each file. A transaction is kept whole or not at all. Lookups
need no memory. Several checks may use one database at once.
"""

from __future__ import annotations

import os
import sqlite3
import struct
import threading
import zlib
from pathlib import Path
from typing import NamedTuple

from seneca._runtime.private_files import private_folder

__all__ = ["FileVerdict", "FileVerdicts"]

TABLE = """
BEGIN IMMEDIATE;
DROP TABLE IF EXISTS verdicts;
CREATE TABLE verdicts (
    file BLOB PRIMARY KEY, state TEXT, reason TEXT, format TEXT, progressive INTEGER, pixels INTEGER
) WITHOUT ROWID;
PRAGMA user_version = {version};
COMMIT;
"""
LOOK_UP = "SELECT reason, format, progressive, pixels FROM verdicts WHERE file = ? AND state = ?"
KEEP = "INSERT OR REPLACE INTO verdicts VALUES (?, ?, ?, ?, ?, ?)"


class FileVerdict(NamedTuple):
    """The verdict about a picture file.

    Args:
        reason: Why the picture is broken; None: it is good.
        format: The format of a good picture, in Pillow's words.
        progressive: Whether a good picture is a progressive JPEG.
        pixels: Height times width of a good picture.
    """

    reason: str | None
    format: str | None = None
    progressive: bool = False
    pixels: int = 0


class FileVerdicts:
    """FileVerdicts by device, inode, size and time of modification of the file. Any thread may use them.

    A database that cannot be used is no error. Then nothing is known and nothing is kept.

    Args:
        path: The database. It is made if it is missing, with its folders, and made anew if it is damaged. Its
            folder has to be private, see :func:`seneca._runtime.private_files.private_folder`.
        terms: All that verdicts depend on besides the files. FileVerdicts under other terms are forgotten.
        fresh: Whether to forget all verdicts.

    Attributes:
        problem: Why nothing is kept; None: verdicts are kept.
    """

    def __init__(self, path: Path, terms: str, *, fresh: bool = False) -> None:
        self.problem: str | None = None
        self._lock = threading.Lock()
        self._new: list[tuple[bytes, str, str | None, str | None, bool, int]] = []
        self._database: sqlite3.Connection | None = None
        version = zlib.crc32(terms.encode()) >> 1 | 1  # SQLite has 31 bits for it; 0 is a new database's
        try:
            private_folder(path.parent)
            try:
                self._database = _open(path, version, fresh)
            except sqlite3.OperationalError:  # no rights, or no room
                raise
            except sqlite3.DatabaseError:  # damaged
                path.unlink()
                self._database = _open(path, version, fresh)
        except (OSError, sqlite3.Error) as error:
            self.problem = str(error)

    def of(self, status: os.stat_result) -> FileVerdict | None:
        """The verdict on the file that has this status; None: it is not known, or the file has changed."""
        with self._lock:
            if self._database is None:
                return None
            try:
                row = self._database.execute(LOOK_UP, _names(status)).fetchone()
            except sqlite3.Error as error:
                self._give_up(error)
                return None
        return None if row is None else FileVerdict(row[0], row[1], bool(row[2]), row[3])

    def add(self, status: os.stat_result, verdict: FileVerdict) -> None:
        """Note a verdict. ``status`` was taken before the file was read. :meth:`save` keeps it."""
        with self._lock:
            if self._database is not None:
                self._new.append((*_names(status), *verdict))

    def save(self) -> None:
        """Keep all that :meth:`add` has noted."""
        with self._lock:
            if self._database is None:
                return
            try:
                with self._database:  # one transaction
                    self._database.executemany(KEEP, self._new)
            except sqlite3.Error as error:
                self._give_up(error)
            self._new.clear()  # not earlier, because a Ctrl-C may have ended the transaction

    def close(self) -> None:
        """Save, and close the database. Nothing is known after that."""
        self.save()
        with self._lock:
            if self._database is not None:
                self._database.close()
                self._database = None

    def _give_up(self, error: sqlite3.Error) -> None:
        assert self._database is not None
        self.problem = str(error)
        self._database.close()
        self._database = None
        self._new.clear()


def _open(path: Path, version: int, fresh: bool) -> sqlite3.Connection:
    database = sqlite3.connect(path, check_same_thread=False)  # a lock admits one thread at a time
    try:
        if fresh or database.execute("PRAGMA user_version").fetchone() != (version,):
            database.executescript(TABLE.format(version=version))
    except BaseException:
        database.close()
        raise
    return database


def _names(status: os.stat_result) -> tuple[bytes, str]:
    """The keys of a file and of its state. Text, because some numbers need more than SQLite's 63 bits."""
    return struct.pack("<QQ", status.st_dev, status.st_ino), f"{status.st_size} {status.st_mtime_ns}"
