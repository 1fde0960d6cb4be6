"""Decoding: the pixels are Pillow's, and those of a region are those of the whole picture."""

import io

import numpy as np
import pytest
import simplejpeg
from PIL import Image, features
from sizes import size

from seneca._core.codec import Codec
from seneca._core.plan import Plan

WHOLE = Plan([], 0, "uint8", True, (0, 0, 0), (1, 1, 1))

# Another libjpeg than Pillow's may round elsewhere: before 2.1 and after 3.0 the smooth upsampling
# of some samplings was changed. The core is built against the system's.
SAME_LIBJPEG = (features.version_feature("libjpeg_turbo") or "").startswith("2.1")


def noise(height, width, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


def saved(image, **options):
    file = io.BytesIO()
    image.save(file, "JPEG", **{"quality": 90, **options})
    return file.getvalue()


def by_pillow(data):
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def assert_pillows_pixels(data):
    ours, theirs = Codec().decode(WHOLE, data), by_pillow(data)
    if SAME_LIBJPEG:
        np.testing.assert_array_equal(ours, theirs)
    else:
        assert ours.shape == theirs.shape
        assert np.abs(ours.astype(int) - theirs).mean() < 1


def encodings(height, width):
    """The same noise (the hardest to get right by luck) in every way that a JPEG is written."""
    pixels = noise(height, width)
    image = Image.fromarray(pixels)
    for sampling in ("444", "422", "420", "440", "411"):
        yield sampling, simplejpeg.encode_jpeg(pixels, 90, "RGB", sampling)
    for sampling in ("4:4:4", "4:2:2", "4:2:0"):
        yield f"{sampling} progressive", saved(image, subsampling=sampling, progressive=True)
        yield f"{sampling} restarts", saved(image, subsampling=sampling, restart_marker_blocks=3)
        yield f"{sampling} row restarts", saved(image, subsampling=sampling, restart_marker_rows=1)
    yield "grey", saved(image.convert("L"))
    yield "grey progressive", saved(image.convert("L"), progressive=True)
    yield "cmyk", saved(Image.fromarray(np.dstack([pixels, pixels[..., 0]]), "CMYK"))


@pytest.mark.small(2)
@pytest.mark.parametrize(("height", "width"), [(1, 1), (2, 3), (17, 5), (64, 64), (97, 131)])
def test_a_whole_picture_has_pillows_pixels(height, width):
    for _, data in encodings(height, width):
        assert_pillows_pixels(data)


@pytest.mark.small(2)
@pytest.mark.parametrize(("height", "width"), [(1, 1), (2, 3), (5, 40), (33, 17), (64, 64), (97, 131)])
def test_a_region_has_the_pixels_of_the_whole_picture(height, width):
    codec, rng = Codec(), np.random.default_rng(height)
    for name, data in encodings(height, width):
        whole = codec.decode(WHOLE, data)
        for _ in range(60):
            top, left = int(rng.integers(height)), int(rng.integers(width))
            h, w = int(rng.integers(1, height - top + 1)), int(rng.integers(1, width - left + 1))
            region = codec.decode_region(data, top, left, h, w)
            np.testing.assert_array_equal(
                region, whole[top : top + h, left : left + w], f"{name}, region {top, left, h, w}"
            )


def without_last_scans(data, kept):
    """A progressive file that ends, properly, after some of its scans."""
    at, scans = 2, 0
    while True:
        marker, length = data[at + 1], int.from_bytes(data[at + 2 : at + 4], "big")
        at += 2 + length
        if marker == 0xDA:
            scans += 1
            while data[at] != 0xFF or data[at + 1] == 0 or 0xD0 <= data[at + 1] <= 0xD7:
                at += 1
            if scans == kept:
                return data[:at] + b"\xff\xd9"


@pytest.mark.parametrize("kept", [1, 2, 4, 7])
def test_a_progressive_picture_that_is_smoothed_has_the_same_pixels_in_a_region(kept):
    data = without_last_scans(saved(Image.fromarray(noise(70, 90)), progressive=True), kept)
    assert_pillows_pixels(data)
    codec = Codec()
    whole = codec.decode(WHOLE, data)
    np.testing.assert_array_equal(codec.decode_region(data, 21, 35, 30, 33), whole[21:51, 35:68])


def test_photographs_have_pillows_pixels_whole_and_in_regions(imagenet_sample):
    codec, rng = Codec(), np.random.default_rng(3)
    for path in sorted(imagenet_sample.glob("*/*"))[: size(15, 60)]:
        data = path.read_bytes()
        assert_pillows_pixels(data)
        whole = codec.decode(WHOLE, data)
        height, width, _ = whole.shape
        assert codec.probe(data) == (height, width)
        for _ in range(4):
            top, left = int(rng.integers(height)), int(rng.integers(width))
            h, w = int(rng.integers(1, height - top + 1)), int(rng.integers(1, width - left + 1))
            region = codec.decode_region(data, top, left, h, w)
            np.testing.assert_array_equal(region, whole[top : top + h, left : left + w], str(path))


def with_adobe_transform(data, transform):
    """Say in the Adobe marker that the four components are CMYK (0) or YCCK (2)."""
    at = data.index(b"Adobe") + 11
    return data[:at] + bytes([transform]) + data[at + 1 :]


@pytest.mark.parametrize("transform", [0, 2])
def test_cmyk_and_ycck_become_rgb_as_pillow_converts_them(transform):
    pixels = np.dstack([noise(40, 50), noise(40, 50, seed=1)[..., :1]])
    data = with_adobe_transform(saved(Image.fromarray(pixels, "CMYK")), transform)
    assert_pillows_pixels(data)
    region = Codec().decode_region(data, 7, 9, 20, 30)
    np.testing.assert_array_equal(region, Codec().decode(WHOLE, data)[7:27, 9:39])


def without_tables(data, marker):
    while (at := data.find(bytes([0xFF, marker]))) >= 0:
        data = data[:at] + data[at + 2 + int.from_bytes(data[at + 2 : at + 4], "big") :]
    return data


def test_a_picture_never_decodes_by_the_tables_of_the_one_before():
    data = saved(Image.fromarray(noise(32, 32)))
    bare = without_tables(data, 0xDB)
    codec = Codec()
    codec.decode(WHOLE, data)
    with pytest.raises(ValueError, match=r"[Qq]uantization table"):
        codec.decode(WHOLE, bare)


def test_a_region_outside_the_picture_is_refused():
    data = saved(Image.fromarray(noise(20, 30)))
    for region in [
        (0, 0, 21, 1),
        (0, 0, 1, 31),
        (20, 0, 1, 1),
        (0, 30, 1, 1),
        (0, 0, 0, 1),
        (1, 1, 2**32 - 1, 1),
    ]:
        with pytest.raises(ValueError):
            Codec().decode_region(data, *region)
