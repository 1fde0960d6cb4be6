"""A dataset's item laid out in a flat buffer, and read back. Other jobs read what one job prepared.

::

    | magic 8 | size 8 | skeleton's length 4, its CRC 4 | skeleton: JSON | . | payload | . | payload ...

The skeleton has the item's shape and its small values. A node that JSON cannot express is an object with
one key; ``MAKERS`` in :mod:`seneca.data.serialize_read` lists these keys. Tensors, arrays, bytes and pixels
are payloads. They follow in the order in which the skeleton names them, each at a multiple of 64 bytes. No
field says where a payload is; therefore no field can be wrong.

Reading never unpickles. It imports the modules of named tuples, enumerations and tensor classes, and runs
no other code of an item.
"""

from __future__ import annotations

import copyreg
import enum
import json
import math
import struct
import sys
import zlib
from collections.abc import Callable, Iterable, Sequence, Set
from typing import Any

import numpy as np
import torch
import xxhash
from PIL import Image

from seneca.data.serialize_read import (
    ALIGNMENT,
    HEADER,
    INTEGERS,
    MAGIC,
    NUMPY_HAS,
    PIXEL_BITS,
    DamagedItem,
    dtype_of,
    read,
    title,
)
from seneca.errors import SenecaError

__all__ = ["DamagedItem", "Layout", "Unsupported", "digest_of", "lay_out", "read"]

MAX_DEPTH = 64  # of nested containers; the JSON nests up to three times as deep

_INT64 = 2**63
_WORTH_A_CHECK = 8  # values; fewer are encoded one by one sooner than their types are collected
_AS_IT_IS = frozenset({str, bool, type(None)})

_has_names = getattr(torch.Tensor, "has_names", lambda tensor: False)  # gone from newer versions of torch
_IMAGE_HAS = {*vars(Image.new("P", (1, 1))), "encoderinfo", "encoderconfig"}  # the last two after save()


class Unsupported(SenecaError, TypeError):
    """An item holds a value that cannot be laid out in a buffer. The message says what it is, and where.

    Remedy: have the dataset return tensors, arrays, numbers, strings, bytes, pictures of Pillow's, and
    tuples, lists and dicts of these. Or let every job prepare its own items.

    Args:
        where: The path to the value, written as code: ``item[1]["mask"]``.
        why: The rest of the sentence that begins with ``where``.
    """

    def __init__(self, where: str, why: str = "") -> None:
        super().__init__(where, why)
        self.where = where
        self.why = why

    def __str__(self) -> str:
        return f"{self.where} {self.why}".strip()


