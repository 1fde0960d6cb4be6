"""The memory of a batch is used again once nobody holds it, and never before."""

import numpy as np
import pytest
import torch

from seneca.native.buffers import SPARE, BatchBuffers


def buffers(**options):
    return BatchBuffers((3, 4, 5), **{"at_once": 1, "pinned": False} | options)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.uint8])
@pytest.mark.parametrize("channels_last", [False, True])
def test_tensor_and_array_are_one_memory(dtype, channels_last):
    tensor, (array,), *others = buffers(dtype=dtype, channels_last=channels_last)(2)
    assert others == [None, None, None]
    assert tensor.shape == (2, 3, 4, 5) and tensor.dtype == dtype
    array[:] = np.arange(array.size).reshape(array.shape) % 200
    seen = tensor.permute(0, 2, 3, 1) if channels_last else tensor
    assert seen.tolist() == array.tolist()


@pytest.mark.parametrize("masks", [torch.uint8, torch.int64])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_masks_have_memory_of_their_own(dtype, masks):
    made = buffers(dtype=dtype, masks=masks)(3)
    assert made.masks.shape == (3, 1, 4, 5) and made.masks.dtype == masks
    pictures, classes = made.arrays
    assert pictures.shape == (3, 3, 4, 5) and classes.shape == (3, 1, 4, 5)
    pictures[:], classes[:] = 7, np.arange(60).reshape(3, 1, 4, 5)
    assert bool((made.tensor == 7).all()) and made.masks.flatten().tolist() == list(range(60))


def test_how_pictures_were_moved_has_memory_of_its_own():
    made = buffers(moves=6)(3)
    pictures, moves = made.arrays
    assert made.moves is moves and moves.shape == (3, 6) and moves.dtype == np.uint32
    assert pictures.shape == (3, 3, 4, 5) and made.masks is None


@pytest.mark.parametrize("besides", [{}, {"masks": torch.uint8}, {"moves": 6}])
def test_rectangles_to_be_erased_come_last(besides):
    made = buffers(erasures=2, **besides)(3)
    assert made.erasures.shape == (3, 2, 7) and made.erasures.dtype == torch.int32
    made.arrays[-1][:] = 5
    assert bool((made.erasures == 5).all()) and len(made.arrays) == 2 + len(besides)


def test_a_batch_that_is_held_keeps_its_memory_and_another_takes_what_was_let_go_of():
    make = buffers()
    held, given_up = make(2).tensor[1:], make(2).tensor
    place = given_up.data_ptr()
    del given_up
    again = make(2).tensor
    assert again.data_ptr() == place != held.data_ptr()


def test_a_batch_that_needs_more_gets_other_memory():
    make = buffers(dtype=torch.uint8)
    small = make(1).tensor.data_ptr()
    assert make(1000).tensor.data_ptr() != small


def test_only_so_many_are_kept():
    make = buffers()
    held = [make(1).tensor for _ in range(10)]
    assert len(make._mappings) == 1 + SPARE < len({tensor.data_ptr() for tensor in held}) == 10
