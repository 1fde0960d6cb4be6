"""A look at a host and a dataset that takes a moment: for a loader whose cache has no profile to go by.

What :func:`seneca.profile` measures with hundreds of files, on a handful of them.
"""

from __future__ import annotations

import random
import time

from seneca._pipeline.plan import Pipeline
from seneca.errors import DecodeError
from seneca.measure import host
from seneca.measure.storage import read_storage
from seneca.measure.whole import profile_by
from seneca.measure.work import work_through
from seneca.memory import free_memory
from seneca.partition import Profile
from seneca.sources.files import PictureFiles

__all__ = ["quick"]

STORAGE_S, WORK_S = 0.2, 0.2  # at the most, but for one file a reader and one picture a thread
READERS = (1, 4)
MOST_FILES = 8  # of each number of readers, and of each thread
# Threads that copy at once, which keep any memory busy; all of them together what no cache holds.
MOST_AT_MEMORY = 8


def quick(files: PictureFiles, pipeline: Pipeline, max_pixels: int, cache_bytes: int) -> Profile:
    """A profile by a handful of files; well under a second.

    Args:
        files: Of pictures.
        pipeline: What is done to them.
        max_pixels: Of a picture.
        cache_bytes: Memory for payloads.

    Raises:
        OSError: A file cannot be read.
        DecodeError: None of those tried can be decoded.
    """
    began = time.perf_counter()
    if len(files) == 0:
        raise FileNotFoundError(f"no pictures in {files.root}")
    paths = [path for path, _ in random.Random(len(files)).sample(files.samples, min(64, len(files)))]
    n_cores = host.cores()
    threads = min(n_cores, len(paths))
    rates = read_storage(paths, STORAGE_S, readers=READERS, most_files=MOST_FILES)
    # First those that were just read: they are in the page cache.
    work = work_through(paths[: MOST_FILES * threads], pipeline, max_pixels, threads=threads, seconds=WORK_S)
    if not work.encoded:
        raise DecodeError(f"none of {work.damaged} pictures could be decoded", paths[-1])
    copying = min(n_cores, MOST_AT_MEMORY)
    return profile_by(
        files,
        pipeline,
        rates,
        work,
        work,
        pipeline="",
        cache_bytes=cache_bytes,
        free_memory_bytes=cache_bytes + free_memory(),  # the cache is there already
        memory_bytes_per_s=host.memory_bytes_per_s(copying, 0.0, host.COPIED_BYTES // copying),
        took_s=time.perf_counter() - began,
        notes=("a quick look",),
    )
