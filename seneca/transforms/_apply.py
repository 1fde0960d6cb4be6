"""One picture or sound in the calling process: from the bytes of a file to a tensor.

``dataset[i]``, torch's worker processes and a transform that is called by hand use this module. A loader of
Seneca's does the same for whole batches in the native core, without it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import functools
import io
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError, features

from seneca._runtime.enabled import off_because
from seneca._runtime.pillow import Settings as PillowSettings
from seneca._runtime.pillow import settings as pillow_settings
from seneca.errors import DecodeError, LeftToPillowError, PictureTooLargeError, PlanError
from seneca.transforms._pipeline import (
    Decode,
    NativeTransform,
    Pipeline,
    Step,
    compile_sound,
    compile_transform,
)

try:
    from seneca._core import sound
    from seneca._core.batch import batch_write
    from seneca._core.codec import Codec
except ImportError:
    if off_because() is None:
        raise  # on Linux a core that does not load is a broken build; Python would only hide it
    Codec = sound = None  # type: ignore[assignment, misc]

__all__ = [
    "MASK_MODES",
    "NUMPY_TYPES",
    "Opened",
    "array_of",
    "augment_decoded",
    "augment_encoded",
    "codec_of",
    "decode_head",
    "load_picture",
    "naming",
    "open_mask",
    "open_picture",
    "open_sound",
    "seed_of",
    "transform_picture",
    "transform_sound",
]


def _compiled(transform: NativeTransform, **options: Any) -> Pipeline:
    """The pipeline of a transform, kept for as long as Pillow's settings stay."""
    return _compiled_with(pillow_settings(), transform, **options)


@functools.lru_cache(maxsize=64)
def _compiled_with(_: PillowSettings, transform: NativeTransform, **options: Any) -> Pipeline:
    return compile_transform(transform, **options)


@functools.lru_cache(maxsize=64)
def _compiled_of_sounds(transform: NativeTransform, channels: int) -> Pipeline:
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


# A codec serves one thread. A forked child inherits those of the forking thread, which are idle.
_of_thread = threading.local()

ANY_LENGTH = (0, 0)  # the size of what a pipeline makes of sounds, if it depends on the sound
EXIF_ORIENTATION = 0x0112
MASK_MODES = ("L", "P")  # Pillow's, of a mask: one byte a pixel
TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""The transposition that undoes each orientation; 1 is upright."""


WITHOUT_WEBP = (
    "it is a WebP, and this Pillow was compiled without: install libwebp-dev and compile Pillow again, "
    "or install Pillow's wheel"
)

WITHOUT_SOUNDFILE = (
    "the native core does not decode it, and Python's soundfile, which might, is not installed: "
    "pip install soundfile, or save it as WAV, FLAC, Ogg or MP3"
)

# The NumPy type with which the native core writes each type. NumPy has no bfloat16; its bits are written as
# whole numbers.
NUMPY_TYPES = {
    torch.uint8: np.uint8,
    torch.float16: np.float16,
    torch.bfloat16: np.uint16,
    torch.float32: np.float32,
    torch.int64: np.int64,  # of masks
}


def array_of(tensor: torch.Tensor) -> np.ndarray:
    """A tensor's memory as an array of the type that the native core writes."""
    if tensor.dtype is torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(np.uint16)
    return tensor.numpy()


def load_picture(
    data: bytes,
    transform: Callable[..., Any] | None,
    path: str | os.PathLike[str],
    *,
    decode: Decode = "exact",
    apply_orientation: bool = False,
    max_pixels: int | None = None,
) -> Any:
    """Decode a file's bytes and transform the picture.

    Args:
        data: A JPEG, or any other format that Pillow reads.
        transform: One of ``seneca.transforms``, any other callable, or ``None``.
        path: The file, for error messages.
        decode: ``"exact"`` or ``"fast"``. It has an effect only on JPEGs, with transforms of Seneca's.
        apply_orientation: Whether to turn the picture as its EXIF orientation says.
        max_pixels: The most pixels that the picture may have, also between the steps of a transform of
            Seneca's. None: only Pillow's limit counts.

    Returns:
        With a transform of Seneca's, a tensor of shape (3, height, width). Without a transform, an RGB PIL
        image. Else the result of ``transform`` for that image.

    Raises:
        PictureTooLargeError: The picture has more than ``max_pixels``.
        DecodeError: The bytes are damaged.
    """
    if isinstance(transform, NativeTransform):
        pipeline = _compiled(transform, decode=decode, apply_orientation=apply_orientation)
        return augment_encoded(pipeline, data, path, max_pixels)
    with naming(path):
        picture = open_picture(data, apply_orientation=apply_orientation, max_pixels=max_pixels)
    return picture if transform is None else transform(picture)


