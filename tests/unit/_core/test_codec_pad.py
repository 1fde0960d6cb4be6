"""Padding: numpy.pad's pixels, which are torchvision's, in every mode and at every width."""

import numpy as np
import pytest

from seneca._core.codec import Codec
from seneca._core.plan import Plan

MODES = ["constant", "edge", "reflect", "symmetric"]


def padded(pixels, padding, *, fill=(0, 0, 0), mode="constant", then=()):
    op = ("pad", {"padding": padding, "fill": fill, "padding_mode": mode})
    return Codec().head(Plan([op, *then], 1 + len(then), "uint8", True, (0,) * 3, (1,) * 3), pixels)


def expected(pixels, padding, *, fill=(0, 0, 0), mode="constant"):
    left, top, right, bottom = padding
    sides = ((top, bottom), (left, right))
    if mode != "constant":
        return np.pad(pixels, [*sides, (0, 0)], mode)
    return np.dstack([np.pad(pixels[..., c], sides, constant_values=fill[c]) for c in range(3)])


def noise(rng, height, width):
    return rng.integers(0, 256, (height, width, 3), np.uint8)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", range(60))
def test_pads_are_numpys(mode, seed):
    rng = np.random.default_rng(seed)
    pixels = noise(rng, *rng.integers(1, 40, 2))
    padding = tuple(int(side) for side in rng.integers(0, 30, 4) * (rng.random(4) < 0.8))
    fill = tuple(int(channel) for channel in rng.integers(0, 256, 3))
    ours = padded(pixels, padding, fill=fill, mode=mode)
    np.testing.assert_array_equal(ours, expected(pixels, padding, fill=fill, mode=mode), f"{padding}, {fill}")


@pytest.mark.parametrize("mode", MODES[1:])
@pytest.mark.parametrize("side", [1, 2, 3])
def test_a_border_many_times_the_picture_goes_back_and_forth_in_it(mode, side):
    pixels = noise(np.random.default_rng(2), side, side + 1)
    for padding in ((17, 5, 0, 23), (0, 31, 8, 0), (40, 40, 41, 39)):
        np.testing.assert_array_equal(
            padded(pixels, padding, mode=mode), expected(pixels, padding, mode=mode)
        )


def test_one_side_alone_is_padded():
    pixels = noise(np.random.default_rng(3), 5, 7)
    for side in range(4):
        padding = tuple(3 * (k == side) for k in range(4))
        for mode in MODES:
            np.testing.assert_array_equal(
                padded(pixels, padding, mode=mode, fill=(1, 2, 3)),
                expected(pixels, padding, mode=mode, fill=(1, 2, 3)),
            )


def test_a_picture_that_is_cropped_away_leaves_the_fill():
    pixels = np.full((4, 4, 3), 200, np.uint8)
    crop = ("center_crop", {"size": (4, 4)})
    result = padded(pixels, (30, 0, 0, 30), fill=(10, 20, 30), then=[crop])
    assert (result == [10, 20, 30]).all() and result.shape == (4, 4, 3)


def test_what_is_cropped_away_is_not_reflected():
    pixels = noise(np.random.default_rng(4), 20, 20)
    ops = [
        ("center_crop", {"size": (10, 10)}),
        ("pad", {"padding": (6, 6, 6, 6), "padding_mode": "reflect"}),
    ]
    result = Codec().head(Plan(ops, 2, "uint8", True, (0,) * 3, (1,) * 3), pixels)
    np.testing.assert_array_equal(result, expected(pixels[5:15, 5:15], (6, 6, 6, 6), mode="reflect"))


@pytest.mark.parametrize("mode", MODES)
def test_a_resized_picture_is_padded_after_the_resize(mode):
    pixels = noise(np.random.default_rng(5), 20, 30)
    resize = ("resize", {"size": (11, 9)})
    border = {"padding": (3, 4, 5, 6), "padding_mode": mode, "fill": (7, 8, 9)}
    statistics = (0,) * 3, (1,) * 3
    resized = Codec().head(Plan([resize], 1, "uint8", True, *statistics), pixels)
    both = Plan([resize, ("pad", border)], 2, "uint8", True, *statistics)
    assert len(both.route(20, 30, 0)) == 1
    np.testing.assert_array_equal(
        Codec().head(both, pixels), expected(resized, (3, 4, 5, 6), mode=mode, fill=(7, 8, 9))
    )
