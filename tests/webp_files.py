"""WebPs for tests, by the libwebp that is installed: Pillow may have been compiled without."""

from __future__ import annotations

import ctypes
import ctypes.util
import io
import struct

import numpy as np
import pytest
from PIL import Image, features

from seneca._core.codec import libwebp

__all__ = ["NEEDS_PILLOW", "chunks_of", "extended", "pillows_pixels", "riff", "webp"]

if libwebp() is None:
    pytest.skip("the core was built without libwebp; libwebp-dev has its headers", allow_module_level=True)

_library = ctypes.CDLL(ctypes.util.find_library("webp") or "libwebp.so.7")
_library.WebPFree.argtypes = [ctypes.c_void_p]
_library.WebPDecodeRGBA.restype = ctypes.c_void_p
for _name in ("WebPEncodeRGB", "WebPEncodeRGBA", "WebPEncodeLosslessRGB", "WebPEncodeLosslessRGBA"):
    getattr(_library, _name).restype = ctypes.c_size_t

NEEDS_PILLOW = pytest.mark.skipif(
    not features.check("webp"), reason="this Pillow reads no WebPs; with libwebp-dev it can be compiled anew"
)


def webp(pixels: np.ndarray, *, lossless: bool = False, quality: float = 80) -> bytes:
    """A WebP of uint8 (height, width, 3), or of (height, width, 4) with alpha."""
    pixels = np.ascontiguousarray(pixels)
    height, width, channels = pixels.shape
    out = ctypes.c_void_p()
    options = (ctypes.byref(out),) if lossless else (ctypes.c_float(quality), ctypes.byref(out))
    name = f"WebPEncode{'Lossless' if lossless else ''}{'RGBA' if channels == 4 else 'RGB'}"
    encode = getattr(_library, name)
    length = encode(ctypes.c_void_p(pixels.ctypes.data), width, height, width * channels, *options)
    assert length > 0
    data = ctypes.string_at(out, length)
    _library.WebPFree(out)
    return data


def chunks_of(data: bytes) -> list[tuple[bytes, bytes]]:
    """Name and content of each chunk."""
    found, at = [], 12
    while at < len(data):
        name, length = struct.unpack_from("<4sI", data, at)
        found.append((name, data[at + 8 : at + 8 + length]))
        at += 8 + length + length % 2
    return found


def riff(*chunks: tuple[bytes, bytes]) -> bytes:
    """A file of these chunks."""
    body = b"".join(
        name + struct.pack("<I", len(data)) + data + bytes(len(data) % 2) for name, data in chunks
    )
    return b"RIFF" + struct.pack("<I", 4 + len(body)) + b"WEBP" + body


def extended(data: bytes, height: int, width: int, *, flags: int = 0x10, before=(), after=()) -> bytes:
    """The same picture in the container that says more, with these chunks around its own."""
    size = struct.pack("<I", width - 1)[:3] + struct.pack("<I", height - 1)[:3]
    own = [chunk for chunk in chunks_of(data) if chunk[0] != b"VP8X"]
    return riff((b"VP8X", bytes([flags, 0, 0, 0]) + size), *before, *own, *after)


def pillows_pixels(data: bytes) -> np.ndarray:
    """What Pillow makes of it in RGB; if this Pillow reads no WebPs, what libwebp makes, without alpha."""
    if features.check("webp"):
        with Image.open(io.BytesIO(data)) as file:
            return np.asarray(file.convert("RGB"))
    width, height = ctypes.c_int(), ctypes.c_int()
    sides = ctypes.byref(width), ctypes.byref(height)
    found = _library.WebPDecodeRGBA(data, ctypes.c_size_t(len(data)), *sides)
    assert found, "libwebp refuses it"
    shape = height.value, width.value, 4
    pixels = np.frombuffer(ctypes.string_at(found, int(np.prod(shape))), np.uint8).reshape(shape)
    _library.WebPFree(found)
    return pixels[..., :3]
