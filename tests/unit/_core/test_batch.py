"""The batch: torchvision's floats to the bit, rounded to halves as torch rounds, in every layout."""

import hashlib
import os

import numpy as np
import pytest
import ready

from seneca._core.batch import batch_write
from seneca._core.plan import Plan
from seneca.errors import PlanError

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SIZES = [(1, 1), (1, 15), (2, 8), (3, 17), (33, 31), (224, 224)]


ARRAYS = {"uint8": np.uint8, "float16": np.float16, "bfloat16": np.uint16, "float32": np.float32}


def written(pixels, dtype, channels_last, mean=MEAN, std=STD, scale=True):
    height, width, _ = pixels.shape
    shape = (height, width, 3) if channels_last else (3, height, width)
    # What lies around the place in the batch belongs to other pictures.
    around = np.full(3 * height * width + 64, 7, ARRAYS[dtype])
    out = around[32:-32].reshape(shape)
    batch_write(Plan([], 0, dtype, channels_last, mean, std, scale=scale), pixels, out)
    assert (around[:32] == 7).all() and (around[-32:] == 7).all()
    return out if channels_last else out.transpose(1, 2, 0)


def rounded(floats, dtype):
    """float32 as torch casts it to a half, in its bits."""
    torch = pytest.importorskip("torch")
    return torch.from_numpy(np.ascontiguousarray(floats)).to(getattr(torch, dtype)).view(torch.int16).numpy()


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


@pytest.mark.small(1)
@pytest.mark.parametrize("channels_last", [False, True])
def test_every_pixel_value_is_divided_exactly_whatever_the_statistics(channels_last):
    rng = np.random.default_rng(3)
    pixels = np.repeat(np.arange(256, dtype=np.uint8), 3).reshape(16, 16, 3)
    for _ in range(400):
        mean = rng.uniform(-1, 1, 3).astype(np.float32)
        std = (rng.choice([-1, 1], 3) * np.exp(rng.uniform(-9, 9, 3))).astype(np.float32)
        expected = (pixels.astype(np.float32) / np.float32(255) - mean) / std
        np.testing.assert_array_equal(written(pixels, "float32", channels_last, mean, std), expected)


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("size", SIZES)
def test_halves_are_the_floats_rounded_once(dtype, size, channels_last):
    pixels = np.random.default_rng(4).integers(0, 256, (*size, 3), np.uint8)
    expected = rounded(written(pixels, "float32", channels_last), dtype)
    np.testing.assert_array_equal(written(pixels, dtype, channels_last).view(np.int16), expected)


@pytest.mark.small(1)
@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_every_half_is_rounded_as_torch_does_be_it_infinite_or_subnormal(dtype, channels_last):
    rng = np.random.default_rng(5)
    pixels = np.repeat(np.arange(256, dtype=np.uint8), 3).reshape(16, 16, 3)
    kinds = set()
    for _ in range(300):
        mean = rng.uniform(-1, 1, 3).astype(np.float32)
        std = (rng.choice([-1, 1], 3) * np.exp(rng.uniform(-13.8, 13.8, 3))).astype(np.float32)
        floats = written(pixels, "float32", channels_last, mean, std)
        ours = written(pixels, dtype, channels_last, mean, std)
        np.testing.assert_array_equal(ours.view(np.int16), rounded(floats, dtype), f"{mean} {std}")
        if dtype == "float16":
            small = np.abs(ours) < 2**-14
            kinds |= {name for name, found in (("infinite", np.isinf(ours)), ("small", small)) if found.any()}
    assert dtype == "bfloat16" or kinds == {"infinite", "small"}


@pytest.mark.parametrize("channels_last", [False, True])
def test_halfway_numbers_go_to_the_even_half(channels_last):
    # 2048 + pixel: a float16 has every second of these. 256 + pixel / 2: a bfloat16 every fourth pixel.
    pixels = np.repeat(np.arange(256, dtype=np.uint8), 3).reshape(16, 16, 3)
    whole = pixels.astype(np.float32)
    for dtype, mean, std in (("float16", -2048, 1), ("float16", 2048, 2**-5), ("bfloat16", -512, 2)):
        ours = written(pixels, dtype, channels_last, (mean,) * 3, (std,) * 3, scale=False)
        exact = (whole - mean) / np.float32(std)
        np.testing.assert_array_equal(ours.view(np.int16), rounded(exact, dtype))


