"""What is drawn at random follows torchvision's distributions, in the native core and in its Pillow twin.

20,000 draws of ours and 8,000 of torchvision's, which is slow (6,000 and 2,400 at the small size), are
compared by Kolmogorov and Smirnov's test, or Pearson's where there are few values. Seeds are fixed, so
each test passes or fails for good; a right implementation fails one of the comparisons here by bad luck
with a probability of a thousandth.
"""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
import sizes
import torch
from oracle import pictures as portable
from scipy.stats import binomtest, chi2_contingency, ks_2samp, kstest
from torchvision_here import F, v1

from seneca._core.batch import batch_write
from seneca._core.plan import Plan

SEED = 1
DRAWS, DRAWS_OF_TORCHVISION = sizes.size((6_000, 2_400), (20_000, 8_000))
LUCK = 1e-3
DEFAULT_SCALE, DEFAULT_RATIO = (0.08, 1.0), (3 / 4, 4 / 3)

# Height and width of the picture; scale and ratio of the crop.
CROPS = [
    ((375, 500), DEFAULT_SCALE, DEFAULT_RATIO),
    ((400, 150), DEFAULT_SCALE, DEFAULT_RATIO),
    ((9, 13), DEFAULT_SCALE, DEFAULT_RATIO),
    ((224, 224), (0.35, 1.0), DEFAULT_RATIO),
    ((500, 375), (0.01, 0.1), (0.2, 5.0)),
]


def plan(*ops):
    return Plan(list(ops), 0, "uint8", True, (0, 0, 0), (1, 1, 1))


def canvas(height, width):
    """A picture of this size, as torchvision asks for it, without the memory."""
    return torch.empty(1).expand(3, height, width)


def crops_natively(size, scale, ratio, draws=DRAWS):
    # To a size that no crop has, so that each is resized and its box is seen.
    drawing = plan(("random_resized_crop", {"size": (999, 999), "scale": scale, "ratio": ratio}))
    return [drawing.route(*size, SEED, index=index)[0]["box"] for index in range(draws)]


def crops_portably(size, scale, ratio, draws=DRAWS):
    rng = np.random.default_rng(SEED)
    for _ in range(draws):
        left, top, right, bottom = portable._random_box(*size, scale, ratio, rng)
        yield top, left, bottom - top, right - left


@functools.cache
def crops_of_torchvision(size, scale, ratio, draws=DRAWS_OF_TORCHVISION):
    torch.manual_seed(SEED)
    draw = functools.partial(v1.RandomResizedCrop.get_params, canvas(*size), list(scale), list(ratio))
    return [draw() for _ in range(draws)]


def described(boxes, size):
    """Of (top, left, height, width) of boxes: what the comparison examines, by name."""
    top, left, height, width = np.array(list(boxes), float).T
    return {
        "share of the area": height * width / (size[0] * size[1]),
        "logarithm of the ratio": np.log(width / height),
        "top": top / size[0],
        "left": left / size[1],
        "top among those that fit": top / (size[0] - height + 1),
        "left among those that fit": left / (size[1] - width + 1),
    }


def assert_same_distribution(ours, theirs, what):
    """Of two samples of numbers."""
    assert (len(ours), len(theirs)) == (DRAWS, DRAWS_OF_TORCHVISION)
    assert ks_2samp(ours, theirs).pvalue > LUCK, what


def assert_same_frequencies(ours, theirs, what):
    """Of two samples of things."""
    assert (len(ours), len(theirs)) == (DRAWS, DRAWS_OF_TORCHVISION)
    kinds = sorted({*ours, *theirs})
    counts = [[sample.count(kind) for kind in kinds] for sample in (ours, theirs)]
    assert len(kinds) == 1 or chi2_contingency(counts).pvalue > LUCK, what


def assert_frequency(hits, probability):
    assert len(hits) == DRAWS
    assert binomtest(sum(hits), DRAWS, probability).pvalue > LUCK


@pytest.mark.small(2)
@pytest.mark.parametrize("draw", [crops_natively, crops_portably])
@pytest.mark.parametrize("crop", CROPS, ids=str)
def test_random_resized_crops_lie_as_torchvisions(draw, crop):
    size = crop[0]
    ours, theirs = described(draw(*crop), size), described(crops_of_torchvision(*crop), size)
    for what in theirs:
        assert_same_distribution(ours[what], theirs[what], what)


@pytest.mark.parametrize("draw", [crops_natively, crops_portably])
@pytest.mark.parametrize("size", [(10, 251), (251, 10), (100, 100)])
@pytest.mark.parametrize("ratio", [DEFAULT_RATIO, (1.7, 1.9), (0.4, 0.45)])
def test_where_no_crop_fits_it_is_torchvisions_fallback(draw, size, ratio):
    crop = (size, (1.5, 2.0), ratio)
    assert {*draw(*crop, draws=9)} == {*crops_of_torchvision(*crop, draws=9)}


