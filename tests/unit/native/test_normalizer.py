"""The module makes of uint8 pictures what the native core makes of them, to the last bit."""

import copy
import pickle

import numpy as np
import pytest
import torch

from seneca._core.batch import batch_write
from seneca._core.plan import Plan
from seneca.native.normalizer import Normalizer
from seneca.transforms._apply import array_of

STATISTICS = {
    "none": ((0, 0, 0), (1, 1, 1)),
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "mean alone": ((0.1, 0, -0.3), (1, 1, 1)),
    "deviation alone": ((0, 0, 0), (0.3, 1, -7)),
    "large": ((1234.5, 0.1, 3), (1e-5, 3e5, 1)),
    "in pixels": ((123.675, 116.28, 103.53), (58.395, 57.12, 57.375)),
}


def every_pixel():
    """Each value of a pixel in each channel, uint8 (16, 16, 3)."""
    values = np.arange(256, dtype=np.uint8)
    return np.stack([values, values[::-1], np.roll(values, 77)], axis=1).reshape(16, 16, 3)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "uint8"])
@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("statistics", STATISTICS)
@pytest.mark.parametrize("channels_last", [True, False])
def test_each_number_is_the_native_core_s(dtype, scale, statistics, channels_last):
    mean, std = STATISTICS[statistics]
    pixels = every_pixel()
    shape = (16, 16, 3) if channels_last else (3, 16, 16)
    wanted = torch.empty(shape, dtype=getattr(torch, dtype))
    plan = Plan([], 0, dtype, channels_last, mean, std, scale=scale)
    batch_write(plan, pixels, array_of(wanted))
    images = torch.from_numpy(pixels).permute(2, 0, 1)
    if channels_last:
        wanted = wanted.permute(2, 0, 1)
    layout = torch.channels_last if channels_last else torch.contiguous_format
    divisor = 255 if scale else 1
    made = Normalizer(mean, std, divisor=divisor, dtype=getattr(torch, dtype), memory_format=layout)(images)
    assert made.dtype == wanted.dtype
    bits = torch.int32 if dtype == "float32" else torch.int16
    if dtype == "uint8":
        assert made is images and torch.equal(made, wanted)
    else:
        assert made.stride() == wanted.stride()
        assert torch.equal(made.contiguous().view(bits), wanted.contiguous().view(bits))


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_batches_keep_their_shape_and_the_bytes_are_left_as_they_are(layout):
    images = torch.arange(2 * 3 * 4 * 5, dtype=torch.uint8).view(2, 3, 4, 5)
    normalizer = Normalizer(*STATISTICS["imagenet"], memory_format=layout)
    for each in (images, images.contiguous(memory_format=torch.channels_last), images[:1], images[0]):
        before = each.clone()
        made = normalizer(each)
        assert made.shape == each.shape and torch.equal(each, before)
        assert (made if made.dim() == 4 else made[None]).is_contiguous(memory_format=layout)
    assert torch.equal(normalizer(images)[1], normalizer(images[1]))


def erasures(*rectangles):
    """One picture's, of ``(top, left, height, width, values)``."""
    made = torch.zeros(len(rectangles), 7, dtype=torch.int32)
    for row, (*sides, values) in zip(made, rectangles, strict=True):
        row[:4] = torch.tensor(sides, dtype=torch.int32)
        row[4:] = torch.tensor(values, dtype=torch.float32).view(torch.int32)
    return made


NONE = (0, 0, 0, 0, (0, 0, 0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_rectangles_are_erased_one_after_the_other(dtype, layout):
    of_pictures = [
        [(1, 2, 3, 4, (0.1, -0.2, 3e4)), (2, 0, 2, 3, (7, 8, 9))],  # the second lies over the first
        [(0, 0, 6, 7, (1, 2, 3)), NONE],
        [NONE, (5, 6, 1, 1, (1, 2, 3))],
        [NONE, NONE],
    ]
    images = torch.full((4, 3, 6, 7), 99, dtype=torch.uint8)
    normalizer = Normalizer(*STATISTICS["imagenet"], dtype=dtype, memory_format=layout)
    wanted = normalizer(images)
    for picture, rectangles in zip(wanted, of_pictures, strict=True):
        for top, left, height, width, values in rectangles:
            of_channels = torch.tensor(values, dtype=dtype)[:, None, None]
            picture[:, top : top + height, left : left + width] = of_channels
    made = normalizer(images, torch.stack([erasures(*each) for each in of_pictures]))
    assert torch.equal(made, wanted) and made.is_contiguous(memory_format=layout)


def test_images_that_are_floats_are_refused():
    with pytest.raises(TypeError, match=r"torch.float32, but uint8 images .* normalise them once"):
        Normalizer((0, 0, 0), (1, 1, 1))(torch.zeros(1, 3, 4, 4))


def test_a_model_can_hold_it_and_stays_as_it_was():
    images = torch.from_numpy(every_pixel()).permute(2, 0, 1)
    normalizer = Normalizer(*STATISTICS["imagenet"])
    wanted = normalizer(images)
    model = torch.nn.Sequential(normalizer, torch.nn.Conv2d(3, 1, 1))
    assert list(model.state_dict()) == ["1.weight", "1.bias"] and not list(normalizer.parameters())
    model.half()
    assert torch.equal(normalizer(images), wanted)
    model.to("meta")
    assert normalizer.mean.is_meta
    model.to_empty(device="cpu")
    assert torch.equal(normalizer(images), wanted)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_it_pickles_and_is_copied(copied):
    normalizer = Normalizer(*STATISTICS["imagenet"], divisor=1, dtype=torch.bfloat16)
    again, images = copied(normalizer), torch.from_numpy(every_pixel()).permute(2, 0, 1)
    assert repr(again) == repr(normalizer) and "0.485" in repr(again) and "bfloat16" in repr(again)
    assert again.mean is not normalizer.mean and torch.equal(again(images), normalizer(images))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device here")
@pytest.mark.parametrize("moves", [True, False])
@pytest.mark.parametrize("statistics", STATISTICS)
def test_on_cuda_each_number_is_that_of_the_cpu(statistics, moves):
    images = torch.from_numpy(every_pixel()).permute(2, 0, 1)[None]
    what = erasures((1, 2, 3, 4, (0.1, -0.2, 3e4)))[None]
    normalizer = Normalizer(*STATISTICS[statistics])
    wanted = normalizer(images, what)
    if moves:
        normalizer.to("cuda")
    made = normalizer(images.cuda(), what.cuda())
    assert made.is_cuda and torch.equal(made.cpu().view(torch.int32), wanted.view(torch.int32))


def test_defaults_of_the_process_change_nothing():
    images = torch.from_numpy(every_pixel()).permute(2, 0, 1)
    wanted = Normalizer(*STATISTICS["imagenet"])(images)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.device("meta"):
            normalizer = Normalizer(*STATISTICS["imagenet"])
        assert torch.equal(normalizer(images), wanted) and normalizer(images).dtype == torch.float32
    finally:
        torch.set_default_dtype(before)
