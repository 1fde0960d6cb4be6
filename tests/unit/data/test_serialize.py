"""An item comes out of a buffer as it went in, or not at all."""

import enum
import math
import pickle
import struct
from collections import OrderedDict, namedtuple
from typing import NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from sizes import size

from seneca.data.serialize import Unsupported, lay_out, read
from seneca.data.serialize_read import INTEGERS, PIXEL_BITS
from seneca.errors import SenecaError

Pair = namedtuple("Pair", "image label")


class Typed(NamedTuple):
    name: str
    place: tuple[int, int] = (0, 0)


class WithAttributes(namedtuple("WithAttributes", "a")):
    pass


class Colour(enum.Enum):
    RED = "red"
    CRIMSON = "red"
    BLUE = (0, 0, 255)


class Flags(enum.Flag):
    A = 1
    B = 2


class Labelled(torch.Tensor):
    """A tensor with an attribute, as torchvision's bounding boxes."""


class Slotted(torch.Tensor):
    __slots__ = ("hidden",)


def written(item, spare=0):
    """A buffer that holds the item; what nobody writes is 0xAA, not zero."""
    layout = lay_out(item)
    buffer = bytearray(b"\xaa" * (layout.size_bytes + spare))
    layout.write(memoryview(buffer))
    return buffer


def copied(item):
    return read(written(item))


def same(a, b):
    """Equal in type, in every bit and in order."""
    if type(a) is not type(b):
        return False
    if isinstance(a, torch.Tensor):
        equal = a.dtype == b.dtype and a.shape == b.shape and not b.requires_grad and same(vars(a), vars(b))
        return equal and bits(a) == bits(b)
    if isinstance(a, (np.ndarray, np.generic)):
        # char: longlong and int64 are equal, but not the same
        padded = a.dtype.names or a.dtype.char == "g"  # padding comes and goes
        return (a.dtype, a.dtype.char, a.shape) == (b.dtype, b.dtype.char, b.shape) and (
            np.array_equal(a, b) if padded else a.tobytes() == b.tobytes()
        )
    if isinstance(a, float):
        return struct.pack("d", a) == struct.pack("d", b)
    if isinstance(a, complex):
        return same(a.real, b.real) and same(a.imag, b.imag)
    if isinstance(a, dict):
        return same(list(a), list(b)) and same(list(a.values()), list(b.values()))
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, Image.Image):
        return (a.mode, a.size, a.tobytes(), a.getpalette(None) if a.palette else None, a.info) == (
            *(b.mode, b.size, b.tobytes(), b.getpalette(None) if b.palette else None, b.info),
        )
    return a == b


def bits(tensor):
    plain = tensor.as_subclass(torch.Tensor).resolve_conj().resolve_neg()
    if plain.itemsize < 16:  # not every dtype can be copied, but integers can
        plain = plain.view(INTEGERS[plain.itemsize])
    return plain.numpy().tobytes()


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(10**40), 10**40),
    st.floats(),
    st.complex_numbers(),
    st.text(),
    st.text(st.characters(categories=["Cs", "Lu"])),  # halves of surrogate pairs too
    st.binary(),
    st.binary().map(bytearray),
)
numpy_dtypes = st.sampled_from(
    [
        *("?", "i1", "<i2", ">i4", "<i8", "u8", "q", "Q", "f2", "f4", ">f8", "g", "c8", "c16"),
        *("S3", "<U2", "M8[ns]", "m8[D]", "V5"),
    ]
).map(np.dtype)
shapes = st.lists(st.integers(0, 4), max_size=4).map(tuple)


@st.composite
def arrays(draw):
    dtype, shape = draw(numpy_dtypes), draw(shapes)
    count = math.prod(shape)
    if dtype.kind == "U":
        array = np.array(draw(st.lists(st.text(max_size=2), min_size=count, max_size=count)), dtype)
        return array.reshape(shape)
    if dtype.kind == "?":
        array = np.array(draw(st.lists(st.booleans(), min_size=count, max_size=count)), bool)
        return array.reshape(shape)
    size = count * dtype.itemsize
    array = np.frombuffer(draw(st.binary(min_size=size, max_size=size)), dtype).reshape(shape)
    if dtype.char == "g":  # where not every pattern of bits is a number
        array = np.arange(count).astype(dtype).reshape(shape)
    return array.transpose(draw(st.permutations(range(len(shape)))))


@st.composite
def tensors(draw):
    dtype, shape = draw(st.sampled_from(TORCH_DTYPES)), draw(shapes)
    count = math.prod(shape) * dtype.itemsize
    raw = torch.tensor(list(draw(st.binary(min_size=count, max_size=count))), dtype=torch.uint8)
    if dtype == torch.bool:
        raw = raw & 1
    tensor = raw.view(dtype).view(shape)
    return tensor.permute(draw(st.permutations(range(len(shape)))))


TORCH_DTYPES = [
    *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint64),
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128),
    *(torch.float8_e5m2, torch.float8_e4m3fn),
]
leaves = st.one_of(scalars, arrays(), tensors(), arrays().filter(lambda a: a.size).map(lambda a: a.flat[0]))
values = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=10),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(st.one_of(st.text(), st.integers(), st.booleans(), st.tuples(st.text())), inner),
        st.builds(Pair, inner, inner),
    ),
    max_leaves=12,
)


