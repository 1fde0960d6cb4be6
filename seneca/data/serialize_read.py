"""An item that :mod:`seneca.data.serialize` laid out, read back; and what writing and reading have in common.

Nodes become values, innermost first, in the order of writing. Payloads have the same order.
"""

from __future__ import annotations

import enum
import importlib
import json
import math
import struct
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from PIL import Image

from seneca.errors import SenecaError

__all__ = [
    "ALIGNMENT",
    "HEADER",
    "INTEGERS",
    "MAGIC",
    "MAKERS",
    "NUMPY_HAS",
    "PIXEL_BITS",
    "DamagedItem",
    "dtype_of",
    "read",
    "title",
]

MAGIC = b"SENITEM\x02"  # the last byte is the format's version
HEADER = struct.Struct("<8sQII")
ALIGNMENT = 64

# NumPy has these types. Tensors of other types are copied as integers of the same width.
NUMPY_HAS = frozenset(
    getattr(torch, name)
    for name in (
        *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
        *("float16", "float32", "float64", "complex64", "complex128"),
    )
)
INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_DTYPES = {str(dtype): dtype for dtype in vars(torch).values() if isinstance(dtype, torch.dtype)}

PIXEL_BITS = {
    **{"1": 1, "L": 8, "P": 8, "LA": 16, "La": 16, "PA": 16, "I;16": 16, "I;16L": 16, "I;16B": 16},
    **{"RGB": 24, "YCbCr": 24, "LAB": 24, "HSV": 24},
    **{"RGBA": 32, "RGBX": 32, "RGBa": 32, "CMYK": 32, "I": 32, "F": 32},
}


class DamagedItem(SenecaError, ValueError):
    """A buffer does not hold an item, or holds one that has been damaged.

    Remedy: prepare the item again. If the message names a class, make it importable under the name that it
    has in the process that wrote the item.
    """


def read(buffer: Any) -> Any:
    """Read an item from a buffer. Everything is copied.

    Args:
        buffer: It begins with the bytes that :meth:`Layout.write` wrote. It may be larger, and read-only.

    Returns:
        The item. No part of it refers to the buffer.

    Raises:
        DamagedItem: The buffer holds anything else. Nothing larger than the buffer is allocated.
    """
    try:
        return _read(memoryview(buffer).cast("B"))
    except DamagedItem as error:
        problem = str(error)
    except Exception as error:  # a value of the wrong kind may lead to any of them
        problem = f"the item's skeleton is damaged: {type(error).__name__}: {error}"
    raise DamagedItem(problem)  # raised here: no traceback then keeps a part of the buffer


def _read(buffer: memoryview) -> Any:
    if len(buffer) < HEADER.size:
        raise DamagedItem(f"{len(buffer)} bytes are too few for an item")
    magic, size_bytes, head_bytes, checksum = HEADER.unpack_from(buffer)
    if magic != MAGIC:
        raise DamagedItem(f"the buffer begins with {magic!r}, but an item begins with {MAGIC!r}")
    end = HEADER.size + head_bytes
    if not end <= size_bytes <= len(buffer):
        raise DamagedItem(f"an item of {size_bytes} bytes, {end} before payloads, is not in {len(buffer)}")
    head = bytes(buffer[HEADER.size : end])
    if zlib.crc32(head) != checksum:
        raise DamagedItem("the item's skeleton does not match its checksum")
    # Idle readers are kept, because a new decoder costs as much as the rest of a small item. Popping is
    # atomic. Therefore each thread has a reader of its own, and so has a read that begins within another.
    try:
        reader = _idle.pop()
    except IndexError:
        reader = _Reader()
    item = reader.read(head.decode("utf-8", "surrogatepass"), buffer, end, size_bytes)
    _idle.append(reader)
    return item


