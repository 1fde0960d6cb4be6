"""One picture in the calling process: a file's bytes in, a tensor out.

The way of ``dataset[i]``, of torch's worker processes, and of a transform called by hand. A loader
of Seneca's does the same for whole batches in the native core, without passing here.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from PIL import Image

from seneca._pipeline import portable
from seneca._pipeline.batch import array_of
from seneca._pipeline.plan import MAX_PIXELS, Decode, NativeTransform, Pipeline, compile_transform
from seneca.errors import DecodeError, NotJpegError, PictureTooLargeError
from seneca.switch import off_because

try:
    from seneca._core.codec import Codec, batch_write
except ImportError:
    if off_because() is None:
        raise  # on Linux a core that does not load is a broken build, not a reason to be slow
    Codec = None  # type: ignore[assignment, misc]

__all__ = [
    "augment_decoded",
    "augment_encoded",
    "decode_head",
    "load_picture",
    "open_picture",
    "transform_picture",
]

_compiled = functools.lru_cache(maxsize=64)(compile_transform)

# A codec serves one thread. A forked child inherits the forking thread's, idle as they were then.
_of_thread = threading.local()

EXIF_ORIENTATION = 0x0112
TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""What undoes each orientation; 1 is upright."""


def load_picture(
    data: bytes,
    transform: Callable[..., Any] | None,
    path: str | os.PathLike[str],
    *,
    decode: Decode = "exact",
    apply_orientation: bool = False,
    max_pixels: int = MAX_PIXELS,
) -> Any:
    """Decode a file's bytes and transform the picture.

    Args:
        data: A JPEG, or whatever Pillow reads.
        transform: One of ``seneca.transforms``, any other callable, or ``None``.
        path: The file, for error messages.
        decode: ``"exact"`` or ``"fast"``; matters for JPEGs and transforms of Seneca's only.
        apply_orientation: Whether to turn the picture as its EXIF orientation says.
        max_pixels: Of the picture, or of what a transform of Seneca's makes of it on the way.

    Returns:
        With a transform of Seneca's, a tensor of shape (3, height, width); otherwise what
        ``transform`` makes of an RGB PIL image, or that image.

    Raises:
        PictureTooLargeError: More than ``max_pixels``.
        DecodeError: The bytes are damaged.
    """
    if isinstance(transform, NativeTransform):
        pipeline = _compiled(transform, decode=decode, apply_orientation=apply_orientation)
        return augment_encoded(pipeline, data, path, max_pixels)
    with _naming(path):
        picture = open_picture(data, apply_orientation=apply_orientation, max_pixels=max_pixels)
    return picture if transform is None else transform(picture)


def augment_encoded(
    pipeline: Pipeline, data: bytes, path: str | os.PathLike[str], max_pixels: int
) -> torch.Tensor:
    """The whole pipeline on a file's bytes, decoding only what it takes; errors as :func:`load_picture`'s."""
    seed = _seed(pipeline)
    with _naming(path):
        if Codec is not None:
            try:
                pixels = _codec(max_pixels).augment_encoded(pipeline.plan, data, seed, 0, 0, 0)
                return _tensor(pipeline, pixels, seed)
            except NotJpegError:
                pass  # Pillow's work
        picture = open_picture(data, apply_orientation=pipeline.apply_orientation, max_pixels=max_pixels)
        return _transformed(pipeline, picture, seed, max_pixels)


def decode_head(pipeline: Pipeline, data: bytes, path: str | os.PathLike[str], max_pixels: int) -> np.ndarray:
    """DECODED of a file's bytes: uint8 (height, width, 3); errors as :func:`load_picture`'s."""
    assert Codec is not None
    with _naming(path):
        codec = _codec(max_pixels)
        try:
            return codec.decode(pipeline.plan, data)
        except NotJpegError:
            orientation = pipeline.apply_orientation
            picture = open_picture(data, apply_orientation=orientation, max_pixels=max_pixels)
            return codec.head(pipeline.plan, np.asarray(picture))


def augment_decoded(pipeline: Pipeline, pixels: np.ndarray, max_pixels: int) -> torch.Tensor:
    """The rest of the pipeline on DECODED."""
    seed = _seed(pipeline)
    return _tensor(pipeline, _codec(max_pixels).augment_decoded(pipeline.plan, pixels, seed, 0, 0, 0), seed)