class Layout:
    """The layout of an item in a buffer. The layout keeps the item's arrays alive.

    Attributes:
        size_bytes: The room that :meth:`write` needs.
    """

    __slots__ = ("_head", "_payloads", "size_bytes")

    def __init__(self, head: bytes, payloads: list[Any]) -> None:
        self._head = head
        self._payloads: list[tuple[int, Any]] = []
        end = HEADER.size + len(head)
        for payload in payloads:
            at = -(-end // ALIGNMENT) * ALIGNMENT
            self._payloads.append((at, payload))
            end = at + _bytes_in(payload)
        self.size_bytes = end

    def write(self, buffer: memoryview) -> None:
        """Write the item to the beginning of a buffer.

        Args:
            buffer: Writable, contiguous, of at least ``size_bytes``. Bytes between payloads become 0, those
                behind the last are left unchanged.

        Raises:
            ValueError: The buffer is smaller than the item.
        """
        buffer = buffer.cast("B")
        if len(buffer) < self.size_bytes:
            raise ValueError(f"the item takes {self.size_bytes} bytes, but the buffer has {len(buffer)}")
        head = self._head
        HEADER.pack_into(buffer, 0, MAGIC, self.size_bytes, len(head), zlib.crc32(head))
        end = HEADER.size + len(head)
        buffer[HEADER.size : end] = head
        for at, payload in self._payloads:
            buffer[end:at] = _ZEROS[: at - end]
            end = at + _bytes_in(payload)
            if not isinstance(payload, np.ndarray):
                buffer[at : at + len(payload)] = payload
            elif payload.size:  # one copy, also of arrays that are not contiguous; without the GIL
                np.ndarray(payload.shape, payload.dtype, buffer, at)[...] = payload

    def digest(self) -> int:
        """64 bits that name the item: :func:`digest_of` a buffer that it is written to. Nothing is copied."""
        head = self._head
        state = xxhash.xxh3_64(HEADER.pack(MAGIC, self.size_bytes, len(head), zlib.crc32(head)))
        state.update(head)
        end = HEADER.size + len(head)
        for at, payload in self._payloads:
            state.update(_ZEROS[: at - end])
            end = at + _bytes_in(payload)
            if end > at:
                if isinstance(payload, np.ndarray):
                    payload = np.ascontiguousarray(payload).reshape(-1).view(np.uint8).data
                state.update(payload)
        return state.intdigest()


def digest_of(buffer: Any) -> int:
    """64 bits that name the item in a buffer, which may be larger: XXH3 (Collet) of its bytes.

    Raises:
        DamagedItem: The buffer holds no item.
    """
    room = memoryview(buffer).cast("B")
    if len(room) < HEADER.size:
        raise DamagedItem(f"{len(room)} bytes are no item")
    magic, size, _, _ = HEADER.unpack_from(room)
    if magic != MAGIC or size > len(room):
        raise DamagedItem("the buffer does not begin with an item")
    return xxhash.xxh3_64_intdigest(room[:size])


def lay_out(item: Any) -> Layout:
    """Find out how an item will be laid out in a buffer, and how much room that takes.

    An item may hold:

    * tensors: dense, on the CPU, that require no gradient; also views that are expanded, conjugated or
      negated, tensors of inference mode, and subclasses such as torchvision's ``tv_tensors``;
    * NumPy arrays without objects, and NumPy scalars;
    * ``int``, ``float``, ``bool``, ``complex``, ``None``, ``str``, ``bytes``, ``bytearray``, and members of
      enumerations;
    * Pillow's images;
    * tuples, lists, dicts and named tuples of all these.

    Every value is read back with its exact type. Tensors and arrays keep the order of their elements in
    memory, but no gaps between these. Arrays also keep whether they can be written to. An object that an item
    holds twice is read back as one object. Views of the same memory are read back as separate tensors or
    arrays.

    Args:
        item: The result of a dataset's ``__getitem__``.

    Returns:
        The layout: its ``size_bytes``, and :meth:`Layout.write`.

    Raises:
        Unsupported: The item holds anything else. The message says what, and where.

    Example:
        >>> layout = lay_out((torch.arange(3), {"name": "ape"}))
        >>> room = bytearray(4096)
        >>> layout.write(memoryview(room))
        >>> layout.size_bytes, read(room)
        (152, (tensor([0, 1, 2]), {'name': 'ape'}))
    """
    payloads = _Payloads()
    try:
        skeleton = _encode(item, payloads, 0)
        if payloads.twice:  # that is known only now
            payloads = _Payloads(payloads.twice)
            skeleton = _encode(item, payloads, 0)
    except _Fault as fault:
        raise Unsupported("item" + "".join(reversed(fault.path)), fault.why) from None
    return Layout(_to_json(skeleton).encode("utf-8", "surrogatepass"), payloads)


_ZEROS = bytes(ALIGNMENT)


def _bytes_in(payload: Any) -> int:
    return payload.nbytes if isinstance(payload, np.ndarray) else len(payload)


# Writing: a value becomes a node of the skeleton and payloads.

_to_json = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode


_Encode = Callable[[Any, "_Payloads", int], Any]


class _Fault(Exception):
    """A value cannot be laid out. On its way up to :func:`lay_out` the exception collects the path."""

    def __init__(self, why: str) -> None:
        self.why = why
        self.path: list[str] = []


class _Payloads(list[Any]):
    """The payloads of an item, and which of its mutable objects it holds twice.

    Args:
        repeated: The ids of these objects, if they are known from an earlier pass.

    Attributes:
        twice: The ids of those that were met again in this pass, although they are not in ``repeated``.
    """

    def __init__(self, repeated: Set[int] = frozenset()) -> None:
        super().__init__()
        self.twice: set[int] = set()
        self._repeated = repeated
        self._met: set[int] = set()
        self._numbers: dict[int, int] = {}

    def encode_once(self, encode: _Encode, value: Any, depth: int) -> Any:
        """The node of a mutable object, or a reference to it if it was met before."""
        key = id(value)
        if key not in self._met:
            self._met.add(key)
            node = encode(value, self, depth)
            if key not in self._repeated:
                return node
            self._numbers[key] = len(self._numbers)
            return {"k": node}
        if key not in self._repeated:
            self.twice.add(key)
            return None  # the item is encoded again
        if key not in self._numbers:
            raise _Fault("contains itself")
        return {"r": self._numbers[key]}


def _encode(value: Any, payloads: _Payloads, depth: int) -> Any:
    kind = type(value)
    if kind in _AS_IT_IS:
        return value
    if kind is int:
        return value if -_INT64 <= value < _INT64 else {"i": f"{value:x}"}
    if kind is float:
        return value if math.isfinite(value) else {"f": struct.pack("<d", value).hex()}
    encode = _ENCODERS.get(kind, _encode_other)
    if kind in _MUTABLE or isinstance(value, torch.Tensor):
        return payloads.encode_once(encode, value, depth)
    return encode(value, payloads, depth)


def _encode_all(
    values: Sequence[Any], payloads: _Payloads, depth: int, steps: Iterable[Any] | None = None
) -> list[Any]:
    """The nodes of a container's values. ``steps`` names the path to each value; None: its place names it."""
    if depth > MAX_DEPTH:
        raise _Fault(f"is nested more than {MAX_DEPTH} deep")
    if len(values) >= _WORTH_A_CHECK and _all_as_they_are(values):
        return list(values)
    nodes: list[Any] = []
    try:
        for value in values:
            nodes.append(_encode(value, payloads, depth))
    except _Fault as fault:
        step = f"[{len(nodes)}]" if steps is None else list(steps)[len(nodes)]
        fault.path.append(step)
        raise
    return nodes


def _all_as_they_are(values: Sequence[Any]) -> bool:
    """Whether JSON can express all of these values as they are."""
    kinds = set(map(type, values))
    if kinds == {int}:
        return min(values) >= -_INT64 and max(values) < _INT64
    if kinds == {float}:
        return all(map(math.isfinite, values))
    return kinds <= _AS_IT_IS


def _encode_list(value: list[Any], payloads: _Payloads, depth: int) -> Any:
    return _encode_all(value, payloads, depth + 1)


def _encode_tuple(value: tuple[Any, ...], payloads: _Payloads, depth: int) -> Any:
    return {"t": _encode_all(value, payloads, depth + 1)}


def _encode_dict(value: dict[Any, Any], payloads: _Payloads, depth: int) -> Any:
    keys = _encode_all(list(value), payloads, depth + 1, (f"'s key {key!r:.80}" for key in value))
    return {
        "d": [
            keys,
            _encode_all(list(value.values()), payloads, depth + 1, (f"[{key!r:.80}]" for key in value)),
        ]
    }


def _encode_complex(value: complex, payloads: _Payloads, depth: int) -> Any:
    return {"c": struct.pack("<dd", value.real, value.imag).hex()}


def _encode_bytes(value: bytes | bytearray, payloads: _Payloads, depth: int) -> Any:
    payloads.append(bytes(value))
    return {"b" if type(value) is bytes else "B": len(value)}


def _encode_array(value: np.ndarray, payloads: _Payloads, depth: int) -> Any:
    code = _dtype_code(value.dtype)
    base, view = (value, None) if value.flags.c_contiguous else _base_of(value, value.strides)
    payloads.append(_without_padding(base))
    node: dict[str, Any] = {"m" if type(value) is np.memmap else "a": [code, base.shape]}
    if view is not None:
        node = {"v": [node, *view]}
    return node if value.flags.writeable else {"w": node}


def _without_padding(array: np.ndarray) -> np.ndarray:
    """The array, with zeros in the bytes that belong to no value: these may differ each time it is made."""
    dtype = array.dtype
    if (dtype.names is None and dtype.char not in "gG") or (used := _used_bytes(dtype)).all():
        return array
    clean = np.array(array, order="C", subok=False)
    clean.reshape(-1).view(np.uint8).reshape(-1, dtype.itemsize)[:, ~used] = 0
    return clean


def _used_bytes(dtype: np.dtype) -> np.ndarray:
    """A mask of the bytes of an element that belong to a value."""
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return np.tile(_used_bytes(base), math.prod(shape))
    used = np.full(dtype.itemsize, dtype.names is None)
    for name in dtype.names or ():
        field, offset = dtype.fields[name][:2]  # type: ignore[index]
        used[offset : offset + field.itemsize] |= _used_bytes(field)
    if dtype.char in "gG" and np.finfo(dtype).nmant == 63:  # x87: 10 bytes of each number
        used[np.arange(dtype.itemsize) % np.dtype(np.longdouble).itemsize >= 10] = False
    return used


def _base_of(array: np.ndarray, strides: Sequence[int]) -> tuple[np.ndarray, tuple[Any, ...]]:
    """The elements of an array that is not contiguous, in their order in memory, and how it views these.

    Args:
        array: The array.
        strides: Its strides, in any unit.

    Returns:
        An array whose longest stride comes first. Then the arguments of :func:`_view`.
    """
    shape, sides = array.shape, range(array.ndim)
    backwards = [side for side in sides if strides[side] < 0]
    order = sorted(sides, key=lambda side: -abs(strides[side]))
    only_first = tuple(
        slice(None, None, -1) if strides[k] < 0 else slice(None if strides[k] else 1) for k in sides
    )
    base = array[only_first].transpose(order)
    return base, ([order.index(side) for side in sides], shape, backwards)


def _encode_tensor(value: torch.Tensor, payloads: _Payloads, depth: int) -> Any:
    if value.requires_grad:
        raise _Fault("is a tensor that requires a gradient; detach it first")
    if not value.is_cpu or value.layout is not torch.strided or value.is_nested:
        kind = "nested" if value.is_nested else str(value.layout).removeprefix("torch.")
        raise _Fault(f"is a {kind} tensor on {value.device}; only dense ones on the CPU can be laid out")
    if value.is_quantized or value.__dict__ or _has_names(value):
        what = "is quantized" if value.is_quantized else "has names or attributes of its own"
        raise _Fault(f"is a tensor that {what}")
    if value.ndim > 32:
        raise _Fault(f"is a tensor of {value.ndim} dimensions; at most 32 can be laid out")
    if value.is_conj():
        return {"j": _encode_tensor(value.conj(), payloads, depth)}
    if value.is_neg():
        return {"-": _encode_tensor(torch._neg_view(value), payloads, depth)}
    base = (value if value.dtype in NUMPY_HAS else value.view(INTEGERS[value.itemsize])).numpy()
    view = None
    if not value.is_contiguous():
        base, view = _base_of(base, value.stride())
    payloads.append(base)
    # Where inference mode is on, all tensors are of it. That is no property of the item.
    of_inference = value.is_inference() and not torch.is_inference_mode_enabled()
    node = {"I" if of_inference else "T": [str(value.dtype), base.shape]}
    return node if view is None else {"v": [node, *view]}


def _encode_image(value: Image.Image, payloads: _Payloads, depth: int) -> Any:
    if value.mode not in PIXEL_BITS:
        raise _Fault(f"is an image of mode {value.mode}, which cannot be laid out")
    palette = None
    if value.palette is not None:
        # The palette that Pillow's core holds is the valid one. Its raw mode is the palette's mode.
        palette = [value.palette.mode, value.im.getpalette(value.palette.mode, value.palette.mode).hex()]
    if any(name[0] != "_" and name not in _IMAGE_HAS for name in vars(value)):
        raise _Fault("is an image that has attributes of its own")
    try:
        info = _encode_dict(value.info, payloads, depth)
    except _Fault as fault:
        fault.path.append(".info")
        raise
    exif = vars(value).get("_exif")  # what was read of info, and perhaps changed since; None: it was not read
    payloads.append(value.tobytes())  # after the payloads in info: a node is made after the nodes in it
    return {"p": [value.mode, value.size, palette, info, None if exif is None else exif.tobytes().hex()]}


_MUTABLE = frozenset({list, dict, bytearray, np.ndarray, np.memmap, Image.Image})
_ENCODERS: dict[type, _Encode] = {
    list: _encode_list,
    tuple: _encode_tuple,
    dict: _encode_dict,
    complex: _encode_complex,
    bytes: _encode_bytes,
    bytearray: _encode_bytes,
    np.ndarray: _encode_array,
    np.memmap: _encode_array,
    torch.Tensor: _encode_tensor,
    Image.Image: _encode_image,
}


def _encode_other(value: Any, payloads: _Payloads, depth: int) -> Any:
    """The node of a value that is recognised by a base class, not by its exact type."""
    kind = type(value)
    if isinstance(value, np.str_):
        return {"u": str.__str__(value)}  # NumPy's own str() drops zeros at the end
    if isinstance(value, np.bytes_):
        return {"S": bytes(value).hex()}
    if isinstance(value, np.generic) and kind.__module__ == "numpy":
        return {"g": [_dtype_code(value.dtype), _without_padding(np.asarray(value)).tobytes().hex()]}
    if isinstance(value, enum.Enum):
        if kind._member_map_.get(value.name) is not value:  # combined flags have no name of their own
            raise _Fault(f"is {value!r}, which is no named member of {title(kind)}")
        return {"e": [*_import_name(kind), value.name]}
    if isinstance(value, tuple) and isinstance(getattr(kind, "_fields", None), tuple):
        if getattr(value, "__dict__", None) or len(value) != len(kind._fields):
            raise _Fault(f"is a {title(kind)}, a named tuple with more to it than its fields")
        steps = (f".{name}" for name in kind._fields)
        return {"n": [*_import_name(kind), kind._fields, _encode_all(value, payloads, depth + 1, steps)]}
    if isinstance(value, torch.Tensor):
        return _encode_tensor_subclass(value, payloads, depth)
    raise _Fault(f"is a {title(kind)}, which cannot be laid out")


def _encode_tensor_subclass(value: torch.Tensor, payloads: _Payloads, depth: int) -> Any:
    """A node with the plain tensor, its class, and its own attributes."""
    kind = type(value)
    if (
        isinstance(value, torch.nn.Parameter)
        or copyreg._slotnames(kind)  # type: ignore[attr-defined]
        or kind.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__
    ):
        raise _Fault(f"is a {title(kind)}, a tensor with state that cannot be seen")
    attributes = vars(value)
    with torch._C.DisableTorchFunctionSubclass():
        plain = value.as_subclass(torch.Tensor)
        nodes = _encode_tensor(plain, payloads, depth)
    try:
        return {"s": [*_import_name(kind), nodes, _encode_dict(attributes, payloads, depth)]}
    except _Fault as fault:
        fault.path.append(".__dict__")
        raise


def _import_name(kind: type) -> tuple[str, str]:
    """The module and qualified name under which the class can be found again."""
    found: Any = sys.modules.get(kind.__module__)
    for name in kind.__qualname__.split("."):
        found = getattr(found, name, None)
    if found is not kind:
        raise _Fault(f"is a {title(kind)}, whose class cannot be imported under that name")
    return kind.__module__, kind.__qualname__


def _are_the_same(one: np.dtype, other: np.dtype) -> bool:
    """Whether arrays of these types behave alike. Equal dtypes may make other records."""
    about = [(kind.char, kind.type, kind.metadata, kind.names) for kind in (one, other)]
    fields = ((one[name], other[name]) for name in one.names or ())
    return one == other and about[0] == about[1] and all(_are_the_same(*each) for each in fields)


def _dtype_code(dtype: np.dtype) -> Any:
    """A description from which :func:`dtype_of` makes the dtype again."""
    try:
        code = np.lib.format.dtype_to_descr(dtype) if dtype.names else dtype.str
        if dtype.names is None and np.dtype(code).char != dtype.char:
            code = dtype.char  # another name of the same integer, such as longlong
        made = dtype_of(code)
        same = _are_the_same(made, dtype)
    except (TypeError, ValueError):
        same = False
    if not same:
        raise _Fault(f"has the dtype {dtype!r}, which cannot be laid out")
    return code
