"""Warps, tones, sharpness, blurs, and RandAugment and its like, beside Pillow and torchvision.

All but blurs are Pillow's to the bit. torchvision blurs in two dimensions at once, whose single floats round
to another byte now and then. Where several pictures may come, each that comes is one of torchvision's, to the
bit, and each of torchvision's comes as often as it should.
"""

from __future__ import annotations

import collections
import functools
import itertools
import math

import numpy as np
import pytest
import torch
from oracle import pictures as portable
from PIL import Image, ImageEnhance, ImageOps
from PIL import __version__ as pillow_version
from scipy.stats import binomtest, chisquare, ks_2samp
from sizes import size
from torchvision_here import F, torchvision, v1, v2

from seneca._core.codec import Codec
from seneca._core.plan import Plan
from seneca.transforms._pipeline import Step

SIMD = "post" in pillow_version  # its sharpness has weights of 13 bits, and its grey of 15
SEED = 1
ZEROS, ONES = (0, 0, 0), (1, 1, 1)
LUCK = 1e-3
MODES = F.InterpolationMode
FILTERS = {"nearest": MODES.NEAREST, "bilinear": MODES.BILINEAR, "bicubic": MODES.BICUBIC}
FILL = (9, 200, 77)
SIZES = [(1, 1), (1, 9), (8, 1), (3, 3), (2, 5), (33, 47), (64, 64), (120, 90)]