def crops_of_a_uniform_ratio(size, scale, ratio):
    """The mistake to make: as torchvision's, but of the ratio itself, not its logarithm."""
    rng = np.random.default_rng(SEED)
    while True:
        area, aspect = size[0] * size[1] * rng.uniform(*scale), rng.uniform(*ratio)
        height, width = round(math.sqrt(area / aspect)), round(math.sqrt(area * aspect))
        if height <= size[0] and width <= size[1]:
            yield (
                int(rng.integers(size[0] - height + 1)),
                int(rng.integers(size[1] - width + 1)),
                height,
                width,
            )


def crops_without_the_last_place(size, scale, ratio):
    """Another: a crop never touches the far edges."""
    for top, left, height, width in crops_natively(size, scale, ratio):
        yield min(top, max(0, size[0] - height - 1)), min(left, max(0, size[1] - width - 1)), height, width


@pytest.mark.parametrize(
    ("mistake", "size", "what"),
    [
        (crops_of_a_uniform_ratio, (375, 500), "logarithm of the ratio"),
        (crops_without_the_last_place, (9, 13), "top among those that fit"),
    ],
)
def test_the_comparison_sees_a_wrong_distribution(mistake, size, what):
    crop = (size, DEFAULT_SCALE, DEFAULT_RATIO)
    boxes = [box for _, box in zip(range(DRAWS), mistake(*crop), strict=False)]
    ours, theirs = described(boxes, size), described(crops_of_torchvision(*crop), size)
    with pytest.raises(AssertionError, match=what):
        assert_same_distribution(ours[what], theirs[what], what)


@pytest.mark.parametrize("kind", ["random_hflip", "random_vflip"])
@pytest.mark.parametrize("p", [0.5, 0.03, 1.0, 0.0])
def test_flips_happen_as_often_as_asked(kind, p):
    drawing, flip = plan((kind, {"p": p})), kind.removeprefix("random_h").removeprefix("random_")
    assert_frequency([drawing.route(5, 6, SEED, index=k)[0][flip] for k in range(DRAWS)], p)


@pytest.mark.parametrize("p", [0.2, 0.9])
def test_greyscale_happens_as_often_as_asked(p):
    drawing = plan(("random_grayscale", {"p": p}))
    assert_frequency([bool(drawing.route(5, 6, SEED, index=k)[0]["edits"]) for k in range(DRAWS)], p)


def test_what_is_drawn_for_one_sample_says_nothing_about_another():
    """Neighbours in the dataset, in epochs and in seeds: chance agrees with chance half of the time."""
    drawing = plan(("random_hflip", {"p": 0.5}))

    def flips(**changed):
        key = {"seed": SEED, "epoch": 0, **changed}
        return np.array([drawing.route(5, 6, index=k, **key)[0]["flip"] for k in range(DRAWS)])

    first = flips()
    for other in (np.roll(first, 1), flips(epoch=1), flips(seed=SEED + 1), flips(nonce=1)):
        assert_frequency(first == other, 0.5)


# Sizes of the picture and the crop, and the padding (left, top, right, bottom).
RANDOM_CROPS = [
    ((32, 32), (32, 32), (4, 4, 4, 4)),
    ((20, 27), (18, 16), (0, 0, 0, 0)),
    ((20, 27), (24, 9), (1, 5, 2, 0)),
]


def place_of(route, padding):
    """Top and left of a crop in the padded picture."""
    (taken,) = route
    return tuple(padding[1 - k] + taken["window"][k] - taken["at"][k] for k in (0, 1))


@pytest.mark.parametrize(("had", "wanted", "padding"), RANDOM_CROPS)
def test_random_crops_lie_as_torchvisions(had, wanted, padding):
    drawing = plan(("random_crop", {"size": wanted, "padding": padding}))
    ours = [place_of(drawing.route(*had, SEED, index=k), padding) for k in range(DRAWS)]
    padded = F.pad(canvas(*had), list(padding))
    torch.manual_seed(SEED)
    theirs = [v1.RandomCrop.get_params(padded, wanted)[:2] for _ in range(DRAWS_OF_TORCHVISION)]
    assert {*ours} == {*theirs}
    for axis in (0, 1):
        assert_same_frequencies(*([place[axis] for place in sample] for sample in (ours, theirs)), axis)


COLOURS = ("brightness", "contrast", "saturation", "hue")
JITTER = {"brightness": (0.6, 1.4), "contrast": (0.2, 1.1), "saturation": (0.0, 3.0), "hue": (-0.1, 0.3)}


def jitter_of_torchvision():
    """(order, factors) of each draw, the hue as what is added to a byte."""
    torch.manual_seed(SEED)
    for _ in range(DRAWS_OF_TORCHVISION):
        order, *factors = v1.ColorJitter.get_params(*(list(JITTER[name]) for name in COLOURS))
        factors[3] = int(factors[3] * 255) % 256
        yield tuple(COLOURS[k] for k in order), dict(zip(COLOURS, factors, strict=True))


