"""RandAugment and its like take what torchvision's take. Their pixels: tests/fidelity/test_recipes.py."""

import numpy as np
import pytest
import torch
from torchvision_here import torchvision

import seneca
from seneca import transforms as T
from seneca.transforms._pipeline import compile_transform


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: T.RandAugment(9), ValueError, "num_ops: from 0 to 8 run natively"),
        (lambda: T.RandAugment(2, 31), ValueError, "magnitude: from -31 to 30"),
        (lambda: T.RandAugment(2, 9.5), TypeError, "magnitude: an int"),
        (lambda: T.RandAugment(num_magnitude_bins=1), ValueError, "num_magnitude_bins: from 2 to 1024"),
        (lambda: T.RandAugment(interpolation="box"), ValueError, "interpolation: "),
        (lambda: T.TrivialAugmentWide(1), ValueError, "num_magnitude_bins: from 2"),
        (lambda: T.TrivialAugmentWide(fill="red"), TypeError, "fill: a number or"),
        (lambda: T.AugMix(0), ValueError, "severity: from 1 to 10"),
        (lambda: T.AugMix(mixture_width=8), ValueError, "mixture_width: from 1 to 7 run natively"),
        (lambda: T.AugMix(chain_depth=31), ValueError, "chain_depth: at most 29 run natively, but got 31"),
        (lambda: T.AugMix(alpha=0), ValueError, "alpha: a positive number"),
        (
            lambda: T.AugMix(interpolation="bicubic"),
            ValueError,
            "interpolation: one of 'nearest', 'bilinear'",
        ),
        (lambda: T.AutoAugment("coco"), ValueError, "policy: one of 'imagenet', 'cifar10', 'svhn'"),
    ],
)
def test_what_is_out_of_range_is_refused_by_name(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_arguments_come_in_one_form():
    assert T.RandAugment(2, -1, 31) == T.RandAugment(2, 30)
    assert T.RandAugment(fill=None) == T.RandAugment(fill=(0, 0, 0))
    policy = torchvision.transforms.AutoAugmentPolicy.SVHN
    assert T.AutoAugment(policy) == T.AutoAugment("svhn") != T.AutoAugment()


RECIPES = [
    T.RandAugment(),
    T.RandAugment(3),
    T.RandAugment(2, 10),
    T.TrivialAugmentWide(),
    T.AutoAugment("svhn"),
    T.AugMix(),
    T.AugMix(fill=0),
]


def test_each_recipe_has_copies_of_its_own_and_decoded_in_common():
    made = [
        compile_transform(T.Compose([T.Resize((9, 9)), recipe])) for recipe in [*RECIPES, T.RandomInvert()]
    ]
    assert len({pipeline.augmented_fingerprint for pipeline in made}) == len(made)
    assert len({pipeline.head_fingerprint for pipeline in made}) == 1


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: type(recipe).__name__)
def test_results_hang_on_seed_epoch_and_sample(recipe):
    from seneca._core.codec import Codec

    picture = np.random.default_rng(1).integers(0, 256, (24, 20, 3), np.uint8)
    plan = compile_transform(T.Compose([T.CenterCrop((24, 20)), recipe])).plan
    first = [Codec().augment_decoded(plan, picture, 5, 0, 2, index) for index in range(20)]
    again = Codec()
    for index in reversed(range(20)):
        assert np.array_equal(again.augment_decoded(plan, picture, 5, 0, 2, index), first[index])
    for other in [(6, 0, 2), (5, 1, 2), (5, 0, 3)]:
        changed = [again.augment_decoded(plan, picture, *other, index) for index in range(20)]
        assert sum(not np.array_equal(a, b) for a, b in zip(first, changed, strict=True)) > 10


def test_a_loader_delivers_the_same_whatever_its_threads(picture_folder):
    recipe = T.RandomApply([T.GaussianBlur(5), T.RandomAffine(20, (0.1, 0.1), interpolation="bilinear")])
    transform = T.Compose(
        [T.RandomResizedCrop(24), recipe, T.RandAugment(), T.AutoAugment(), T.PILToTensor()]
    )
    dataset, epochs = seneca.ImageFolder(picture_folder, transform), []
    for workers in (1, 2, 3):
        options = {"num_workers": workers, "generator": torch.Generator().manual_seed(3), "cache": None}
        loader = seneca.DataLoader(dataset, batch_size=4, shuffle=True, **options)
        assert "native" in loader.explain()
        epochs.append([torch.cat([images for images, _ in loader]) for _ in range(2)])
    assert not torch.equal(*epochs[0])
    for epoch in epochs[1:]:
        assert all(torch.equal(one, other) for one, other in zip(epoch, epochs[0], strict=True))
