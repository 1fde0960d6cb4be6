"""What a buffer holds is an item, or a clear error."""

import enum
import json
import sys
import zlib
from collections import namedtuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from sizes import size

from seneca.data.serialize import DamagedItem, lay_out, read
from seneca.data.serialize_read import HEADER, MAGIC

Pair = namedtuple("Pair", "image label")


class Colour(enum.Enum):
    RED = "red"


def written(item):
    layout = lay_out(item)
    buffer = bytearray(layout.size_bytes)
    layout.write(memoryview(buffer))
    return buffer


# reseal() makes header and checksum good again, so that the skeleton itself is tried.


def reseal(buffer, size=None):
    magic, _, head_bytes, _ = HEADER.unpack_from(buffer)
    checksum = zlib.crc32(buffer[HEADER.size : HEADER.size + head_bytes])
    HEADER.pack_into(buffer, 0, magic, len(buffer) if size is None else size, head_bytes, checksum)
    return buffer


def with_skeleton(skeleton, payload_bytes=256):
    head = (skeleton if isinstance(skeleton, str) else json.dumps(skeleton)).encode("utf-8", "surrogatepass")
    buffer = bytearray(HEADER.size + len(head) + payload_bytes)
    HEADER.pack_into(buffer, 0, MAGIC, len(buffer), len(head), 0)
    buffer[HEADER.size : HEADER.size + len(head)] = head
    return reseal(buffer)


