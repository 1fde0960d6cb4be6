"""How much memory a cache takes, and whether there is room for it."""

from __future__ import annotations

import contextlib
import os
from typing import Protocol

from seneca import errors
from seneca._core.segment import GRANULE, KEEP_FOREVER, segment_bytes
from seneca._core.snapshot import anyone_alive, discard, snapshot
from seneca._runtime.memory import Limit, free_memory, most_memory
from seneca._runtime.segment_folder import larger, lies_in_memory
from seneca.cache.objects import folder_in_force, opened, others
from seneca.options import parse_bytes

__all__ = [
    "Dataset",
    "auto_bytes",
    "check_room",
    "free_space",
    "limit_of",
    "make_room",
    "no_space",
    "payload_bytes_for",
    "why_small",
]

# The most that is worth holding of a sample: its file, its pixels, and a page of rounding for each. The
# pixels of an ImageNet JPEG are about 5 times its bytes, those of a heavily compressed one some 15 times.
USEFUL_BYTES_PER_ENCODED = 16
USEFUL_BYTES_PER_SAMPLE = 64 * 1024
SMALL = 10  # a cache that is so many times as small as what the dataset can use


class Dataset(Protocol):
    """The attributes of a dataset that a cache needs.

    A dataset of files has a method ``newest_ctime()`` too: see
    :meth:`seneca.data.files.PictureFiles.newest_ctime`.
    """

    def __len__(self) -> int: ...

    def fingerprint(self) -> bytes: ...

    def total_bytes(self) -> int: ...