def transform_picture(transform: NativeTransform, picture: Image.Image | np.ndarray) -> torch.Tensor:
    """Transform a picture that is decoded already: what calling a transform does."""
    if isinstance(picture, np.ndarray):
        if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[2] != 3:
            raise TypeError(f"an array is uint8 (height, width, 3), but got {picture.dtype} {picture.shape}")
        picture = Image.fromarray(picture)
    elif not isinstance(picture, Image.Image):
        raise TypeError(f"a picture is a PIL image or a uint8 array, but got {type(picture).__name__}")
    pipeline = _compiled(transform)
    return _transformed(pipeline, picture.convert("RGB"), _seed(pipeline), MAX_PIXELS)


def open_picture(
    data: bytes, *, apply_orientation: bool = False, max_pixels: int = MAX_PIXELS
) -> Image.Image:
    """Decode with Pillow, to RGB as torchvision's loader does.

    Args:
        data: A file's bytes.
        apply_orientation: Whether to turn the picture as its EXIF orientation says.
        max_pixels: The most that a picture may have.

    Raises:
        PictureTooLargeError: The header tells of more pixels, or Pillow takes it for a
            decompression bomb.
        DecodeError: Pillow cannot read it.
    """
    try:
        with Image.open(io.BytesIO(data)) as file:
            if file.height * file.width > max_pixels:
                raise PictureTooLargeError(
                    f"{file.height} x {file.width} pixels are more than max_pixels={max_pixels}: "
                    "shrink the picture, leave it out, or allow more"
                )
            turn = TURNS.get(_orientation(file)) if apply_orientation else None
            picture = file.convert("RGB")
    except Image.DecompressionBombError as error:
        raise PictureTooLargeError(f"{error}; the limit is twice PIL.Image.MAX_IMAGE_PIXELS") from error
    except DecodeError:
        raise
    except (OSError, SyntaxError, ValueError) as error:  # Pillow raises all three for damaged files
        raise DecodeError(str(error)) from error
    return picture if turn is None else picture.transpose(turn)


@contextlib.contextmanager
def _naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """What cannot be decoded in the block is this file."""
    try:
        yield
    except DecodeError as error:
        error.path = error.path or path
        raise


def _orientation(picture: Image.Image) -> Any:
    """By the EXIF data; damaged data turns nothing, as in the native core."""
    try:
        return picture.getexif().get(EXIF_ORIENTATION)
    except (OSError, SyntaxError, ValueError, struct.error):
        return None


def _transformed(pipeline: Pipeline, picture: Image.Image, seed: int, max_pixels: int) -> torch.Tensor:
    """The whole pipeline on an RGB picture."""
    if Codec is None:
        rng = np.random.default_rng(seed)
        values = portable.finish(pipeline, portable.augment(pipeline.steps, picture, rng), rng)
        return torch.from_numpy(values).to(getattr(torch, pipeline.dtype))
    codec = _codec(max_pixels)
    decoded = codec.head(pipeline.plan, np.asarray(picture))
    return _tensor(pipeline, codec.augment_decoded(pipeline.plan, decoded, seed, 0, 0, 0), seed)


def _tensor(pipeline: Pipeline, pixels: np.ndarray, seed: int) -> torch.Tensor:
    """What the batch makes of AUGMENTED pixels, in a tensor of its own."""
    out = torch.empty((3, *pipeline.output_size), dtype=getattr(torch, pipeline.dtype))
    batch_write(pipeline.plan, pixels, array_of(out), seed)
    return out


def _codec(max_pixels: int) -> Codec:
    """This thread's codec for this limit, made on its first picture."""
    codecs: dict[int, Codec] = vars(_of_thread).setdefault("codecs", {})
    if max_pixels not in codecs:
        codecs[max_pixels] = Codec(max_pixels)
    return codecs[max_pixels]


def _seed(pipeline: Pipeline) -> int:
    """One draw from torch's global generator, so that manual_seed and worker seeds hold; none in vain."""
    if pipeline.deterministic and pipeline.erase is None:
        return 0
    return int(torch.randint(2**63 - 1, ()).item())
