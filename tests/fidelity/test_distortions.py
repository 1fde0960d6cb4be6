"""RandomPerspective, ElasticTransform, AugMix and sizes that are drawn, beside torchvision.

Perspective is Pillow's to the bit. torchvision makes a tensor of a picture for the other two; there single
floats are added in another order, which rounds to another byte now and then. Seeds are fixed and printed.
"""

from __future__ import annotations

import collections
import fractions
import itertools
import math

import numpy as np
import pytest
import torch
from oracle import fields
from oracle import pictures as portable
from PIL import Image
from scipy.stats import binomtest, chi2_contingency, chisquare, ks_2samp, kstest
from sizes import size
from torchvision_here import F, torchvision, v1, v2

from seneca._core.codec import Codec
from seneca._core.plan import Plan
from seneca._core.rng import philox
from seneca.transforms._pipeline import Step

SEED = 3
LUCK = 1e-3
ZEROS, ONES = (0, 0, 0), (1, 1, 1)
MODES = F.InterpolationMode
PILLOWS = {name: Image.Resampling[name.upper()] for name in ("nearest", "bilinear", "bicubic")}
FILL = (9, 200, 77)
CODEC = Codec()


@pytest.fixture(autouse=True)
def seeded():
    print(f"seed {SEED}")
    torch.manual_seed(SEED)


