"""timm's transforms run natively: the same pictures, with the same probabilities.

What timm draws and what Seneca draws is compared by Pearson's test where there are few values, and by
Kolmogorov and Smirnov's where there are many. Seeds are fixed and printed: each test passes or fails for
good.
"""

from __future__ import annotations

import collections
import itertools
import math
import random

import pytest

pytest.importorskip("timm", reason="timm is not here; `make test-frameworks` installs it")

import numpy as np
import torch
from PIL import Image, ImageOps
from scipy.stats import chi2_contingency, ks_2samp
from timm.data import auto_augment, create_transform, random_erasing, transforms
from torchvision_here import torchvision

import seneca
from seneca._core.batch import batch_write
from seneca._core.codec import Codec
from seneca.transforms import _timm
from seneca.transforms._pipeline import compile_transform
from seneca.transforms._recognise import recognise

SEED = 7
LUCK = 1e-3
CODEC = Codec()
ZEROS, ONES = (0, 0, 0), (1, 1, 1)
DEFAULTS = {"img_mean": (124, 116, 104)}


@pytest.fixture(autouse=True)
def _without_what_this_pillow_refuses(request):
    """timm asks for 0 bits too, which later Pillows refuse where Pillow-SIMD leaves black."""
    asks = ("[Posterize-0]", "[PosterizeIncreasing-10]", "chooses_as_timms[v0]")
    if request.node.name.endswith(asks):
        try:
            ImageOps.posterize(Image.new("RGB", (1, 1)), 0)
        except ValueError:
            pytest.skip("timm fails with this Pillow, which posterizes to 1 bit at least")


@pytest.fixture(autouse=True)
def seeded():
    print(f"seed {SEED}")
    random.seed(SEED), np.random.seed(SEED), torch.manual_seed(SEED)


def picture(height, width, seed=0):
    """Smooth, with noise."""
    rng = np.random.default_rng(seed)
    coarse = Image.fromarray(rng.integers(0, 256, (5, 4, 3), np.uint8)).resize((width, height), 3)
    return Image.fromarray(np.asarray(coarse) ^ rng.integers(0, 32, (height, width, 3), np.uint8))


SMALL = picture(21, 26)


def native(transform):
    found = recognise(transform)
    assert not isinstance(found, str), found
    return found


def made(theirs):
    """Seneca's steps for one of timm's transforms of pictures."""
    crop = torchvision.transforms.CenterCrop((SMALL.height, SMALL.width))
    whole = torchvision.transforms.Compose([crop, theirs, transforms.MaybePILToTensor()])
    return compile_transform(native(whole)).plan


def ours(theirs, draws, pixels=SMALL):
    plan, pixels = made(theirs), np.asarray(pixels)
    return [CODEC.augment_decoded(plan, pixels, SEED, 0, 0, k) for k in range(draws)]


TRAINING = [
    {},
    {"auto_augment": "rand-m9-mstd0.5-inc1", "re_prob": 0.25, "re_mode": "pixel"},
    {"interpolation": "random", "re_prob": 0.2, "re_mode": "rand", "re_count": 3},
    {"auto_augment": "rand-m7-n3-mstd101-mmax20", "interpolation": "random"},
    {"auto_augment": "rand-tweights-m5"},
    {"auto_augment": "rand-t3aw-m5-n3"},
    {"auto_augment": "original"},
    {"auto_augment": "originalr"},
    {"auto_augment": "v0"},
    {"auto_augment": "v0r-mstd0.5"},
    {"auto_augment": "3a", "color_jitter": 0.3},
    {"auto_augment": "augmix-m5-w4-d2"},
    {"color_jitter_prob": 0.5, "grayscale_prob": 0.1, "gaussian_blur_prob": 0.2},
    {"train_crop_mode": "rkrc", "interpolation": "random"},
    {"train_crop_mode": "rkrr"},
    {"no_aug": True},
    {"use_prefetcher": True},
]


@pytest.mark.parametrize("options", TRAINING, ids=str)
def test_what_create_transform_makes_for_training_runs_natively(options, picture_folder):
    transform = create_transform((3, 32, 24), is_training=True, **options)
    folder = torchvision.datasets.ImageFolder(picture_folder, transform)
    loader = seneca.DataLoader(folder, batch_size=8)
    assert loader.explain().startswith("native"), loader.explain()
    images, _ = next(iter(loader))
    expected = transform(SMALL)
    assert images.shape == (8, 3, 32, 24) and images.dtype == expected.dtype


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"crop_pct": 0.9, "interpolation": "bicubic"},
        {"crop_mode": "squash"},
        {"crop_mode": "border"},
        {"input_size": (3, 30, 22)},
        {"use_prefetcher": True},
    ],
    ids=str,
)
def test_what_create_transform_makes_for_evaluation_has_timms_pixels(options):
    transform = create_transform(**{"input_size": 24, **options})
    mine = native(transform)
    assert compile_transform(mine).deterministic
    for seed, sides in enumerate([(50, 71), (90, 33), (20, 19)]):
        image = picture(*sides, seed)
        one, other = mine(image), transform(image)
        scale = 1 if one.dtype == torch.uint8 else 255 * 0.225
        apart = (one.float() - other.float()).abs() * scale
        assert one.dtype == other.dtype and apart.mean() <= 0.3 and (apart <= 2.01).float().mean() >= 0.999


