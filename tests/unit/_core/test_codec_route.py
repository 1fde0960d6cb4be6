"""How ops become passes: the same picture as op by op, few passes, torchvision's distributions."""

import io
import math
from collections import Counter

import numpy as np
import pytest
from PIL import Image
from PIL import __version__ as pillow_version
from replay import COLOURS, Numbers, replay, resized_size

from seneca._core.codec import Codec
from seneca._core.plan import Plan
from seneca.errors import PictureTooLargeError, PlanError

PILLOW_SIMD = "post" in pillow_version
SEEDS = range(120)

HFLIP, VFLIP = ("random_hflip", {"p": 1.0}), ("random_vflip", {"p": 1.0})
GREY = ("random_grayscale", {"p": 1.0})
JITTER = ("color_jitter", {"brightness": (0.6, 1.4), "contrast": (0.6, 1.4), "saturation": (0.6, 1.4),
                           "hue": (-0.1, 0.1)})  # fmt: skip
RRC = ("random_resized_crop", {"size": (24, 24), "scale": (0.08, 1.0), "ratio": (3 / 4, 4 / 3)})
CENTER = ("center_crop", {"size": (20, 20)})
RESIZE = ("resize", {"size": (25, 25)})


def pad(*padding, fill=(0, 0, 0), mode="constant"):
    return "pad", {"padding": padding, "fill": fill, "padding_mode": mode}


def random_crop(height, width, **arguments):
    return "random_crop", {"size": (height, width), **arguments}


def plan(*ops, n_head=0):
    return Plan(list(ops), n_head, "uint8", True, (0, 0, 0), (1, 1, 1))