class _Reader:
    """Makes a value of each tagged node, and takes the payloads in their order."""

    __slots__ = ("_buffer", "_decode", "_end", "_kept", "_limit")

    def __init__(self) -> None:
        self._decode = json.JSONDecoder(object_hook=self.make).decode
        self._buffer = memoryview(b"")
        self._end = self._limit = 0
        self._kept: list[Any] = []  # objects that the item holds again

    def read(self, skeleton: str, buffer: memoryview, end: int, limit: int) -> Any:
        """Make the item of a skeleton. Its payloads are between ``end`` and ``limit``."""
        self._buffer, self._end, self._limit = buffer, end, limit
        try:
            return self._decode(skeleton)
        finally:
            self._buffer = memoryview(b"")
            self._kept = []

    def make(self, node: dict[str, Any]) -> Any:
        ((tag, value),) = node.items()
        return MAKERS[tag](self, value)

    def take(self, n_bytes: int) -> int:
        """Step over the next payload, and return where it begins."""
        at = -(-self._end // ALIGNMENT) * ALIGNMENT
        self._end = at + n_bytes
        if n_bytes < 0 or self._end > self._limit:
            raise DamagedItem(f"a payload of {n_bytes} bytes reaches beyond the item's end")
        return at

    def bytes(self, n_bytes: int) -> memoryview:
        at = self.take(n_bytes)
        return self._buffer[at : at + n_bytes]

    def fill(self, array: np.ndarray) -> None:
        """Copy the payload that was taken last into ``array``, without the GIL."""
        if array.size:
            at = self._end - array.nbytes
            array[...] = np.ndarray(array.shape, array.dtype, self._buffer, at)

    def array(self, value: list[Any]) -> np.ndarray:
        code, shape = value
        dtype = dtype_of(code)
        self.take(_count(shape) * dtype.itemsize)
        array = np.empty(shape, dtype)
        self.fill(array)
        return array

    def keep(self, value: Any) -> Any:
        self._kept.append(value)
        return value

    def again(self, number: int) -> Any:
        return self._kept[_count([number])]

    def memmap(self, value: list[Any]) -> np.memmap:
        return self.array(value).view(np.memmap)

    def tensor(self, value: list[Any]) -> torch.Tensor:
        code, shape = value
        dtype = _DTYPES[code]
        self.take(_count(shape) * dtype.itemsize)
        tensor = torch.empty(shape, dtype=dtype)
        self.fill((tensor if dtype in NUMPY_HAS else tensor.view(INTEGERS[dtype.itemsize])).numpy())
        return tensor

    def tensor_subclass(self, value: list[Any]) -> torch.Tensor:
        module, name, plain, attributes = value
        kind = _class(module, name, torch.Tensor)
        tensor = torch.Tensor.as_subclass(plain, kind)
        vars(tensor).update(attributes)
        return tensor

    def image(self, value: list[Any]) -> Image.Image:
        mode, (width, height), palette, info, exif = value
        row_bytes = (_count([width]) * PIXEL_BITS[mode] + 7) // 8
        image = Image.frombytes(mode, (width, height), bytes(self.bytes(row_bytes * _count([height]))))
        if palette is not None:
            image.putpalette(bytes.fromhex(palette[1]), palette[0])
        image.info = info
        if exif is not None:
            image.getexif().load(bytes.fromhex(exif))
        return image

    def named_tuple(self, value: list[Any]) -> Any:
        module, name, fields, values = value
        kind = _class(module, name, tuple)
        if list(kind._fields) != fields or len(fields) != len(values):  # type: ignore[attr-defined]
            raise DamagedItem(f"{title(kind)} has other fields here than where the item was written")
        return tuple.__new__(kind, values)

    def member(self, value: list[Any]) -> enum.Enum:
        module, name, member = value
        return _class(module, name, enum.Enum)._member_map_[member]  # type: ignore[attr-defined]


def _view(value: list[Any]) -> Any:
    """A tensor or an array that is not contiguous, of its elements in their order in memory."""
    base, order, shape, backwards = value
    if isinstance(base, torch.Tensor):
        return base.permute(order).expand(shape)
    array = base.transpose(order)
    array = array[tuple(slice(None, None, -1 if side in backwards else 1) for side in range(array.ndim))]
    strides = [0 if side == 1 else stride for side, stride in zip(array.shape, array.strides, strict=True)]
    if np.broadcast_shapes(array.shape, shape) != tuple(shape):
        raise ValueError(f"an array of shape {array.shape} cannot be viewed as {shape}")
    return np.lib.stride_tricks.as_strided(array, shape, strides, subok=True)


def _read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


_idle: list[_Reader] = []


def _scalar(value: list[Any]) -> np.generic:
    code, data = value
    (scalar,) = np.frombuffer(bytearray.fromhex(data), dtype_of(code))
    return scalar


MAKERS: dict[str, Callable[[_Reader, Any], Any]] = {
    "t": lambda reader, value: tuple(value),
    "d": lambda reader, value: dict(zip(*value, strict=True)),
    "n": _Reader.named_tuple,
    "e": _Reader.member,
    "i": lambda reader, value: int(value, 16),
    "f": lambda reader, value: struct.unpack("<d", bytes.fromhex(value))[0],
    "c": lambda reader, value: complex(*struct.unpack("<dd", bytes.fromhex(value))),
    "b": lambda reader, value: bytes(reader.bytes(value)),
    "B": lambda reader, value: bytearray(reader.bytes(value)),
    "u": lambda reader, value: np.str_(value),
    "S": lambda reader, value: np.bytes_(bytes.fromhex(value)),
    "g": lambda reader, value: _scalar(value),
    "a": _Reader.array,
    "m": _Reader.memmap,
    "T": _Reader.tensor,
    "I": torch.inference_mode()(_Reader.tensor),
    "s": _Reader.tensor_subclass,
    "p": _Reader.image,
    "k": _Reader.keep,
    "r": _Reader.again,
    "v": lambda reader, value: _view(value),
    "w": lambda reader, value: _read_only(value),
    "j": lambda reader, value: value.conj(),
    "-": lambda reader, value: torch._neg_view(value),
}


def dtype_of(code: Any) -> np.dtype:
    """The dtype of a description. Dtypes without a size, or with objects, are refused."""
    if isinstance(code, str):
        dtype = np.dtype(code)
        exact = code in (dtype.str, dtype.char)
    else:
        dtype = np.lib.format.descr_to_dtype(_fields(code))
        exact = dtype.names is not None
    if not exact or dtype.hasobject or not dtype.itemsize:
        raise ValueError(f"{code!r} describes no dtype of an item")
    return dtype


def _fields(code: list[Any]) -> list[tuple[Any, ...]]:
    """A structured dtype's description, with tuples again in place of JSON's lists."""
    return [
        (
            tuple(name) if isinstance(name, list) else name,
            _fields(kind) if isinstance(kind, list) else kind,
            *map(tuple, shape),
        )
        for name, kind, *shape in code
    ]


def _count(shape: list[int]) -> int:
    """How many elements an array of that shape has."""
    if not all(type(n) is int and n >= 0 for n in shape):
        raise ValueError(f"{shape!r} is no shape")
    return math.prod(shape)


def _class(module: str, name: str, base: type) -> Any:
    kind: Any = importlib.import_module(module)
    for part in name.split("."):
        kind = getattr(kind, part)
    if not (isinstance(kind, type) and issubclass(kind, base)):
        raise DamagedItem(f"{module}.{name} is no {base.__name__}")
    return kind


def title(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
