"""Changes of colour: the bytes of PIL.ImageEnhance and of torchvision's adjust_hue on PIL images."""

import hashlib
import os

import numpy as np
import pytest
import ready
import replay
from PIL import Image, ImageEnhance
from PIL import __version__ as pillow_version
from replay import grey_of
from sizes import size

from seneca._core.codec import Codec
from seneca._core.plan import Plan

PILLOW_SIMD = "post" in pillow_version
FACTORS = [0.0, 0.01, 0.2, 1 / 3, 0.5, 0.77, 0.999, 1.0, 1.001, 1.25, 1.7, 2.0, 3.3, 10.0, 1000.0]
ENHANCERS = {
    "brightness": ImageEnhance.Brightness,
    "contrast": ImageEnhance.Contrast,
    "saturation": ImageEnhance.Color,
}


def run(op, pixels):
    crop = ("center_crop", {"size": pixels.shape[:2]})  # of nothing: a plan has to fix the size
    p = Plan([op, crop], 0, "uint8", True, (0,) * 3, (1,) * 3)
    assert len(p.route(*pixels.shape[:2], 0)) == 1
    return Codec(2**25).augment_decoded(p, pixels, 0, 0, 0, 0)


def changed(pixels, **factors):
    """The picture with these factors, none of them random."""
    return run(("color_jitter", {name: (factor, factor) for name, factor in factors.items()}), pixels)


def enhanced(pixels, name, factor):
    return np.asarray(ENHANCERS[name](Image.fromarray(pixels)).enhance(factor))


def adjust_hue(pixels, factor):
    """torchvision.transforms.functional.adjust_hue, written down again."""
    hsv = np.array(Image.fromarray(pixels).convert("HSV"))
    hsv[..., 0] += np.array(factor * 255).astype(np.int32).astype(np.uint8)
    return np.asarray(Image.fromarray(hsv, "HSV").convert("RGB"))


def noise(seed, height, width):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


def every_colour():
    """At the small size each 17th."""
    colours = np.arange(0, 1 << 24, size(17, 1), dtype=np.uint32)
    pixels = np.stack([colours >> 16, colours >> 8 & 255, colours & 255], -1).astype(np.uint8)
    return pixels.reshape(-1, size(16, 4096), 3)


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("name", ENHANCERS)
def test_factors_are_those_of_image_enhance(name, factor):
    pixels = noise(1, 61, 64)
    apart = np.abs(changed(pixels, **{name: factor}).astype(int) - enhanced(pixels, name, factor))
    # Grey is Pillow-SIMD's; from plain Pillow's it is 1 apart now and then, times the distance.
    exact = PILLOW_SIMD or name == "brightness"
    assert apart.max() <= (0 if exact else abs(1 - factor) + 1)


@pytest.mark.small(2)
@pytest.mark.parametrize("width", [1, 2, 3, 5, 31, 66])
@pytest.mark.parametrize("factor", [0.0, 0.4, 1.6])
def test_a_width_that_is_no_multiple_of_4_is_at_most_one_level_from_pillow(width, factor):
    for seed in range(30):
        pixels = noise(seed, 40, width)
        for name in ENHANCERS:
            apart = np.abs(changed(pixels, **{name: factor}).astype(int) - enhanced(pixels, name, factor))
            assert apart.max() <= 1, name


def test_photographs_are_changed_as_by_pillow(imagenet_sample):
    for index, path in enumerate(sorted(imagenet_sample.glob("*/*"))[: size(6, 20)]):
        picture = np.asarray(Image.open(path).convert("RGB"))
        picture = np.ascontiguousarray(picture[:, : picture.shape[1] // 4 * 4])
        name, factor = list(ENHANCERS)[index % 3], FACTORS[index % len(FACTORS)]
        apart = np.abs(changed(picture, **{name: factor}).astype(int) - enhanced(picture, name, factor))
        assert apart.max() <= (0 if PILLOW_SIMD or name == "brightness" else abs(1 - factor) + 1)
        np.testing.assert_array_equal(changed(picture, hue=0.07), adjust_hue(picture, 0.07))


@pytest.mark.small(1)
@pytest.mark.parametrize("factor", [-0.5, -0.2, 0.001, 0.31])
def test_a_hue_is_turned_as_by_torchvision_for_every_colour_there_is(factor):
    colours = every_colour()
    np.testing.assert_array_equal(changed(colours, hue=factor), adjust_hue(colours, factor))


def test_a_hue_is_turned_as_by_torchvision_to_every_place():
    pixels = noise(4, 50, 51)
    for factor in np.linspace(-0.5, 0.5, 256):
        np.testing.assert_array_equal(changed(pixels, hue=float(factor)), adjust_hue(pixels, float(factor)))


def test_grey_is_pillows_for_every_colour_there_is():
    colours = every_colour()
    grey = run(("random_grayscale", {"p": 1.0}), colours)
    assert (grey == grey[..., :1]).all()
    np.testing.assert_array_equal(grey[..., 0], grey_of(colours))
    theirs = np.asarray(Image.fromarray(colours).convert("L"))
    apart = np.abs(grey[..., 0].astype(int) - theirs)
    assert apart.max() <= (0 if PILLOW_SIMD else 1) and (apart != 0).mean() < 1 / 700


@pytest.mark.small(4)
@pytest.mark.parametrize("n_pixels", [1, 2, 15, 16, 17, 511, 512, 513, 1024, 1055])
def test_each_pixel_is_changed_however_many_there_are(n_pixels):
    pixels = noise(n_pixels, 1, n_pixels)
    wide = np.concatenate([pixels, pixels], axis=1)
    for factors in ({"brightness": 0.3}, {"saturation": 1.9}, {"hue": 0.4}):
        # A pixel's result depends on it alone.
        alone = np.concatenate([changed(pixels[:, k : k + 1], **factors) for k in range(n_pixels)], axis=1)
        np.testing.assert_array_equal(changed(pixels, **factors), alone)
        np.testing.assert_array_equal(changed(wide, **factors)[:, n_pixels:], alone)
    mean = int(grey_of(pixels).mean() + 0.5)
    assert (changed(pixels, contrast=0.0) == mean).all()


def test_a_large_flat_picture_has_its_own_mean():
    """The sum of its greys does not fit 32 bits."""
    pixels = np.full((4500, 4500, 3), 251, np.uint8)
    assert (changed(pixels, contrast=0.5) == 251).all()


def digest():
    hashed = hashlib.sha256()
    rng = np.random.default_rng(9)
    for trial in range(60):
        pixels = noise(trial, *rng.integers(1, 60, 2))
        hashed.update(changed(pixels, contrast=rng.uniform(0, 3)))
        hashed.update(changed(pixels, saturation=rng.uniform(0, 3)))
        hashed.update(changed(pixels, hue=rng.uniform(-0.5, 0.5)))
    return hashed.hexdigest()


def test_vector_code_and_plain_code_give_the_same_bits():
    code = "import sys; sys.path[:0] = sys.argv[1:]; import test_codec_colour as t; print(t.digest())"
    folders = [os.path.dirname(file) for file in (__file__, replay.__file__)]
    plain = ready.run("-c", code, *folders, env={**os.environ, "SENECA_SIMD": "none"}, fresh=True)
    assert plain.stdout.strip() == digest(), plain.stderr