def blocks(rng, height, width):
    """A picture with edges, so that a shift by one shows."""
    small = rng.integers(0, 256, (height // 5 + 1, width // 5 + 1, 3), np.uint8)
    return np.ascontiguousarray(small.repeat(5, 0).repeat(5, 1)[:height, :width])


def some_op(rng, kinds):
    kind = str(rng.choice(kinds))
    size = {"size": tuple(int(side) for side in rng.integers(1, 60, 2))}
    fill = tuple(int(channel) for channel in rng.integers(0, 256, 3)) if rng.integers(2) else (0, 0, 0)
    border = {
        "fill": fill,
        "padding_mode": str(rng.choice(["constant"] * 2 + ["edge", "reflect", "symmetric"])),
    }
    if kind in ("random_hflip", "random_vflip", "random_grayscale"):
        return kind, {"p": float(rng.choice([0, 0.5, 1]))}
    if kind == "pad":
        return kind, {"padding": tuple(int(side) for side in rng.integers(0, 25, 4)), **border}
    if kind == "random_crop":
        padding = tuple(int(side) for side in rng.integers(0, 9, 4))
        return kind, {**size, "padding": padding, "pad_if_needed": True, **border}
    if kind == "random_resized_crop":
        return kind, {**size, "scale": (0.08, 1.0), "ratio": (3 / 4, 4 / 3)}
    if kind == "color_jitter":
        ranges = {}
        for name in COLOURS:
            low = rng.uniform(-0.5, 0) if name == "hue" else rng.uniform(0, 1)
            if rng.random() < 0.6:
                ranges[name] = (low, low + rng.uniform(0, 0.5 if name == "hue" else 1.5))
        return kind, ranges
    return kind, size


MOVES = ["random_hflip", "random_vflip", "center_crop", "pad", "random_crop"]
CHANGES = ["random_grayscale", "color_jitter"]


@pytest.mark.parametrize("seed", SEEDS)
def test_merged_passes_give_the_pixels_of_the_ops_one_by_one(seed):
    rng = np.random.default_rng(seed)
    ops = [some_op(rng, MOVES + CHANGES) for _ in range(rng.integers(1, 8))]
    ops.append(("center_crop", {"size": tuple(int(side) for side in rng.integers(1, 60, 2))}))
    picture = blocks(rng, *rng.integers(1, 60, 2))
    ours = Codec().augment_decoded(plan(*ops), picture, seed, 0, 1, 2)
    np.testing.assert_array_equal(ours, replay(ops, picture, seed, 0, 1, 2), str(ops))


@pytest.mark.skipif(not PILLOW_SIMD, reason="other Pillows resize with other rounding, which hue magnifies")
@pytest.mark.parametrize("seed", SEEDS)
def test_so_they_do_with_resizes_among_them(seed):
    rng = np.random.default_rng(seed)
    # A flip before a resize may round otherwise; test_codec_augment.py has those.
    unflipped = [*MOVES[2:], *CHANGES, "resize", "random_resized_crop"]
    ops = [some_op(rng, unflipped) for _ in range(rng.integers(1, 5))]
    ops += [some_op(rng, MOVES + CHANGES) for _ in range(rng.integers(0, 5))]
    ops.append(("center_crop", {"size": tuple(int(side) for side in rng.integers(1, 60, 2))}))
    picture = blocks(rng, *rng.integers(1, 60, 2))
    ours = Codec().augment_decoded(plan(*ops), picture, seed, 0, 1, 2)
    np.testing.assert_array_equal(ours, replay(ops, picture, seed, 0, 1, 2), str(ops))


@pytest.mark.parametrize(
    ("ops", "n_passes"),
    [
        ((RRC, HFLIP, VFLIP, JITTER, GREY, HFLIP, VFLIP), 1),
        ((RESIZE, CENTER, pad(1, 2, 3, 4), HFLIP, JITTER), 1),
        ((random_crop(32, 32, padding=(4, 4, 4, 4)), HFLIP), 1),
        ((random_crop(60, 60, padding=(1, 1, 1, 1), pad_if_needed=True, fill=(9, 9, 9)),), 1),
        ((pad(1, 1, 1, 1, fill=(7, 8, 9)), pad(2, 2, 2, 2, fill=(7, 8, 9))), 1),
        ((pad(1, 1, 1, 1, fill=(7, 8, 9)), pad(2, 2, 2, 2)), 2),
        ((pad(1, 1, 1, 1, fill=(7, 8, 9)), CENTER), 1),
        ((pad(1, 1, 1, 1, fill=(7, 8, 9)), ("center_crop", {"size": (50, 50)})), 2),
        ((pad(1, 1, 1, 1, mode="reflect"), HFLIP, VFLIP, JITTER), 1),
        ((pad(1, 1, 1, 1, mode="reflect"), CENTER), 2),
        ((pad(1, 1, 1, 1), pad(1, 1, 1, 1, mode="edge")), 2),
        ((RESIZE, pad(1, 1, 1, 1, mode="edge"), pad(1, 1, 1, 1, mode="edge")), 2),
        ((random_crop(60, 60, padding=(1, 1, 1, 1), pad_if_needed=True, padding_mode="edge"),), 3),
        ((JITTER, CENTER), 2),
        ((GREY, RESIZE), 2),
        ((GREY, pad(1, 1, 1, 1)), 2),
        ((GREY, pad(0, 0, 0, 0), ("center_crop", {"size": (40, 40)}), ("resize", {"size": 40}), JITTER), 1),
    ],
)
def test_a_pass_begins_only_where_it_must(ops, n_passes):
    assert len(plan(*ops).route(40, 40, 0)) == n_passes


def test_the_longest_plans_have_room():
    border = {"padding": (1, 1, 1, 1), "pad_if_needed": True, "padding_mode": "reflect"}
    large, small = random_crop(60, 60, **border), random_crop(2, 2, **border)
    assert len(plan(*[large, small] * 8).route(40, 40, 0)) == 1 + 8 * 3
    (route,) = plan(*[JITTER] * 16).route(40, 40, 0)
    assert len(route["edits"]) == 64


def test_a_route_says_where_the_window_lies_and_what_is_around_it():
    ops = (pad(1, 2, 3, 4, fill=(5, 6, 7)), HFLIP, VFLIP, ("color_jitter", {"hue": (-0.1, -0.1)}))
    (route,) = plan(*ops).route(30, 40, 0)
    assert route["size"] == (36, 44) and route["at"] == (4, 3) and route["window"] == (0, 0, 30, 40)
    assert route["border"] == ("constant", (5, 6, 7)) and route["flip"] and route["vflip"]
    assert route["edits"] == [("hue", 256 - 25)]
    (route,) = plan(("resize", {"size": 20, "interpolation": "bicubic"})).route(30, 40, 0)
    assert "border" not in route and route["filter"] == ("bicubic", True)


@pytest.mark.parametrize("seed", range(40))
def test_from_the_file_or_from_decoded_pixels_the_result_is_the_same(seed):
    rng, codec = np.random.default_rng(seed), Codec()
    head = [some_op(rng, ["resize", "center_crop", "pad"]) for _ in range(rng.integers(0, 3))]
    tail = [some_op(rng, [*MOVES, *CHANGES, "random_resized_crop"]) for _ in range(rng.integers(0, 5))]
    p = plan(*head, *tail, RRC, n_head=len(head))
    data = jpeg_of(blocks(rng, *rng.integers(1, 200, 2)))
    decoded = codec.decode(p, data)
    np.testing.assert_array_equal(codec.head(p, codec.decode(plan(), data)), decoded)
    expected = codec.augment_encoded(p, data, seed, 0, 0, 0)
    np.testing.assert_array_equal(codec.augment_decoded(p, decoded, seed, 0, 0, 0), expected)


def jpeg_of(pixels):
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=92)
    return file.getvalue()


def test_a_random_crop_is_anywhere_with_the_same_chance():
    crop, n = plan(random_crop(28, 30)), 4000
    boxes = Counter(crop.route(32, 32, 5, 0, 0, index)[0]["window"] for index in range(n))
    assert set(boxes) == {(top, left, 28, 30) for top in range(5) for left in range(3)}
    expected = n / 15
    chi_square = sum((count - expected) ** 2 / expected for count in boxes.values())
    assert chi_square < 36.1  # 14 degrees of freedom at 0.001; the seed is fixed


def test_a_random_crop_of_the_size_at_hand_draws_nothing():
    flip = ("random_hflip", {"p": 0.5})
    with_crop = [plan(random_crop(40, 40), flip).route(40, 40, 3, 0, 0, k)[0]["flip"] for k in range(64)]
    without = [plan(flip).route(40, 40, 3, 0, 0, k)[0]["flip"] for k in range(64)]
    assert with_crop == without and set(without) == {True, False}


@pytest.mark.parametrize("size", [(41, 40), (40, 41), (300, 300)])
def test_a_random_crop_larger_than_the_picture_says_both_sizes_and_what_to_do(size):
    codec, p = Codec(64_000_000), plan(random_crop(*size, padding=(0, 1, 2, 3)))
    pixels = np.zeros((36 if size[0] > 40 else 40, 38 if size[1] > 40 else 40, 3), np.uint8)
    padded = (pixels.shape[0] + 4, pixels.shape[1] + 2)
    message = (
        f"crop size \\({size[0]}, {size[1]}\\) is larger than input image size \\({padded[0]}, {padded[1]}\\)"
    )
    with pytest.raises(PlanError, match=f"{message}.*pad_if_needed"):
        codec.augment_decoded(p, pixels, 0, 0, 0, 0)
    with pytest.raises(PlanError, match=message):
        codec.augment_encoded(p, jpeg_of(pixels), 0, 0, 0, 0)
    # What was said of one picture is not said of the next.
    with pytest.raises(PictureTooLargeError, match="60000 x 60000"):
        codec.head(plan(("resize", {"size": (60_000, 60_000)}), n_head=1), pixels)


def test_padding_beyond_the_limit_is_refused_before_it_is_made():
    codec, pixels = Codec(max_pixels=2000), np.zeros((30, 30, 3), np.uint8)
    for op in (
        pad(20, 20, 20, 20),
        pad(20, 20, 20, 20, mode="reflect"),
        random_crop(8, 8, padding=(20, 20, 20, 20)),
        random_crop(60, 60, pad_if_needed=True),
        ("center_crop", {"size": (60, 60)}),
    ):
        p = plan(op, ("center_crop", {"size": (8, 8)}))
        with pytest.raises(PictureTooLargeError, match="pixels are more than max_pixels=2000"):
            codec.augment_decoded(p, pixels, 0, 0, 0, 0)
    # 50 x 40 is the limit.
    assert codec.head(plan(pad(10, 0, 10, 10), n_head=1), pixels).shape == (40, 50, 3)


def test_vertical_flips_have_their_probability():
    for p in (0.0, 0.3, 1.0):
        flips = [plan(("random_vflip", {"p": p})).route(9, 9, 1, 0, 0, k)[0]["vflip"] for k in range(3000)]
        assert abs(np.mean(flips) - p) < 0.03 * (0 < p < 1) or np.mean(flips) == p


def test_grayscale_has_its_probability():
    p = plan(("random_grayscale", {"p": 0.2}))
    colours = [p.route(9, 9, 1, 0, 0, k)[0]["edits"] for k in range(3000)]
    assert {tuple(colour) for colour in colours} == {(), (("saturation", 0.0),)}
    assert abs(np.mean([len(colour) for colour in colours]) - 0.2) < 0.03


def test_jitter_has_every_order_with_the_same_chance():
    n, p = 6000, plan(JITTER)
    orders = Counter(
        tuple(name for name, _ in p.route(9, 9, 7, 0, 0, index)[0]["edits"]) for index in range(n)
    )
    assert len(orders) == math.factorial(4)
    chi_square = sum((count - n / 24) ** 2 / (n / 24) for count in orders.values())
    assert chi_square < 49.7  # 23 degrees of freedom at 0.001; the seed is fixed


def test_jitters_factors_are_uniform_in_their_ranges():
    ranges = {"brightness": (0, 3), "contrast": (0.5, 0.75), "saturation": (2, 2), "hue": (-0.5, 0.25)}
    p, n = plan(("color_jitter", ranges)), 3000
    drawn = [dict(p.route(9, 9, 11, 0, 0, index)[0]["edits"]) for index in range(n)]
    assert {factors["saturation"] for factors in drawn} == {2.0}
    for name in ("brightness", "contrast"):
        low, high = ranges[name]
        shares = (np.sort([factors[name] for factors in drawn]) - low) / (high - low)
        assert shares[0] >= 0 and shares[-1] <= 1
        assert np.abs(shares - np.arange(1, n + 1) / n).max() < 1.95 / math.sqrt(n)
    turns = np.array([factors["hue"] for factors in drawn], np.uint8).view(np.int8)
    assert turns.min() >= -127 and turns.max() <= 63 and abs(turns.mean() + 32) < 4


def test_a_factor_that_does_nothing_is_not_drawn():
    brightness = {"brightness": (0.5, 1.5)}
    neutral = {"contrast": (1, 1), "saturation": (1, 1), "hue": (0, 0)}
    for index in range(20):
        (route,) = plan(("color_jitter", {**brightness, **neutral})).route(9, 9, 1, 0, 0, index)
        numbers = Numbers(1, 0, 0, index)
        for k in (4, 3, 2):
            numbers.below(k)
        assert route["edits"] == [("brightness", np.float32(numbers.uniform(0.5, 1.5)))]
    assert plan(("color_jitter", neutral)).route(9, 9, 1)[0]["edits"] == []


@pytest.mark.parametrize(("height", "width"), [(375, 500), (500, 333), (100, 100), (3, 1000), (900, 1)])
@pytest.mark.parametrize(("short", "max_size"), [(100, 120), (224, 225), (300, 2000), (1, 2), (50, 51)])
def test_max_size_holds_the_long_side(height, width, short, max_size):
    p = plan(("resize", {"size": short, "max_size": max_size}))
    (route,) = p.route(height, width, 0)
    assert route["full"] == resized_size(height, width, short, max_size)
    assert max(route["full"]) <= max_size


def test_the_output_size_follows_every_op():
    for ops, size in (
        ((random_crop(32, 30, padding=(4, 4, 4, 4)), HFLIP, VFLIP, JITTER, GREY), (32, 30)),
        ((CENTER, pad(1, 2, 3, 4)), (26, 24)),
        ((pad(1, 2, 3, 4), CENTER), (20, 20)),
        ((("resize", {"size": (30, 90)}), ("resize", {"size": 20, "max_size": 40})), (13, 40)),
        ((RRC, pad(0, 0, 0, 9), ("resize", {"size": 12})), (16, 12)),
    ):
        p = plan(*ops)
        assert p.output_size() == size
        assert p.route(50, 70, 0)[-1]["size"] == size
    for ops in ((pad(1, 1, 1, 1),), (VFLIP,), (JITTER, GREY), (("resize", {"size": 20, "max_size": 40}),)):
        with pytest.raises(PlanError, match="stack"):
            plan(*ops).output_size()


@pytest.mark.parametrize(
    "op",
    [
        ("random_vflip", {"p": -0.1}),
        ("random_vflip", {"p": float("nan")}),
        ("random_grayscale", {"p": 1.01}),
        ("resize", {"size": 50, "max_size": 50}),
        ("resize", {"size": 50, "max_size": 70_000}),
        ("resize", {"size": (50, 50), "max_size": 60}),
        ("resize", {"size": 50, "interpolation": "nearest"}),
        pad(-1, 0, 0, 0),
        pad(0, 0, 0, 65_536),
        pad(0, 0, 0, 0, mode="wrap"),
        pad(0, 0, 0, 0, fill=(0, 0, 256)),
        random_crop(0, 5),
        random_crop(5, 70_000),
        random_crop(5, 5, padding=(65_536, 0, 0, 0)),
        random_crop(5, 5, padding_mode="mirror"),
        ("color_jitter", {"brightness": (-0.1, 1)}),
        ("color_jitter", {"contrast": (1.5, 0.5)}),
        ("color_jitter", {"saturation": (1, float("inf"))}),
        ("color_jitter", {"saturation": (float("nan"), 1)}),
        ("color_jitter", {"brightness": (0, 1e7)}),
        ("color_jitter", {"hue": (-0.6, 0)}),
        ("color_jitter", {"hue": (0, 0.51)}),
        ("color_jitter", {"hue": (0.2, 0.1)}),
    ],
)
def test_arguments_out_of_range_are_refused(op):
    with pytest.raises(PlanError):
        plan(op)


@pytest.mark.parametrize("op", [VFLIP, GREY, JITTER, RRC, random_crop(5, 5)])
def test_what_is_random_is_refused_in_the_head(op):
    plan(op)
    with pytest.raises(PlanError, match="head"):
        plan(op, n_head=1)


def test_a_padded_head_is_what_is_decoded():
    pixels = blocks(np.random.default_rng(1), 30, 40)
    ops = [pad(3, 1, 2, 4, fill=(1, 2, 3)), ("resize", {"size": (30, 30)}), pad(9, 9, 9, 9, mode="symmetric")]
    ours = Codec().head(plan(*ops, n_head=3), pixels)
    theirs = replay(ops, pixels, 0, 0, 0, 0)
    assert ours.shape == theirs.shape == (48, 48, 3)
    assert np.abs(ours.astype(int) - theirs).max() <= (0 if PILLOW_SIMD else 2)
