"""How fast storage delivers files, to more and more readers at a time."""

from __future__ import annotations

import os
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from seneca._runtime.regular_files import Piece, open_regular
from seneca.data.file_lists import AnyPiece
from seneca.data.pairs import PairPiece
from seneca.data.sources.buckets import ObjectPiece
from seneca.partition import Reading

__all__ = ["READERS", "from_storage", "read_storage"]

READERS = (1, 2, 4, 8, 16, 32, 64)
MOST_FILES = 1024  # for one number of readers
UNSETTLED = 0.3  # share of the time of each number of readers, at its beginning, that is not counted
COLD_SHARE = 0.9  # least share of the bytes that must come from storage


@dataclass(frozen=True)
class StorageRates:
    """The result of :func:`read_storage`.

    Args:
        readings: One reading for each number of readers.
        cold: Whether the files came from storage and not from the page cache. No bucket is in that.
    """

    readings: tuple[Reading, ...]
    cold: bool


def read_storage(
    pieces: Sequence[AnyPiece],
    seconds: float,
    report: Callable[[float, str], None] = lambda share, what: None,
    *,
    readers: Sequence[int] = READERS,
    most_files: int = MOST_FILES,
) -> StorageRates:
    """Read pictures with several numbers of readers, after asking the kernel to drop them from the page
    cache.

    Args:
        pieces: Where the pictures are, in the order of reading. Each number of readers continues where the
            last one stopped, and begins again at the end.
        seconds: The time for all numbers of readers together.
        report: Called with the share that is done, and with what is being done.
        readers: The numbers of readers, rising.
        most_files: The most files for each number of readers.

    Raises:
        OSError: A file cannot be read.
    """
    readings: list[Reading] = []
    place = amount = 0
    numbers = [number for number in readers if number <= len(pieces)]
    from_disk = from_storage()
    for step, count in enumerate(numbers):
        report(step / len(numbers), f"storage, {count} at a time")
        began, chosen = time.perf_counter(), []
        for i in range(min(most_files, len(pieces))):
            if time.perf_counter() - began > 0.2 * seconds / len(numbers) and i >= 4 * count:
                break  # opening a file on remote storage takes time as well
            chosen.append(pieces[(place + i) % len(pieces)])
            _drop(chosen[-1])
        reading, read, read_bytes = _read(chosen, count, began + seconds / len(numbers))
        readings.append(reading)
        place, amount = place + read, amount + read_bytes
    is_fetched = any(isinstance(piece, ObjectPiece) for piece in pieces[:1])
    return StorageRates(tuple(readings), is_fetched or from_storage() - from_disk >= COLD_SHARE * amount > 0)


def _read(pieces: list[AnyPiece], readers: int, until: float) -> tuple[Reading, int, int]:
    """Read until no files are left or the time is over. Every reader reads at least one file.

    Returns:
        The reading, the number of files, the number of bytes.
    """
    waiting = iter(pieces)
    lock = threading.Lock()
    done: list[tuple[float, float, int]] = []  # when, how long it took, bytes
    failed: list[OSError] = []

    def reader() -> None:
        buffer = bytearray(1 << 20)
        first = True
        while first or time.perf_counter() < until:
            first = False
            with lock:
                piece = next(waiting, None)
            if piece is None or failed:
                return
            began = time.perf_counter()
            try:
                got = _read_whole(piece, buffer)
            except OSError as error:
                failed.append(error)
                return
            ended = time.perf_counter()
            with lock:
                done.append((ended, ended - began, got))

    threads = [threading.Thread(target=reader, daemon=True) for _ in range(readers)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    latency_s = statistics.median(took for _, took, _ in done)
    whole = sum(got for _, _, got in done)
    return Reading(readers, _bytes_per_s(done, began, readers), latency_s), len(done), whole


def _bytes_per_s(done: list[tuple[float, float, int]], began: float, readers: int) -> float:
    """The rate of reads, of which each is given as when it ended, how long it took, and its bytes."""
    ended = max(when for when, _, _ in done)  # not when the threads end: they may have to wait for a core
    # Idle storage gives more at first: token buckets are full, and disks' caches read ahead.
    unsettled = began + UNSETTLED * (ended - began)
    # The clock starts as a read ends. Else a part of its bytes would count that came before.
    settled = min(when for when, _, _ in done if when > unsettled)
    # Storage that is held back gives in bursts. One of them says nothing without the pause before it.
    if len(done) <= 4 * readers or ended - settled < (ended - began) / 2:
        settled = began
    return sum(got for when, _, got in done if when > settled) / (ended - settled)


def _read_whole(piece: AnyPiece, buffer: bytearray) -> int:
    """Read a picture as the loader's threads do: open, read to its end, close. Or fetch it."""
    if not isinstance(piece, Piece):
        return len(piece.read())
    file = open_regular(piece.path)
    try:
        if piece.length is not None:
            return len(piece.read_from(file))
        total = 0
        while got := os.readv(file, [buffer]):
            total += got
        return total
    finally:
        os.close(file)


def _drop(piece: AnyPiece) -> None:
    """Ask the kernel to drop a picture from the page cache. Mapped and unwritten pages stay."""
    if isinstance(piece, PairPiece):
        _drop(piece.picture)
        _drop(piece.mask)
        return
    if isinstance(piece, ObjectPiece):
        return
    file = open_regular(piece.path)
    try:
        os.posix_fadvise(file, piece.offset, piece.length or 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(file)


def from_storage() -> int:
    """Bytes that the kernel has fetched from storage for this process so far; 0 if it does not say.

    The kernel can also be asked page by page what is in memory (mincore, RWF_NOWAIT). But that is not
    allowed unless the process owns the file, or it starts to read the file.
    """
    try:
        with open("/proc/self/io") as file:
            return int(dict(line.split(": ") for line in file)["read_bytes"])
    except (OSError, KeyError):
        return 0
