"""RECODED payloads of single files: the pixels of the file, by every sampling, size and quality."""

import io
import itertools

import numpy as np
import pytest
import simplejpeg
from PIL import Image
from sizes import size

from seneca._core.codec import Codec
from seneca.errors import DecodeError
from seneca.transforms import CenterCrop, Compose, RandomResizedCrop
from seneca.transforms._pipeline import compile_transform

SAMPLINGS = ("444", "420", "422")
WITHOUT = ("440", "411")
CODEC = Codec()
CROP = compile_transform(Compose([RandomResizedCrop(24)])).plan
SIDES = [1, 2, 7, 8, 9, 15, 16, 17, 33]


def pixels_of(height, width, seed=0):
    """Smooth, with some noise."""
    rng = np.random.default_rng(seed)
    small = Image.fromarray(rng.integers(0, 256, (5, 6, 3), np.uint8))
    smooth = np.asarray(small.resize((width, height), Image.Resampling.BICUBIC)).astype(int)
    return np.clip(smooth + rng.integers(-9, 10, smooth.shape), 0, 255).astype(np.uint8)


def saved(pixels, **options):
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", **options)
    return file.getvalue()


def assert_same(data, seeds=range(4)):
    payload = CODEC.recode(data)
    assert payload is not None
    for seed in seeds:
        ours = CODEC.augment_recoded(CROP, payload, seed, 0, 0, 0)
        assert (ours == CODEC.augment_encoded(CROP, data, seed, 0, 0, 0)).all(), seed
        in_one_pass, other = CODEC.augment_and_recode(CROP, data, seed, 0, 0, 0)
        assert (in_one_pass == ours).all() and (other == payload).all(), seed
    return payload


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_every_size(sampling):
    for height, width in itertools.product(SIDES, SIDES):
        pixels = pixels_of(height, width, 100 * height + width)
        payload = CODEC.recode(simplejpeg.encode_jpeg(pixels, 92, "RGB", sampling))
        if payload is not None:  # of a tiny one the head may be too much
            assert_same(simplejpeg.encode_jpeg(pixels, 92, "RGB", sampling), range(2))


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("progressive", [False, True])
def test_every_quality(sampling, progressive):
    pixels = pixels_of(90, 121)
    number = {"444": 0, "422": 1, "420": 2}[sampling]
    same = 0
    for quality in range(1, 101, size(9, 1)):
        data = saved(pixels, quality=quality, subsampling=number, progressive=progressive)
        if CODEC.recode(data) is not None:  # else it takes more than it is worth, as many of low quality do
            assert_same(data, range(2))
            same += 1
    assert same >= size(1, 10)


def test_every_offset():
    """The box of a crop begins anywhere in its MCU."""
    plans = [compile_transform(Compose([CenterCrop(side)])).plan for side in range(20, 53)]
    for sampling in SAMPLINGS:
        data = simplejpeg.encode_jpeg(pixels_of(53, 70), 90, "RGB", sampling)
        payload = CODEC.recode(data)
        for plan in plans:
            ours = CODEC.augment_recoded(plan, payload, 0, 0, 0, 0)
            assert (ours == CODEC.augment_encoded(plan, data, 0, 0, 0, 0)).all()


def test_grey():
    file = io.BytesIO()
    Image.fromarray(pixels_of(60, 47)).convert("L").save(file, "JPEG", quality=88)
    assert_same(file.getvalue())


@pytest.mark.parametrize("sampling", WITHOUT)
def test_other_samplings_have_none(sampling):
    assert CODEC.recode(simplejpeg.encode_jpeg(pixels_of(60, 47), 90, "RGB", sampling)) is None


def test_a_file_has_one_payload():
    data = saved(pixels_of(80, 70), quality=90)
    assert (CODEC.recode(data) == Codec().recode(data)).all()
    assert CODEC.recode(data).nbytes <= 1.3 * len(data)


def test_what_is_no_jpeg_has_none():
    file = io.BytesIO()
    Image.fromarray(pixels_of(20, 20)).save(file, "PNG")
    assert CODEC.recode(file.getvalue()) is None and CODEC.recode(b"\xff\xd8 no picture") is None
    assert CODEC.augment_and_recode(CROP, file.getvalue(), 0, 0, 0, 0)[1] is None


def test_a_file_that_is_cut_off_has_none():
    data = saved(pixels_of(80, 70), quality=90)
    assert [CODEC.recode(data[: len(data) * k // 8]) for k in range(1, 8)] == [None] * 7


@pytest.mark.parametrize("apply_orientation", [False, True])
def test_a_picture_that_has_to_be_turned_has_none(apply_orientation):
    exif = Image.Exif()
    exif[0x0112] = 6
    data = saved(pixels_of(80, 70), quality=90, exif=exif)
    plan = compile_transform(Compose([RandomResizedCrop(24)]), apply_orientation=apply_orientation).plan
    augmented, payload = CODEC.augment_and_recode(plan, data, 0, 0, 0, 0)
    assert payload is None and CODEC.recode(data) is None
    assert (augmented == CODEC.augment_encoded(plan, data, 0, 0, 0, 0)).all()


def outcome_of(make, data):
    try:
        return make(data).tobytes()
    except DecodeError as error:
        return type(error), str(error)


@pytest.mark.parametrize("progressive", [False, True])
def test_a_damaged_file_is_what_it_is_without_a_payload(progressive):
    """Damage above, in and below the crop, some of which libjpeg-turbo goes on from."""
    whole = saved(pixels_of(150, 131), quality=90, progressive=progressive)
    rng = np.random.default_rng(3)
    without = 0
    for number in range(size(200, 3000)):
        data = bytearray(
            whole[: rng.integers(len(whole) // 2, len(whole)) if number % 5 == 0 else len(whole)]
        )
        for at in rng.integers(600, len(data), rng.integers(0, 4)):
            data[at] = rng.integers(256)
        payloads = []

        def in_one_pass(data, number=number, payloads=payloads):
            augmented, payload = CODEC.augment_and_recode(CROP, data, number, 0, 0, 0)
            payloads.append(payload)
            return augmented

        expected = outcome_of(
            lambda data, number=number: CODEC.augment_encoded(CROP, data, number, 0, 0, 0), data
        )
        assert outcome_of(in_one_pass, data) == expected, number
        without += any(payload is None for payload in payloads)
    assert without > 0


def test_a_payload_that_is_cut_off_is_refused():
    payload = CODEC.recode(saved(pixels_of(80, 70), quality=90))
    for length in range(1, len(payload), 37):
        with pytest.raises(DecodeError, match="its recoded copy is damaged"):
            CODEC.augment_recoded(CROP, payload[:length].copy(), 0, 0, 0, 0)
