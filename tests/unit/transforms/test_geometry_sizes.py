"""Resizes to a size that is drawn. Their distributions: tests/fidelity/test_distortions.py."""

import numpy as np
import pytest
import torch

from seneca import transforms as T
from seneca.errors import PictureTooLargeError, PlanError
from seneca.transforms._pipeline import compile_transform

PICTURE = np.random.default_rng(4).integers(0, 256, (40, 60, 3), np.uint8)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: T.ResizeKeepRatio(0), ValueError, "size: "),
        (lambda: T.ResizeKeepRatio(9, longest=2), ValueError, "longest: from 0 to 1"),
        (lambda: T.ResizeKeepRatio(9, random_scale_prob=2), ValueError, "p is a probability"),
        (lambda: T.ResizeKeepRatio(9, random_scale_range=(2, 1)), ValueError, "random_scale_range: "),
        (lambda: T.ResizeKeepRatio(9, interpolation="box"), ValueError, "interpolation: "),
        (lambda: T.ScaleJitter((9, 9), (0, 1)), ValueError, "scale_range: "),
        (lambda: T.RandomShortestSize([]), ValueError, "min_size: 1 to 16 lengths"),
        (lambda: T.RandomShortestSize([9] * 17), ValueError, "min_size: 1 to 16 lengths"),
        (lambda: T.RandomShortestSize(9.5), TypeError, "min_size: a length is an int"),
        (lambda: T.RandomResize(9, 9), ValueError, "max_size: a length is between 10"),
        (lambda: T.RandomZoomOut(side_range=(0.5, 2)), ValueError, "side_range: from 1"),
        (lambda: T.RandomZoomOut(p=2), ValueError, "p is a probability"),
    ],
)
def test_what_is_out_of_range_is_refused_by_name(make, error, words):
    with pytest.raises(error, match=words):
        make()


SIZES = [
    T.ResizeKeepRatio(20),
    T.ResizeKeepRatio(20, random_scale_prob=1),
    T.ScaleJitter((30, 30)),
    T.RandomShortestSize([20, 30], max_size=40),
    T.RandomResize(20, 30),
    T.RandomZoomOut(),
]


@pytest.mark.parametrize("transform", SIZES, ids=lambda one: type(one).__name__)
def test_a_crop_must_follow(transform):
    with pytest.raises(PlanError, match="pictures of different sizes cannot be stacked"):
        compile_transform(T.Compose([T.Resize((50, 50)), transform]))
    pipeline = compile_transform(T.Compose([transform, T.CenterCrop((9, 11))]))
    assert pipeline.output_size == pipeline.plan.output_size() == (9, 11)
    with pytest.raises(ValueError, match="changes the size"):
        T.RandomApply([transform])


def test_only_what_is_certain_belongs_to_the_head():
    heads = [compile_transform(T.Compose([transform, T.CenterCrop(9)])).n_head for transform in SIZES]
    assert heads == [2, 0, 0, 0, 0, 0]


@pytest.mark.parametrize(("longest", "size"), [(0.0, (20, 30)), (1.0, (13, 20)), (0.5, (16, 24))])
def test_the_ratio_is_kept(longest, size):
    whole = T.Compose([T.ResizeKeepRatio(20, longest), T.CenterCrop(40, fill=0), T.PILToTensor()])
    route = compile_transform(whole).plan.route(40, 60, 0)
    assert route[0]["full"] == size
    reference = T.Compose([T.Resize(size), T.CenterCrop(40), T.PILToTensor()])
    assert torch.equal(whole(PICTURE), reference(PICTURE))


def test_a_size_that_no_memory_holds_is_refused():
    pipeline = compile_transform(
        T.Compose([T.RandomZoomOut(side_range=(60_000, 60_000), p=1), T.CenterCrop(9)])
    )
    with pytest.raises(PictureTooLargeError):
        pipeline.plan.route(40, 60, 0)
