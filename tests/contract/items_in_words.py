"""What an item is, in plain data that processes can compare: types, values, layouts, what is one object."""

from __future__ import annotations

import collections
import dataclasses
import enum
import itertools
import math
import struct
import types
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from PIL import Image

__all__ = ["in_words", "overlaps"]

Words = Any  # None, texts, numbers, and tuples of these

_PLAIN = (type(None), bool, int, str, bytes, range, slice, type)


def in_words(value: Any) -> Words:
    """What an item is, and which of its tensors and arrays have memory in common."""
    walk = _Walk()
    words = walk.of(value)
    return words, tuple(sorted(overlaps(walk.tensors)))


class _Walk:
    def __init__(self) -> None:
        self.met: dict[int, int] = {}
        self.kept: list[Any] = []  # so that no id is used twice
        self.tensors: list[Any] = []

    def of(self, value: Any) -> Words:
        kind = type(value)
        name = f"{kind.__module__}.{kind.__qualname__}"
        if isinstance(value, _PLAIN) and kind.__module__ == "builtins":
            return name, repr(value)
        if kind in (float, complex):
            return name, _bits(complex(value))
        if isinstance(value, (types.FunctionType, types.BuiltinFunctionType)):
            return name, value.__qualname__
        if isinstance(value, (enum.Enum, torch.dtype, torch.device)):
            return name, repr(value)
        if id(value) in self.met:
            return "again", self.met[id(value)]
        if kind is not tuple:
            self.met[id(value)] = len(self.met)
            self.kept.append(value)
        return (name, *self._parts(value), *self._attributes(value))

    def _attributes(self, value: Any) -> Iterable[Words]:
        if isinstance(value, (np.ndarray, Image.Image, torch.nn.Module)) or _is_nested(value):
            return  # what they have is described otherwise, or is of the library alone
        if attributes := getattr(value, "__dict__", None):
            yield "with", self._pairs(attributes)

    def _pairs(self, mapping: Mapping[Any, Any]) -> Words:
        return tuple((self.of(key), self.of(each)) for key, each in mapping.items())

    def _parts(self, value: Any) -> Iterable[Words]:
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, np.ndarray):
            return self._array(value)
        if isinstance(value, np.generic):
            return _type(value.dtype), value.dtype.char, value.tobytes()
        if isinstance(value, Image.Image):
            return self._picture(value)
        if isinstance(value, (dict, collections.UserDict, collections.ChainMap)):
            return (self._pairs(value),)
        if isinstance(value, (list, tuple, collections.deque)):
            return tuple(self.of(each) for each in value)
        if isinstance(value, (set, frozenset)):
            return (tuple(sorted(repr(each) for each in value)),)
        if isinstance(value, BaseException):
            return tuple(self.of(each) for each in value.args)
        if isinstance(value, bytearray):
            return (bytes(value),)
        if isinstance(value, np.random.Generator):
            return (repr(value.bit_generator.state),)
        if dataclasses.is_dataclass(value):
            return tuple(self.of(getattr(value, field.name)) for field in dataclasses.fields(value))
        if hasattr(value, "getvalue"):
            return (repr(value.getvalue()),)
        if isinstance(value, collections.abc.Iterator):
            return ()
        return () if hasattr(value, "__dict__") or " at 0x" in repr(value) else (repr(value),)

    def _tensor(self, tensor: torch.Tensor) -> Iterable[Words]:
        with torch._C.DisableTorchFunctionSubclass():
            yield (
                str(tensor.dtype),
                str(tensor.device),
                str(tensor.layout),
                tensor.is_nested,
                tensor.is_quantized,
            )
            yield tensor.requires_grad, tensor.is_leaf, tensor.is_inference()
            if tensor.is_leaf and tensor.grad is not None:
                yield "gradient", self.of(tensor.grad)
            if tensor.is_nested:
                yield tuple(self.of(each) for each in tensor.unbind())
                return
            yield tuple(tensor.shape)
            if tensor.is_quantized:
                yield tensor.int_repr().numpy().tobytes()
                return
            if tensor.layout is not torch.strided or tensor.is_meta:
                yield repr(tensor)
                return
            yield (
                tensor.numel() > 0 and tensor.is_shared(),
                _order(tensor.shape, tensor.stride()),
                tensor.is_conj(),
                tensor.is_neg(),
            )
            plain = tensor.detach().as_subclass(torch.Tensor)
            self.tensors.append(plain)
            yield _bytes_of(plain)

    def _array(self, array: np.ndarray) -> Iterable[Words]:
        yield _type(array.dtype), array.dtype.char, array.shape, array.flags.writeable, array.flags.aligned
        yield _order(array.shape, array.strides)
        plain = np.asarray(array)
        if array.dtype.hasobject or array.dtype.char == "T":
            yield repr(plain.tolist())
        else:
            self.tensors.append(plain)
            yield repr(plain.tolist()) if array.dtype.names or array.dtype.char == "g" else plain.tobytes()
        if isinstance(array, np.ma.MaskedArray):
            yield array.mask.tobytes(), repr(array.fill_value)

    def _picture(self, picture: Image.Image) -> Iterable[Words]:
        yield picture.mode, picture.size, picture.tobytes(), self.of(picture.info), picture.format
        yield None if picture.palette is None else bytes(picture.palette.tobytes())
        yield repr(sorted(picture.getexif().items()))
        known = vars(Image.new("P", (1, 1)))
        yield self._pairs({k: v for k, v in vars(picture).items() if k not in known and k[0] != "_"})


def _type(dtype: np.dtype) -> Words:
    """Whether NumPy was asked to align the fields is not said: equal types may differ in that."""
    return repr(dtype) if dtype.names is None else (repr(dtype.fields), dtype.itemsize)


def _is_nested(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_nested


def _bits(value: complex) -> bytes:
    return struct.pack("<dd", value.real, value.imag)


def _order(shape: tuple[int, ...], strides: tuple[int, ...]) -> Words:
    """How elements follow each other in memory, whatever gaps are between them.

    The sides, the longest stride first, and the signs of their strides.
    """
    sides = [k for k in range(len(shape)) if shape[k] > 1]
    if math.prod(shape) == 0:
        return ()
    sides.sort(key=lambda k: -abs(strides[k]))
    return tuple(sides if all(strides[k] for k in sides) else [k for k in sides if strides[k]]), tuple(
        (strides[k] > 0) - (strides[k] < 0) for k in range(len(shape)) if shape[k] > 1
    )


def _bytes_of(tensor: torch.Tensor) -> bytes:
    plain = tensor.resolve_conj().resolve_neg().contiguous()
    return plain.reshape(-1).view(torch.uint8).numpy().tobytes() if plain.numel() else b""


def overlaps(values: list[Any]) -> set[tuple[int, int]]:
    """Which tensors and arrays have memory in common."""
    places = [_addresses(value) for value in values] if len(values) <= 100 else []
    return {
        (first, second)
        for (first, one), (second, other) in itertools.combinations(enumerate(places), 2)
        if not one.isdisjoint(other)
    }


def _addresses(value: Any) -> set[int]:
    if isinstance(value, torch.Tensor):
        first, sizes = value.data_ptr(), [stride * value.itemsize for stride in value.stride()]
    else:
        first, sizes = value.__array_interface__["data"][0], list(value.strides)
    found = np.full(1, first, np.int64)
    for side, stride in zip(value.shape, sizes, strict=True):
        found = np.add.outer(found, np.arange(side) * stride).ravel()
    return set(found.tolist())