@given(values, st.integers(0, 100))
@settings(deadline=None, max_examples=size(30, 300))
def test_every_item_comes_back_with_its_types_bits_and_order(item, spare):
    assert same(item, read(written(item, spare)))


@given(st.lists(st.one_of(st.integers(), st.floats(), st.text(), st.booleans(), st.none()), min_size=8))
@settings(deadline=None)
def test_long_lists_come_back_as_short_ones_do(values):
    assert same(values, copied(values))


@pytest.mark.parametrize(
    "item",
    [
        (True, 1, 1.0, np.True_, np.int64(1), np.float64(1), np.float32(1)),
        [np.longlong(3), np.str_("a\0"), np.bytes_(b"a\0")],
        [np.datetime64("2020-01-01", "D"), np.longdouble("1.1")],
        (-0.0, float("inf"), -float("nan"), struct.unpack("d", b"\x01\0\0\0\0\0\xf0\x7f")[0]),
        complex(float("nan"), -0.0),
        [2**63 - 1] * 9 + [2**63] * 9 + [-(2**63)] * 9,
        10**5000,
        "\ud83d\ude00 is not \U0001f600 and \0 is a letter",
        {1: "a", "1": "b", None: 0, (1, 2.0): [], b"x": {}, 1.5: ()},
        ((), [], {}, "", b"", bytearray()),
        {"t": [1]},
        Pair(torch.ones(2), Typed("x", (1, 2))),
        [Colour.CRIMSON, Colour.BLUE, Flags.B],
    ],
    ids=range(13),
)
def test_what_is_easily_confused_is_not(item):
    assert same(item, copied(item))


ALL_DTYPES = sorted({dtype for dtype in vars(torch).values() if isinstance(dtype, torch.dtype)}, key=str)


@pytest.mark.filterwarnings("ignore:ComplexHalf")
@pytest.mark.parametrize("dtype", [d for d in ALL_DTYPES if "torch.q" not in str(d)], ids=str)
def test_every_dtype_of_torch_comes_back(dtype):
    raw = torch.arange(16 * dtype.itemsize, dtype=torch.uint8)
    tensor = (raw & 1 if dtype == torch.bool else raw).view(dtype)
    assert same(tensor, copied(tensor))
    assert same(tensor.view(4, -1).t(), copied(tensor.view(4, -1).t()))
    assert same(tensor[0], copied(tensor[0]))
    assert same(tensor[:0], copied(tensor[:0]))


def test_tensors_come_back_as_memory_of_their_own():
    item = torch.arange(24.0).view(2, 3, 4).permute(2, 0, 1)
    buffer = written(item)
    out = read(buffer)
    assert out.stride() == item.stride() and torch.equal(out, item)
    before = out.clone()
    buffer[:] = bytes(len(buffer))
    assert torch.equal(out, before)
    out += 1
    assert not any(buffer)


def test_conjugated_and_negated_views_come_back_as_such():
    item = torch.tensor([1 + 2j, 3 - 4j])
    assert same(item.conj(), copied(item.conj())) and copied(item.conj()).is_conj()
    assert same(item.conj().imag, copied(item.conj().imag)) and copied(item.conj().imag).is_neg()


@pytest.mark.parametrize(
    "dtype",
    [
        np.dtype([("box", ">f4", (2, 2)), ("name", "U3"), ("id", [("a", "i2"), ("b", "u1")])]),
        np.dtype([("a", "u1"), ("b", "f8")], align=True),
    ],
    ids=str,
)
def test_structured_arrays_come_back(dtype):
    array = np.zeros((2, 3), dtype)
    array[dtype.names[0]] = 7
    assert same(array, copied(array))
    assert same(array[0, 0], copied(array[0, 0]))


def test_a_part_of_a_memory_map_comes_back_as_one(tmp_path):
    (tmp_path / "tokens").write_bytes(bytes(range(100)))
    part = np.memmap(tmp_path / "tokens", np.uint8, "r")[10:20]
    out = copied(part)
    assert type(out) is np.memmap and out.tolist() == list(range(10, 20))


def picture(mode):
    size = (5, 3)
    if mode in ("La", "RGBa"):
        return Image.new(mode[:-1] + "A", size, (9, 7, 5, 128)[-len(mode) :]).convert(mode)
    if mode == "PA":
        return Image.frombytes("P", size, bytes(range(15))).convert("PA")
    n_bytes = (5 * PIXEL_BITS[mode] + 7) // 8 * 3
    return Image.frombytes(mode, size, bytes(range(40, 40 + n_bytes)))


@pytest.mark.parametrize("mode", PIXEL_BITS)
def test_pictures_of_every_mode_come_back(mode):
    item = picture(mode)
    assert same(item, copied(item))


