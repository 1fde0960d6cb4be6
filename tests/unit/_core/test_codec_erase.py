"""Random erasing: torchvision's boxes, in every dtype and layout, drawn anew for each delivery."""

import math

import numpy as np
import pytest
from PIL import Image
from replay import Numbers

from seneca._core import pool
from seneca._core.batch import batch_write
from seneca._core.codec import Codec
from seneca._core.member import Member
from seneca._core.plan import Plan
from seneca.errors import PlanError

ERASE = 3  # SN_STREAM_ERASE
DTYPES = {"uint8": np.uint8, "float16": np.float16, "bfloat16": np.uint16, "float32": np.float32}
USUAL = {"p": 0.5, "scale": (0.02, 0.33), "ratio": (0.3, 3.3), "value": (0.0, 0.0, 0.0)}
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def plan(dtype="float32", channels_last=False, **erase):
    arguments = USUAL | erase if erase else None
    return Plan([], 0, dtype, channels_last, MEAN, STD, erase=arguments)


def written(p, pixels, index=0, *, dtype="float32", channels_last=False, seed=0, epoch=0):
    """In the layout (height, width, channel)."""
    height, width, _ = pixels.shape
    out = np.empty((height, width, 3) if channels_last else (3, height, width), DTYPES[dtype])
    batch_write(p, pixels, out, seed, epoch, index)
    return out if channels_last else out.transpose(1, 2, 0)


def torchvisions_box(numbers, height, width, scale, ratio):
    """RandomErasing.get_params, written down again; None where it leaves the picture as it is."""
    for _ in range(10):
        area = height * width * numbers.uniform(*scale)
        aspect = math.exp(numbers.uniform(math.log(ratio[0]), math.log(ratio[1])))
        h, w = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if h < height and w < width:
            return numbers.below(height - h + 1), numbers.below(width - w + 1), h, w
    return None


def expected_box(pixels, key, *, p=1.0, scale=(0.02, 0.33), ratio=(0.3, 3.3)):
    numbers = Numbers(key[0], 0, *key[1:], ERASE)
    if numbers.double() >= p:
        return None, numbers
    return torchvisions_box(numbers, *pixels.shape[:2], scale, ratio), numbers


def bits_of(value, dtype):
    if dtype == "uint8":
        return np.uint8(min(max(round(value), 0), 255))
    if dtype == "bfloat16":
        torch = pytest.importorskip("torch")
        return torch.tensor(value, dtype=torch.bfloat16).view(torch.int16).numpy().astype(np.uint16)
    return DTYPES[dtype](value)


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_box_has_the_value_and_the_rest_is_as_it_was(dtype, channels_last):
    value = (1.7, -0.3, 300.2)
    p, bare = plan(dtype, channels_last, value=value), plan(dtype, channels_last)
    rng, layout = np.random.default_rng(1), {"dtype": dtype, "channels_last": channels_last}
    boxes = 0
    for index in range(60):
        pixels = rng.integers(1, 255, (*rng.integers(2, 40, 2), 3), np.uint8)
        box, _ = expected_box(pixels, (5, 6, index), p=0.5)
        expected = written(bare, pixels, **layout).copy()
        if box is not None:
            top, left, height, width = box
            colour = np.array([bits_of(channel, dtype) for channel in value])
            expected[top : top + height, left : left + width] = colour
            boxes += height > 0 < width
        ours = written(p, pixels, index, seed=5, epoch=6, **layout)
        np.testing.assert_array_equal(ours, expected, str(box))
    assert 15 < boxes < 45


def test_a_value_for_bytes_is_cut_and_rounded():
    pixels = np.full((20, 20, 3), 77, np.uint8)
    p = plan("uint8", p=1.0, scale=(0.3, 0.3), ratio=(1.0, 1.0), value=(-5.0, 99.6, 1e9))
    out = written(p, pixels, dtype="uint8")
    assert sorted(map(tuple, np.unique(out.reshape(-1, 3), axis=0).tolist())) == [(0, 100, 255), (77, 77, 77)]


