"""The CPU time of a picture at each stage, with the codec that the loader runs.

Each thread's own clock measures it. Time that other processes take of the cores is not counted. Time that
busy cores take from each other (memory, caches, the second thread of a core) is counted.
"""

from __future__ import annotations

import itertools
import math
import statistics
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from seneca._core import sound
from seneca._core.batch import batch_write
from seneca._core.codec import Codec
from seneca.data.file_lists import AnyPiece
from seneca.errors import DecodeError, LeftToPillowError
from seneca.partition import Cost, Size
from seneca.transforms._pipeline import Pipeline

__all__ = ["STAGES", "Work", "costs", "work_through"]

STAGES = ("fetch", "decode", "augment", "prepare", "batch")
RECODED_STAGES = ("recode", "redraw")
BATCH_BYTES = 8 << 20  # at least; it is more than a core's own caches hold
NUMPY_TYPES = {"uint8": np.uint8, "float16": np.float16, "bfloat16": np.uint16, "float32": np.float32}


@dataclass
class Work:
    """Measurements by threads of the pictures that they took through the stages."""

    seconds: dict[int, tuple[float, ...]] = field(default_factory=dict)  # of STAGES, by the picture's index
    recoded_s: dict[int, tuple[float, ...]] = field(default_factory=dict)  # of RECODED_STAGES, if any
    encoded: list[int] = field(default_factory=list)
    recoded: list[int] = field(default_factory=list)
    decoded: list[int] = field(default_factory=list)
    augmented: list[int] = field(default_factory=list)
    by_pillow: int = 0
    damaged: int = 0

    def size(self, form: str) -> Size:
        """Mean and standard deviation of the bytes of a form."""
        amounts = getattr(self, form)
        return Size(statistics.fmean(amounts), statistics.pstdev(amounts))


def batch_shape(pipeline: Pipeline) -> tuple[int, ...]:
    """The shape of one sample in a batch."""
    channels, *sides = pipeline.item_shape
    return (*sides, channels) if pipeline.channels_last else (channels, *sides)


