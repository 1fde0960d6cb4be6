"""The files of a folder of pictures: which files there are, their labels, and what they are now.

The list is made of any dataset that keeps ``samples``, pairs of path and label, as
:class:`seneca.ImageFolder` and torchvision's datasets do. The dataset is not changed.
"""

from __future__ import annotations

import hashlib
import os
import stat
import struct
import weakref
from typing import Any

import numpy as np

from seneca._runtime.regular_files import read_regular

__all__ = ["PictureFiles", "files_of"]

SAMPLED = 16  # files of which both ends are read
SAMPLED_BYTES = 4096  # at each end of these files


class PictureFiles:
    """A dataset's list of pictures at one moment.

    Args:
        root: The folder. Paths below it are compared by the part after it.
        samples: ``(path, label)`` of every picture.

    Attributes:
        samples: The list as it was at that moment.
    """

    def __init__(self, root: str, samples: list[tuple[str, Any]]) -> None:
        self.root = root
        self.samples = list(samples)
        self._paths = _Paths(root, [path for path, _ in self.samples])

    def __len__(self) -> int:
        return len(self.samples)

    def look(self) -> None:
        """Ask for the size and the time of modification of every file now, and read both ends of a few.

        Raises:
            OSError: A file has gone.
        """
        self._paths.look()

    def fingerprint(self) -> bytes:
        """16 bytes that distinguish these files from others, and from the same files after a change.

        They are made of the path under ``root``, the size and the time of modification of every file, and
        of both ends of 16 files. Therefore two mounts of one dataset agree. Two datasets with equal names,
        sizes and times differ if these ends differ.

        The files are as :meth:`look` last found them. The first call looks.

        Raises:
            OSError: A file has gone.
        """
        return self._paths.found()[0]

    def names(self) -> bytes:
        """16 bytes that distinguish these pictures and their order from others, whatever the files contain.

        They are made of the path of every file under ``root``. No file is touched.
        """
        return self._paths.names()

    def total_bytes(self) -> int:
        """The size of all files together, as :meth:`fingerprint` found them."""
        return self._paths.found()[1]

    def read(self, index: int) -> bytes:
        """The bytes of one file."""
        return read_regular(self.samples[index][0])

    def path_table(self) -> tuple[bytes, np.ndarray]:
        """Every path, for the native reader.

        The table is made once. Relative paths are resolved against the current folder of that time.

        Returns:
            ``(blob, offsets)``. ``blob`` has the absolute paths one after the other, with a NUL after each.
            ``offsets`` is uint64 of shape (len + 1,). It has the place in the blob where each path begins,
            and at the end the length of the blob.
        """
        return self._paths.table()

    def labels(self) -> np.ndarray:
        """The label of every picture, int64.

        Raises:
            TypeError, ValueError: A label is not a whole number.
        """
        return np.asarray([label for _, label in self.samples], np.int64)


class _Paths:
    """The paths of a list of pictures, and what was found about the files. They stay while labels change.

    Args:
        root: The folder.
        paths: The path of every picture. A relative path is relative to ``here``.
    """

    def __init__(self, root: str, paths: list[str]) -> None:
        self.root, self.paths, self.here = root, paths, os.getcwd()
        self._found: tuple[bytes, int] | None = None
        self._stated = b""
        self._ends = b""
        self._names: bytes | None = None
        self._table: tuple[bytes, np.ndarray] | None = None

    def are(self, root: str, paths: list[str]) -> bool:
        return self.root == root and self.paths == paths and self.here == os.getcwd()

    def look(self) -> None:
        digest = hashlib.blake2b(digest_size=16)
        total = 0
        root = os.path.join(self.root, "")
        for path in self.paths:
            status = os.stat(path)
            total += status.st_size
            digest.update(os.fsencode(path.removeprefix(root)))
            # No path holds a NUL. Therefore it is certain where one entry ends and the next begins.
            digest.update(b"\0" + struct.pack("<Qq", status.st_size, status.st_mtime_ns))
        stated = digest.digest()
        if stated != self._stated:
            self._ends = self._both_ends_of_some()
            self._stated = stated
        self._found = hashlib.blake2b(stated + self._ends, digest_size=16).digest(), total

    def found(self) -> tuple[bytes, int]:
        """The fingerprint, and the size of all files together, in bytes."""
        if self._found is None:
            self.look()
            assert self._found is not None
        return self._found

    def _both_ends_of_some(self) -> bytes:
        """A digest of both ends of some files. The names choose the files; therefore all jobs choose the
        same."""
        digest = hashlib.blake2b(digest_size=16)
        chosen = np.random.default_rng(int.from_bytes(self.names(), "little"))
        for i in chosen.integers(0, max(1, len(self.paths)), min(SAMPLED, len(self.paths))).tolist():
            digest.update(_ends_of(self.paths[i]))
        return digest.digest()

    def names(self) -> bytes:
        if self._names is None:
            root = os.path.join(self.root, "")
            digest = hashlib.blake2b(digest_size=16)
            for path in self.paths:
                digest.update(os.fsencode(path.removeprefix(root)) + b"\0")
            self._names = digest.digest()
        return self._names

    def table(self) -> tuple[bytes, np.ndarray]:
        if self._table is None:
            # Ask for the current folder once. os.path.abspath would ask a million times.
            paths = [os.fsencode(os.path.join(self.here, path)) for path in self.paths]
            offsets = np.zeros(len(paths) + 1, np.uint64)
            np.cumsum([len(path) + 1 for path in paths], out=offsets[1:])
            self._table = b"".join(path + b"\0" for path in paths), offsets
        return self._table


def _ends_of(path: str) -> bytes:
    """The first and last bytes of a file; nothing if it is not a regular file, because reading could
    block."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            return b""
        last = max(0, status.st_size - SAMPLED_BYTES)
        return os.pread(fd, SAMPLED_BYTES, 0) + os.pread(fd, SAMPLED_BYTES, last)
    finally:
        os.close(fd)


# The key is the dataset's id, because a dataset need not have a hash.
_known: dict[int, tuple[weakref.ref[Any], _Paths]] = {}


def files_of(dataset: Any) -> PictureFiles:
    """The pictures that are in ``dataset.samples`` now, with what earlier calls found about their files."""
    files = PictureFiles(dataset.root, dataset.samples)
    key = id(dataset)
    known = _known.get(key)
    if known is not None and known[0]() is dataset and known[1].are(files.root, files._paths.paths):
        files._paths = known[1]
    else:
        _known[key] = weakref.ref(dataset, lambda _: _known.pop(key, None)), files._paths
    return files