def augment_encoded(
    pipeline: Pipeline, data: bytes, path: str | os.PathLike[str], max_pixels: int | None
) -> torch.Tensor:
    """Run the whole pipeline on a file's bytes, and decode only what it needs. Errors are those of
    :func:`load_picture`."""
    if pipeline.sound and pipeline.output_size == ANY_LENGTH:
        return augment_decoded(pipeline, decode_head(pipeline, data, path, max_pixels), max_pixels)
    seed = seed_of(pipeline)
    with naming(path):
        codec = codec_of(max_pixels)
        augment = functools.partial(sound.augment_encoded, codec) if pipeline.sound else codec.augment_encoded
        try:
            return _tensor(pipeline, augment(pipeline.plan, data, seed, 0, 0, 0), seed)
        except LeftToPillowError:
            pass
        return _augmented(pipeline, _head_by_python(pipeline, data, max_pixels), seed, max_pixels)


def decode_head(
    pipeline: Pipeline, data: bytes, path: str | os.PathLike[str], max_pixels: int | None
) -> np.ndarray:
    """Make DECODED of a file's bytes: uint8 (height, width, 3), or float32 (channels, frames). Errors are
    those of :func:`load_picture`."""
    with naming(path):
        codec = codec_of(max_pixels)
        try:
            if pipeline.sound:
                return sound.decode(codec, pipeline.plan, data)
            return codec.decode(pipeline.plan, data)
        except LeftToPillowError:
            return _head_by_python(pipeline, data, max_pixels)


def augment_decoded(pipeline: Pipeline, decoded: np.ndarray, max_pixels: int | None) -> torch.Tensor:
    """Run the rest of the pipeline on DECODED."""
    return _augmented(pipeline, decoded, seed_of(pipeline), max_pixels)


def transform_picture(transform: NativeTransform, picture: Image.Image | np.ndarray) -> torch.Tensor:
    """Transform a picture that is already decoded. Calling a transform does this."""
    if isinstance(picture, np.ndarray):
        if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[2] != 3:
            raise TypeError(f"an array is uint8 (height, width, 3), but got {picture.dtype} {picture.shape}")
        picture = Image.fromarray(picture)
    elif not isinstance(picture, Image.Image):
        raise TypeError(f"a picture is a PIL image or a uint8 array, but got {type(picture).__name__}")
    pipeline = _compiled(transform)
    seed = seed_of(pipeline)
    head = codec_of(None).head(pipeline.plan, np.asarray(picture.convert("RGB")))
    return _augmented(pipeline, head, seed, None)


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
    pipeline = _compiled_of_sounds(transform, len(frames))
    if rate is None and any(step.kind == "resample" for step in pipeline.steps):
        raise PlanError("Resample needs the rate of the sound: call the transform with (waveform, rate)")
    seed = seed_of(pipeline)
    head = sound.head(codec_of(None), pipeline.plan, np.ascontiguousarray(frames), rate or 0)
    return _augmented(pipeline, head, seed, None)


def open_picture(
    data: bytes, *, apply_orientation: bool = False, max_pixels: int | None = None
) -> Image.Image:
    """Decode with Pillow to RGB, as torchvision's loader does.

    Args:
        data: A file's bytes.
        apply_orientation: Whether to turn the picture as its EXIF orientation says.
        max_pixels: The most pixels that a picture may have. None: only Pillow's limit counts.

    Raises:
        PictureTooLargeError: The header says more pixels, or Pillow takes the file for a decompression
            bomb.
        DecodeError: Pillow cannot read it.
    """
    with _opened(data, "picture", max_pixels) as file:
        turn = TURNS.get(_orientation(file)) if apply_orientation else None
        picture = file.convert("RGB")
    return picture if turn is None else picture.transpose(turn)


def open_mask(data: bytes, *, max_pixels: int | None = None) -> np.ndarray:
    """Decode a mask with Pillow: uint8 (height, width), a class for each pixel.

    Args:
        data: A file's bytes.
        max_pixels: The most pixels that a mask may have. None: only Pillow's limit counts.

    Raises:
        PictureTooLargeError: As of :func:`open_picture`.
        DecodeError: Pillow cannot read it, or a pixel has not one byte.
    """
    with _opened(data, "mask", max_pixels) as file:
        if file.mode not in MASK_MODES:
            raise DecodeError(
                "a mask has one byte a pixel, grey or with a palette, but this one has Pillow's mode "
                f"{file.mode!r}: save it as such a PNG, or leave the pair out"
            )
        return np.array(file)


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


class _InMemory(io.BytesIO):
    """The bytes of a file, which refuses what a file refuses: a seek to what is before its beginning."""

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        begin = {os.SEEK_CUR: self.tell, os.SEEK_END: lambda: len(self.getbuffer())}.get(whence, int)()
        if begin + offset < 0:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return super().seek(begin + offset)


