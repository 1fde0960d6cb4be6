"""One picture in the calling process: a file's bytes in, a tensor out.

The way of ``dataset[i]``, of torch's worker processes, and of a transform called by hand. A loader
of Seneca's does the same for whole batches in the native core, without passing here.
"""

from __future__ import annotations

import functools
import io
import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from PIL import Image

from seneca._pipeline import portable
from seneca._pipeline.plan import NativeTransform, Pipeline, compile_transform
from seneca.errors import DecodeError, NotJpegError, PictureTooLargeError
from seneca.switch import off_because

try:
    from seneca._core.codec import Codec, batch_write
except ImportError:
    if off_because() is None:
        raise  # on Linux a core that does not load is a broken build, not a reason to be slow
    Codec = None  # type: ignore[assignment, misc]

__all__ = ["load_picture", "open_picture", "transform_picture"]

_compiled = functools.lru_cache(maxsize=64)(compile_transform)

# A codec serves one thread. A forked child inherits the forking thread's, idle as it was then.
_of_thread = threading.local()


def load_picture(data: bytes, transform: Callable[..., Any] | None, path: str | os.PathLike[str]) -> Any:
    """Decode a file's bytes and transform the picture.

    Args:
        data: A JPEG, or whatever Pillow reads.
        transform: One of ``seneca.transforms``, any other callable, or ``None``.
        path: The file, for error messages.

    Returns:
        With a transform of Seneca's, float32 of shape (3, height, width); otherwise what
        ``transform`` makes of an RGB PIL image, or that image.

    Raises:
        DecodeError: The bytes are damaged.
    """
    try:
        if not isinstance(transform, NativeTransform):
            picture = open_picture(data)
            return picture if transform is None else transform(picture)
        pipeline, seed = _compiled(transform), _seed()
        if Codec is not None:
            try:
                return _tensor(pipeline, _codec().augment_encoded(pipeline.plan, data, seed, 0, 0, 0))
            except NotJpegError:
                pass  # Pillow's work
        return _transformed(pipeline, open_picture(data), seed)
    except DecodeError as error:
        error.path = error.path or path
        raise


def transform_picture(transform: NativeTransform, picture: Image.Image | np.ndarray) -> torch.Tensor:
    """Transform a picture that is decoded already: what calling a transform does."""
    if isinstance(picture, np.ndarray):
        if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[2] != 3:
            raise TypeError(f"an array is uint8 (height, width, 3), but got {picture.dtype} {picture.shape}")
        picture = Image.fromarray(picture)
    elif not isinstance(picture, Image.Image):
        raise TypeError(f"a picture is a PIL image or a uint8 array, but got {type(picture).__name__}")
    return _transformed(_compiled(transform), picture.convert("RGB"), _seed())


def open_picture(data: bytes) -> Image.Image:
    """Decode with Pillow, to RGB as torchvision's loader does.

    Raises:
        PictureTooLargeError: Pillow takes it for a decompression bomb.
        DecodeError: Pillow cannot read it.
    """
    try:
        with Image.open(io.BytesIO(data)) as picture:
            return picture.convert("RGB")
    except Image.DecompressionBombError as error:
        raise PictureTooLargeError(str(error)) from error
    except (OSError, SyntaxError, ValueError) as error:  # Pillow raises all three for damaged files
        raise DecodeError(str(error)) from error


def _transformed(pipeline: Pipeline, picture: Image.Image, seed: int) -> torch.Tensor:
    """The whole pipeline on an RGB picture."""
    if Codec is None:
        pixels = portable.augment(pipeline.steps, picture, np.random.default_rng(seed))
        return torch.from_numpy(portable.normalize(pipeline, pixels))
    codec = _codec()
    decoded = codec.head(pipeline.plan, np.asarray(picture))
    return _tensor(pipeline, codec.augment_decoded(pipeline.plan, decoded, seed, 0, 0, 0))


def _tensor(pipeline: Pipeline, pixels: np.ndarray) -> torch.Tensor:
    """Normalise AUGMENTED pixels into a tensor of its own."""
    out = torch.empty((3, *pipeline.output_size), dtype=torch.float32)
    batch_write(pipeline.plan, pixels, out.numpy())
    return out


def _codec() -> Codec:
    """This thread's codec, made on its first picture."""
    if not hasattr(_of_thread, "codec"):
        _of_thread.codec = Codec()
    return _of_thread.codec


def _seed() -> int:
    """One draw from torch's global generator, so that manual_seed and worker seeds hold."""
    return int(torch.randint(2**63 - 1, ()).item())