@pytest.mark.parametrize(
    ("theirs", "words"),
    [
        (transforms.ToNumpy(), "ToNumpy makes an array"),
        (transforms.TrimBorder(3), "TrimBorder crops a border"),
        (auto_augment.augment_and_mix_transform("augmix-b1"), "has blended=True"),
        (
            auto_augment.AutoAugment([[auto_augment.AugmentOp("TranslateX")]]),
            "has the operation TranslateX",
        ),
        (auto_augment.RandAugment([abs]), "which is not an AugmentOp"),
    ],
)
def test_what_is_refused_says_why(theirs, words):
    found = recognise(torchvision.transforms.Compose([transforms.CenterCropOrPad(20), theirs]))
    assert isinstance(found, str) and words in found


def test_an_operation_whose_function_was_replaced_is_refused(monkeypatch):
    monkeypatch.setitem(auto_augment.NAME_TO_OP, "Rotate", auto_augment.invert)
    changed = auto_augment.rand_augment_transform("rand-m9")
    assert "has the operation Rotate" in recognise(torchvision.transforms.Compose([changed]))
    monkeypatch.setattr(auto_augment, "invert", lambda img, **_: img)
    assert "timm.data.auto_augment.invert was replaced" in recognise(changed)


def test_every_operation_of_timms_tables_is_known_but_those_that_shift_by_pixels():
    tables = (auto_augment._RAND_TRANSFORMS, auto_augment._RAND_INCREASING_TRANSFORMS, auto_augment._RAND_3A)
    tables += (auto_augment._RAND_WEIGHTED_3A, auto_augment._RAND_WEIGHTED_0, auto_augment._AUGMIX_TRANSFORMS)
    assert {name for table in tables for name in table} <= {*_timm.TIMM_OPERATIONS}
    assert {*auto_augment.NAME_TO_OP} - {*_timm.TIMM_OPERATIONS} == {"TranslateX", "TranslateY"}


# The pictures of a recipe, and how often each comes


def keyed(pictures):
    return collections.Counter(np.asarray(one).tobytes() for one in pictures)


def close_to(key, others):
    """The picture of these that is the same but for what single floats round."""
    values = np.frombuffer(key, np.uint8).astype(int)
    distances = {other: np.abs(values - np.frombuffer(other, np.uint8)).mean() for other in others}
    best = min(distances, key=distances.__getitem__)
    assert distances[best] < 0.02, f"a picture of none of timm's: {distances[best]} levels from the nearest"
    return best


def assert_same_pictures(theirs, draws=3000):
    expected = keyed(theirs(SMALL) for _ in range(draws))
    found = collections.Counter()
    for key, count in keyed(ours(theirs, draws)).items():
        found[key if key in expected else close_to(key, expected)] += count
    often = [key for key, count in expected.items() if count + found[key] >= 12]
    rest = [sum(counts.values()) - sum(counts[key] for key in often) for counts in (expected, found)]
    table = [
        [*(counts[key] for key in often), left + 1]
        for counts, left in zip((expected, found), rest, strict=True)
    ]
    assert len(often) == 1 or chi2_contingency(table).pvalue > LUCK


@pytest.mark.parametrize("magnitude", [0, 3, 10])
@pytest.mark.parametrize("name", [name for name in _timm.TIMM_OPERATIONS if name != "GaussianBlurRand"])
def test_an_operation_makes_timms_pictures_as_often(name, magnitude):
    one = auto_augment.AugmentOp(name, 0.7, magnitude, DEFAULTS)
    assert_same_pictures(auto_augment.RandAugment([one], 1), 600)


@pytest.mark.parametrize(
    "config", ["rand-m9-n1-inc1", "rand-m6-n1-p0.9", "rand-tweights-m5-n1", "rand-t3a-m4-n1"]
)
def test_rand_augment_chooses_as_timms(config):
    assert_same_pictures(auto_augment.rand_augment_transform(config, {**DEFAULTS, "interpolation": 2}), 6000)


def test_rand_augment_with_weights_never_chooses_twice():
    ops = [
        auto_augment.AugmentOp(name, 1.0, 10, DEFAULTS)
        for name in ("Invert", "Solarize", "AutoContrast", "Equalize")
    ]
    weights = np.array([0.7, 0.1, 0.1, 0.1])
    assert_same_pictures(auto_augment.RandAugment(ops, 2, weights), 8000)