def picture(height, width, seed=0):
    """Smooth, with noise and flat parts."""
    rng = np.random.default_rng(seed)
    coarse = Image.fromarray(rng.integers(0, 256, (5, 4, 3), np.uint8)).resize((width, height), 3)
    pixels = np.asarray(coarse) ^ rng.integers(0, 32, (height, width, 3), np.uint8)
    pixels[: height // 3, : width // 2] = (0, 130, 255)
    return pixels


PICTURES = [picture(*sides, seed=number) for number, sides in enumerate(SIZES)]
DULL = [(pixels // 3 + 60).astype(np.uint8) for pixels in PICTURES]


CODEC = Codec()


def native(kind, args, pixels, index=0):
    """What the core makes of a picture by one step."""
    crop = ("center_crop", {"size": pixels.shape[:2]})
    plan = Plan([crop, (kind, args)], 0, "uint8", True, ZEROS, ONES)
    return CODEC.augment_decoded(plan, pixels, SEED, 0, 0, index)


def in_pillow(kind, args, pixels, index=0):
    rng = np.random.default_rng([SEED, index])
    return portable.augment([Step(kind, args)], Image.fromarray(pixels), rng)


ENGINES = pytest.mark.parametrize("engine", [native, in_pillow])


def assert_equal(ours, theirs):
    np.testing.assert_array_equal(ours, np.asarray(theirs))


@ENGINES
@pytest.mark.parametrize("pixels", [*PICTURES, *DULL], ids=lambda p: "x".join(map(str, p.shape[:2])))
@pytest.mark.small(32)
def test_tones_are_pillows_to_the_bit(engine, pixels):
    image = Image.fromarray(pixels)
    for kind, theirs in [
        ("random_invert", ImageOps.invert),
        ("random_autocontrast", ImageOps.autocontrast),
        ("random_equalize", ImageOps.equalize),
    ]:
        assert_equal(engine(kind, {"p": 1.0}, pixels), theirs(image))
        assert_equal(engine(kind, {"p": 0.0}, pixels), image)
    for bits in range(9):
        ours = engine("random_posterize", {"p": 1.0, "bits": bits}, pixels)
        assert_equal(ours, ImageOps.posterize(image, bits))
    for threshold in (-3.0, 0.0, 100.5, 128.0, 255.0, 255.5, 256.0, 1e9):
        ours = engine("random_solarize", {"p": 1.0, "threshold": threshold}, pixels)
        assert_equal(ours, ImageOps.solarize(image, threshold))


def test_a_few_pixels_are_not_equalised_and_many_are_spread_beyond_the_last_level():
    for n in (254, 256, 511, 766, 5000):
        ramp = np.repeat(np.arange(n) % 251, 3).astype(np.uint8).reshape(1, n, 3)
        ramp[0, :2] = 3
        ours = native("random_equalize", {"p": 1.0}, ramp)
        assert_equal(ours, ImageOps.equalize(Image.fromarray(ramp)))


@ENGINES
def test_sharpness_is_pillows(engine):
    for pixels, factor in itertools.product(PICTURES, (0.0, 0.3, 1.0, 1.7, 20.0)):
        ours = engine("random_adjust_sharpness", {"p": 1.0, "sharpness_factor": factor}, pixels)
        theirs = np.asarray(ImageEnhance.Sharpness(Image.fromarray(pixels)).enhance(factor))
        off = np.abs(ours.astype(int) - theirs.astype(int))
        assert off.max() <= (0 if SIMD else 1 + abs(1 - factor))


ANGLES = (0.0, 90.0, 180.0, 270.0, -90.0, 13.7, -33.33, 45.0, 1e-3, 719.9)
CENTERS = (None, (3.0, 2.5))


@ENGINES
def test_rotations_are_torchvisions_to_the_bit(engine):
    for pixels, interpolation in itertools.product(PICTURES, FILTERS):
        image = Image.fromarray(pixels)
        for angle in ANGLES:
            for center in CENTERS:
                args = {"degrees": (angle, angle), "interpolation": interpolation, "fill": FILL}
                args |= {} if center is None else {"center": center}
                theirs = F.rotate(image, angle, FILTERS[interpolation], False, center, FILL)
                assert_equal(engine("random_rotation", args, pixels), theirs)


MAPS = [  # angle, scale, shears
    (10.0, 1.2, (5.0, 0.0)),
    (-30.0, 0.5, (0.0, 20.0)),
    (0.0, 1.0, (0.0, 0.0)),
    (0.0, 2.0, (0.0, 0.0)),
    (0.0, 0.3, (0.0, 0.0)),
    (200.0, 1.0, (-30.0, 12.0)),
    (3.0, 1e-4, (3.0, 3.0)),
    (5.0, 1.0, (89.999, 0.0)),
]


@ENGINES
def test_affine_maps_are_torchvisions_to_the_bit(engine):
    for pixels, interpolation in itertools.product(PICTURES, FILTERS):
        image = Image.fromarray(pixels)
        for angle, scale, (along, across) in MAPS:
            for center in CENTERS:
                args = {"degrees": (angle, angle), "scale": (scale, scale), "fill": FILL}
                args |= {"shear": (along, along, across, across), "interpolation": interpolation}
                args |= {} if center is None else {"center": center}
                shear = [along, across]
                theirs = F.affine(image, angle, [0, 0], scale, shear, FILTERS[interpolation], FILL, center)
                assert_equal(engine("random_affine", args, pixels), theirs)


@ENGINES
def test_blurs_are_torchvisions_up_to_rounding(engine):
    for pixels, sigma in itertools.product(PICTURES, size((0.3, 2.0), (0.1, 0.8, 2.0, 5.0))):
        for width, height in [(1, 1), (3, 3), (5, 1), (1, 7), (9, 5), (23, 23)]:
            if width // 2 >= pixels.shape[1] or height // 2 >= pixels.shape[0]:
                continue  # torchvision fails there
            ours = engine("gaussian_blur", {"kernel_size": (height, width), "sigma": (sigma, sigma)}, pixels)
            off = np.abs(ours.astype(int) - np.asarray(blurred(pixels, width, height, sigma), int))
            assert off.max() <= 1 and off.mean() < 0.001


def blurred(pixels, width, height, sigma):
    return F.gaussian_blur(Image.fromarray(pixels), [width, height], [sigma, sigma])


def test_a_kernel_that_is_larger_than_the_picture_goes_on_mirroring_it():
    column = np.array([10, 90, 30], np.uint8).reshape(3, 1, 1).repeat(3, 2)
    ours = native("gaussian_blur", {"kernel_size": (9, 5), "sigma": (2.0, 2.0)}, column)
    weights = np.exp(-0.5 * (np.arange(-4, 5) / 2) ** 2)
    mirrored = np.array([10, 90, 30, 90, 10, 90, 30, 90, 10, 90, 30], float)  # the first is column[-4]
    wanted = [round(weights @ mirrored[k : k + 9] / weights.sum()) for k in range(3)]
    assert ours[:, 0, 0].tolist() == wanted


# What may come, and how often


def applied(operation, magnitude, pixels):
    """torchvision's picture of one operation, without what single floats add to the magnitude."""
    apply_op = torchvision.transforms.autoaugment._apply_op
    image = Image.fromarray(pixels)
    magnitude = round(magnitude, 4 if operation in ("Solarize", "TranslateX", "TranslateY") else 6)
    return np.asarray(apply_op(image, operation, magnitude, MODES.NEAREST, FILL)).tobytes()


def space(kind, bins, size, version=v1):
    """Operations by name: their magnitudes, or None, and whether they have a sign."""
    if version is v2:
        made = getattr(v2, kind)()._AUGMENTATION_SPACE
        return {name: (magnitudes(bins, *size), signed) for name, (magnitudes, signed) in made.items()}
    sizes = [] if kind == "TrivialAugmentWide" else [size]
    made = getattr(v1, kind)()._augmentation_space(bins, *sizes)
    return {name: (values if values.ndim else None, signed) for name, (values, signed) in made.items()}


@pytest.mark.parametrize("kind", ["RandAugment", "TrivialAugmentWide", "AutoAugment"])
def test_torchvisions_two_versions_have_the_same_operations_and_pairs(kind):
    for bins in (2, 10, 11, 31, 64):
        first, second = (space(kind, bins, (224, 192), version) for version in (v1, v2))
        assert list(first) == list(second)
        for name, (values, signed) in first.items():
            others, other_signed = second[name]
            assert signed == other_signed and (values is None) == (others is None)
            if values is not None:
                scale = 255 if name == "Solarize" else 1
                np.testing.assert_allclose(values, others * scale, atol=1e-4)
    if kind == "AutoAugment":
        for policy in torchvision.transforms.AutoAugmentPolicy:
            assert v1.AutoAugment(policy).policies == v2.AutoAugment(policy)._policies


def of_rand_augment(bins, magnitude):
    """Name, signed magnitude and probability of whatever one operation may be."""
    operations = space("RandAugment", bins, SMALL.shape[:2])
    for name, (values, signed) in operations.items():
        amount = 0.0 if values is None else float(values[magnitude])
        for sign in (-1, 1) if signed else (1,):
            yield name, sign * amount, 1 / len(operations) / (2 if signed else 1)


def of_trivial_augment(bins):
    operations = space("TrivialAugmentWide", bins, SMALL.shape[:2])
    for name, (values, signed) in operations.items():
        for amount in [0.0] if values is None else values.tolist():
            for sign in (-1, 1) if signed else (1,):
                n = (1 if values is None else bins) * (2 if signed else 1)
                yield name, sign * amount, 1 / len(operations) / n


def of_policy(policy):
    """Each picture that a policy may make, with its probability."""
    kind = torchvision.transforms.AutoAugmentPolicy[policy.upper()]
    operations = space("AutoAugment", 10, SMALL.shape[:2])
    make = functools.cache(applied_to_bytes)
    made = collections.Counter()
    for pair in v1.AutoAugment(kind).policies:
        before = {SMALL.tobytes(): 1 / 25}
        for name, p, k in pair:
            values, signed = operations[name]
            amount = float(values[k]) if k is not None else 0.0
            after = collections.Counter()
            for key, probability in before.items():
                after[key] += probability * (1 - p)
                for sign in (-1, 1) if signed else (1,):
                    after[make(name, sign * amount, key)] += probability * p / (2 if signed else 1)
            before = after
        made.update(before)
    return made


def applied_to_bytes(operation, magnitude, key):
    return applied(operation, magnitude, np.frombuffer(key, np.uint8).reshape(SMALL.shape))


def pictures_of(operations):
    """Each picture that one of the operations makes: its bytes, with the probability."""
    made = collections.Counter()
    for name, magnitude, probability in operations:
        made[applied(name, magnitude, SMALL)] += probability
    return made


SMALL = picture(23, 32, seed=5)


def assert_drawn(engine, kind, args, expected, draws):
    """Pictures that come are the expected ones, and each comes as often as it should."""
    args = {**args, "interpolation": "nearest", "fill": FILL}
    drawn = collections.Counter(np.asarray(engine(kind, args, SMALL, k)).tobytes() for k in range(draws))
    others = drawn.keys() - expected.keys()
    assert all(is_nearly_one_of(key, expected) for key in others), f"{len(others)} others"
    often = [key for key, probability in expected.items() if probability * draws >= 5]
    wanted = [expected[key] * draws for key in often]
    counts = [drawn[key] for key in often]
    rest = draws - sum(wanted), draws - sum(counts)
    if rest[0] >= 5:
        wanted.append(rest[0])
        counts.append(rest[1])
    assert sum(drawn[key] for key in others) < 0.01 * draws
    wanted = np.array(wanted) * sum(counts) / sum(wanted)
    assert chisquare(counts, wanted).pvalue > LUCK


def is_nearly_one_of(key, expected):
    """Whether a factor's last digit, of single floats in torch, is all that distinguishes two pictures."""
    values = np.frombuffer(key, np.uint8).astype(int)
    return any(np.abs(values - np.frombuffer(other, np.uint8)).mean() < 0.01 for other in expected)


@ENGINES
@pytest.mark.parametrize(("bins", "magnitude"), [(31, 9), (31, 0), (11, 10), (2, 1)])
@pytest.mark.small(3)
def test_rand_augment_chooses_as_torchvisions(engine, bins, magnitude):
    args = {"num_ops": 1, "magnitude": magnitude, "num_magnitude_bins": bins}
    expected = pictures_of(of_rand_augment(bins, magnitude))
    assert_drawn(engine, "rand_augment", args, expected, draws_of(engine))


@ENGINES
@pytest.mark.parametrize("bins", [31, 5])
@pytest.mark.small(2)
def test_trivial_augment_chooses_as_torchvisions(engine, bins):
    expected = pictures_of(of_trivial_augment(bins))
    assert_drawn(engine, "trivial_augment_wide", {"num_magnitude_bins": bins}, expected, draws_of(engine))


@ENGINES
@pytest.mark.parametrize("policy", ["imagenet", "cifar10", "svhn"])
@pytest.mark.small(2)
def test_auto_augment_chooses_as_torchvisions(engine, policy):
    assert_drawn(engine, "auto_augment", {"policy": policy}, of_policy(policy), draws_of(engine))


def draws_of(engine):
    return size(4_000, 20_000) if engine is native else size(1_000, 8_000)


@ENGINES
def test_operations_of_rand_augment_follow_each_other(engine):
    operations = list(of_rand_augment(31, 9))
    once = [np.frombuffer(key, np.uint8).reshape(SMALL.shape) for key in pictures_of(operations)]
    twice = {applied(name, magnitude, pixels) for name, magnitude, _ in operations for pixels in once}
    args = {"num_magnitude_bins": 31, "magnitude": 9, "interpolation": "nearest", "fill": FILL}
    ours = {
        np.asarray(engine("rand_augment", {**args, "num_ops": 2}, SMALL, k)).tobytes() for k in range(300)
    }
    assert len(ours) > 100 and len(ours - twice) < 10
    assert all(is_nearly_one_of(key, twice) for key in ours - twice)
    assert_equal(engine("rand_augment", {**args, "num_ops": 0}, SMALL), SMALL)


def test_the_comparison_sees_a_wrong_operation_and_a_wrong_frequency():
    args = {"num_ops": 1, "magnitude": 9, "num_magnitude_bins": 31}
    expected = pictures_of(of_rand_augment(31, 9))
    with pytest.raises(AssertionError, match="others"):
        assert_drawn(native, "rand_augment", {**args, "magnitude": 8}, expected, 200)
    uneven = {key: p * (1.5 if k % 2 else 0.5) for k, (key, p) in enumerate(expected.items())}
    with pytest.raises(AssertionError, match="pvalue"):
        assert_drawn(native, "rand_augment", args, uneven, 2000)


# Ranges


def matrices(kind, args, sides, draws):
    plan = Plan([(kind, args)], 0, "uint8", True, ZEROS, ONES)
    return np.array([plan.route(*sides, SEED, index=k)[0]["edits"][0][1] for k in range(draws)])


DRAWS, DRAWS_OF_TORCHVISION = 20_000, 8_000


def test_angles_of_rotations_are_uniform():
    drawn = matrices("random_rotation", {"degrees": (-20.0, 70.0)}, (30, 40), DRAWS)
    turned = np.degrees(np.arctan2(-drawn[:, 1], drawn[:, 0]))
    torch.manual_seed(SEED)
    theirs = [v1.RandomRotation.get_params([-20, 70]) for _ in range(DRAWS_OF_TORCHVISION)]
    assert ks_2samp(turned, theirs).pvalue > LUCK


def test_affine_maps_are_drawn_as_torchvisions():
    sides, degrees, translate, scale = (30, 40), (-20.0, 70.0), (0.3, 0.1), (0.5, 1.5)
    shear = (-10.0, 25.0, -5.0, 5.0)
    args = {"degrees": degrees, "translate": translate, "scale": scale, "shear": shear}
    ours = matrices("random_affine", args, sides, DRAWS)
    inverse = F._get_inverse_affine_matrix
    torch.manual_seed(SEED)
    get = functools.partial(v1.RandomAffine.get_params, degrees, translate, scale, shear, sides[::-1])
    theirs = np.array([inverse([20.0, 15.0], *get()) for _ in range(DRAWS_OF_TORCHVISION)])
    for k in range(6):
        assert ks_2samp(ours[:, k], theirs[:, k]).pvalue > LUCK, k
    shifts = matrices("random_affine", {"degrees": (0.0, 0.0), "translate": translate}, sides, DRAWS)
    assert {*shifts[:, 2]} == {*range(-12, 13)} and {*shifts[:, 5]} == {*range(-3, 4)}


def test_sigmas_of_blurs_are_uniform():
    args = {"kernel_size": (3, 3), "sigma": (0.1, 2.0)}
    plan = Plan([("gaussian_blur", args)], 0, "uint8", True, ZEROS, ONES)
    ours = [plan.route(9, 9, SEED, index=k)[0]["edits"][0][1] for k in range(DRAWS)]
    torch.manual_seed(SEED)
    theirs = [v1.GaussianBlur.get_params(0.1, 2.0) for _ in range(DRAWS_OF_TORCHVISION)]
    assert ks_2samp(ours, theirs).pvalue > LUCK


@pytest.mark.parametrize("kind", ["random_invert", "random_autocontrast", "random_equalize"])
@pytest.mark.parametrize("p", [0.2, 0.9])
def test_a_tone_changes_as_often_as_asked(kind, p):
    plan = Plan([(kind, {"p": p})], 0, "uint8", True, ZEROS, ONES)
    hits = sum(bool(plan.route(5, 6, SEED, index=k)[0]["edits"]) for k in range(DRAWS))
    assert binomtest(hits, DRAWS, p).pvalue > LUCK


def test_magnitudes_are_torchvisions_for_all_counts_of_bins():
    """By what the route says of the edit: its threshold, its bits or its factor."""
    for bins in range(2, size(12, 40)):
        plan = Plan([("trivial_augment_wide", {"num_magnitude_bins": bins})], 0, "uint8", True, ZEROS, ONES)
        edits = [edit for k in range(50 * bins) for edit in plan.route(9, 9, SEED, index=k)[0]["edits"]]
        drawn = {name: {value for other, value in edits if other == name} for name, _ in edits}
        operations = space("TrivialAugmentWide", bins, (9, 9))
        thresholds = {math.ceil(round(value, 4)) for value in operations["Solarize"][0].tolist()}
        bits = {int(value) for value in operations["Posterize"][0].tolist()}
        factors = [1 + sign * m for m in operations["Brightness"][0].tolist() for sign in (-1, 1)]
        assert drawn["solarize"] <= thresholds and drawn["posterize"] <= bits
        assert all(min(abs(value - factor) for factor in factors) < 1e-6 for value in drawn["brightness"])
