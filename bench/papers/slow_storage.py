"""Storage that is really slow, for every loader alike: what an experiment's jobs read from.

=========  =============================================================================================
``disk``   an ext4 image on a loop device, which control groups of the kernel hold back (``disk.py``): any
           loader reads through the same limit, and memory for the page cache can be limited too; needs root
``bucket`` a token bucket that is preloaded (``bench/slow_reads.py``): it has no page cache, and mappings of
           files pass it by
``given``  the folder as it is: the user holds it back from outside
=========  =============================================================================================

All count the bytes that storage gave.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import slow_reads
from links import pictures_of

SECTOR_BYTES = 512


class Storage:
    """A folder of class folders on slow storage: here one that is held back from outside.

    Args:
        folder: Where the files lie.
    """

    kind = "given"
    holds_mappings = True  # whether who maps files is held back as who reads them
    join: tuple[str, ...] = ()  # files of control groups; a job writes "0" into each
    bytes_per_s: int | None = None  # to all readers together; None: not known

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.samples = len(pictures_of(folder))
        self.files_bytes = sum(path.stat().st_size for path in pictures_of(folder))

    def words(self) -> str:
        """What it is, in a sentence of an experiment's conditions."""
        return "Storage is the folder as it is, held back from outside."

    def memory_words(self, share: float) -> str:
        """What :meth:`held` does, in a sentence."""
        return (
            f"Seneca's cache has memory for {share:.0%} of the files; the page cache is what the limit from"
            " outside leaves to it."
        )

    def read_bytes(self) -> int:
        """Bytes that storage has given so far, to all processes, by the kernel's count."""
        return sectors_read(self.folder) * SECTOR_BYTES

    @contextmanager
    def held(self, memory_bytes: int, cache: str | None) -> Iterator[None]:
        """Within, the page cache of the files and the segments of ``cache`` have so much memory together.

        The page cache is empty at first. ``cache`` is None where jobs have none.
        """
        forget(pictures_of(self.folder))
        yield


class Bucket(Storage):
    """Reads that a preloaded token bucket holds back; this program has been run anew with it."""

    kind = "bucket"
    holds_mappings = False

    def __init__(self, folder: Path, bytes_per_s: int) -> None:
        super().__init__(folder)
        self.bytes_per_s = bytes_per_s

    def words(self) -> str:
        return (
            f"A token bucket that all processes share holds reads back to {self.bytes_per_s / 1e6:g} MB/s."
            " It has no page cache: every read is paid for. DALI maps files, which the bucket does not see:"
            " it is left out."
        )

    def memory_words(self, share: float) -> str:
        return (
            f"Seneca's cache has memory for {share:.0%} of the files. The bucket leaves no page cache to"
            " anybody: loaders without a cache of their own have no memory for files."
        )

    def read_bytes(self) -> int:
        return slow_reads.bytes_paid()

    @contextmanager
    def held(self, memory_bytes: int, cache: str | None) -> Iterator[None]:
        yield


def sectors_read(folder: Path) -> int:
    """Of the device that the folder lies on.

    Raises:
        FileNotFoundError: the kernel counts nothing for it.
    """
    device = os.stat(folder).st_dev
    place = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/stat")
    if not place.is_file():
        raise FileNotFoundError(
            f"{folder} lies on no block device of which the kernel counts reads: no {place}"
        )
    return int(place.read_text().split()[2])


def forget(paths: Iterable[str | Path]) -> None:
    """Have the page cache give up these files."""
    for path in paths:
        file = os.open(path, os.O_RDONLY)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)
