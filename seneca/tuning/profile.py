"""``seneca.profile``: measures the rates of this host with a user's files and transforms in 15 seconds.

::

    files, transform --> storage   whole files, with 1, 2, 4 ... readers   --+
                    --> work      each stage of the native codec, one thread |--> Profile --> JSON, by host,
                    --> work      ... all threads                            |                files, transform
                        host      memory bandwidth, free memory              |
                        step      samples/s of the training step           --+
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from seneca._runtime.memory import free_memory
from seneca._runtime.private_files import private_folder
from seneca._runtime.user_cache import user_cache
from seneca.cache import auto_bytes
from seneca.data import ImageFolder
from seneca.data.files import PictureFiles, files_of
from seneca.errors import DecodeError, PlanError
from seneca.options import parse_bytes
from seneca.partition import Profile, ProfileError
from seneca.transforms._pipeline import NativeTransform, Pipeline, compile_transform
from seneca.tuning import host
from seneca.tuning.storage import read_storage
from seneca.tuning.whole import profile_by
from seneca.tuning.work import Work, work_through

__all__ = ["default_transform", "pace_of", "profile", "profile_path", "recall"]

# Seconds, together 13.5. Each thread finishes what it has begun, and does at least one thing.
STORAGE_S, ALONE_S, TOGETHER_S, MEMORY_S, STEP_S = 5.0, 2.5, 2.5, 0.5, 3.0
FEWEST_PICTURES, MOST_PICTURES = 64, 4096  # for each of the two measurements of work
SEED = 0
WARM_UP_STEPS = 2


def default_transform() -> NativeTransform:
    """The transform that is measured if none is given: the usual one of image classifiers."""
    from seneca import transforms as T

    return T.Compose(
        [T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.Normalize(T.IMAGENET_MEAN, T.IMAGENET_STD)]
    )


def profile(
    dataset: Any,
    *,
    transform: Any = None,
    step: float | Callable[[Any, Any], Any] | None = None,
    batch_size: int = 256,
    cache_bytes: int | str = "auto",
    fresh: bool = False,
    progress: Callable[[float, str], None] | None = None,
) -> Profile:
    """Measure this host with a dataset and its transform, or recall an earlier measurement.

    A measurement takes some 15 s. Listing the files and the first two calls of ``step`` come on top. It
    takes longer only if a single file or step takes seconds. It reads at most 5,120 files for storage and
    4,096 for the work. It first asks the kernel to drop the files for storage from the page cache.
    Otherwise it would measure memory.

    The measurement is kept under ``$XDG_CACHE_HOME/seneca/profiles``, if that can be written, for this
    host, these files and this transform. Free memory, ``cache_bytes`` and ``step`` are taken anew in every
    call.

    Args:
        dataset: A path that :func:`seneca.open` takes; or a dataset of pictures or sounds, of Seneca or
            torchvision.
        transform: A transform in place of the dataset's own. For the path of a folder, None is the usual
            one of image classifiers: ``RandomResizedCrop(224)``, ``RandomHorizontalFlip()``, ``Normalize``.
        step: The training step: the samples a second that it takes, or a callable of a batch (images,
            labels), whose pace is then measured. None: the pace is not known.
        batch_size: The size of the batches with which ``step`` is called.
        cache_bytes: Memory for payloads, as the loader's argument.
        fresh: Measure even if there is an earlier measurement.
        progress: Called with the share that is done, from 0 to 1, and with what is being done.

    Returns:
        The profile. Its ``notes`` say what could not be measured properly.

    Raises:
        FileNotFoundError: There are no class folders, or no pictures.
        OSError: A file cannot be read.
        PlanError: The transform does not run natively.
        DecodeError: None of the pictures that were tried can be decoded.
        ValueError: ``step`` or ``cache_bytes`` has a value that is not allowed.
    """
    began = time.perf_counter()
    if not (step is None or callable(step) or (math.isfinite(step) and step > 0)):
        raise ValueError(f"step is samples a second, above 0, but got {step!r}")
    report = progress or (lambda share, what: None)
    report(0.0, "listing files")
    files, pipeline, max_pixels = _what_runs(dataset, transform)
    if len(files) == 0:
        raise FileNotFoundError(f"no pictures in {files.root}")
    memory = auto_bytes(files) if cache_bytes == "auto" else parse_bytes(cache_bytes)
    path = profile_path(host.fingerprint(), files.fingerprint().hex(), _fingerprint(pipeline))
    known = None if fresh else _recall(path)
    if known is None:
        known = _measure(files, pipeline, max_pixels, memory, report)
        known = dataclasses.replace(known, took_s=time.perf_counter() - began)
        try:
            private_folder(path.parent)
            known.save(path)
        except OSError as error:  # a service's HOME may not be a folder; the profile is valid all the same
            note = f"it could not be kept and is measured anew the next time: {error}"
            known = dataclasses.replace(known, notes=(*known.notes, note))
    if callable(step):
        report(0.9, "training step")
        step = pace_of(step, batch_size, pipeline)
    report(1.0, "done")
    return dataclasses.replace(
        known, cache_bytes=memory, free_memory_bytes=max(memory, free_memory()), step_per_s=step
    )


def profile_path(host_name: str, dataset: str, pipeline: str) -> Path:
    """The file that keeps the measurement of a host, files and a transform."""
    return user_cache() / "profiles" / f"{host_name}-{dataset}-{pipeline}.json"


def recall(dataset: str, pipeline: Pipeline) -> Profile | None:
    """The earlier measurement of this host with files of this fingerprint; None: there is none."""
    return _recall(profile_path(host.fingerprint(), dataset, _fingerprint(pipeline)))


def pace_of(step: Callable[[Any, Any], Any], batch_size: int, pipeline: Pipeline) -> float:
    """Measure how many samples a second a training step takes, with batches of noise and without waiting."""
    import torch

    images = torch.rand((batch_size, *pipeline.item_shape)).to(getattr(torch, pipeline.dtype))
    labels = torch.zeros(batch_size, dtype=torch.int64)
    settle = torch.cuda.synchronize if torch.cuda.is_available() else lambda: None
    for _ in range(WARM_UP_STEPS):
        step(images, labels)
    settle()
    began, steps = time.perf_counter(), 0
    while steps == 0 or time.perf_counter() - began < STEP_S:
        step(images, labels)
        steps += 1
    settle()
    return steps * batch_size / (time.perf_counter() - began)


def _what_runs(dataset: Any, transform: Any) -> tuple[PictureFiles, Pipeline, int | None]:
    """The files, their pipeline, and the most pixels that a picture may have."""
    if isinstance(dataset, (str, os.PathLike)):
        wanted: Any = default_transform() if transform is None else transform
        try:
            dataset = ImageFolder(dataset, wanted)
        except (FileNotFoundError, NotADirectoryError):  # no folder of pictures: imports torch
            from seneca.data.archive import open as open_dataset

            dataset = open_dataset(dataset, transform)
    elif transform is not None:
        raise ValueError("a dataset has its own transform: give transform= with a folder only")
    if isinstance(dataset, ImageFolder) and isinstance(dataset.transform, NativeTransform):
        pipeline = compile_transform(
            dataset.transform, decode=dataset.decode, apply_orientation=dataset.apply_exif_orientation
        )
        return files_of(dataset), pipeline, dataset.max_pixels
    # Imported here only: a foreign transform may be torchvision's, and recognising it needs torch.
    from seneca.data.support import inspect_dataset

    grade = inspect_dataset(dataset, shares=False)
    if grade.files is None or grade.pipeline is None:
        raise PlanError(
            f"only what runs natively can be profiled, and {type(dataset).__name__} does not: {grade.why[0]}"
        )
    return grade.files, grade.pipeline, grade.max_pixels


def _fingerprint(pipeline: Pipeline) -> str:
    """A digest of what a profile depends on: the operations on pixels, and the layout of batches."""
    description = [
        pipeline.augmented_fingerprint,
        pipeline.dtype,
        pipeline.channels_last,
        bool(pipeline.erase),
    ]
    return hashlib.blake2b(json.dumps(description).encode(), digest_size=8).hexdigest()


def _recall(path: Path) -> Profile | None:
    """Read a measurement.

    None: there is none, it cannot be read, another version of Seneca wrote it, or other users could have.
    """
    try:
        private_folder(path.parent)
        return Profile.load(path)
    except (OSError, ProfileError):
        return None


def _measure(
    files: PictureFiles,
    pipeline: Pipeline,
    max_pixels: int | None,
    memory: int,
    report: Callable[[float, str], None],
) -> Profile:
    pieces = list(files.pieces())
    random.Random(SEED).shuffle(pieces)
    n_cores = host.cores()
    rates = read_storage(pieces, STORAGE_S, lambda share, what: report(0.05 + 0.4 * share, what))
    report(0.45, "one thread at work")
    pictures = (pieces * -(-FEWEST_PICTURES // len(pieces)))[:MOST_PICTURES]
    alone = work_through(pictures, pipeline, max_pixels, threads=1, seconds=ALONE_S)
    report(0.65, f"{n_cores} threads at work")
    together = work_through(pictures, pipeline, max_pixels, threads=n_cores, seconds=TOGETHER_S)
    if not (alone.encoded and together.encoded):
        raise DecodeError(f"none of {together.damaged} pictures could be decoded", pieces[0].path)
    report(0.85, "memory")
    bandwidth = host.memory_bytes_per_s(n_cores, MEMORY_S)
    return profile_by(
        files,
        pipeline,
        rates,
        alone,
        together,
        pipeline=_fingerprint(pipeline),
        cache_bytes=memory,
        free_memory_bytes=max(memory, free_memory()),
        memory_bytes_per_s=bandwidth,
        notes=_notes(rates.cold, together),
    )


def _notes(cold: bool, together: Work) -> tuple[str, ...]:
    notes = []
    if not cold:
        notes.append("the files could not be dropped from the page cache: storage seems as fast as memory")
    if together.by_pillow:
        notes.append(
            f"{together.by_pillow} of {len(together.encoded)} pictures are left to Pillow, "
            "which decodes one after the other"
        )
    if together.damaged:
        notes.append(f"{together.damaged} pictures could not be decoded and were left out")
    return tuple(notes)
