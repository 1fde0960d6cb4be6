"""One sound in the calling process: from the bytes of a file to a tensor.

``dataset[i]``, torch's worker processes and a transform that is called by hand use this module, as they use
``_apply`` for pictures.
"""

from __future__ import annotations

import dataclasses
import functools
import io
import os
from typing import Any, NamedTuple

import numpy as np
import torch

from seneca.errors import DecodeError, LeftToPillowError, PlanError
from seneca.transforms._apply import array_of, codec_of, naming, seed_of
from seneca.transforms._pipeline import NativeTransform, Pipeline, Step, compile_sound

try:
    from seneca._core import sound
except ImportError:  # `_apply` has raised, unless Seneca is off here
    sound = None  # type: ignore[assignment]

__all__ = ["Opened", "augment_decoded", "augment_encoded", "decode_head", "open_sound", "transform_sound"]

WITHOUT_SOUNDFILE = (
    "the native core does not decode it, and Python's soundfile, which might, is not installed: "
    "pip install soundfile, or save it as WAV, FLAC, Ogg or MP3"
)


class Opened(NamedTuple):
    """A sound that is decoded: float32 (channels, frames), and how many frames a second has."""

    frames: np.ndarray
    rate: int


def open_sound(data: bytes) -> Opened:
    """Decode with Python's soundfile.

    Raises:
        DecodeError: soundfile cannot read it, or is not installed.
    """
    try:
        import soundfile
    except (ImportError, OSError):  # OSError: it finds no libsndfile
        raise DecodeError(WITHOUT_SOUNDFILE) from None
    try:
        frames, rate = soundfile.read(io.BytesIO(data), dtype="float32", always_2d=True)
    except (RuntimeError, TypeError, ValueError) as error:  # soundfile raises these for damaged files
        # soundfile's own message has an address, another one each time.
        raise DecodeError(getattr(error, "error_string", str(error))) from error
    return Opened(np.ascontiguousarray(frames.T), int(rate))


def decode_head(pipeline: Pipeline, data: bytes, path: str | os.PathLike[str]) -> np.ndarray:
    """Make DECODED of a file's bytes: float32 (channels, frames).

    Raises:
        DecodeError: The bytes are damaged.
    """
    with naming(path):
        codec = codec_of(None)
        try:
            return sound.decode(codec, pipeline.plan, data)
        except LeftToPillowError:
            return sound.head(codec, pipeline.plan, *open_sound(data))


def augment_encoded(pipeline: Pipeline, data: bytes, path: str | os.PathLike[str]) -> torch.Tensor:
    """Run the whole pipeline on a file's bytes, and decode only what it needs. Errors are those of
    :func:`decode_head`."""
    if pipeline.output_size == (0, 0):
        return augment_decoded(pipeline, decode_head(pipeline, data, path))
    seed = seed_of(pipeline)
    with naming(path):
        try:
            return _tensor(
                pipeline, sound.augment_encoded(codec_of(None), pipeline.plan, data, seed, 0, 0, 0)
            )
        except LeftToPillowError:
            pass  # Python reads it
    return _augmented(pipeline, decode_head(pipeline, data, path), seed)


def augment_decoded(pipeline: Pipeline, frames: np.ndarray) -> torch.Tensor:
    """Run the rest of the pipeline on DECODED."""
    return _augmented(pipeline, frames, seed_of(pipeline))


def transform_sound(transform: NativeTransform, waveform: Any, rate: int | None) -> torch.Tensor:
    """Transform a sound that is already decoded. Calling a transform does this."""
    frames = waveform.detach().cpu().numpy() if isinstance(waveform, torch.Tensor) else waveform
    if (
        not isinstance(frames, np.ndarray)
        or frames.dtype != np.float32
        or frames.ndim != 2
        or frames.size == 0
    ):
        what = getattr(waveform, "dtype", type(waveform).__name__), getattr(waveform, "shape", "")
        raise TypeError(f"a sound is float32 (channels, frames), but got {what[0]} {tuple(what[1])}")
    pipeline = _compiled(transform, len(frames))
    if rate is None and any(step.kind == "resample" for step in pipeline.steps):
        raise PlanError("Resample needs the rate of the sound: call the transform with (waveform, rate)")
    seed = seed_of(pipeline)
    head = sound.head(codec_of(None), pipeline.plan, np.ascontiguousarray(frames), rate or 0)
    return _augmented(pipeline, head, seed)


@functools.lru_cache(maxsize=64)
def _compiled(transform: NativeTransform, channels: int) -> Pipeline:
    return compile_sound(transform, channels=channels)


@functools.lru_cache(maxsize=256)
def _of_length(pipeline: Pipeline, channels: int, frames: int) -> Pipeline:
    """The pipeline for sounds whose DECODED has this shape. The native core makes results of one shape
    only."""
    steps = list(pipeline.steps)
    steps.insert(pipeline.n_head, Step("time_crop", {"frames": frames}))
    return dataclasses.replace(
        pipeline, steps=tuple(steps), channels=channels, output_size=(channels, frames)
    )


def _augmented(pipeline: Pipeline, frames: np.ndarray, seed: int) -> torch.Tensor:
    if pipeline.output_size == (0, 0):
        if frames.shape[1] == 0:
            return torch.empty(frames.shape, dtype=getattr(torch, pipeline.dtype))
        pipeline = _of_length(pipeline, *frames.shape)
    made = sound.augment_decoded(codec_of(None), pipeline.plan, frames, seed, 0, 0, 0)
    return _tensor(pipeline, made)


def _tensor(pipeline: Pipeline, made: np.ndarray) -> torch.Tensor:
    """The final tensor of AUGMENTED: of the type that the pipeline says."""
    if pipeline.dtype == "float32":
        return torch.from_numpy(made)
    out = torch.empty(made.shape, dtype=getattr(torch, pipeline.dtype))
    sound.batch_write(pipeline.plan, made, array_of(out))
    return out