def jitter_natively():
    drawing = plan(("color_jitter", JITTER))
    for index in range(DRAWS):
        colours = drawing.route(5, 6, SEED, index=index)[0]["edits"]
        yield tuple(name for name, _ in colours), dict(colours)


def test_colours_change_as_torchvisions_in_factor_and_order():
    ours, theirs = list(jitter_natively()), list(jitter_of_torchvision())
    assert_same_frequencies(*([order for order, _ in sample] for sample in (ours, theirs)), "order")
    for name in COLOURS:
        assert_same_distribution(
            *([factors[name] for _, factors in sample] for sample in (ours, theirs)), name
        )


ERASINGS = [((32, 32), (0.02, 0.33), (0.3, 3.3)), ((12, 40), (0.1, 0.6), (0.5, 1.0))]


def erased_natively(size, scale, ratio):
    erase = {"p": 1.0, "scale": scale, "ratio": ratio, "value": (1, 1, 1)}
    drawing = Plan([], 0, "uint8", True, (0, 0, 0), (1, 1, 1), erase=erase)
    black, out = np.zeros((*size, 3), np.uint8), np.empty((*size, 3), np.uint8)
    for index in range(DRAWS):
        batch_write(drawing, black, out, SEED, 0, index)
        yield box_of(out)


def erased_portably(size, scale, ratio):
    rng = np.random.default_rng(SEED)
    for _ in range(DRAWS):
        out = np.zeros((*size, 3), np.uint8)
        portable._erase(out, rng, 1.0, scale, ratio, (1, 1, 1))
        yield box_of(out)


def box_of(out):
    """Top, left, height and width of what is 1 in a picture of zeros; nothing else may be."""
    rows, columns = np.flatnonzero(out[:, :, 0].any(1)), np.flatnonzero(out[:, :, 0].any(0))
    if len(rows) == 0:
        return 0, 0, 0, 0
    box = rows[0], columns[0], rows[-1] - rows[0] + 1, columns[-1] - columns[0] + 1
    assert out.sum() == 3 * box[2] * box[3]
    return box


@functools.cache
def erased_by_torchvision(size, scale, ratio):
    """The whole picture, which it answers when no box fits, is not erased but left as it is."""
    torch.manual_seed(SEED)
    boxes = []
    for _ in range(DRAWS_OF_TORCHVISION):
        box = v1.RandomErasing.get_params(canvas(*size), list(scale), list(ratio), [1.0])[:4]
        boxes.append((0, 0, 0, 0) if box[2:] == size else box)
    return boxes


@pytest.mark.small(1)
@pytest.mark.parametrize("draw", [erased_natively, erased_portably])
@pytest.mark.parametrize("erasing", ERASINGS, ids=str)
def test_erased_boxes_lie_as_torchvisions(draw, erasing):
    ours, theirs = (np.array(list(boxes)).T for boxes in (draw(*erasing), erased_by_torchvision(*erasing)))
    assert (theirs[2] > 0).mean() > 0.3
    for what, mine, other in zip(("top", "left", "height", "width"), ours, theirs, strict=True):
        assert_same_distribution(mine, other, what)
    assert_same_distribution(ours[2] * ours[3], theirs[2] * theirs[3], "area")


@pytest.mark.parametrize("p", [0.25, 1.0])
def test_erasing_happens_as_often_as_asked(p):
    erase = {"p": p, "scale": (0.1, 0.2), "ratio": (1.0, 1.0), "value": (1, 1, 1)}
    drawing = Plan([], 0, "uint8", True, (0, 0, 0), (1, 1, 1), erase=erase)
    black, out, hits = np.zeros((8, 9, 3), np.uint8), np.empty((8, 9, 3), np.uint8), []
    for index in range(DRAWS):
        batch_write(drawing, black, out, SEED, 0, index)
        hits.append(bool(out.any()))
    assert_frequency(hits, p)


def test_noise_that_is_erased_with_is_normal():
    erase = {"p": 1.0, "scale": (0.9, 0.9), "ratio": (1.0, 1.0), "value": (0, 0, 0), "deviation": (1, 1, 1)}
    drawing = Plan([], 0, "float32", True, (0, 0, 0), (1, 1, 1), erase=erase)
    black, out = np.zeros((100, 100, 3), np.uint8), np.empty((100, 100, 3), np.float32)
    batch_write(drawing, black, out, SEED, 0, 0)
    drawn = out[out != 0]
    assert len(drawn) > DRAWS
    assert kstest(drawn[:DRAWS], "norm").pvalue > LUCK
    assert abs(np.corrcoef(drawn[0:-1:2], drawn[1::2])[0, 1]) < 4 / math.sqrt(len(drawn) / 2)
