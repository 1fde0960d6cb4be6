"""Items come back with the layout of their tensors and arrays, and with what is one object."""

import numpy as np
import pytest
import torch
from PIL import Image

from seneca.data.serialize import lay_out, read


class Labelled(torch.Tensor):
    """A subclass of tensors."""


def copied(item):
    layout = lay_out(item)
    buffer = bytearray(layout.size_bytes)
    layout.write(memoryview(buffer))
    return read(buffer)


WAYS = {  # of laying out the same elements: with gaps that are left out, and strides of 0 that are kept
    "permuted": (lambda t: t.permute(2, 0, 1), (1, 12, 4)),
    "a part": (lambda t: t[:, :, 1:3], (6, 2, 1)),
    "a part, permuted": (lambda t: t[:, :, 1:3].permute(2, 0, 1), (1, 6, 2)),
    "expanded": (lambda t: t[:, :1].expand(2, 5, 4), (4, 0, 1)),
    "expanded and permuted": (lambda t: t[:, :1].expand(2, 5, 4).permute(2, 0, 1), (1, 4, 0)),
    "one element, expanded": (lambda t: t[0, 0, 0].expand(7, 5), (0, 0)),
    "of other bytes": (lambda t: t.to(torch.bfloat16).permute(2, 0, 1), (1, 12, 4)),
}


@pytest.mark.parametrize("way", WAYS)
def test_elements_keep_their_order_in_memory(way):
    change, strides = WAYS[way]
    item = change(torch.arange(24.0).view(2, 3, 4))
    out = copied(item)
    assert torch.equal(item, out) and out.stride() == strides
    if item.dtype == torch.float32:
        array = copied(item.numpy())
        assert np.array_equal(item.numpy(), array) and array.strides == tuple(
            4 * stride for stride in strides
        )


def test_what_is_expanded_takes_the_room_of_one():
    assert lay_out(torch.zeros(1, 5).expand(10**6, 5)).size_bytes < 300


def test_arrays_come_back_reversed_and_read_only_as_they_were():
    item = np.arange(24).reshape(2, 3, 4)[::-1, :, ::-1].T
    out = copied(item)
    assert np.array_equal(item, out) and out.strides == item.strides and out.flags.writeable
    assert not copied(np.broadcast_to(np.zeros(3), (2, 3))).flags.writeable
    assert not copied(np.frombuffer(b"abc", np.uint8)).flags.writeable


def test_tensors_of_inference_mode_come_back_as_such():
    with torch.inference_mode():
        item = torch.arange(6.0).view(2, 3)
        inside = lay_out(
            item
        ).digest()  # all tensors are of it there, also those of a dataset that knows of none
    assert copied(item).is_inference() and copied(item.t()).is_inference()
    assert inside == lay_out(torch.arange(6.0).view(2, 3)).digest()


def test_an_object_that_is_held_twice_comes_back_as_one():
    tensor, array, words, more = torch.ones(2), np.ones(2), ["a"], {"b": bytearray(b"c")}
    out = copied([tensor, (array, words), more, {"again": [tensor, array, words, more, more["b"]]}, words])
    again = out[3]["again"]
    assert all(a is b for a, b in zip([out[0], *out[1], out[2], out[2]["b"]], again, strict=True))
    assert out[4] is out[1][1]
    labelled = tensor.as_subclass(Labelled)
    first, second = copied([labelled, labelled])
    assert first is second and type(first) is Labelled
    picture = Image.new("L", (2, 2))
    first, second = copied({"a": picture, "b": picture}).values()
    assert first is second


def test_an_object_that_is_held_very_often_is_written_once():
    item = [1]
    for _ in range(50):
        item = [item, item]
    assert lay_out(item).size_bytes < 3000
    out = copied(item)
    assert out[0] is out[1] and out[0][1][0] is out[1][0][1]


def test_what_was_changed_in_the_exif_of_a_picture_comes_back():
    item = Image.new("L", (2, 2))
    item.getexif()[0x0112] = 6
    assert dict(copied(item).getexif()) == {0x0112: 6} and copied(item).info == {}


PADDED = np.dtype([("a", "u1"), ("b", "f8"), ("c", [("d", "g"), ("e", "u1", (2,))], (3,))], align=True)


@pytest.mark.parametrize("dtype", ["g", "G", PADDED], ids=str)
def test_bytes_that_belong_to_no_value_count_for_nothing(dtype):
    """Else an item would differ each time that it is made."""
    dtype = np.dtype(dtype)
    items = []
    for filling in (0, 255):
        raw = np.full(dtype.itemsize * 6, filling, np.uint8).view(dtype).reshape(2, 3)
        fill(raw)
        items.append(raw)
    first, second = items
    assert lay_out(first).digest() == lay_out(second).digest()
    assert lay_out(first.T).digest() == lay_out(second.T).digest()
    assert lay_out(first[0, 0]).digest() == lay_out(second[0, 0]).digest()
    assert str(copied(second)) == str(first)


def fill(array):
    """Write a number to each field."""
    for name in array.dtype.names or ():
        fill(array[name])
    if array.dtype.names is None:
        array[...] = np.arange(array.size).reshape(array.shape)