def picture(height, width, seed=0):
    """Smooth, with noise and flat parts."""
    rng = np.random.default_rng(seed)
    coarse = Image.fromarray(rng.integers(0, 256, (5, 4, 3), np.uint8)).resize((width, height), 3)
    pixels = np.asarray(coarse) ^ rng.integers(0, 32, (height, width, 3), np.uint8)
    pixels[: height // 3, : width // 2] = (0, 130, 255)
    return pixels


PICTURES = [
    picture(*sides, seed=k) for k, sides in enumerate([(1, 1), (1, 9), (8, 1), (3, 4), (33, 47), (64, 90)])
]


def plan_of(kind, args, pixels):
    return Plan([("center_crop", {"size": pixels.shape[:2]}), (kind, args)], 0, "uint8", True, ZEROS, ONES)


def native(kind, args, pixels, index=0):
    return CODEC.augment_decoded(plan_of(kind, args, pixels), pixels, SEED, 0, 0, index)


def edits_of(kind, args, pixels, index=0):
    route = plan_of(kind, args, pixels).route(*pixels.shape[:2], SEED, index=index)
    return [edit for taken in route for edit in taken["edits"]]


def in_pillow(kind, args, pixels, index=0):
    rng = np.random.default_rng([SEED, index])
    return portable.augment([Step(kind, args)], Image.fromarray(pixels), rng)


ENGINES = pytest.mark.parametrize("engine", [native, in_pillow])


def assert_close(ours, theirs, mean=0.02):
    off = np.abs(ours.astype(int) - np.asarray(theirs, int))
    assert off.max() <= 1 and off.mean() <= mean, (off.max(), off.mean())


# Perspective


@pytest.mark.parametrize("interpolation", PILLOWS)
def test_perspectives_are_pillows_to_the_bit(interpolation):
    for pixels, index in itertools.product(PICTURES[3:], range(12)):
        args = {"p": 1.0, "distortion_scale": 0.2 + index / 15, "interpolation": interpolation, "fill": FILL}
        ((name, matrix),) = edits_of("random_perspective", args, pixels, index)
        image = Image.fromarray(pixels)
        theirs = image.transform(
            image.size, Image.Transform.PERSPECTIVE, matrix, PILLOWS[interpolation], fillcolor=FILL
        )
        assert name == "warp" and len(matrix) == 8
        assert np.array_equal(native("random_perspective", args, pixels, index), np.asarray(theirs))


def test_maps_in_perspective_are_drawn_as_torchvisions():
    height, width, draws = 40, 61, size(3000, 8000)
    pixels = picture(height, width)
    args = {"p": 1.0, "distortion_scale": 0.6}
    ours = np.array([edits_of("random_perspective", args, pixels, k)[0][1] for k in range(draws)])
    solve, draw = F._get_perspective_coeffs, v1.RandomPerspective.get_params
    theirs = np.array([without_noise(solve(*draw(width, height, 0.6))) for _ in range(size(1500, 4000))])
    for k in range(8):
        assert ks_2samp(ours[:, k], theirs[:, k]).pvalue > LUCK / 8, k


def without_noise(matrix):
    """torchvision's solver leaves 1e-16 of a 0, which decides where a place falls on the picture's edge."""
    return [0.0 if abs(x) < least else x for x, least in zip(matrix, fields.NOTHING, strict=True)]


CORNERS = picture(5, 6)


def exact_map(had, ends):
    """The map in perspective from ends to corners, solved in fractions and rounded to single floats."""
    rows = []
    for (x, y), (to_x, to_y) in zip(had, ends, strict=True):
        rows.append([to_x, to_y, 1, 0, 0, 0, -x * to_x, -x * to_y, x])
        rows.append([0, 0, 0, to_x, to_y, 1, -y * to_x, -y * to_y, y])
    rows = [[fractions.Fraction(number) for number in row] for row in rows]
    for k in range(8):
        pivot = next(i for i in range(k, 8) if rows[i][k])
        rows[k], rows[pivot] = rows[pivot], [number for number in rows[k]]
        rows[k] = [number / rows[k][k] for number in rows[k]]
        for i in range(8):
            if i != k:
                rows[i] = [one - rows[i][k] * other for one, other in zip(rows[i], rows[k], strict=True)]
    return [float(np.float32(float(row[8]))) for row in rows]


def pictures_in_perspective():
    """Each picture that one pixel's distance of each corner makes: its bytes, and how often."""
    image, made = Image.fromarray(CORNERS), collections.Counter()
    had = [(0, 0), (5, 0), (5, 4), (0, 4)]
    for moved in itertools.product((0, 1), repeat=8):
        ends = [(abs(x - moved[2 * k]), abs(y - moved[2 * k + 1])) for k, (x, y) in enumerate(had)]
        matrix = exact_map(had, ends)
        np.testing.assert_allclose(matrix, F._get_perspective_coeffs(had, ends), atol=1e-5)
        theirs = torchvision.transforms._functional_pil.perspective(
            image, matrix, Image.Resampling.BILINEAR, FILL
        )
        made[np.asarray(theirs).tobytes()] += 1 / 256
    return made


@pytest.mark.small(1)
@ENGINES
@pytest.mark.parametrize("p", [0.3, 1.0])
def test_each_perspective_comes_as_often(engine, p):
    args, draws = {"p": p, "distortion_scale": 0.5, "fill": FILL}, 6000
    expected = collections.Counter({key: p * share for key, share in pictures_in_perspective().items()})
    expected[CORNERS.tobytes()] += 1 - p
    drawn = collections.Counter(
        engine("random_perspective", args, CORNERS, k).tobytes() for k in range(draws)
    )
    assert drawn.keys() <= expected.keys()
    keys = [key for key, share in expected.items() if share * draws >= 5]
    wanted = np.array([expected[key] for key in keys])
    counts = [drawn[key] for key in keys]
    assert chisquare(counts, wanted / wanted.sum() * sum(counts)).pvalue > LUCK


@ENGINES
@pytest.mark.parametrize("pixels", PICTURES[:3], ids=lambda p: "x".join(map(str, p.shape[:2])))
def test_where_the_corners_lie_on_a_line_the_picture_stays(engine, pixels):
    assert np.array_equal(engine("random_perspective", {"p": 1.0, "distortion_scale": 0.5}, pixels), pixels)


# Elastic


def noise_of(seed, direction, count):
    """The native core's numbers, computed again: a key for each direction, 8 blocks of Philox in a row."""
    key = mix64((seed + direction) % 2**64)
    key = key % 2**32, key >> 32
    numbers = []
    for first in range(0, -(-count // 32) * 8, 8):
        blocks = np.array([philox(key, (first + lane, 0, 0, 0)) for lane in range(8)])
        numbers.append(blocks.T.ravel())
    return (np.concatenate(numbers)[:count] >> 8).astype(np.float32) * np.float32(2**-23) - 1


def mix64(x):
    x = (x + 0x9E3779B97F4A7C15) % 2**64
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB % 2**64
    return x ^ (x >> 31)


def shifts_of(noises, alpha, sigma):
    """As torchvision's ElasticTransform.get_params() makes them of uniform numbers."""
    made = []
    for direction, noise in enumerate(noises):
        shift = torch.from_numpy(np.ascontiguousarray(noise, np.float32))[None, None]
        side = shift.shape[3 - direction]
        if sigma[direction] > 0:
            kernel = int(8 * sigma[direction] + 1)
            kernel += kernel % 2 == 0
            shift = F.gaussian_blur(shift, [kernel, kernel], list(sigma))
        made.append(shift * alpha[direction] / side)
    return torch.concat(made, 1).permute(0, 2, 3, 1)


ELASTICS = [
    ((50.0, 50.0), (5.0, 5.0)),
    ((300.0, 20.0), (2.0, 3.3)),
    ((9.0, 5.0), (0.0, 0.0)),
    ((-90.0, 0.0), (0.7, 0.7)),
]


class Given:
    """Stands for a generator of random numbers that draws what is given."""

    def __init__(self, arrays):
        self.arrays = list(arrays)

    def uniform(self, low, high, size):
        assert (low, high, size) == (-1, 1, self.arrays[0].shape)
        return self.arrays.pop(0)


@pytest.mark.parametrize("version", [v1, v2], ids=["v1", "v2"])
@pytest.mark.parametrize(("alpha", "sigma"), ELASTICS)
@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
def test_elastic_pictures_are_torchvisions_for_the_same_noise(version, alpha, sigma, interpolation):
    for index, pixels in enumerate(PICTURES[4:]):
        args = {"alpha": alpha, "sigma": sigma, "interpolation": interpolation, "fill": FILL}
        ((name, seed),) = edits_of("elastic_transform", args, pixels, index)
        size = pixels.shape[:2]
        noises = [noise_of(seed, direction, size[0] * size[1]).reshape(size) for direction in (0, 1)]
        shifts, image = shifts_of(noises, alpha, sigma), Image.fromarray(pixels)
        elastic = version.functional.elastic_transform if version is v1 else version.functional.elastic
        fill = [float(level) for level in FILL]
        theirs = np.asarray(elastic(image, shifts, MODES(interpolation), fill))
        ours = native("elastic_transform", args, pixels, index)
        twin = np.asarray(fields._elastic_transform(image, Given(noises), alpha, sigma, interpolation, FILL))
        assert name == "elastic"
        for made in (ours, twin):
            off = np.abs(made.astype(int) - theirs)
            # Where a place lies between two nearest pixels, one digit decides.
            assert off.mean() <= 0.02 and (off <= 2).mean() >= 0.999, (off.mean(), off.max())


def test_noise_is_uniform_and_of_each_picture_its_own():
    seeds = [
        edits_of("elastic_transform", {"alpha": (1.0, 1.0), "sigma": (0.0, 0.0)}, CORNERS, k)[0][1]
        for k in range(99)
    ]
    assert len({*seeds}) == 99
    one, other = (noise_of(seeds[0], direction, 20_000) for direction in (0, 1))
    assert kstest(one, "uniform", (-1, 2)).pvalue > LUCK and kstest(other, "uniform", (-1, 2)).pvalue > LUCK
    assert abs(np.corrcoef(one, other)[0, 1]) < 4 / math.sqrt(20_000)
    assert abs(np.corrcoef(one[1:], one[:-1])[0, 1]) < 4 / math.sqrt(20_000)


# AugMix

OPERATIONS = {"posterize": F.posterize, "solarize": F.solarize}
FACTORS = {"brightness": F.adjust_brightness, "contrast": F.adjust_contrast}
FACTORS |= {"saturation": F.adjust_saturation, "sharpness": F.adjust_sharpness}
AUG_MIX = {
    "severity": 3,
    "mixture_width": 3,
    "chain_depth": 0,
    "alpha": 1.0,
    "all_ops": True,
    "interpolation": "bilinear",
}


def warped(tensor, matrix, interpolation, fill):
    """By the function that torchvision warps tensors with, whose origin is the middle."""
    height, width = tensor.shape[-2:]
    a, b, c, d, e, f = matrix
    middle = a * width / 2 + b * height / 2 + c - width / 2, d * width / 2 + e * height / 2 + f - height / 2
    affine = torchvision.transforms._functional_tensor.affine
    return affine(tensor, [a, b, middle[0], d, e, middle[1]], interpolation, fill)


def mixed_by_torchvision(pixels, edits, interpolation, fill):
    """What torchvision's AugMix makes, if it draws this."""
    original = torch.from_numpy(pixels.transpose(2, 0, 1).copy())[None]
    mixed, changed = None, original
    for name, value in edits:
        if name == "mix begin":
            mixed = value * original
        elif name == "mix add":
            mixed.add_(value * changed)
            changed = original
        elif name == "warp":
            changed = warped(changed, value, interpolation, fill)
        elif name in OPERATIONS:
            changed = OPERATIONS[name](changed, value)
        elif name in FACTORS:
            changed = FACTORS[name](changed, value)
        elif name != "mix end":
            changed = {"autocontrast": F.autocontrast, "equalize": F.equalize}[name](changed)
    return mixed[0].to(torch.uint8).numpy().transpose(1, 2, 0)


@pytest.mark.small(2)
@pytest.mark.parametrize("fill", [None, FILL])
@pytest.mark.parametrize("severity", [1, 3, 10])
def test_mixed_pictures_are_torchvisions_for_the_same_draws(fill, severity):
    args = {**AUG_MIX, "severity": severity, **({} if fill is None else {"fill": fill})}
    floats = None if fill is None else [float(level) for level in fill]
    apart = []
    for index in range(size(60, 200)):
        pixels = PICTURES[4 + index % 2]
        edits = edits_of("aug_mix", args, pixels, index)
        theirs = mixed_by_torchvision(pixels, edits, "bilinear", floats)
        off = np.abs(native("aug_mix", args, pixels, index).astype(int) - theirs)
        rounded = rounded_before_steps(edits)
        assert rounded & {*FACTORS} or off.mean() <= 0.3, (index, off.mean(), off.max(), edits)
        assert rounded or (off <= 2).mean() >= 0.999, (index, off.mean(), off.max(), edits)
        apart.append(off.mean())
    assert np.mean(apart) <= 0.1


def rounded_before_steps(edits):
    """Operations that round otherwise than on tensors, and come before one with steps, which makes much of
    little.

    Those of colours are Pillow's; warps add in another order.
    """
    found, chain = set(), set()
    for name, _ in edits:
        if name == "mix add":
            chain = set()
        elif name in FACTORS or name == "warp":
            chain.add(name)
        elif name in ("equalize", "autocontrast", "posterize", "solarize"):
            found |= chain
    return found


SPACE = v1.AugMix()._augmentation_space(10, PICTURES[4].shape[:2])
NAMES = {"Color": "saturation", "AutoContrast": "autocontrast"}


def test_operations_lengths_weights_and_magnitudes_of_aug_mix_are_torchvisions():
    pixels, draws = PICTURES[4], 4000
    args = {**AUG_MIX, "severity": 4}
    drawn = [edits_of("aug_mix", args, pixels, k) for k in range(draws)]
    m = torch._sample_dirichlet(torch.ones(draws, 2))
    combined = torch._sample_dirichlet(torch.ones(draws, 3)) * m[:, 1:]
    assert ks_2samp([edits[0][1] for edits in drawn], m[:, 0].numpy()).pvalue > LUCK
    adds = np.array([[value for name, value in edits if name == "mix add"] for edits in drawn])
    for chain in range(3):
        assert ks_2samp(adds[:, chain], combined[:, chain].numpy()).pvalue > LUCK
    counts = collections.Counter(name for edits in drawn for name, _ in edits)
    total = draws * 3 * 2  # two operations in a chain on the average
    # Where a magnitude is 0 nothing is changed: a quarter of those with a sign.
    for name in ("brightness", "contrast", "saturation", "sharpness"):
        assert counts[name] == pytest.approx(total / 13 * 0.75, abs=5 * math.sqrt(total / 13))
    for name in ("posterize", "solarize", "autocontrast", "equalize"):
        assert counts[name] == pytest.approx(total / 13, abs=5 * math.sqrt(total / 13))
    for theirs, (values, signed) in SPACE.items():
        name = NAMES.get(theirs, theirs.lower())
        found = {round(float(value), 4) for edits in drawn for other, value in edits if other == name}
        if not values.ndim or name not in counts:
            continue
        wanted = values[:4].tolist()
        if signed:
            wanted = [1 + sign * value for value in wanted for sign in (-1, 1) if value]
        elif name == "solarize":
            wanted = [math.ceil(round(value, 4)) for value in wanted]
        assert found == {round(float(value), 4) for value in wanted}, name


def maps_of_aug_mix(height, width, severity):
    """Each matrix that torchvision's AugMix may warp by, of those magnitudes that change anything."""
    found = set()
    for name, (values, _) in v1.AugMix()._augmentation_space(10, (height, width)).items():
        for value, sign in itertools.product(values[1:severity].tolist() if values.ndim else (), (-1, 1)):
            amount, middle = sign * value, [width / 2, height / 2]
            degrees, away, shear = 0.0, [0, 0], [0.0, 0.0]
            axis = int(name.endswith("Y"))
            if name.startswith("Shear"):
                middle, shear[axis] = [0.0, 0.0], math.degrees(math.atan(amount))
            elif name.startswith("Translate"):
                away[axis] = int(amount)
            elif name == "Rotate":
                degrees = -amount
            else:
                continue
            matrix = F._get_inverse_affine_matrix(middle, degrees, away, 1.0, shear)
            found.add(tuple(round(number, 3) + 0.0 for number in matrix))
    return found


def test_warps_of_aug_mix_are_by_torchvisions_magnitudes():
    pixels = picture(50, 70)
    for severity in (2, 5):
        args = {**AUG_MIX, "severity": severity, "all_ops": False}
        edits = (edit for k in range(600) for edit in edits_of("aug_mix", args, pixels, k))
        drawn = {
            tuple(round(number, 3) + 0.0 for number in matrix) for name, matrix in edits if name == "warp"
        }
        assert drawn == maps_of_aug_mix(50, 70, severity)


def test_without_colours_and_with_a_given_depth_aug_mix_has_fewer_operations():
    args = {**AUG_MIX, "all_ops": False, "chain_depth": 2, "mixture_width": 4}
    drawn = [edits_of("aug_mix", args, PICTURES[4], k) for k in range(400)]
    names = {name for edits in drawn for name, _ in edits}
    assert (
        not names & {"brightness", "contrast", "saturation", "sharpness"} and {"warp", "posterize"} <= names
    )
    assert {sum(name == "mix add" for name, _ in edits) for edits in drawn} == {4}
    assert max(len(edits) for edits in drawn) == 4 * 3 + 2


DRAWS = size(250, 1500)


@pytest.mark.small(1)
@pytest.mark.parametrize("all_ops", [True, False])
def test_the_twin_mixes_as_the_native_core(all_ops):
    """Of each picture one value of the changed pixels and the average change."""
    args, pixels = {**AUG_MIX, "all_ops": all_ops, "fill": FILL}, PICTURES[4]
    made = [[engine("aug_mix", args, pixels, k) for k in range(DRAWS)] for engine in (native, in_pillow)]
    for what in (lambda out: np.abs(out - pixels.astype(float)).mean(), lambda out: float(out[20, 30, 1])):
        assert ks_2samp(*([what(out) for out in of_one] for of_one in made)).pvalue > LUCK


# Sizes


SIZES = {
    "scale_jitter": (v2.ScaleJitter((50, 41), (0.4, 1.7)), {"size": (50, 41), "scale": (0.4, 1.7)}),
    "random_shortest_size": (
        v2.RandomShortestSize([20, 33, 47], max_size=60),
        {"sizes": (20, 33, 47), "max_size": 60},
    ),
    "random_resize": (v2.RandomResize(20, 33), {"size": (20, 32)}),
}


@pytest.mark.parametrize("kind", SIZES)
@pytest.mark.parametrize("sides", [(64, 90), (71, 40)])
def test_sizes_are_drawn_as_torchvisions(kind, sides):
    theirs, args = SIZES[kind]
    plan = Plan([(kind, args)], 0, "uint8", True, ZEROS, ONES)
    draws = size(1500, 4000)
    ours = [plan.route(*sides, SEED, index=k)[0]["size"] for k in range(draws)]
    image = Image.fromarray(picture(*sides))
    drawn = [
        v2.functional.resize(image, theirs.make_params([image])["size"]).size[::-1] for _ in range(draws)
    ]
    twin = [
        portable.augment([Step(kind, args)], image, np.random.default_rng([SEED, k])).shape[:2]
        for k in range(size(600, 1500))
    ]
    for sample in (ours, twin):
        for axis in (0, 1):
            assert ks_2samp([one[axis] for one in sample], [one[axis] for one in drawn]).pvalue > LUCK
    if kind != "scale_jitter":
        assert {*ours} == {*drawn} == {*twin}


@ENGINES
def test_a_resize_by_one_number_has_torchvisions_pixels(engine):
    pixels = PICTURES[5]
    theirs = np.asarray(v2.ScaleJitter((50, 41), (0.5, 0.5))(Image.fromarray(pixels)))
    size = theirs.shape[:2]
    args = {"size": (50, 41), "scale": (0.5, 0.5)}
    if engine is native:
        plan = Plan([("scale_jitter", args), ("center_crop", {"size": size})], 0, "uint8", True, ZEROS, ONES)
        ours = CODEC.augment_decoded(plan, pixels, SEED, 0, 0, 0)
    else:
        ours = in_pillow("scale_jitter", args, pixels)
    assert ours.shape[:2] == size
    assert_close(ours, theirs, mean=0.3)
    on_tensors = v2.ScaleJitter((50, 41), (0.5, 0.5))(v2.functional.pil_to_tensor(Image.fromarray(pixels)))
    assert_close(ours, on_tensors.permute(1, 2, 0).numpy(), mean=0.3)


ZOOM = {"p": 0.6, "scale": (1.0, 2.5), "fill": FILL}


def test_zooming_out_places_pictures_as_torchvisions():
    plan = Plan([("random_zoom_out", ZOOM)], 0, "uint8", True, ZEROS, ONES)
    passes = [plan.route(30, 41, SEED, index=k)[0] for k in range(6000)]
    hits = [taken for taken in passes if "border" in taken]
    assert len(hits) == pytest.approx(3600, abs=4 * math.sqrt(6000 * 0.24))
    assert all(taken["border"] == ("constant", FILL) for taken in hits)
    theirs, image = v2.RandomZoomOut(FILL, (1.0, 2.5)), Image.fromarray(picture(30, 41))
    drawn = np.array([theirs.make_params([image])["padding"] for _ in range(4000)])
    ours = np.array([(taken["at"][1], taken["at"][0], *taken["size"]) for taken in hits])
    found = np.stack([ours[:, 0], ours[:, 1], ours[:, 3] - 41 - ours[:, 0], ours[:, 2] - 30 - ours[:, 1]], 1)
    for k in range(4):
        assert ks_2samp(found[:, k], drawn[:, k]).pvalue > LUCK


@ENGINES
def test_a_zoomed_out_picture_lies_whole_on_its_canvas(engine):
    pixels = PICTURES[4]
    for index in range(20):
        if engine is native:
            (taken,) = Plan([("random_zoom_out", ZOOM)], 0, "uint8", True, ZEROS, ONES).route(
                *pixels.shape[:2], SEED, index=index
            )
            ops = [("random_zoom_out", ZOOM), ("center_crop", {"size": taken["size"]})]
            out = CODEC.augment_decoded(Plan(ops, 0, "uint8", True, ZEROS, ONES), pixels, SEED, 0, 0, index)
        else:
            out = in_pillow("random_zoom_out", ZOOM, pixels, index)
        inside = (out != np.array(FILL)).any(-1)
        rows, columns = np.flatnonzero(inside.any(1)), np.flatnonzero(inside.any(0))
        part = out[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
        assert np.array_equal(part, pixels)


def test_the_comparisons_see_what_is_wrong():
    args = {**AUG_MIX, "severity": 3}
    edits = edits_of("aug_mix", args, PICTURES[4], 1)
    wrong = [(name, value * 0.8 if name == "mix add" else value) for name, value in edits]
    theirs = mixed_by_torchvision(PICTURES[4], wrong, "bilinear", None)
    assert np.abs(native("aug_mix", args, PICTURES[4], 1).astype(int) - theirs).mean() > 0.3
    counts = [[20, 30, 40], [40, 30, 20]]
    assert chi2_contingency(counts).pvalue < 0.01


# Photometric distortion

RANGES = {"brightness": (0.5, 1.5), "contrast": (0.5, 1.5), "saturation": (0.5, 1.5), "hue": (-0.3, 0.3)}


def channels_of(amount):
    return [amount >> 2 * k & 3 for k in range(3)]


def test_a_photometric_distortion_is_torchvisions_steps_in_the_order_that_is_drawn():
    pixels = picture(33, 47)
    for index in range(60):
        args = {"p": 0.7, **RANGES}
        expected = Image.fromarray(pixels)
        for name, value in edits_of("random_photometric_distort", args, pixels, index):
            if name == "permute":
                expected = v2.functional.permute_channels(expected, channels_of(value))
            else:
                factor = (value + 128) % 256 - 128 if name == "hue" else value  # of 255ths
                turned = (factor + 0.5 * np.sign(factor)) / 255 if name == "hue" else factor
                expected = getattr(F, f"adjust_{name}")(expected, turned)
        assert_close(native("random_photometric_distort", args, pixels, index), expected)


def test_each_order_of_the_channels_is_drawn_as_often_as_torchvision_draws_it():
    pixels, draws = picture(33, 47), 3000
    orders = collections.Counter()
    for index in range(draws):
        ((name, value),) = edits_of("random_channel_permutation", {}, pixels, index)
        orders[(name, *channels_of(value))] += 1
    assert orders.keys() == {("permute", *order) for order in itertools.permutations(range(3))}
    assert chisquare([*orders.values()]).pvalue > LUCK
    order = channels_of(edits_of("random_channel_permutation", {}, pixels, 7)[0][1])
    expected = v2.functional.permute_channels(Image.fromarray(pixels), order)
    assert np.array_equal(native("random_channel_permutation", {}, pixels, 7), np.asarray(expected))


def test_photometric_distortions_are_drawn_as_torchvisions():
    pixels, draws, p = picture(9, 8), size(3000, 6000), 0.4
    drawn = [edits_of("random_photometric_distort", {"p": p, **RANGES}, pixels, k) for k in range(draws)]
    step = v2.RandomPhotometricDistort(*RANGES.values(), p)
    params = [step.make_params([Image.fromarray(pixels)]) for _ in range(draws)]
    for name in ("brightness", "contrast", "saturation"):
        ours = [value for edits in drawn for kind, value in edits if kind == name]
        theirs = [one[f"{name}_factor"] for one in params if one[f"{name}_factor"] is not None]
        assert ks_2samp(ours, theirs).pvalue > LUCK
        assert binomtest(len(ours), draws, p).pvalue > LUCK
    names = [[name for name, _ in edits] for edits in drawn]
    both = [one for one in names if "contrast" in one and "saturation" in one]
    first = sum(one.index("contrast") < one.index("saturation") for one in both)
    assert binomtest(first, len(both), 0.5).pvalue > LUCK
    orders = collections.Counter(
        tuple(channels_of(value)) for edits in drawn for name, value in edits if name == "permute"
    )
    assert orders.keys() == {*itertools.permutations(range(3))}
    assert chisquare([*orders.values()]).pvalue > LUCK
    assert binomtest(sum(orders.values()), draws, p).pvalue > LUCK
