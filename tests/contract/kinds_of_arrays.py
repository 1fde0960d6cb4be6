"""Kinds of items: tensors, arrays and pictures. Importing this adds them to those of kinds_of_items.py."""

from __future__ import annotations

import functools
import io
import pathlib
import tempfile
from typing import Any

import numpy as np
import torch
from kinds_of_items import SETS, Colour, Kind, a, each, kind, not_pickled, shared, with_attribute, x
from PIL import Image, ImageOps, PngImagePlugin
from torch.nn.utils.rnn import pack_sequence

__all__ = ["COMMON"]

# Tensors


class Labelled(torch.Tensor):
    """A subclass, with attributes."""


class Logged(torch.Tensor):
    """A subclass that sees each function that is called of it."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return super().__torch_function__(func, types, args, kwargs or {})


class Slotted(torch.Tensor):
    __slots__ = ("hidden",)


@torch.inference_mode()
def of_inference(i: int) -> torch.Tensor:
    return x(i) * 2


def spectrum(i: int) -> torch.Tensor:
    return torch.complex(x(i), x(i) + 1)


DTYPES = [
    *("bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float64", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2"),
]
each(
    {f"tensor of {name}": functools.partial(x, dtype=getattr(torch, name)) for name in DTYPES}
    | {
        "0-d tensor": lambda i: torch.tensor(i + 0.5),
        "empty tensor": lambda i: torch.empty(0, 3),
        "nan in tensor": lambda i: torch.tensor([float("nan"), -0.0, float(i)]),
        "transposed tensor": lambda i: x(i).t(),
        "permuted picture": lambda i: x(i, 4, 5, 3).permute(2, 0, 1),
        "channels_last tensor": lambda i: x(i, 2, 3, 4, 5).to(memory_format=torch.channels_last),
        "channels_last_3d tensor": lambda i: x(i, 1, 2, 3, 2, 2).to(memory_format=torch.channels_last_3d),
        "grey picture permuted": lambda i: x(i, 4, 5, 1).permute(2, 0, 1),
        "expanded tensor": lambda i: x(i, 1, 3, 1).expand(4, 3, 2),
        "expanded and transposed": lambda i: x(i, 3, 2).t().unsqueeze(1).expand(2, 4, 3),
        "expanded bfloat16": lambda i: x(i, 2, 1, dtype=torch.bfloat16).expand(2, 3),
        "expanded to nothing": lambda i: x(i, 1, 3).expand(0, 3),
        "conj view": lambda i: spectrum(i).conj(),
        "neg view": lambda i: spectrum(i).conj().imag,
        "conj and transposed": lambda i: spectrum(i).conj().t(),
        "tensor of inference mode": of_inference,
        "subclass of tensor": lambda i: with_attribute(
            x(i).as_subclass(Labelled), colour=Colour.RED, ids=[i]
        ),
        "subclass with __torch_function__": lambda i: x(i).as_subclass(Logged),
        "transposed subclass": lambda i: with_attribute(x(i).t().as_subclass(Labelled), a=x(i)),
        "a subclass that appears twice": lambda i: [x(i).as_subclass(Labelled)] * 2,
        "PackedSequence": lambda i: pack_sequence([x(i, 3), x(i, 2)]),
        "views of one tensor of all samples": lambda i: ALL[i],
        "views of a tensor with all samples side by side": lambda i: SIDE_BY_SIDE[:, i],
    },
    shared,
)
COMMON: dict[str, Kind] = {  # of which samples have memory in common, or are one object
    "one tensor": lambda i: ALL,
    "one list": lambda i: NESTED,
    "one picture now and then": lambda i: PICTURE if i % 2 else None,
    "overlapping views": lambda i: ALL.flatten()[i : i + 8],
    "a view and its tensor": lambda i: ALL[:2] if i % 2 else ALL[0],
    "overlapping arrays": lambda i: ALL.numpy()[i : i + 2],
    "an array and its tensor": lambda i: ALL.numpy() if i % 2 else ALL,
}
NESTED = [{"a": 1}]
PICTURE = Image.new("L", (2, 2))
ALL = x(0, 1000, 5)
SIDE_BY_SIDE = x(0, 5, 1000)


def hooked(i: int) -> torch.Tensor:
    leaf = x(i).requires_grad_()
    leaf.grad = torch.ones(2, 3)
    return leaf


each(
    {
        "sparse coo": lambda i: torch.eye(3).mul(i + 1).to_sparse(),
        "uncoalesced coo": lambda i: torch.sparse_coo_tensor([[0, 0]], [1.0, float(i)], (2,)),
        "sparse csr": lambda i: torch.eye(3).mul(i + 1).to_sparse_csr(),
        "requires_grad": lambda i: x(i).requires_grad_(),
        "a leaf with a gradient": hooked,
        "Parameter": lambda i: torch.nn.Parameter(x(i)),
        "Parameter without gradient": lambda i: torch.nn.Parameter(x(i), requires_grad=False),
        "Buffer": lambda i: torch.nn.Buffer(x(i)),
        "slots in a subclass of tensor": lambda i: with_attribute(x(i).as_subclass(Slotted), hidden=i),
        "a tensor with attributes": lambda i: with_attribute(x(i), label=i),
        "quantized tensor": lambda i: torch.quantize_per_tensor(x(i), 0.5, 1, torch.qint8),
        "tensor on meta": lambda i: torch.empty(2, i + 1, device="meta"),
        "nested tensor": lambda i: torch.nested.nested_tensor([x(i, 3), x(i, 2)]),
        "jagged tensor": lambda i: torch.nested.nested_tensor([x(i, 3), x(i, 2)], layout=torch.jagged),
        "Module": lambda i: torch.nn.Flatten(i),
        "storage": lambda i: x(i).untyped_storage(),
        "torch Size": lambda i: x(i).size(),
        "torch dtype": lambda i: torch.bfloat16,
        "torch device": lambda i: torch.device("cpu"),
        "torch layout": lambda i: torch.strided,
        "torch memory_format": lambda i: torch.channels_last,
    },
    kind,
)
each(
    {
        "not a leaf": lambda i: x(i).requires_grad_() * 2,
        "a view of a leaf": lambda i: x(i).requires_grad_()[0],
    },
    not_pickled,
)

# Arrays


def read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


class Tagged(np.ndarray):
    """A subclass of arrays."""


RECORD = np.dtype([("box", ">f4", (2, 2)), ("name", "U3"), ("id", [("a", "i2"), ("b", "u1")])])
ALIGNED = np.dtype([("a", "u1"), ("b", "f8")], align=True)


def records(i: int, dtype: np.dtype) -> np.ndarray:
    made = np.zeros((2, 3), dtype)
    made[dtype.names[0]] = i
    return made


@functools.cache
def mapped(mode: str) -> np.memmap:
    with tempfile.NamedTemporaryFile(delete=False) as file:
        file.write(bytes(range(256)))
    made = np.memmap(file.name, np.uint8, mode, shape=(16, 16))
    pathlib.Path(file.name).unlink()
    return made


each(
    {
        f"array of {name}": functools.partial(a, dtype=name)
        for name in [
            "?",
            "u1",
            "i1",
            "u2",
            ">i4",
            "i8",
            "u8",
            "f2",
            ">f8",
            "g",
            "c8",
            "M8[ns]",
            "S3",
            "U4",
            "q",
        ]
    }
    | {
        "0-d array": lambda i: np.array(i + 0.5),
        "empty array": lambda i: np.empty((0, 3)),
        "transposed array": lambda i: a(i).T,
        "Fortran array": lambda i: np.asfortranarray(a(i, 2, 3, 4)),
        "permuted array": lambda i: a(i, 4, 5, 3).transpose(2, 0, 1),
        "reversed array": lambda i: a(i)[:, ::-1],
        "reversed and transposed array": lambda i: a(i, 2, 3, 4)[::-1, :, ::-1].T,
        "read-only array": lambda i: np.frombuffer(bytes([i] * 6), np.uint8).reshape(2, 3),
        "read-only and transposed": lambda i: read_only(a(i)).T,
        "zero-stride array": lambda i: np.broadcast_to(a(i, 1, 3), (4, 3)),
        "writable zero-stride array": lambda i: np.lib.stride_tricks.as_strided(a(i, 3), (4, 3), (0, 4)),
        "structured array": lambda i: records(i, RECORD),
        "aligned structured array": lambda i: records(i, ALIGNED),
        "a row of a structured array": lambda i: records(i, RECORD)[0, 0],
        "views of one array of all samples": lambda i: ALL.numpy()[i],
        "memmap": lambda i: mapped("r")[i],
    },
    shared,
)
each(
    {
        "object array": lambda i: np.array([None, i, "a"], object),
        "array of StringDType": lambda i: np.array(["a", "b" * 99 + str(i)], np.dtypes.StringDType()),
        "masked array": lambda i: np.ma.masked_array(a(i), mask=[[0, 1, 0], [1, 0, i % 2]], fill_value=9),
        "matrix": lambda i: np.matrix(a(i)),
        "subclass of array": lambda i: a(i).view(Tagged),
        "dtype": lambda i: np.dtype(">f4"),
        "random generator": lambda i: np.random.default_rng(i),
    },
    kind,
)

# Pictures


def picture(mode: str) -> Kind:
    return lambda i: Image.new("RGB", (5, 3), (i + 1, 99, 200)).convert(mode)


def with_info(i: int) -> Image.Image:
    made = picture("RGB")(i)
    made.info = {"dpi": (72.0, 72), "exif": b"Exif\0\0", "text": {"a": [i]}}
    return made


def with_exif(i: int) -> Image.Image:
    made = picture("RGB")(i)
    made.getexif()[0x0112] = 6
    made.getexif()[0x010E] = f"picture {i}"
    return made


def turned(i: int) -> Image.Image:
    made = with_exif(i)
    made.info["exif"] = made.getexif().tobytes()
    return ImageOps.exif_transpose(made)


def transparent(i: int) -> Image.Image:
    made = picture("RGB")(i).quantize(4)
    made.info["transparency"] = i
    return made


def opened(format: str) -> Kind:
    def make(i: int) -> Image.Image:
        file = io.BytesIO()
        picture("RGB")(i).save(file, format, pnginfo=None)
        made = Image.open(io.BytesIO(file.getvalue()))
        made.load()
        return made

    return make


each(
    {
        f"picture of mode {m}": picture(m)
        for m in ["1", "L", "P", "LA", "RGB", "RGBA", "CMYK", "YCbCr", "I", "F", "HSV"]
    }
    | {
        "picture of mode I;16": lambda i: Image.fromarray(a(i, 3, 5, dtype=np.uint16)),
        "picture with a transparent colour": transparent,
        "picture with info": with_info,
        "picture with exif": with_exif,
        "picture that exif turned": turned,
        "a picture that appears twice": lambda i: [picture("RGB")(i)] * 2,
        "picture without pixels": lambda i: Image.new("RGB", (0, 4)),
    },
    shared,
)
each(
    {
        "picture with an attribute": lambda i: with_attribute(picture("RGB")(i), label=i),
        "picture of a PNG file": opened("PNG"),
        "picture of a JPEG file": opened("JPEG"),
        "info that cannot be laid out": lambda i: with_attribute(picture("L")(i), info={"a": SETS[i]}),
        "info of PNG texts": lambda i: with_attribute(
            picture("L")(i), info={"a": PngImagePlugin.iTXt(f"{i}", "en")}
        ),
    },
    kind,
)