def test_a_half_that_is_too_small_for_the_value_becomes_infinite():
    pixels = np.zeros((20, 20, 3), np.uint8)
    p = plan("float16", p=1.0, scale=(0.3, 0.3), ratio=(1.0, 1.0), value=(1e6, -1e6, 0.0))
    out = written(p, pixels, dtype="float16")
    assert (
        np.isposinf(out[..., 0]).any() and np.isneginf(out[..., 1]).any() and not np.isinf(out[..., 2]).any()
    )


@pytest.mark.parametrize("probability", [0.0, 0.25, 1.0])
def test_erasing_has_its_probability(probability):
    pixels = np.full((16, 16, 3), 255, np.uint8)
    p = plan(p=probability, value=(-9.0, -9.0, -9.0))
    erased = [(written(p, pixels, index) == -9).any() for index in range(2000)]
    assert abs(np.mean(erased) - probability) < 0.04 * (0 < probability < 1) or np.mean(erased) == probability


def test_seed_epoch_and_index_each_change_the_box():
    pixels = np.full((64, 64, 3), 255, np.uint8)
    p = plan(p=1.0)
    results = [
        written(p, pixels, **key).tobytes() for key in ({"index": 0}, {"index": 1}, {"seed": 1}, {"epoch": 1})
    ]
    assert len(set(results)) == 4
    assert written(p, pixels, index=1).tobytes() == results[1]


def test_a_box_is_smaller_than_the_picture_on_both_sides_or_there_is_none():
    p = plan(p=1.0, scale=(0.9, 1.0), ratio=(1.0, 1.0), value=(-9.0,) * 3)
    for index in range(200):
        for size in ((10, 10), (3, 40), (1, 1), (1, 50), (2, 2)):
            pixels = np.full((*size, 3), 255, np.uint8)
            box, _ = expected_box(pixels, (0, 0, index), scale=(0.9, 1.0), ratio=(1.0, 1.0))
            n_erased = (written(p, pixels, index) == -9).all(axis=2).sum()
            if box is None:
                assert n_erased == 0
            else:
                assert n_erased == box[2] * box[3] and box[2] < size[0] and box[3] < size[1]
    thin = plan(p=1.0, scale=(0.5, 0.5), ratio=(1e-300, 1e300), value=(-9.0,) * 3)
    for index in range(50):
        written(thin, np.zeros((9, 9, 3), np.uint8), index)  # sides beyond any integer


@pytest.mark.parametrize("dtype", DTYPES)
def test_noise_is_the_same_in_both_layouts(dtype):
    pixels = np.full((31, 17, 3), 128, np.uint8)
    noise = {"p": 1.0, "value": (0.0, 50.0, 100.0), "deviation": (1.0, 20.0, 300.0)}
    for index in range(20):
        planes = written(plan(dtype, False, **noise), pixels, index, dtype=dtype)
        packed = written(plan(dtype, True, **noise), pixels, index, dtype=dtype, channels_last=True)
        np.testing.assert_array_equal(planes, packed)


def test_noise_is_box_and_mullers_of_the_numbers_that_follow_the_box():
    pixels = np.full((40, 40, 3), 255, np.uint8)
    value, deviation = (0.5, -1.0, 2.0), (1.0, 0.0, 3.0)
    out = written(plan(p=1.0, value=value, deviation=deviation), pixels, 7)
    (top, left, height, width), numbers = expected_box(pixels, (0, 0, 7))
    normal = []
    while len(normal) < 3 * height * width:
        radius = math.sqrt(-2 * math.log((numbers.u32() + 1) / 2**32))
        angle = 2 * math.pi * numbers.u32() / 2**32
        normal += [radius * math.cos(angle), radius * math.sin(angle)]
    normal = np.array(normal[: 3 * height * width]).reshape(height, width, 3)
    box = out[top : top + height, left : left + width]
    np.testing.assert_allclose(box, normal * deviation + value, atol=1e-5)
    assert (box[..., 1] == -1).all()