@pytest.mark.parametrize("policy", ["original", "v0", "v0r"])
def test_auto_augment_chooses_as_timms(policy):
    assert_same_pictures(auto_augment.auto_augment_transform(policy, {**DEFAULTS, "interpolation": 3}), 6000)


def test_the_comparison_sees_a_wrong_operation_and_a_wrong_frequency(monkeypatch):
    one = auto_augment.AugmentOp("Color", 0.7, 3, DEFAULTS)
    theirs = auto_augment.RandAugment([one], 1)
    right = ours(theirs, 600)
    monkeypatch.setitem(globals(), "ours", lambda *_: right)
    assert_same_pictures(theirs, 600)
    monkeypatch.setitem(globals(), "ours", lambda *_: [right[0]] * 600)
    with pytest.raises(AssertionError):
        assert_same_pictures(theirs, 600)
    monkeypatch.setitem(globals(), "ours", lambda *_: [pixels // 2 for pixels in right])
    with pytest.raises(AssertionError, match="none of timm's"):
        assert_same_pictures(theirs, 600)


# Magnitudes


def edits_of(theirs, draws):
    plan = made(theirs)
    routes = (plan.route(SMALL.height, SMALL.width, SEED, index=k) for k in range(draws))
    return [[edit for taken in route for edit in taken["edits"]] for route in routes]


@pytest.mark.parametrize("deviation", [0.5, 3.0, math.inf])
@pytest.mark.parametrize(("magnitude", "most"), [(9, None), (4, 6), (15, 20)])
def test_magnitudes_are_spread_as_timms(deviation, magnitude, most):
    hparams = {**DEFAULTS, "magnitude_std": deviation, "magnitude_max": most}
    op = auto_augment.AugmentOp("BrightnessIncreasing", 1.0, magnitude, hparams)
    found = [edits[0][1] for edits in edits_of(auto_augment.RandAugment([op], 1), 8000)]
    drawn = []
    monkey = lambda img, factor, **_: drawn.append(factor)  # noqa: E731
    op.aug_fn = monkey
    for _ in range(6000):
        op(SMALL)
    assert ks_2samp(found, np.array(drawn, np.float32)).pvalue > LUCK


def test_radii_of_random_blurs_are_spread_as_timms():
    hparams = {**DEFAULTS, "magnitude_std": 2.0}
    found = [
        edits[0][1]
        for edits in edits_of(
            auto_augment.RandAugment([auto_augment.AugmentOp("GaussianBlurRand", 1.0, 7, hparams)], 1), 6000
        )
    ]
    theirs = [random.uniform(0.1, 2.0 * max(0.0, min(10.0, random.gauss(7, 2.0))) / 10) for _ in range(6000)]
    assert ks_2samp(found, theirs).pvalue > LUCK


@pytest.mark.parametrize("alpha", [0.3, 1.0, 2.5])
def test_weights_and_lengths_of_aug_mix_are_timms(alpha):
    theirs = auto_augment.augment_and_mix_transform(f"augmix-m3-w4-a{alpha}", dict(DEFAULTS))
    found = edits_of(theirs, 5000)
    chains = [[edit[1] for edit in edits if edit[0] == "mix add"] for edits in found]
    blends = [edits[-1][1] for edits in found]
    assert {len(chain) for chain in chains} == {4}
    assert np.allclose(np.sum(chains, 1), 1, atol=1e-5)
    assert (
        ks_2samp([chain[2] for chain in chains], np.random.dirichlet([alpha] * 4, 5000)[:, 2]).pvalue > LUCK
    )
    assert ks_2samp(blends, np.random.beta(alpha, alpha, 5000)).pvalue > LUCK
    marks = [[k for k, edit in enumerate(edits) if edit[0].startswith("mix")] for edits in found]
    lengths = collections.Counter(
        later - first - 1 for mark in marks for first, later in itertools.pairwise(mark[:-1])
    )
    assert {*lengths} == {1, 2, 3}
    assert chi2_contingency([[lengths[k] for k in (1, 2, 3)], [20000] * 3]).pvalue > LUCK


def test_aug_mix_blends_timms_pictures():
    """With one chain of one operation that is certain, the blend alone is drawn."""
    op = auto_augment.AugmentOp("Invert", 1.0, 3, DEFAULTS)
    theirs = auto_augment.AugMixAugment([op], width=2, depth=1)
    drawn, found = ours(theirs, 300), edits_of(theirs, 300)
    inverted = np.asarray(SMALL) ^ 255
    for pixels, edits in zip(drawn, found, strict=True):
        mixed = np.zeros_like(inverted, dtype=np.float32)
        for name, weight in edits:
            if name == "mix add":
                mixed += np.float32(weight) * inverted.astype(np.float32)
        mixed = Image.fromarray(mixed.clip(0, 255).astype(np.uint8))
        expected = np.asarray(Image.blend(SMALL, mixed, edits[-1][1]))
        assert np.abs(pixels.astype(int) - expected).max() <= 1 and (pixels != expected).mean() < 0.01


# Erasing


@pytest.mark.parametrize("mode", ["const", "rand", "pixel"])
@pytest.mark.parametrize("count", [(1, 1), (1, 3), (2, 2)])
def test_erasing_is_timms(mode, count):
    side = 24
    theirs = random_erasing.RandomErasing(
        0.6, mode=mode, min_count=count[0], max_count=count[1], min_area=0.1, device="cpu"
    )
    tail = [transforms.MaybeToTensor(), torchvision.transforms.Normalize([0.5] * 3, [0.5] * 3), theirs]
    plan = compile_transform(
        native(torchvision.transforms.Compose([transforms.CenterCropOrPad(side), *tail]))
    ).plan

    def described(batches):
        shares, levels, colours = [], [], []
        for out in batches:
            gone = (out != -1).any(-1)
            shares.append(gone.mean())
            if gone.any():
                values = out[gone]
                levels.append(values[0, 0])
                colours.append(len(np.unique(values[:, 0])) > count[1])
        return shares, levels, np.mean(colours)

    mine = described(out.transpose(1, 2, 0) for out in by_planes(plan, 3000, side))
    other = described(theirs(torch.full((3, side, side), -1.0)).permute(1, 2, 0).numpy() for _ in range(3000))
    assert ks_2samp(mine[0], other[0]).pvalue > LUCK
    assert ks_2samp(mine[1], other[1]).pvalue > LUCK
    assert mine[2] == pytest.approx(other[2], abs=0.02)


def by_planes(plan, draws, side):
    black, out = np.zeros((side, side, 3), np.uint8), np.empty((3, side, side), np.float32)
    for index in range(draws):
        batch_write(plan, black, out, SEED, 0, index)
        yield out


# Sizes


def test_either_filter_is_drawn_as_often():
    crop = transforms.RandomResizedCropAndInterpolation((16, 16), interpolation="random")
    plan = compile_transform(native(torchvision.transforms.Compose([crop, transforms.MaybeToTensor()]))).plan
    filters = [plan.route(40, 50, SEED, index=k)[0]["filter"][0] for k in range(4000)]
    assert abs(filters.count("bicubic") - 2000) < 4 * math.sqrt(1000)
    assert {*filters} == {"bilinear", "bicubic"}


@pytest.mark.parametrize("sides", [(40, 51), (90, 33)])
def test_random_sizes_of_resize_keep_ratio_are_timms(sides):
    resize = transforms.ResizeKeepRatio(
        30,
        0.3,
        random_scale_prob=0.5,
        random_scale_range=(0.8, 1),
        random_scale_area=True,
        random_aspect_prob=0.5,
    )
    steps = [resize, transforms.RandomCropOrPad(20), transforms.MaybeToTensor()]
    plan = compile_transform(native(torchvision.transforms.Compose(steps))).plan
    found = [plan.route(*sides, SEED, index=k)[0]["full"] for k in range(6000)]
    image = picture(*sides)
    args = (resize.size, 0.3, 0.5, (0.8, 1), True, 0.5, resize.random_aspect_range)
    theirs = [tuple(resize.get_params(image, *args)) for _ in range(6000)]
    for axis in (0, 1):
        assert ks_2samp([size[axis] for size in found], [size[axis] for size in theirs]).pvalue > LUCK


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
@pytest.mark.parametrize("sides", [(31, 17), (17, 31), (12, 13), (40, 40)])
def test_crops_or_pads_have_timms_pixels(mode, sides):
    image = picture(*sides)
    theirs = transforms.CenterCropOrPad((20, 21), (1, 2, 3), mode)
    mine = native(torchvision.transforms.Compose([theirs, transforms.MaybePILToTensor()]))
    assert np.array_equal(mine(image).permute(1, 2, 0).numpy(), np.asarray(theirs(image)))


@pytest.mark.parametrize("sides", [(31, 17), (14, 13)])
def test_random_crops_or_pads_lie_as_timms(sides):
    image = picture(*sides)
    theirs = transforms.RandomCropOrPad((20, 21), 9)
    mine = native(torchvision.transforms.Compose([theirs, transforms.MaybePILToTensor()]))
    found = keyed(mine(image).permute(1, 2, 0).numpy() for _ in range(3000))
    expected = keyed(theirs(image) for _ in range(3000))
    assert {*found} == {*expected}
    assert chi2_contingency([[counts[key] for key in expected] for counts in (found, expected)]).pvalue > LUCK