@pytest.mark.parametrize("channels_last", [False, True])
def test_float16_has_its_limits(channels_last):
    """65519 is the last that does not become infinite, 2^-25 the last that becomes 0."""
    pixels = np.repeat(np.arange(256, dtype=np.uint8), 3).reshape(16, 16, 3)
    large = written(pixels, "float16", channels_last, (-65400,) * 3, (1,) * 3, scale=False)
    assert large[pixels < 120].max() == 65504 and np.isinf(large[pixels >= 120]).all()
    tiny = written(pixels, "float16", channels_last, (0,) * 3, (2.0**19,) * 3, scale=False).astype(float)
    steps = pixels.astype(float) * 2.0**-19
    np.testing.assert_array_equal(tiny, steps)
    tiny = written(pixels, "float16", channels_last, (2.0,) * 3, (2.0**19 * 1.5,) * 3, scale=False)
    np.testing.assert_array_equal(
        tiny.view(np.int16), rounded((pixels.astype(np.float32) - 2) / np.float32(2**19 * 1.5), "float16")
    )


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_without_scaling_floats_are_0_to_255_before_they_are_normalised(dtype, channels_last):
    pixels = np.random.default_rng(6).integers(0, 256, (9, 11, 3), np.uint8)
    mean, std = np.float32((123.675, 116.28, 103.53)), np.float32((58.395, 57.12, 57.375))
    expected = (pixels.astype(np.float32) - mean) / std
    ours = written(pixels, dtype, channels_last, mean, std, scale=False)
    if dtype == "float32":
        np.testing.assert_array_equal(ours, expected)
    else:
        np.testing.assert_array_equal(ours.view(np.int16), rounded(expected, dtype))
    plain = written(pixels, dtype, channels_last, (0,) * 3, (1,) * 3, scale=False)
    if dtype != "bfloat16":
        np.testing.assert_array_equal(plain, pixels)


def digest():
    hashed = hashlib.sha256()
    rng = np.random.default_rng(7)
    for size in SIZES:
        pixels = rng.integers(0, 256, (*size, 3), np.uint8)
        for dtype in ARRAYS:
            for channels_last in (False, True):
                for scale in (False, True):
                    std = np.exp(rng.uniform(-13, 13, 3))
                    out = written(pixels, dtype, channels_last, rng.uniform(-2, 2, 3), std, scale)
                    hashed.update(np.ascontiguousarray(out))
    return hashed.hexdigest()


def test_vector_code_and_plain_code_give_the_same_bits():
    code = "import sys; sys.path.insert(0, sys.argv[1]); import test_batch as t; print(t.digest())"
    folder, environment = os.path.dirname(__file__), {**os.environ, "SENECA_SIMD": "none"}
    plain = ready.run("-c", code, folder, env=environment, fresh=True)
    assert plain.stdout.strip() == digest(), plain.stderr


@pytest.mark.parametrize("dtype", ARRAYS)
def test_a_place_of_another_shape_or_type_is_refused(dtype):
    plan, pixels = Plan([], 0, dtype, False, MEAN, STD), np.zeros((4, 5, 3), np.uint8)
    right = ARRAYS[dtype]
    batch_write(plan, pixels, np.empty((3, 4, 5), right))
    wrong = [
        np.empty((3, 4, 5), other) for other in (*ARRAYS.values(), np.int16, float) if other is not right
    ]
    wrong += [np.empty((4, 5, 3), right), np.empty((3, 4, 6), right), np.empty((3, 8, 5), right)[:, ::2]]
    for out in wrong:
        with pytest.raises(ValueError):
            batch_write(plan, pixels, out)


@pytest.mark.parametrize(
    "arguments",
    [
        {"dtype": "float64"},
        {"std": (1, 1, 0)},
        {"std": (1, 1, 1e7)},
        {"std": (1, 1, 1e-7)},
        {"mean": (0, 0, float("nan"))},
        {"mean": (0, 0, 1e7)},
        {"mean": (0, 0)},
        {"decode": "sloppy"},
    ],
)
def test_what_no_batch_can_be_made_with_is_refused(arguments):
    right = {"ops": [], "n_head": 0, "dtype": "float32", "channels_last": False, "mean": MEAN, "std": STD}
    Plan(**right)
    with pytest.raises(PlanError):
        Plan(**(right | arguments))
