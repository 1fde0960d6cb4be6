"""timm's recipes, by hand. Beside timm: tests/frameworks/test_timm_transforms.py."""

import collections
import math

import numpy as np
import pytest
from oracle import pictures as portable
from scipy.stats import chi2_contingency, ks_2samp
from sizes import size

from seneca import transforms as T
from seneca._core.codec import Codec
from seneca.transforms._pipeline import compile_transform
from seneca.transforms._timm import TIMM_OPERATIONS

ONE = [[("Rotate", 0.5, 9)]]


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: T.TimmAugment([]), ValueError, "operations: there are none"),
        (lambda: T.TimmAugment([[]]), ValueError, "operations: there are none"),
        (lambda: T.TimmAugment([[("Sheer", 1, 1)]]), ValueError, "'Sheer' is no operation"),
        (lambda: T.TimmAugment([[("Rotate", 1.5, 1)]]), ValueError, "probability: a number from 0 to 1,"),
        (lambda: T.TimmAugment([[("Rotate", 1, -1)]]), ValueError, "magnitude: a number from 0 to 1000"),
        (lambda: T.TimmAugment(ONE * 51), ValueError, "more than 50 operations"),
        (lambda: T.TimmAugment(ONE, [0]), ValueError, "weights: a number for each chain"),
        (lambda: T.TimmAugment(ONE, [1, 2]), ValueError, "weights: a number for each chain"),
        (lambda: T.TimmAugment(ONE, num_layers=33), ValueError, "num_layers: from 0 to 32"),
        (lambda: T.TimmAugment(ONE, num_layers=2, distinct=True), ValueError, "num_layers: from 0 to 1"),
        (lambda: T.TimmAugment(ONE, magnitude_std=float("nan")), ValueError, "magnitude_std: a number"),
        (lambda: T.TimmAugment(ONE, interpolation="box"), ValueError, "interpolation"),
        (lambda: T.TimmAugMix([("Rotate", 1, 3)], width=8), ValueError, "width: from 1 to 7"),
        (lambda: T.TimmAugMix([("Rotate", 1, 3)], depth=15), ValueError, "width: from 1 to 1 "),
        (lambda: T.TimmAugMix([("Rotate", 1, 3)], alpha=0), ValueError, "alpha: a positive number"),
    ],
)
def test_what_is_out_of_range_is_refused_by_name(make, error, words):
    with pytest.raises(error, match=words):
        make()


PICTURE = np.random.default_rng(4).integers(0, 256, (12, 15, 3), np.uint8)


def pictures(engine, transform, draws):
    pipeline = compile_transform(T.Compose([T.CenterCrop((12, 15)), transform]))
    if engine == "native":
        codec = Codec()
        return [codec.augment_decoded(pipeline.plan, PICTURE, 5, 0, 0, k) for k in range(draws)]
    rngs = (np.random.default_rng([5, k]) for k in range(draws))
    return [portable.augment(pipeline.steps, portable.Image.fromarray(PICTURE), rng) for rng in rngs]


@pytest.mark.small(12)
@pytest.mark.parametrize("name", TIMM_OPERATIONS)
def test_both_engines_make_the_same_pictures_of_an_operation(name):
    for magnitude, p in ((2.0, 0.5), (8.0, 1.0)):
        recipe = T.TimmAugment([[(name, p, magnitude)]])
        if name == "GaussianBlurRand":
            shares = [
                [np.abs(out - PICTURE.astype(int)).mean() for out in pictures(engine, recipe, 400)]
                for engine in ("native", "portable")
            ]
            assert ks_2samp(*shares).pvalue > 1e-3
            continue
        mine, other = (
            collections.Counter(out.tobytes() for out in pictures(engine, recipe, size(100, 200)))
            for engine in ("native", "portable")
        )
        for key in mine:
            values = np.frombuffer(key, np.uint8).astype(int)
            assert min(np.abs(values - np.frombuffer(k, np.uint8)).max() for k in other) <= 2


@pytest.mark.small(1)
@pytest.mark.parametrize("distinct", [False, True])
def test_both_engines_choose_chains_by_their_weights(distinct):
    chains = [[("Invert", 1, 1)], [("Solarize", 1, 5)], [("Posterize", 1, 5), ("AutoContrast", 0.5, 1)]]
    recipe = T.TimmAugment(chains, [5, 1, 2], num_layers=2, distinct=distinct)
    mine, other = (
        collections.Counter(out.tobytes() for out in pictures(engine, recipe, size(1500, 3000)))
        for engine in ("native", "portable")
    )
    assert {*mine} == {*other} and len(mine) > 3
    assert chi2_contingency([[counts[key] for key in mine] for counts in (mine, other)]).pvalue > 1e-3


@pytest.mark.small(1)
@pytest.mark.parametrize("deviation", [0.7, math.inf])
def test_both_engines_blend_chains_alike(deviation):
    parts = [(name, 1, 3) for name in ("Rotate", "Equalize", "ColorIncreasing", "SolarizeAdd")]
    recipe = T.TimmAugMix(parts, width=2, alpha=0.6, magnitude_std=deviation)
    changes = [
        [np.abs(out - PICTURE.astype(int)).mean() for out in pictures(engine, recipe, size(700, 1500))]
        for engine in ("native", "portable")
    ]
    assert ks_2samp(*changes).pvalue > 1e-3


def test_each_recipe_has_copies_of_its_own():
    recipes = [
        T.TimmAugment(ONE),
        T.TimmAugment(ONE, magnitude_std=0.5),
        T.TimmAugment(ONE, magnitude_std=math.inf),
        T.TimmAugment(ONE, interpolation="bicubic"),
        T.TimmAugment(ONE * 2),
        T.TimmAugMix(ONE[0]),
        T.TimmAugMix(ONE[0], depth=2),
    ]
    made = [compile_transform(T.Compose([T.Resize((9, 9)), recipe])) for recipe in recipes]
    assert len({pipeline.augmented_fingerprint for pipeline in made}) == len(made)
    assert len({pipeline.head_fingerprint for pipeline in made}) == 1
