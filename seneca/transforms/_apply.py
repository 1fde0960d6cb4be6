"""One picture in the calling process: from the bytes of a file to a tensor.

``dataset[i]``, torch's worker processes and a transform that is called by hand use this module. A loader of
Seneca's does the same for whole batches in the native core, without it.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import io
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError, features

from seneca._runtime.enabled import off_because
from seneca._runtime.pillow import Settings as PillowSettings
from seneca._runtime.pillow import settings as pillow_settings
from seneca.errors import DecodeError, LeftToPillowError, PictureTooLargeError, PlanError
from seneca.transforms._pipeline import Decode, NativeTransform, Pipeline, compile_transform

try:
    from seneca._core.batch import batch_write
    from seneca._core.codec import Codec
except ImportError:
    if off_because() is None:
        raise  # on Linux a core that does not load is a broken build; Python would only hide it
    Codec = None  # type: ignore[assignment, misc]

__all__ = [
    "MASK_MODES",
    "NUMPY_TYPES",
    "array_of",
    "augment_decoded",
    "augment_encoded",
    "codec_of",
    "decode_head",
    "load_picture",
    "naming",
    "open_mask",
    "open_picture",
    "seed_of",
    "transform_picture",
]


def _compiled(transform: NativeTransform, **options: Any) -> Pipeline:
    """The pipeline of a transform, kept for as long as Pillow's settings stay."""
    return _compiled_with(pillow_settings(), transform, **options)


@functools.lru_cache(maxsize=64)
def _compiled_with(_: PillowSettings, transform: NativeTransform, **options: Any) -> Pipeline:
    return compile_transform(transform, **options)


# A codec serves one thread. A forked child inherits those of the forking thread, which are idle.
_of_thread = threading.local()

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
    seed = seed_of(pipeline)
    with naming(path):
        try:
            pixels = codec_of(max_pixels).augment_encoded(pipeline.plan, data, seed, 0, 0, 0)
            return _tensor(pipeline, pixels, seed)
        except LeftToPillowError:
            pass  # Pillow decodes it
        picture = open_picture(data, apply_orientation=pipeline.apply_orientation, max_pixels=max_pixels)
        return _transformed(pipeline, picture, seed, max_pixels)


def decode_head(
    pipeline: Pipeline, data: bytes, path: str | os.PathLike[str], max_pixels: int | None
) -> np.ndarray:
    """Make DECODED of a file's bytes: uint8 (height, width, 3). Errors are those of :func:`load_picture`."""
    with naming(path):
        codec = codec_of(max_pixels)
        try:
            return codec.decode(pipeline.plan, data)
        except LeftToPillowError:
            orientation = pipeline.apply_orientation
            picture = open_picture(data, apply_orientation=orientation, max_pixels=max_pixels)
            return codec.head(pipeline.plan, np.asarray(picture))


def augment_decoded(pipeline: Pipeline, pixels: np.ndarray, max_pixels: int | None) -> torch.Tensor:
    """Run the rest of the pipeline on DECODED."""
    seed = seed_of(pipeline)
    return _tensor(pipeline, codec_of(max_pixels).augment_decoded(pipeline.plan, pixels, seed, 0, 0, 0), seed)


def transform_picture(transform: NativeTransform, picture: Image.Image | np.ndarray) -> torch.Tensor:
    """Transform a picture that is already decoded. Calling a transform does this."""
    if isinstance(picture, np.ndarray):
        if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[2] != 3:
            raise TypeError(f"an array is uint8 (height, width, 3), but got {picture.dtype} {picture.shape}")
        picture = Image.fromarray(picture)
    elif not isinstance(picture, Image.Image):
        raise TypeError(f"a picture is a PIL image or a uint8 array, but got {type(picture).__name__}")
    pipeline = _compiled(transform)
    return _transformed(pipeline, picture.convert("RGB"), seed_of(pipeline), None)


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


def _transformed(pipeline: Pipeline, picture: Image.Image, seed: int, max_pixels: int | None) -> torch.Tensor:
    """Run the whole pipeline on an RGB picture."""
    codec = codec_of(max_pixels)
    decoded = codec.head(pipeline.plan, np.asarray(picture))
    return _tensor(pipeline, codec.augment_decoded(pipeline.plan, decoded, seed, 0, 0, 0), seed)


def _tensor(pipeline: Pipeline, pixels: np.ndarray, seed: int) -> torch.Tensor:
    """Make the final tensor of AUGMENTED pixels: normalise, cast, lay out, erase."""
    out = torch.empty((3, *pipeline.output_size), dtype=getattr(torch, pipeline.dtype))
    batch_write(pipeline.plan, pixels, array_of(out), seed)
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