def room_for_samples(pipeline: Pipeline) -> np.ndarray:
    """Memory for the samples of a batch. The kernel has given all of it, and no core holds it in its caches.

    A loader writes each sample to memory that it has not used for some batches.
    """
    shape, of = batch_shape(pipeline), np.dtype(NUMPY_TYPES[pipeline.dtype])
    samples = 1 + -(-BATCH_BYTES // (math.prod(shape) * of.itemsize))
    room = np.empty((samples, *shape), of)
    room.fill(0)
    return room


def work_through(
    pieces: Sequence[AnyPiece],
    pipeline: Pipeline,
    max_pixels: int | None,
    *,
    threads: int,
    seconds: float,
) -> Work:
    """Take pictures through every stage until the time is over or no pictures are left.

    Args:
        pieces: Where the pictures are. Each is read once before the clock starts.
        pipeline: The compiled transform.
        max_pixels: The most pixels that a picture may have. None: only Pillow's limit counts.
        threads: The number of threads that work at once, each on its own pictures.
        seconds: When to stop. Each thread finishes at least one picture.

    Raises:
        OSError: A file cannot be read.
    """
    work = Work()
    waiting = iter(enumerate(pieces))
    lock = threading.Lock()
    failed: list[Exception] = []
    until = time.perf_counter() + seconds

    def thread() -> None:
        codec = (_OfSounds if pipeline.sound else _OfPictures)(pipeline, max_pixels)
        places = itertools.cycle(room_for_samples(pipeline))
        first = True
        while not failed and (first or time.perf_counter() < until):
            with lock:
                index, piece = next(waiting, (0, None))
            if piece is None:
                return
            try:
                out = next(places)
                decoded = _one(
                    work,
                    lock,
                    piece,
                    index,
                    codec=codec,
                    out=out,
                )
                first = not decoded and first
            except Exception as error:
                failed.append(error)

    at_work = [threading.Thread(target=thread, daemon=True) for _ in range(threads)]
    for one in at_work:
        one.start()
    for one in at_work:
        one.join()
    if failed:
        raise failed[0]
    return work


def costs(alone: Work, together: Work) -> dict[str, Cost]:
    """The cost of each stage, from the work of one thread and of as many threads as there are cores.

    The stages of RECODED are left out if no picture has that form.

    Pictures differ more than threads do. Therefore one thread is compared with all threads on the pictures
    that both have prepared.
    """
    found = _costs(STAGES, alone.seconds, together.seconds)
    if together.recoded_s:
        found |= _costs(RECODED_STAGES, alone.recoded_s, together.recoded_s)
    return found


def _costs(
    stages: Sequence[str], alone: dict[int, tuple[float, ...]], together: dict[int, tuple[float, ...]]
) -> dict[str, Cost]:
    both = alone.keys() & together.keys() or together.keys()
    all_s = np.mean(list(together.values()), axis=0)
    shared_s = np.mean([together[index] for index in both], axis=0)
    alone_s = np.mean([alone.get(index, together[index]) for index in both], axis=0)
    # A clock that is too coarse for a stage may have read 0. Then both costs are taken as equal.
    ratio = np.divide(alone_s, shared_s, out=np.ones_like(all_s), where=shared_s > 0)
    return {stage: Cost(float(all_s[i] * ratio[i]), float(all_s[i])) for i, stage in enumerate(stages)}


def _one(
    work: Work,
    lock: threading.Lock,
    piece: AnyPiece,
    index: int,
    *,
    codec: _OfPictures | _OfSounds,
    out: np.ndarray,
) -> bool:
    """Take one sample through all stages. Whether it could be decoded."""
    piece.read()  # brings the file into the page cache
    clock = time.thread_time
    elsewhere = False
    times = [clock()]
    data = piece.read()
    times.append(clock())
    try:
        try:
            decoded = codec.decode(data)
        except LeftToPillowError:
            elsewhere = True
            decoded = codec.decode_elsewhere(data)
        times.append(clock())
        augmented = codec.augment_decoded(decoded, index)
        times.append(clock())
        if elsewhere:
            codec.augment_decoded(codec.decode_elsewhere(data), index)
        else:
            codec.augment_encoded(data, index)
        times.append(clock())
    except DecodeError:
        with lock:
            work.damaged += 1
        return False
    codec.write(augmented, out, index)
    times.append(clock())
    payload = None if elsewhere else codec.augment_and_recode(data, index)
    again = [times[-1], clock()]
    if payload is not None:
        codec.augment_recoded(payload, index)
        again.append(clock())
    with lock:
        if payload is not None:
            work.recoded_s[index] = tuple(ended - began for began, ended in itertools.pairwise(again))
            work.recoded.append(payload.nbytes)
        work.seconds[index] = tuple(ended - began for began, ended in itertools.pairwise(times))
        work.encoded.append(len(data))
        work.decoded.append(_bytes_of(decoded))
        work.augmented.append(_bytes_of(augmented))
        work.by_pillow += elsewhere
    return True


def _bytes_of(made: Any) -> int:
    """How many bytes a sample has, or a pair ``(picture, mask)``."""
    parts = made if isinstance(made, tuple) else (made,)
    return sum(part.nbytes for part in parts)


class _OfPictures:
    """The stages of pictures, as the loader's threads run them."""

    def __init__(self, pipeline: Pipeline, max_pixels: int | None) -> None:
        self.pipeline, self.plan = pipeline, pipeline.plan
        self.max_pixels = max_pixels
        self.codec = Codec(max_pixels)

    def decode(self, data: bytes) -> Any:
        return self.codec.decode(self.plan, data)

    def decode_elsewhere(self, data: bytes) -> Any:
        # Imported here only: these modules import torch, and a folder of JPEGs is measured without torch.
        if self.pipeline.mask is not None:
            from seneca.data.segmentation import read_pair

            of_pair, mask = read_pair(data, "", "", self.max_pixels)
            return self.codec.head(self.plan, (np.asarray(of_pair), mask))
        from seneca.transforms._apply import open_picture

        orientation = self.pipeline.apply_orientation
        picture = open_picture(data, apply_orientation=orientation, max_pixels=self.max_pixels)
        return self.codec.head(self.plan, np.asarray(picture))

    def augment_decoded(self, decoded: Any, index: int) -> Any:
        return self.codec.augment_decoded(self.plan, decoded, 0, 0, 0, index)

    def augment_encoded(self, data: bytes, index: int) -> Any:
        return self.codec.augment_encoded(self.plan, data, 0, 0, 0, index)

    def augment_and_recode(self, data: bytes, index: int) -> Any:
        if not self.pipeline.recodes:
            return None
        return self.codec.augment_and_recode(self.plan, data, 0, 0, 0, index)[1]

    def augment_recoded(self, payload: Any, index: int) -> Any:
        return self.codec.augment_recoded(self.plan, payload, 0, 0, 0, index)

    def write(self, augmented: Any, out: np.ndarray, index: int) -> None:
        batch_write(self.plan, augmented if self.pipeline.mask is None else augmented[0], out, 0, 0, index)


class _OfSounds(_OfPictures):
    """The same of sounds."""

    def decode(self, data: bytes) -> Any:
        return sound.decode(self.codec, self.plan, data)

    def decode_elsewhere(self, data: bytes) -> Any:
        from seneca.transforms._apply import open_sound

        return sound.head(self.codec, self.plan, *open_sound(data))

    def augment_decoded(self, decoded: Any, index: int) -> Any:
        return sound.augment_decoded(self.codec, self.plan, decoded, 0, 0, 0, index)

    def augment_encoded(self, data: bytes, index: int) -> Any:
        return sound.augment_encoded(self.codec, self.plan, data, 0, 0, 0, index)

    def write(self, augmented: Any, out: np.ndarray, index: int) -> None:
        sound.batch_write(self.plan, augmented, out)
