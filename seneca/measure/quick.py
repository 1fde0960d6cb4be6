"""A look at a host and a dataset that takes a moment: for a loader whose cache has no profile to go by.

What :func:`seneca.profile` measures with hundreds of files, on a handful of them.
"""

from __future__ import annotations

import dataclasses
import math
import random
import time

import numpy as np

from seneca._pipeline.plan import Pipeline
from seneca.errors import DecodeError
from seneca.measure import host
from seneca.measure.storage import read_storage
from seneca.measure.work import NUMPY_TYPES, batch_shape, costs, work_through
from seneca.memory import free_memory
from seneca.partition import Profile
from seneca.sources.files import PictureFiles

__all__ = ["quick"]

STORAGE_S, WORK_S = 0.2, 0.2  # at the most, but for one file a reader and one picture a thread
READERS = (1, 4)
MOST_FILES = 8  # of each number of readers, and of each thread
# Not measured: to do so takes the memory that it measures. Modern hosts have several times this, and a
# loader that is limited by less has no use for a split.
MEMORY_BYTES_PER_S = 10e9


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
    cost = costs(work, work)
    return Profile(
        host=host.fingerprint(),
        dataset=files.fingerprint().hex(),
        pipeline="",
        samples=len(files),
        cores=n_cores,
        cache_bytes=cache_bytes,
        free_memory_bytes=cache_bytes + free_memory(),  # the cache is there already
        storage=rates.readings,
        storage_cold=rates.cold,
        fetch=cost["fetch"],
        decode=cost["decode"],
        augment=cost["augment"],
        prepare=cost["prepare"],
        batch=cost["batch"],
        memory_bytes_per_s=MEMORY_BYTES_PER_S * min(n_cores, 8),
        encoded=dataclasses.replace(work.size("encoded"), mean_bytes=files.total_bytes() / len(files)),
        decoded=work.size("decoded"),
        augmented=work.size("augmented"),
        batch_bytes=math.prod(batch_shape(pipeline)) * np.dtype(NUMPY_TYPES[pipeline.dtype]).itemsize,
        deterministic=pipeline.deterministic,
        measured_samples=len(work.encoded),
        took_s=time.perf_counter() - began,
        notes=("a quick look",),
    )