@pytest.mark.parametrize(
    ("skeleton", "message"),
    [
        ({"a": ["<f4", [2**40]]}, "reaches beyond the item's end"),
        ({"a": ["<f4", [2**62, 2**62]]}, "reaches beyond the item's end"),
        ({"a": ["<f4", [-4]]}, "is no shape"),
        ({"a": ["<f4", [True]]}, "is no shape"),
        ({"a": ["<f4", [1.0]]}, "is no shape"),
        ({"a": ["|O", [1]]}, "describes no dtype"),
        ({"a": ["U", [10**9]]}, "describes no dtype"),
        ({"a": ["<U0", [10**9]]}, "describes no dtype"),
        ({"a": ["(1000000,)f8", [0]]}, "describes no dtype"),
        ({"a": ["i4,f4", [0]]}, "describes no dtype"),
        ({"a": [[["x", "|O"]], [1]]}, "describes no dtype"),
        ({"a": [[["x", "<f8", [2**20, 2**20]]], [1]]}, "damaged"),
        ({"a": [5, [1]]}, "damaged"),
        ({"T": ["torch.float32", [2**50]]}, "reaches beyond the item's end"),
        ({"T": ["torch.float32", [0, 2**70]]}, "damaged"),
        ({"T": ["torch.nn", [1]]}, "damaged"),
        ({"T": ["torch.float32"]}, "damaged"),
        ({"b": 10**12}, "reaches beyond the item's end"),
        ({"b": -1}, "reaches beyond the item's end"),
        ({"b": "x"}, "damaged"),
        ({"p": ["RGB", [2**20, 2**20], None, {"d": [[], []]}, None]}, "reaches beyond"),
        ({"p": ["RGB", [-2, -2], None, {"d": [[], []]}, None]}, "is no shape"),
        ({"p": ["XYZ", [1, 1], None, {"d": [[], []]}, None]}, "damaged"),
        ({"p": ["P", [1, 1], ["nonsense", "00"], {"d": [[], []]}, None]}, "damaged"),
        ({"p": ["L", [1, 1], None, {"d": [[], []]}, "0x"]}, "damaged"),
        ({"r": 0}, "damaged"),
        ([{"k": 5}, {"r": -1}], "is no shape"),
        ({"v": [{"a": ["<f4", [2]]}, [0], [3], []]}, "damaged"),
        ({"v": [{"a": ["<f4", [1]]}, [0], [-3], []]}, "damaged"),
        ({"v": [{"a": ["<f4", [2]]}, [1], [2], []]}, "damaged"),
        ({"v": [{"T": ["torch.float32", [2]]}, [0], [3], []]}, "damaged"),
        ({"v": [5, [0], [3], []]}, "damaged"),
        ({"w": 5}, "damaged"),
        ({"j": 5.5}, "damaged"),
        ({"n": ["os", "system", ["a"], ["true"]]}, "os.system is no tuple"),
        ({"n": ["builtins", "tuple", ["a"], [1]]}, "damaged"),
        ({"n": [__name__, "Pair", ["image", "name"], [1, 2]]}, "has other fields here"),
        ({"n": [__name__, "Pair", ["image", "label"], [1]]}, "has other fields here"),
        ({"n": ["no.such.module", "Pair", ["a"], [1]]}, "No module named"),
        ({"e": [__name__, "Pair", "RED"]}, "is no Enum"),
        ({"e": [__name__, "Colour", "GREEN"]}, "damaged"),
        ({"s": [__name__, "Pair", {"T": ["torch.float32", [1]]}, {"d": [[], []]}]}, "is no Tensor"),
        ({"s": [__name__, "Labelled", 5, {"d": [[], []]}]}, "damaged"),
        ({"d": [["a"], []]}, "damaged"),
        ({"d": [[[]], [1]]}, "damaged"),
        ({"t": 5}, "damaged"),
        ({"g": ["<f4", "0000"]}, "damaged"),
        ({"g": ["<f4", "00" * 8]}, "damaged"),
        ({"i": "x"}, "damaged"),
        ({"f": "00"}, "damaged"),
        ({"zzz": 1}, "damaged"),
        ({"t": [], "d": []}, "damaged"),
        ({}, "damaged"),
        ("[" * 100_000, "RecursionError"),
        ("9" * 100_000, "damaged") if sys.version_info >= (3, 11) else ("", "damaged"),
        ("", "damaged"),
        ("[1", "damaged"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_skeleton_that_asks_for_nonsense_is_refused(skeleton, message):
    with pytest.raises(DamagedItem, match=message):
        read(with_skeleton(skeleton))


@pytest.mark.parametrize(
    ("buffer", "message"),
    [
        (b"", "0 bytes are too few"),
        (bytes(100), "an item begins with"),
        (written(1)[:-1], "is not in"),
        (HEADER.pack(MAGIC, 24, 2**32 - 1, 0), "is not in"),
        (HEADER.pack(MAGIC, 2**64 - 1, 0, 0), "is not in"),
    ],
    ids=["empty", "zeros", "cut off", "long skeleton", "long item"],
)
def test_what_is_no_item_is_refused(buffer, message):
    with pytest.raises(DamagedItem, match=message):
        read(buffer)


def test_every_byte_of_header_and_skeleton_counts():
    buffer = written(("ab", 12, [True]))
    for place in range(len(buffer)):
        for bit in (1, 128):
            damaged = bytearray(buffer)
            damaged[place] ^= bit
            with pytest.raises(DamagedItem):
                read(damaged)


ITEM = {
    "x": torch.arange(6.0).view(2, 3),
    "y": [np.arange(3), Pair(b"abc", Colour.RED), np.float32(2), (1.5, None)],
    "z": Image.new("P", (3, 2)),
    "w": np.zeros(2, [("a", "i4"), ("b", "f4", (2,))]),
}


NOISE = b'0123456789{}[]",:-.eE<>|OUSV ft\xff\xed'  # what skeletons are made of, and what is no UTF-8


@given(st.data())
@settings(deadline=None, max_examples=size(100, 500))
def test_any_bytes_give_an_item_or_a_clear_error(data):
    buffer = bytearray(written(ITEM))
    head_end = HEADER.size + HEADER.unpack_from(buffer)[2]
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(HEADER.size, head_end - 1))
        buffer[place] = data.draw(st.sampled_from(NOISE) | st.integers(0, 255))
    try:
        read(reseal(buffer))
    except DamagedItem as error:
        assert str(error)


@given(st.binary(max_size=300))
@settings(deadline=None)
def test_noise_behind_a_good_header_is_refused_or_read(noise):
    head = HEADER.pack(MAGIC, 24 + len(noise), len(noise), zlib.crc32(noise))
    try:
        read(head + noise)
    except DamagedItem as error:
        assert str(error)


def test_nothing_holds_on_to_the_buffer():
    for damage in (False, True):
        buffer = written((torch.ones(3), np.ones(3), b"abc", Image.new("L", (3, 3)), [np.float32(1)]))
        if damage:
            del buffer[-1:]
            with pytest.raises(DamagedItem) as kept:  # traceback and all
                read(reseal(buffer, 9))
            assert kept
        else:
            kept = read(buffer)
        buffer.clear()  # BufferError while anything refers to it