def payload_bytes_for(dataset: Dataset, cache_bytes: int | str, path: str) -> int:
    """How many bytes to reserve for payloads if the cache has to be made in this file."""
    if cache_bytes != "auto":
        return -(-parse_bytes(cache_bytes) // GRANULE) * GRANULE
    folder = os.path.dirname(path)
    free = free_space(folder)
    if lies_in_memory(folder):
        free = min(free, free_memory())
    half = max(0, free - _promised(path)) // 2
    records = segment_bytes(len(dataset), half) - half if len(dataset) and half else 0
    return max(1, min(half - records, _useful_bytes(dataset)) // GRANULE) * GRANULE


def _useful_bytes(dataset: Dataset) -> int:
    """The most that a dataset can use."""
    return USEFUL_BYTES_PER_ENCODED * dataset.total_bytes() + USEFUL_BYTES_PER_SAMPLE * len(dataset)


def why_small(dataset: Dataset, payload_bytes: int, path: str) -> str | None:
    """A warning for the user of a cache that ``cache_bytes="auto"`` makes far too small for its dataset.

    None: it is not, or not because of its folder: the memory is what is short.

    Args:
        dataset: The dataset.
        payload_bytes: What :func:`payload_bytes_for` has returned.
        path: The file of the cache, which is not made yet.
    """
    folder, useful = os.path.dirname(path), _useful_bytes(dataset)
    if SMALL * payload_bytes >= useful:
        return None
    free = free_space(folder)
    if lies_in_memory(folder) and free_memory() < free:
        return None
    return (
        f'cache_bytes="auto" makes a cache of {payload_bytes / 2**20:,.1f} MiB, because {folder} has '
        f"{free / 2**20:,.1f} MiB free; the dataset can use up to {useful / 2**20:,.1f} MiB: {larger(folder)}"
    )


def auto_bytes(dataset: Dataset) -> int:
    """How many bytes ``cache_bytes="auto"`` would reserve for payloads of this dataset now.

    Raises:
        SegmentFolderError: ``SENECA_DIR`` names a folder that cannot hold segments.
    """
    return payload_bytes_for(dataset, "auto", os.path.join(folder_in_force(), ""))


def free_space(folder: str) -> int:
    """The bytes that the file system of a folder of segments has free."""
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize


def limit_of(folder: str) -> Limit | None:
    """The limit on memory that a cache in this folder reaches first; None: it is on a disk, and takes none.

    Pages of a file on a disk are page cache. The kernel writes them to it and takes their memory when it is
    short.
    """
    return most_memory() if lies_in_memory(folder) else None


def _promised(path: str) -> int:
    """The bytes that this user's other caches in use, in the same folder, still reserve in the background."""
    lacking = 0
    for other in others(path):
        try:
            fd = opened(other)
        except OSError:
            continue
        with contextlib.suppress(errors.SegmentError, OSError):  # no segment in spite of its name
            if anyone_alive(fd):
                seen = snapshot(fd)
                lacking += seen["payload_bytes"] - seen["reserved_bytes"]
        os.close(fd)
    return lacking


def check_room(path: str, samples: int, payload_bytes: int, reserved: int) -> None:
    """Check that there is room for the rest of a cache that is being made.

    At the file system's limit the kernel answers ENOSPC. At the limit on memory it kills the process without
    a word. Therefore this is checked again after each piece: other jobs take memory meanwhile.

    Raises:
        NoSpaceError: There is not enough room.
    """
    folder, promised = os.path.dirname(path), _promised(path)
    needed = segment_bytes(samples, payload_bytes) - reserved + promised
    if needed > free_space(folder):
        raise no_space(folder, samples, payload_bytes, reserved, promised)
    limit = limit_of(folder)
    if limit is not None and needed > limit.most:
        raise errors.NoSpaceError(
            f"{_needs(samples, payload_bytes, reserved)}, but {limit.name} still allows "
            f"{max(0, limit.most) / 2**20:,.1f} MiB{_of_which(promised)}: beyond that the kernel would kill "
            "this job. Give a smaller cache_bytes, or the job more memory (in Docker --memory=..., in SLURM "
            "--mem=...)"
        )


def no_space(
    folder: str, samples: int, payload_bytes: int, reserved: int = 0, promised: int = 0
) -> errors.NoSpaceError:
    """The error that says that the file system of a folder has no room for a cache."""
    return errors.NoSpaceError(
        f"{_needs(samples, payload_bytes, reserved)}, but {folder} has "
        f"{free_space(folder) / 2**20:,.1f} MiB free{_of_which(promised)}. Give a smaller cache_bytes, "
        f"or {larger(folder)}"
    )


def _needs(samples: int, payload_bytes: int, reserved: int) -> str:
    needed = segment_bytes(samples, payload_bytes)
    rest = f", of which {reserved / 2**20:,.1f} MiB are reserved already" if reserved else ""
    return (
        f"a cache with cache_bytes={payload_bytes / 2**20:,.1f} MiB needs {needed / 2**20:,.1f} MiB "
        f"(payloads and their records){rest}"
    )


def _of_which(promised: int) -> str:
    return f", of which other caches still get {promised / 2**20:,.1f} MiB" if promised else ""


def make_room(path: str, needed: int) -> None:
    """If a segment is to be made and there is no room for it, remove those that are only kept for some time.

    Only this user's segments that nobody uses are removed, the one that was left first before the others.
    """
    if os.path.lexists(path):
        return  # it is joined
    folder, idle = os.path.dirname(path), []
    for other in others(path):
        with contextlib.suppress(FileNotFoundError):
            idle.append((os.lstat(other).st_mtime, other))
    needed += _promised(path)
    for _, other in sorted(idle):
        limit = limit_of(folder)
        if needed <= free_space(folder) and (limit is None or needed <= limit.most):
            return
        _give_up(other)


def _give_up(path: str) -> None:
    """Remove a segment that is kept for some time, if no living process uses it."""
    try:
        fd = opened(path)
    except OSError:
        return  # gone meanwhile, or no segment in spite of its name
    try:
        kept_s = snapshot(fd)["keep"]
    except errors.SegmentError:
        kept_s = 0
    if 0 < kept_s < KEEP_FOREVER:
        with contextlib.suppress(errors.SegmentError):  # another process has just removed it
            discard(fd, path)
    else:
        os.close(fd)
