"""Pipelines: torchvision's semantics, and the same pixels by every way through the codec."""

import io
import json
import math
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from PIL import __version__ as pillow_version
from sizes import size as at_size

from seneca._core.codec import Codec
from seneca._core.plan import Plan
from seneca.errors import PlanError

HEAD = ("resize", "center_crop", "pad")
GOLDEN = Path(__file__).parents[2] / "golden" / "routes.json"
RRC = ("random_resized_crop", {"size": (224, 224), "scale": (0.08, 1.0), "ratio": (3 / 4, 4 / 3)})
PILLOW_SIMD = "post" in pillow_version
FLIP, VFLIP = ("random_hflip", {"p": 0.5}), ("random_vflip", {"p": 0.5})
CROP = ("random_crop", {"size": (200, 260), "padding": (4, 4, 4, 4), "fill": (9, 99, 199)})
JITTER = ("color_jitter", {"brightness": (0.6, 1.4), "contrast": (0.6, 1.4), "hue": (-0.1, 0.1)})


def plan(*ops, n_head=0):
    return Plan(list(ops), n_head, "uint8", True, (0, 0, 0), (1, 1, 1))


def picture(height, width, seed=0):
    """Smooth enough that a JPEG of it is ordinary, rough enough that a shift shows."""
    small = np.random.default_rng(seed).integers(0, 256, (height // 4 + 2, width // 4 + 2, 3), np.uint8)
    return Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)


def encoded(image):
    file = io.BytesIO()
    image.save(file, "JPEG", quality=92)
    return file.getvalue()


def decoded(data):
    return Image.open(io.BytesIO(data)).convert("RGB")


def assert_close(ours, theirs):
    """As in test_codec_resize.py: to the bit for Pillow-SIMD, nearly for any other Pillow."""
    apart = np.abs(ours.astype(int) - np.asarray(theirs))
    assert apart.max() <= (0 if PILLOW_SIMD else 2) and apart.mean() <= 0.3


def photographs(folder, n):
    return [path.read_bytes() for path in sorted(folder.glob("*/*"))[:n]]


def pixels_of(codec, data):
    return codec.decode(plan(), data)


def test_random_resized_crop_and_flip_are_pillows_crop_resize_and_flip(imagenet_sample):
    codec, train = Codec(), plan(RRC, FLIP)
    flips, count = 0, at_size(18, 60)
    for index, data in enumerate(photographs(imagenet_sample, count)):
        whole = Image.fromarray(pixels_of(codec, data))
        (route,) = train.route(whole.height, whole.width, 3, 0, 1, index)
        top, left, height, width = route["box"]
        expected = whole.crop((left, top, left + width, top + height))
        expected = expected.resize((224, 224), Image.Resampling.BILINEAR)
        if route["flip"]:
            expected = expected.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        assert_close(codec.augment_encoded(train, data, 3, 0, 1, index), expected)
        flips += route["flip"]
    assert 0 < flips < count


def test_resize_and_center_crop_are_pillows(imagenet_sample):
    codec = Codec()
    evaluate = plan(("resize", {"size": 256}), ("center_crop", {"size": (224, 224)}), n_head=2)
    for data in photographs(imagenet_sample, at_size(12, 40)):
        whole = Image.fromarray(pixels_of(codec, data))
        w, h = whole.size
        nw, nh = (256, int(256 * h / w)) if w <= h else (int(256 * w / h), 256)
        top, left = round((nh - 224) / 2.0), round((nw - 224) / 2.0)
        expected = whole.resize((nw, nh), Image.Resampling.BILINEAR)
        expected = expected.crop((left, top, left + 224, top + 224))
        assert_close(codec.decode(evaluate, data), expected)
        np.testing.assert_array_equal(
            codec.augment_encoded(evaluate, data, 0, 0, 0, 0), codec.decode(evaluate, data)
        )


PIPELINES = [
    (RRC, FLIP),
    (("resize", {"size": 256}), RRC, FLIP),
    (("center_crop", {"size": (150, 400)}), RRC, FLIP),
    (("resize", {"size": (200, 260)}), ("center_crop", {"size": (224, 224)}), FLIP),
    (FLIP, RRC, FLIP, ("center_crop", {"size": (100, 301)}), FLIP, ("resize", {"size": (90, 80)})),
    (("center_crop", {"size": (10, 10)}), ("center_crop", {"size": (30, 20)}), FLIP, RRC),
    (RRC, FLIP, VFLIP, JITTER),
    (("pad", {"padding": (9, 8, 7, 6), "padding_mode": "reflect"}), VFLIP, CROP, JITTER, RRC, FLIP),
    (JITTER, CROP, VFLIP, ("resize", {"size": (90, 80)}), JITTER),
]


@pytest.mark.small(3)
@pytest.mark.parametrize("ops", PIPELINES)
def test_from_the_file_or_from_decoded_pixels_the_result_is_the_same(ops):
    data, codec = encoded(picture(243, 317)), Codec()
    n_deterministic = next(k for k, (kind, _) in enumerate(ops) if kind not in HEAD)
    for n_head in range(n_deterministic + 1):
        p = plan(*ops, n_head=n_head)
        head = codec.decode(p, data)
        np.testing.assert_array_equal(codec.head(p, pixels_of(codec, data)), head)
        for index in range(12):
            expected = codec.augment_encoded(p, data, 9, 1, 2, index)
            np.testing.assert_array_equal(codec.augment_decoded(p, head, 9, 1, 2, index), expected)


def one_by_one(ops, image, rng_route):
    """The same ops, each on its own by Pillow, with the boxes and flips that the route drew."""
    flips, boxes = rng_route
    for kind, args in ops:
        w, h = image.size
        if kind == "random_hflip" and flips.pop(0):
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        elif kind == "random_vflip" and flips.pop(0):
            image = image.transpose(Image.Transpose.FLIP_TOP_BOTTOM)
        elif kind == "resize":
            image = image.resize(args["size"][::-1], Image.Resampling.BILINEAR)
        elif kind == "center_crop":
            ch, cw = args["size"]
            canvas = Image.new("RGB", (max(w, cw), max(h, ch)))
            canvas.paste(image, (max(0, (cw - w) // 2), max(0, (ch - h) // 2)))
            w, h = canvas.size
            top, left = round((h - ch) / 2.0), round((w - cw) / 2.0)
            image = canvas.crop((left, top, left + cw, top + ch))
        elif kind == "random_resized_crop":
            top, left, ch, cw = boxes.pop(0)
            image = image.crop((left, top, left + cw, top + ch))
            image = image.resize(args["size"][::-1], Image.Resampling.BILINEAR)
    return image


def test_merged_passes_give_what_the_ops_give_one_by_one():
    """Crops, pads, flips and resizes in random order, against Pillow doing each by itself."""
    rng, codec = np.random.default_rng(23), Codec()
    for trial in range(150):
        ops, flips = [], []
        for _ in range(rng.integers(1, 6)):
            kind = str(rng.choice(["resize", "center_crop", "random_hflip", "random_vflip"]))
            size = tuple(int(side) for side in rng.integers(1, 120, 2))
            if kind.endswith("flip"):
                flips.append(bool(rng.integers(2)))
                ops.append((kind, {"p": float(flips[-1])}))
            else:
                ops.append((kind, {"size": size}))
        ops.append(("center_crop", {"size": tuple(int(side) for side in rng.integers(1, 120, 2))}))
        image = picture(*(int(side) for side in rng.integers(1, 100, 2)), seed=trial)
        expected = np.asarray(one_by_one(ops, image, (flips, [])))
        ours = codec.augment_decoded(plan(*ops), np.asarray(image), trial, 0, 0, 0)
        # Each pass may round one away, and a next pass carries that on.
        assert np.abs(ours.astype(int) - expected).max() <= 3, ops


@pytest.mark.parametrize(("height", "width"), [(10, 10), (30, 11), (11, 30), (224, 224), (7, 300)])
def test_center_crop_pads_a_small_picture_with_zeros_as_torchvision(height, width):
    image = picture(height, width)
    crop = ("center_crop", {"size": (29, 40)})
    expected = one_by_one([crop], image, ([], []))
    np.testing.assert_array_equal(Codec().head(plan(crop, n_head=1), np.asarray(image)), expected)


def test_a_center_crop_rounds_half_to_even_as_python_does():
    tops = [plan(("center_crop", {"size": (10, 10)})).route(10 + k, 20, 0)[0]["window"][0] for k in range(8)]
    assert tops == [round(k / 2) for k in range(8)] == [0, 0, 1, 2, 2, 2, 3, 4]


def test_what_padding_hid_is_not_seen_again():
    image = picture(60, 60)
    small, large = ("center_crop", {"size": (20, 20)}), ("center_crop", {"size": (40, 40)})
    result = Codec().head(plan(small, large, n_head=2), np.asarray(image))
    assert not result[:10].any() and not result[:, 30:].any()
    np.testing.assert_array_equal(result[10:30, 10:30], np.asarray(image)[20:40, 20:40])


def test_ops_that_only_move_pixels_merge_into_one_pass():
    assert len(plan(RRC, FLIP).route(300, 400, 0)) == 1
    evaluate = plan(("resize", {"size": 256}), ("center_crop", {"size": (224, 224)}), FLIP)
    (route,) = evaluate.route(300, 400, 0)
    assert route["full"] == (256, 341) and route["window"] == (16, 58, 224, 224)
    assert len(plan(("resize", {"size": 256}), RRC).route(300, 400, 0)) == 2


def test_a_resize_to_the_size_at_hand_does_nothing():
    for size in (50, (50, 70)):
        (route,) = plan(("resize", {"size": size})).route(50, 70, 0)
        assert route["full"] == (50, 70)
    image = np.asarray(picture(50, 70))
    np.testing.assert_array_equal(Codec().head(plan(("resize", {"size": 50}), n_head=1), image), image)


@pytest.mark.parametrize(("height", "width"), [(375, 500), (500, 333), (100, 100), (3, 1000)])
def test_resize_of_the_short_side_has_torchvisions_sizes(height, width):
    for short in (1, 100, 224, 255):
        (route,) = plan(("resize", {"size": short})).route(height, width, 0)
        long = int(short * max(height, width) / min(height, width))
        assert route["full"] == ((short, long) if height <= width else (long, short))


def torchvisions_box(rng, height, width, scale, ratio):
    """RandomResizedCrop.get_params, written down again."""
    log_ratio = np.log(ratio)
    for _ in range(10):
        target = height * width * rng.uniform(*scale)
        aspect = math.exp(rng.uniform(*log_ratio))
        w, h = round(math.sqrt(target * aspect)), round(math.sqrt(target / aspect))
        if 0 < w <= width and 0 < h <= height:
            return int(rng.integers(0, height - h + 1)), int(rng.integers(0, width - w + 1)), h, w
    if width / height < min(ratio):
        w, h = width, round(width / min(ratio))
    elif width / height > max(ratio):
        w, h = round(height * max(ratio)), height
    else:
        w, h = width, height
    return (height - h) // 2, (width - w) // 2, h, w


@pytest.mark.small(1)
@pytest.mark.parametrize(("height", "width"), [(375, 500), (600, 200), (64, 64)])
def test_boxes_are_distributed_as_torchvisions(height, width):
    n, rng = 6000, np.random.default_rng(29)
    train = plan(RRC)
    ours = np.array([train.route(height, width, 31, 0, 0, k)[0]["box"] for k in range(n)])
    theirs = np.array([torchvisions_box(rng, height, width, (0.08, 1), (3 / 4, 4 / 3)) for _ in range(n)])
    pairs = [*zip(ours.T, theirs.T, strict=True), (ours[:, 2] * ours[:, 3], theirs[:, 2] * theirs[:, 3])]
    for ours_of, theirs_of in pairs:
        values = np.union1d(ours_of, theirs_of)
        a = np.searchsorted(np.sort(ours_of), values, "right") / n
        b = np.searchsorted(np.sort(theirs_of), values, "right") / n
        assert np.abs(a - b).max() < 1.95 * math.sqrt(2 / n)  # Kolmogorov-Smirnov at 0.001, seeds fixed


@pytest.mark.parametrize(
    ("size", "box"),
    [((1000, 10), (493, 0, 13, 10)), ((10, 1000), (0, 493, 10, 13)), ((1, 1), (0, 0, 1, 1))],
)
def test_a_picture_that_no_box_fits_gets_torchvisions_central_crop(size, box):
    crop = ("random_resized_crop", {"size": (8, 8), "scale": (0.9, 1.0), "ratio": (3 / 4, 4 / 3)})
    for index in range(20):
        assert plan(crop).route(*size, 1, 0, 0, index)[0]["box"] == box


def test_flips_have_their_probability():
    for p in (0.0, 0.3, 1.0):
        flips = [plan(("random_hflip", {"p": p})).route(9, 9, 1, 0, 0, k)[0]["flip"] for k in range(3000)]
        assert abs(np.mean(flips) - p) < 0.03 * (0 < p < 1) or np.mean(flips) == p


def test_the_route_of_a_seed_never_changes():
    """Jobs of two versions share payloads, and a seed is a promise: change this file only together
    with PIXELS_VERSION in seneca/transforms/_pipeline.py."""
    for case in json.loads(GOLDEN.read_text()):
        (route,) = plan(RRC, FLIP).route(*case["size"], *case["key"])
        assert [list(route["box"]), route["flip"]] == [case["box"], case["flip"]]


def test_the_output_size_is_known_only_where_it_is_fixed():
    assert plan(RRC).output_size() == (224, 224)
    assert plan(("resize", {"size": (30, 40)}), ("resize", {"size": 15})).output_size() == (15, 20)
    for ops in ((), (FLIP,), (("resize", {"size": 256}), FLIP)):
        with pytest.raises(PlanError, match="stack"):
            plan(*ops).output_size()


@pytest.mark.parametrize(
    "op",
    [
        ("blur", {}),
        ("resize", {"size": 0}),
        ("resize", {"size": -5}),
        ("resize", {"size": (100_000, 1)}),
        ("resize", {"width": 5}),
        ("center_crop", {"size": 5}),
        ("random_resized_crop", {"size": (5, 5), "scale": (0.5, 0.1), "ratio": (1, 1)}),
        ("random_resized_crop", {"size": (5, 5), "scale": (0.1, 1), "ratio": (0, 1)}),
        ("random_resized_crop", {"size": (5, 5), "scale": (0.1, float("nan")), "ratio": (1, 1)}),
        ("random_hflip", {"p": 1.5}),
    ],
)
def test_a_plan_out_of_range_is_refused(op):
    with pytest.raises(PlanError):
        plan(op)


def test_a_random_head_too_many_ops_and_a_zero_std_are_refused():
    with pytest.raises(PlanError):
        plan(FLIP, n_head=1)
    with pytest.raises(PlanError):
        plan(*[FLIP] * 17)
    with pytest.raises(PlanError):
        Plan([RRC], 0, "float32", False, (0, 0, 0), (1, 0, 1))