def test_noise_is_normal_and_its_values_are_independent():
    pixels = np.zeros((400, 400, 3), np.uint8)
    square = {"p": 1.0, "scale": (0.5, 0.5), "ratio": (1.0, 1.0)}
    out = written(plan(**square, deviation=(1.0, 1.0, 1.0)), pixels, 3)
    (top, left, height, width), _ = expected_box(pixels, (0, 0, 3), scale=(0.5, 0.5), ratio=(1.0, 1.0))
    noise = out[top : top + height, left : left + width].astype(float)
    values = np.sort(noise.reshape(-1))
    n = len(values)
    shares = np.array([0.5 * (1 + math.erf(value / math.sqrt(2))) for value in values[::97]])
    assert np.abs(shares - np.arange(n)[::97] / n).max() < 1.95 / math.sqrt(n)  # Kolmogorov-Smirnov, 0.001
    neighbours = [(noise[..., 0], noise[..., 1]), (noise[:-1], noise[1:]), (noise[:, :-1], noise[:, 1:])]
    for a, b in neighbours:
        assert abs(np.corrcoef(a.reshape(-1), b.reshape(-1))[0, 1]) < 4 / math.sqrt(a.size)


@pytest.mark.parametrize(
    "arguments",
    [
        {"p": -0.1},
        {"p": 1.1},
        {"p": float("nan")},
        {"scale": (-0.1, 0.3)},
        {"scale": (0.3, 0.1)},
        {"scale": (0.1, 1.1)},
        {"ratio": (0, 1)},
        {"ratio": (2, 1)},
        {"ratio": (1, float("inf"))},
        {"value": (0, float("nan"), 0)},
        {"value": (0, 1e60, 0)},
        {"deviation": (1, 1, -1)},
        {"deviation": (1, 1, float("inf"))},
    ],
)
def test_arguments_out_of_range_are_refused(arguments):
    with pytest.raises(PlanError, match="erase"):
        plan(**arguments)


def test_a_number_for_each_value_is_not_left_to_whoever_takes_the_batch():
    how = USUAL | {"deviation": (1, 1, 1)}
    colours = Plan([], 0, "uint8", False, MEAN, STD, erase=how | {"noise": "colours"}, leaves_erasing=True)
    assert colours.erasure_bytes == 28
    counted = Plan([], 0, "uint8", False, MEAN, STD, erase=USUAL | {"count": (1, 3)}, leaves_erasing=True)
    assert counted.erasure_bytes == 3 * 28
    with pytest.raises(PlanError, match="erase"):
        Plan([], 0, "uint8", False, MEAN, STD, erase=how, leaves_erasing=True)
    assert Plan([], 0, "uint8", False, MEAN, STD, erase=how).erasure_bytes == 0
    assert Plan([], 0, "uint8", False, MEAN, STD, leaves_erasing=True).erasure_bytes == 0


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_loaders_threads_erase_by_seed_epoch_and_sample(dtype, tmp_path):
    """The batches of a stream are those of batch_write, whatever the size of an element."""
    rng, codec, n, side = np.random.default_rng(2), Codec(), 12, 24
    paths = []
    for k in range(n):
        paths.append(tmp_path / f"{k}.jpg")
        Image.fromarray(rng.integers(0, 256, (side, side, 3), np.uint8)).save(paths[-1], quality=90)
    p = Plan([("center_crop", {"size": (side, side)})], 1, dtype, False, MEAN, STD, erase=USUAL | {"p": 0.7})
    member = Member(
        None, n_samples=n, samples=None, places=n, seed=1, epoch=4, fixed=False, decoded=1, augmented=2,
        height=side, width=side, in_flight=n, shares=False, keeps=False, substitutes=False,
    )  # fmt: skip
    table = b"".join(str(path).encode() + b"\0" for path in paths)
    starts = np.cumsum([0] + [len(str(path).encode()) + 1 for path in paths])[:-1].astype(np.uint64)
    stream = pool.Stream(member, p, table, starts, seed=8, epoch=4, nonce=99, threads=2)
    try:
        out = np.empty((n, 3, side, side), DTYPES[dtype])
        batch = stream.draw(out)
        assert len(batch) == n
        while not batch.wait(100):
            pass
        batch.done()
        plain = plan(dtype)
        erased = 0
        for sample, ours in zip(batch.indices, out, strict=True):
            pixels = codec.decode(p, paths[sample].read_bytes())
            expected = written(p, pixels, int(sample), dtype=dtype, seed=8, epoch=4)
            np.testing.assert_array_equal(ours.transpose(1, 2, 0), expected)
            erased += (expected != written(plain, pixels, dtype=dtype)).any()
        assert 3 <= erased < n
    finally:
        stream.close()
