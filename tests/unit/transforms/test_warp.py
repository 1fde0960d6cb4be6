"""Rotations and affine maps take what torchvision's take."""

import numpy as np
import pytest
from torchvision_here import F

from seneca import transforms as T
from seneca._core.codec import Codec
from seneca.transforms._pipeline import compile_transform


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: T.RandomRotation(-1), ValueError, "degrees: a single number is not negative"),
        (lambda: T.RandomRotation((2, 1)), ValueError, "degrees: least and greatest in this order"),
        (lambda: T.RandomRotation("1"), TypeError, "degrees: two numbers"),
        (lambda: T.RandomRotation((1, 2, 3)), ValueError, "degrees: two numbers"),
        (lambda: T.RandomRotation(1, expand=True), ValueError, "expand: each result would have a size"),
        (lambda: T.RandomRotation(1, "lanczos"), ValueError, 'interpolation: "nearest", "bilinear" or'),
        (lambda: T.RandomRotation(1, center=5), TypeError, "center: two numbers"),
        (lambda: T.RandomRotation(1, fill=300), ValueError, "fill: whole numbers"),
        (lambda: T.RandomAffine(1, translate=(0, 2)), ValueError, "translate: shares in"),
        (lambda: T.RandomAffine(1, scale=(0, 2)), ValueError, "scale: least and greatest are positive"),
        (lambda: T.RandomAffine(1, shear=(1, 2, 3)), ValueError, "shear: two numbers"),
        (lambda: T.RandomAffine(1, shear=(1, 2, 4, 3)), ValueError, "shear: least and greatest"),
        (lambda: T.RandomAffine(float("nan")), ValueError, "degrees: two numbers"),
        (lambda: T.RandomPerspective(1.5), ValueError, "distortion_scale: from 0 to 1"),
        (lambda: T.RandomPerspective(p=2), ValueError, "p is a probability"),
        (lambda: T.RandomPerspective(fill="red"), TypeError, "fill: a number or"),
        (lambda: T.ElasticTransform(sigma=32.0), ValueError, "sigma: up to 31.5"),
        (lambda: T.ElasticTransform(sigma=(0, 2)), ValueError, "sigma: up to 31.5, and 0 along both"),
        (lambda: T.ElasticTransform("much"), TypeError, "alpha: two numbers"),
        (lambda: T.ElasticTransform(interpolation="bicubic"), ValueError, "interpolation: one of 'nearest'"),
    ],
)
def test_what_is_out_of_range_is_refused_by_name(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_arguments_come_in_one_form():
    assert T.RandomRotation(9) == T.RandomRotation([-9, 9], F.InterpolationMode.NEAREST)
    assert T.RandomAffine(9, shear=5) == T.RandomAffine((-9, 9), shear=(-5, 5))
    assert T.RandomAffine(9, shear=5) == T.RandomAffine((-9, 9), shear=(-5, 5, 0, 0), interpolation=0)


def test_numbers_of_an_elastic_transform_come_in_one_form():
    assert T.ElasticTransform(50, 5) == T.ElasticTransform([50.0, 50.0], (5,)) == T.ElasticTransform()
    assert T.ElasticTransform(sigma=0).sigma == (0.0, 0.0)


@pytest.mark.parametrize("moving", [T.RandomPerspective(p=1), T.ElasticTransform(90.0)], ids=str)
def test_a_flip_after_what_moves_is_a_flip_of_the_moved(moving):
    picture = np.random.default_rng(3).integers(0, 256, (30, 34, 3), np.uint8)
    plain = [T.CenterCrop((30, 34)), moving, T.PILToTensor()]
    codec = Codec()
    made = [
        codec.augment_decoded(compile_transform(T.Compose(steps)).plan, picture, 7, 0, 0, 3)
        for steps in (plain, [*plain[:2], T.RandomHorizontalFlip(1), plain[2]])
    ]
    assert np.array_equal(made[0][:, ::-1], made[1]) and not np.array_equal(made[0], picture)


def test_a_flip_after_a_rotation_is_a_flip_of_the_rotated():
    picture = np.random.default_rng(1).integers(0, 256, (9, 9, 3), np.uint8)
    steps = [T.CenterCrop(9), T.RandomRotation((90, 90)), T.RandomHorizontalFlip(1), T.PILToTensor()]
    out = T.Compose(steps)(picture).permute(1, 2, 0).numpy()
    assert np.array_equal(out, np.rot90(picture)[:, ::-1])
    steps[1:3] = [T.RandomVerticalFlip(1), T.RandomRotation((90, 90)), T.RandomVerticalFlip(1)]
    out = T.Compose(steps)(picture).permute(1, 2, 0).numpy()
    assert np.array_equal(out, np.rot90(picture[::-1])[::-1])


def test_a_crop_after_a_rotation_cuts_the_rotated():
    picture = np.random.default_rng(2).integers(0, 256, (9, 9, 3), np.uint8)
    steps = [T.CenterCrop(9), T.RandomRotation((180, 180)), T.CenterCrop((3, 5)), T.PILToTensor()]
    out = T.Compose(steps)(picture).permute(1, 2, 0).numpy()
    assert np.array_equal(out, picture[::-1, ::-1][3:6, 2:7])


def test_the_head_ends_before_a_rotation():
    pipeline = compile_transform(T.Compose([T.Resize((20, 20)), T.RandomRotation((90, 90)), T.CenterCrop(9)]))
    assert (pipeline.n_head, pipeline.deterministic, pipeline.output_size) == (1, False, (9, 9))