@pytest.mark.parametrize("raw_mode", ["RGB", "RGBA"])
def test_a_palette_and_what_is_known_of_a_picture_come_back(raw_mode):
    item = Image.frombytes("P", (4, 4), bytes(range(16)))
    item.putpalette(bytes(range(16 * len(raw_mode))), raw_mode)
    item.info = {"transparency": 3, "dpi": (72.0, 72), "exif": b"Exif\0\0"}
    out = copied(item)
    assert same(item, out)
    assert out.convert("RGBA").tobytes() == item.convert("RGBA").tobytes()


def test_a_picture_without_pixels_comes_back():
    assert copied(Image.new("RGB", (0, 7))).size == (0, 7)


def test_a_subclass_of_tensor_comes_back_with_its_attributes():
    item = torch.arange(4.0).as_subclass(Labelled)
    item.colour = Colour.RED
    out = copied((item,))[0]
    assert same(item, out) and out.colour is Colour.RED


def test_torchvisions_own_tensors_come_back():
    try:
        import torchvision.tv_tensors as tv
    except (ImportError, RuntimeError) as error:  # RuntimeError: made for another build of torch
        pytest.skip(f"no torchvision: {error}")
    item = {
        "image": tv.Image(torch.zeros(3, 4, 4)),
        "boxes": tv.BoundingBoxes(torch.ones(2, 4), format="XYXY", canvas_size=(4, 4)),
        "mask": tv.Mask(torch.ones(1, 4, 4, dtype=torch.bool)),
    }
    out = copied(item)
    assert same(item, out)
    assert out["boxes"].format is tv.BoundingBoxFormat.XYXY


def nested(depth):
    return [] if depth == 0 else [nested(depth - 1)]


Local = namedtuple("Elsewhere", "a")  # importable under no name
labelled_picture = Image.new("L", (1, 1))
labelled_picture.label = 3
cycle: list = []
cycle.append(cycle)
UNSUPPORTED = [
    ({1, 2}, "item is a set, which cannot be laid out"),
    (object, "item is a type, which"),
    ((0, {"mask": [object()]}), "item[1]['mask'][0] is a object, which cannot be laid out"),
    ({frozenset(): 0}, "item's key frozenset() is a frozenset"),
    (OrderedDict(a=1), "item is a collections.OrderedDict"),
    (Pair(0, lambda: 0), "item.label is a function"),
    (Local(1), "Elsewhere, whose class cannot be imported under that name"),
    (WithAttributes(1), None),
    (Flags.A | Flags.B, "which is no named member of"),
    (torch.ones(1, requires_grad=True), "item is a tensor that requires a gradient; detach it first"),
    (labelled_picture, "item is an image that has attributes of its own"),
    (torch.nn.Parameter(torch.ones(1), False), "Parameter, a tensor with state that cannot be seen"),
    (torch.ones(1).as_subclass(Slotted), "Slotted, a tensor with state that cannot be seen"),
    ([torch.eye(2).to_sparse()], "item[0] is a sparse_coo tensor on cpu"),
    (torch.ones(2, device="meta"), "item is a strided tensor on meta"),
    (torch.ones([1] * 40), "item is a tensor of 40 dimensions"),
    (np.array([None]), "item has the dtype dtype('O')"),
    (np.zeros(2, [("a", "O")]), "item has the dtype"),
    (np.zeros(2, np.dtype("i4", metadata={"a": 1})), "item has the dtype"),
    (np.ma.masked_array([1]), "item is a numpy.ma.MaskedArray"),
    (cycle, "item[0] contains itself"),
    ([nested(64)], "[0][0][0] is nested more than 64 deep"),
]


@pytest.mark.parametrize(("item", "message"), UNSUPPORTED, ids=[str(m) for _, m in UNSUPPORTED])
def test_what_cannot_be_laid_out_is_named_with_its_place(item, message):
    if message is None:
        item.extra = 1
        message = "a named tuple with more to it than its fields"
    with pytest.raises(Unsupported) as error:
        lay_out(item)
    assert str(error.value).startswith("item") and message in str(error.value)
    assert isinstance(error.value, (SenecaError, TypeError))
    again = pickle.loads(pickle.dumps(error.value))
    assert (type(again), str(again)) == (Unsupported, str(error.value))
    assert str(Unsupported(str(error.value))) == str(error.value)  # how torch's workers raise it again


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
def test_quantized_tensors_cannot_be_laid_out():
    with pytest.raises(Unsupported, match="item is a tensor that is quantized"):
        lay_out(torch.quantize_per_tensor(torch.ones(1), 1.0, 0, torch.qint8))


def test_a_buffer_that_is_too_small_is_refused_and_left_alone():
    layout = lay_out((torch.ones(100), 1))
    buffer = bytearray(layout.size_bytes - 1)
    with pytest.raises(ValueError, match=f"takes {layout.size_bytes} bytes, but the buffer has"):
        layout.write(memoryview(buffer))
    assert not any(buffer)


def test_payloads_lie_at_multiples_of_64_bytes():
    buffer = written((b"\x01" * 3, torch.full((5,), 2, dtype=torch.uint8), np.full(3, 3, np.uint8)))
    assert [buffer.index(bytes([n] * 3)) % 64 for n in (1, 2, 3)] == [0, 0, 0]
