"""The files of a folder of pictures, as a loader needs them: which, with what labels, how they are now.

Made of any dataset that keeps ``samples``, pairs of path and label, as :class:`seneca.ImageFolder`
and torchvision's do. The dataset is only read.
"""

from __future__ import annotations

import hashlib
import os
import struct
import weakref
from typing import Any

import numpy as np

from seneca.regular import read_regular

__all__ = ["PictureFiles", "files_of"]


class PictureFiles:
    """A dataset's list of pictures at one moment.

    Args:
        root: The folder; paths below it are told apart by what follows it.
        samples: ``(path, label)`` of every picture.

    Attributes:
        samples: As they were then.
    """

    def __init__(self, root: str, samples: list[tuple[str, Any]]) -> None:
        self.root = root
        self.samples = list(samples)
        self._fingerprint: bytes | None = None
        self._names: bytes | None = None
        self._total_bytes = 0
        self._path_table: tuple[bytes, np.ndarray] | None = None

    def __len__(self) -> int:
        return len(self.samples)

    def look(self) -> None:
        """Ask for the size and the time of change of every file, now.

        Raises:
            OSError: A file has gone.
        """
        digest = hashlib.blake2b(digest_size=16)
        total = 0
        root = os.path.join(self.root, "")
        for path, _ in self.samples:
            status = os.stat(path)
            total += status.st_size
            digest.update(os.fsencode(path.removeprefix(root)))
            # No path holds a NUL, so where one entry ends and the next begins is certain.
            digest.update(b"\0" + struct.pack("<Qq", status.st_size, status.st_mtime_ns))
        self._fingerprint, self._total_bytes = digest.digest(), total

    def fingerprint(self) -> bytes:
        """16 bytes that tell these files from others, and from themselves after a change.

        Made of every file's path under ``root``, size and time of modification, so two mounts of
        one dataset agree. As :meth:`look` last found them; the first call looks.

        Raises:
            OSError: A file has gone.
        """
        if self._fingerprint is None:
            self.look()
            assert self._fingerprint is not None
        return self._fingerprint

    def names(self) -> bytes:
        """16 bytes that tell these pictures and their order from others, whatever is in them now.

        Made of every file's path under ``root``; no file is asked for.
        """
        if self._names is None:
            root = os.path.join(self.root, "")
            digest = hashlib.blake2b(digest_size=16)
            for path, _ in self.samples:
                digest.update(os.fsencode(path.removeprefix(root)) + b"\0")
            self._names = digest.digest()
        return self._names

    def total_bytes(self) -> int:
        """The size of all files together, as :meth:`fingerprint` found them."""
        self.fingerprint()
        return self._total_bytes

    def read(self, index: int) -> bytes:
        """The bytes of one file."""
        return read_regular(self.samples[index][0])

    def path_table(self) -> tuple[bytes, np.ndarray]:
        """Every path, for a reader that knows no Python. Made once; resolved against the folder of that time.

        Returns:
            ``(blob, offsets)``: absolute paths one after the other, a NUL after each; and uint64
            of shape (len + 1,), where in the blob each begins, with the blob's length at the end.
        """
        if self._path_table is None:
            # The current folder asked for once, not a million times as os.path.abspath would.
            here = os.getcwd()
            paths = [os.fsencode(os.path.join(here, path)) for path, _ in self.samples]
            offsets = np.zeros(len(paths) + 1, np.uint64)
            np.cumsum([len(path) + 1 for path in paths], out=offsets[1:])
            self._path_table = b"".join(path + b"\0" for path in paths), offsets
        return self._path_table

    def labels(self) -> np.ndarray:
        """The label of every picture, int64.

        Raises:
            TypeError, ValueError: One is no whole number.
        """
        return np.asarray([label for _, label in self.samples], np.int64)


_files: weakref.WeakKeyDictionary[Any, PictureFiles] = weakref.WeakKeyDictionary()


def files_of(dataset: Any) -> PictureFiles:
    """The pictures that are in ``dataset.samples`` now; the same object for as long as they are the same."""
    files = _files.get(dataset)
    if files is None or files.samples != dataset.samples or files.root != dataset.root:
        files = _files[dataset] = PictureFiles(dataset.root, dataset.samples)
    return files
