"""``seneca.profile``: the rates of this host with a user's own files and transforms, in seconds.

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

from seneca._pipeline.plan import MAX_PIXELS, NativeTransform, Pipeline, compile_transform
from seneca.cache import auto_bytes
from seneca.errors import DecodeError, PlanError
from seneca.measure import host
from seneca.measure.storage import read_storage
from seneca.measure.whole import profile_by
from seneca.measure.work import Work, work_through
from seneca.memory import free_memory
from seneca.options import parse_bytes
from seneca.partition import Profile, ProfileError
from seneca.sources import ImageFolder
from seneca.sources.files import PictureFiles, files_of

__all__ = ["default_transform", "pace_of", "profile", "profile_path", "recall"]

# Seconds, all together 13.5; each thread finishes what it has begun, and does one thing at least.
STORAGE_S, ALONE_S, TOGETHER_S, MEMORY_S, STEP_S = 5.0, 2.5, 2.5, 0.5, 3.0
FEWEST_PICTURES, MOST_PICTURES = 64, 4096  # of each of the two measurements of work
SEED = 0
WARM_UP_STEPS = 2


def default_transform() -> NativeTransform:
    """What is measured where no transform is given: the one that image classifiers are trained with."""
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
    """Measure this host with a dataset and its transform, or recall what was measured before.

    Takes some 15 s, besides the time to list the files and the first two calls of ``step``; longer only
    where a single file or step takes seconds. What it reads in that time is 5,120 files at the most for
    storage and 4,096 for the work. Of those for storage it asks the kernel to drop them from its page
    cache first, so that storage is measured and not memory. A measurement is kept under
    ``$XDG_CACHE_HOME/seneca/profiles`` for this host, these files and this transform, where that can be
    written; free memory, ``cache_bytes`` and ``step`` are taken anew in every call.

    Args:
        dataset: A folder of class folders of pictures, or a dataset of one: :class:`seneca.ImageFolder`
            or torchvision's.
        transform: Instead of the dataset's own; for a folder's path None is the usual one of image
            classifiers: ``RandomResizedCrop(224)``, ``RandomHorizontalFlip()``, ``Normalize``.
        step: The training step: samples a second that it takes, or a callable of a batch (images,
            labels), whose pace is then measured; None: the pace of the step is not known.
        batch_size: Of the batches that ``step`` is called with.
        cache_bytes: Memory for payloads, as the loader's argument.
        fresh: Measure even if a measurement is at hand.
        progress: Called with the share that is done, from 0 to 1, and what is being done.

    Returns:
        The profile; its ``notes`` say what could not be measured as it should.

    Raises:
        FileNotFoundError: No class folders, or no pictures.
        OSError: A file cannot be read.
        PlanError: The transform does not run natively.
        DecodeError: None of the pictures that were tried can be decoded.
        ValueError: ``step`` or ``cache_bytes`` is not what they can be.
    """
    began = time.perf_counter()
    if not (step is None or callable(step) or (math.isfinite(step) and step > 0)):
        raise ValueError(f"step is samples a second, above 0, but got {step!r}")
    tell = progress or (lambda share, what: None)
    tell(0.0, "listing files")
    files, pipeline, max_pixels = _what_runs(dataset, transform)
    if len(files) == 0:
        raise FileNotFoundError(f"no pictures in {files.root}")
    memory = auto_bytes(files) if cache_bytes == "auto" else parse_bytes(cache_bytes)
    path = profile_path(host.fingerprint(), files.fingerprint().hex(), _fingerprint(pipeline))
    known = None if fresh else _recall(path)
    if known is None:
        known = _measure(files, pipeline, max_pixels, memory, tell)
        known = dataclasses.replace(known, took_s=time.perf_counter() - began)
        try:
            known.save(path)
        except OSError as error:  # a service's HOME may be no folder: what was measured holds all the same
            note = f"it could not be kept and is measured anew the next time: {error}"
            known = dataclasses.replace(known, notes=(*known.notes, note))
    if callable(step):
        tell(0.9, "training step")
        step = pace_of(step, batch_size, pipeline)
    tell(1.0, "done")
    return dataclasses.replace(
        known, cache_bytes=memory, free_memory_bytes=max(memory, free_memory()), step_per_s=step
    )


def profile_path(host_name: str, dataset: str, pipeline: str) -> Path:
    """Where the measurement of a host, files and a transform is kept."""
    folder = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(folder) / "seneca" / "profiles" / f"{host_name}-{dataset}-{pipeline}.json"


def recall(dataset: str, pipeline: Pipeline) -> Profile | None:
    """What was measured before on this host, of files of this fingerprint; None where nothing was."""
    return _recall(profile_path(host.fingerprint(), dataset, _fingerprint(pipeline)))


def pace_of(step: Callable[[Any, Any], Any], batch_size: int, pipeline: Pipeline) -> float:
    """Samples a second that a training step takes, given batches of noise without any wait."""
    import torch

    images = torch.rand((batch_size, 3, *pipeline.output_size)).to(getattr(torch, pipeline.dtype))
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


def _what_runs(dataset: Any, transform: Any) -> tuple[PictureFiles, Pipeline, int]:
    """The files, what is done to them, and how many pixels a picture may have."""
    if isinstance(dataset, (str, os.PathLike)):
        wanted: Any = default_transform() if transform is None else transform
        dataset = ImageFolder(dataset, wanted)
    elif transform is not None:
        raise ValueError("a dataset has its own transform: give transform= with a folder only")
    if isinstance(dataset, ImageFolder) and isinstance(dataset.transform, NativeTransform):
        pipeline = compile_transform(
            dataset.transform, decode=dataset.decode, apply_orientation=dataset.apply_exif_orientation
        )
        return files_of(dataset), pipeline, dataset.max_pixels
    # Only here: what is not Seneca's own may be torchvision's, and to tell takes torch.
    from seneca.grades import grade_of

    grade = grade_of(dataset, shares=False)
    if grade.files is None or grade.pipeline is None:
        raise PlanError(
            f"only what runs natively can be profiled, and {type(dataset).__name__} does not: {grade.why[0]}"
        )
    return grade.files, grade.pipeline, grade.max_pixels or MAX_PIXELS


def _fingerprint(pipeline: Pipeline) -> str:
    """Of all that a profile depends on: what is done to pixels and how batches are laid out."""
    description = [
        pipeline.augmented_fingerprint,
        pipeline.dtype,
        pipeline.channels_last,
        bool(pipeline.erase),
    ]
    return hashlib.blake2b(json.dumps(description).encode(), digest_size=8).hexdigest()


def _recall(path: Path) -> Profile | None:
    """What was measured before; None where nothing was, it cannot be read, or another Seneca did."""
    try:
        return Profile.load(path)
    except (OSError, ProfileError):
        return None


def _measure(
    files: PictureFiles, pipeline: Pipeline, max_pixels: int, memory: int, tell: Callable[[float, str], None]
) -> Profile:
    paths = [path for path, _ in files.samples]
    random.Random(SEED).shuffle(paths)
    n_cores = host.cores()
    rates = read_storage(paths, STORAGE_S, lambda share, what: tell(0.05 + 0.4 * share, what))
    tell(0.45, "one thread at work")
    pictures = (paths * -(-FEWEST_PICTURES // len(paths)))[:MOST_PICTURES]
    alone = work_through(pictures, pipeline, max_pixels, threads=1, seconds=ALONE_S)
    tell(0.65, f"{n_cores} threads at work")
    together = work_through(pictures, pipeline, max_pixels, threads=n_cores, seconds=TOGETHER_S)
    if not (alone.encoded and together.encoded):
        raise DecodeError(f"none of {together.damaged} pictures could be decoded", paths[0])
    tell(0.85, "memory")
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
        notes.append("the files could not be dropped from the page cache: storage is told as fast as memory")
    if together.by_pillow:
        notes.append(
            f"{together.by_pillow} of {len(together.encoded)} pictures are no JPEGs: "
            "Pillow decodes these, one after the other"
        )
    if together.damaged:
        notes.append(f"{together.damaged} pictures could not be decoded and were left out")
    return tuple(notes)