@contextlib.contextmanager
def _opened(data: bytes, what: str, max_pixels: int | None) -> Iterator[Image.Image]:
    """Open a file with Pillow for a block that decodes it."""
    try:
        with Image.open(_InMemory(data)) as file:
            if max_pixels is not None and file.height * file.width > max_pixels:
                raise PictureTooLargeError(
                    f"{file.height} x {file.width} pixels are more than max_pixels={max_pixels}: "
                    f"shrink the {what}, leave it out, or allow more"
                )
            yield file
    except Image.DecompressionBombError as error:
        raise PictureTooLargeError(
            f"{error}; the limit is twice PIL.Image.MAX_IMAGE_PIXELS: raise it or set it to None, shrink the "
            f"{what}, or leave it out"
        ) from error
    except UnidentifiedImageError as error:  # Pillow's message has an address, another one each time
        if data[:4] == b"RIFF" and data[8:12] == b"WEBP" and not features.check("webp"):
            raise DecodeError(WITHOUT_WEBP) from error
        raise DecodeError("no format of pictures that Pillow knows") from error
    except (DecodeError, MemoryError):
        raise
    except (EOFError, OSError, SyntaxError, ValueError) as error:  # Pillow raises these for damaged files
        raise DecodeError(str(error)) from error
    except Exception as error:  # and its plugins any other
        raise DecodeError(f"{type(error).__name__}: {error}") from error


@contextlib.contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Give this path to a ``DecodeError`` that the block raises."""
    try:
        yield
    except DecodeError as error:
        error.path = error.path or path
        raise


def _orientation(picture: Image.Image) -> Any:
    """The EXIF orientation; None if the data is damaged, as in the native core."""
    try:
        return picture.getexif().get(EXIF_ORIENTATION)
    except MemoryError:
        raise
    except Exception:  # Pillow raises various ones
        return None


def _head_by_python(pipeline: Pipeline, data: bytes, max_pixels: int | None) -> np.ndarray:
    """DECODED of a file that the native core leaves to Pillow or soundfile."""
    codec = codec_of(max_pixels)
    if pipeline.sound:
        return sound.head(codec, pipeline.plan, *open_sound(data))
    picture = open_picture(data, apply_orientation=pipeline.apply_orientation, max_pixels=max_pixels)
    return codec.head(pipeline.plan, np.asarray(picture))


def _augmented(pipeline: Pipeline, decoded: np.ndarray, seed: int, max_pixels: int | None) -> torch.Tensor:
    codec = codec_of(max_pixels)
    if not pipeline.sound:
        return _tensor(pipeline, codec.augment_decoded(pipeline.plan, decoded, seed, 0, 0, 0), seed)
    if pipeline.output_size == ANY_LENGTH:
        if decoded.shape[1] == 0:
            return torch.empty(decoded.shape, dtype=getattr(torch, pipeline.dtype))
        pipeline = _of_length(pipeline, *decoded.shape)
    return _tensor(pipeline, sound.augment_decoded(codec, pipeline.plan, decoded, seed, 0, 0, 0), seed)


def _tensor(pipeline: Pipeline, augmented: np.ndarray, seed: int) -> torch.Tensor:
    """Make the final tensor of AUGMENTED: normalise, cast, lay out, erase; of sounds only cast."""
    if pipeline.sound and pipeline.dtype == "float32":
        return torch.from_numpy(augmented)
    shape = augmented.shape if pipeline.sound else (3, *pipeline.output_size)
    out = torch.empty(shape, dtype=getattr(torch, pipeline.dtype))
    if pipeline.sound:
        sound.batch_write(pipeline.plan, augmented, array_of(out))
    else:
        batch_write(pipeline.plan, augmented, array_of(out), seed)
    return out


def codec_of(max_pixels: int | None) -> Codec:
    """This thread's codec for this limit. It is made for the first picture."""
    if Codec is None:
        raise PlanError(
            "seneca.transforms run in the native core, which is not built here. "
            "Build it (on Linux), or use torchvision's transforms"
        )
    codecs: dict[int | None, Codec] = vars(_of_thread).setdefault("codecs", {})
    if max_pixels not in codecs:
        codecs[max_pixels] = Codec(max_pixels)
    return codecs[max_pixels]


def seed_of(pipeline: Pipeline) -> int:
    """Draw a seed from torch's global generator, which ``manual_seed`` and worker seeds set. 0 without a draw
    if the pipeline needs no random numbers."""
    if pipeline.deterministic and pipeline.erase is None:
        return 0
    return int(torch.randint(2**63 - 1, ()).item())
