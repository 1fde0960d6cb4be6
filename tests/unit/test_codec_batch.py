"""The batch: torchvision's floats to the bit, in every layout."""

import numpy as np
import pytest

from seneca._core.codec import Plan, batch_write

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SIZES = [(1, 1), (1, 15), (2, 8), (3, 17), (33, 31), (224, 224)]


def written(pixels, dtype, channels_last, mean=MEAN, std=STD):
    height, width, _ = pixels.shape
    shape = (height, width, 3) if channels_last else (3, height, width)
    # What lies around the place in the batch belongs to other pictures.
    around = np.full(3 * height * width + 64, 7, dtype)
    out = around[32:-32].reshape(shape)
    batch_write(Plan([], 0, dtype, channels_last, mean, std), pixels, out)
    assert (around[:32] == 7).all() and (around[-32:] == 7).all()
    return out if channels_last else out.transpose(1, 2, 0)


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_bytes_are_laid_out_unchanged(size, channels_last):
    pixels = np.random.default_rng(1).integers(0, 256, (*size, 3), np.uint8)
    np.testing.assert_array_equal(written(pixels, "uint8", channels_last), pixels)


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_floats_are_those_of_to_tensor_and_normalize(size, channels_last):
    torch = pytest.importorskip("torch")
    pixels = np.random.default_rng(2).integers(0, 256, (*size, 3), np.uint8)
    tensor = torch.from_numpy(pixels).to(torch.float32).div(255)
    expected = tensor.sub_(torch.tensor(MEAN)).div_(torch.tensor(STD)).numpy()
    np.testing.assert_array_equal(written(pixels, "float32", channels_last), expected)


@pytest.mark.parametrize("channels_last", [False, True])
def test_every_pixel_value_is_divided_exactly_whatever_the_statistics(channels_last):
    rng = np.random.default_rng(3)
    pixels = np.repeat(np.arange(256, dtype=np.uint8), 3).reshape(16, 16, 3)
    for _ in range(400):
        mean = rng.uniform(-1, 1, 3).astype(np.float32)
        std = (rng.choice([-1, 1], 3) * np.exp(rng.uniform(-9, 9, 3))).astype(np.float32)
        expected = (pixels.astype(np.float32) / np.float32(255) - mean) / std
        np.testing.assert_array_equal(written(pixels, "float32", channels_last, mean, std), expected)


def test_a_place_of_another_shape_or_type_is_refused():
    plan, pixels = Plan([], 0, "float32", False, MEAN, STD), np.zeros((4, 5, 3), np.uint8)
    for out in (np.empty((4, 5, 3), np.float32), np.empty((3, 4, 5)), np.empty((3, 4, 6), np.float32)):
        with pytest.raises(ValueError):
            batch_write(plan, pixels, out)
