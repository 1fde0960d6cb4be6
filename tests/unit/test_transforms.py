"""Transforms take what torchvision's take, say what is wrong, and look the same."""

import pickle
from types import SimpleNamespace

import numpy as np
import pytest

from seneca import transforms as T


def test_one_number_means_a_square_crop_and_the_short_side_of_a_resize():
    assert T.CenterCrop(224).size == (224, 224)
    assert T.RandomResizedCrop(np.int64(224)).size == (224, 224)
    assert T.Resize(256).size == T.Resize([256]).size == 256
    assert T.Resize([224, 288]).size == (224, 288)


@pytest.mark.parametrize("spelling", ["bilinear", 2, SimpleNamespace(value="bilinear")])
def test_every_spelling_of_bilinear_is_the_same(spelling):
    assert T.Resize(8, interpolation=spelling) == T.Resize(8)
    assert T.RandomResizedCrop(8, interpolation=spelling) == T.RandomResizedCrop(8)


def test_lists_and_tuples_make_equal_transforms():
    assert T.RandomResizedCrop([8, 8], [0.5, 1], [1, 1]) == T.RandomResizedCrop(8, (0.5, 1.0), (1.0, 1.0))
    assert T.Normalize([0, 0, 0], [1, 1, 1]) == T.Normalize((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))


def test_transforms_are_frozen_hashable_and_pickle():
    compose = T.Compose([T.Resize(8), T.CenterCrop(8), T.Normalize(T.IMAGENET_MEAN, T.IMAGENET_STD)])
    assert pickle.loads(pickle.dumps(compose)) == compose
    assert len({compose, T.Compose(list(compose))}) == 1
    with pytest.raises(AttributeError):
        compose.transforms = ()
    with pytest.raises(AttributeError):
        T.Resize(8).size = 9


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: T.Resize("224"), TypeError, "size"),
        (lambda: T.Resize(0), ValueError, "size"),
        (lambda: T.Resize((1, 2, 3)), ValueError, "size"),
        (lambda: T.Resize(()), ValueError, "size"),
        (lambda: T.Resize((224, 224.5)), TypeError, "size"),
        (lambda: T.Resize(70_000), ValueError, "size"),
        (lambda: T.Resize(8, "bicubic"), ValueError, "interpolation"),
        (lambda: T.Resize(8, max_size=9), ValueError, "max_size"),
        (lambda: T.Resize(8, antialias=False), ValueError, "antialias"),
        (lambda: T.CenterCrop(-1), ValueError, "size"),
        (lambda: T.RandomResizedCrop(8, scale=(1, 0.5)), ValueError, "scale"),
        (lambda: T.RandomResizedCrop(8, scale=(0, 1)), ValueError, "scale"),
        (lambda: T.RandomResizedCrop(8, ratio=1.0), ValueError, "ratio"),
        (lambda: T.RandomResizedCrop(8, ratio=(1, float("inf"))), ValueError, "ratio"),
        (lambda: T.RandomResizedCrop(8, interpolation="nearest"), ValueError, "interpolation"),
        (lambda: T.RandomResizedCrop(8, antialias=None), ValueError, "antialias"),
        (lambda: T.RandomHorizontalFlip(1.5), ValueError, "p is a probability"),
        (lambda: T.RandomHorizontalFlip(float("nan")), ValueError, "p is a probability"),
        (lambda: T.Normalize((0.5,), (0.5, 0.5, 0.5)), ValueError, "mean"),
        (lambda: T.Normalize((0.5, 0.5, 0.5), 1), ValueError, "std"),
        (lambda: T.Normalize((0, 0, 0), (1, 0, 1)), ValueError, "std"),
        (lambda: T.Compose([T.Resize(8), abs]), TypeError, "torchvision's Compose"),
    ],
)
def test_a_wrong_argument_fails_in_the_constructor_and_is_named(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_they_look_like_torchvisions():
    compose = T.Compose(
        [
            T.RandomResizedCrop(224),
            T.Resize(256),
            T.CenterCrop(224),
            T.RandomHorizontalFlip(),
            T.ToTensor(),
            T.Normalize(T.IMAGENET_MEAN, T.IMAGENET_STD),
        ]
    )
    assert repr(compose) == (
        "Compose(\n"
        "    RandomResizedCrop(size=(224, 224), scale=(0.08, 1.0), ratio=(0.75, 1.3333), "
        "interpolation=bilinear, antialias=True)\n"
        "    Resize(size=256, interpolation=bilinear, max_size=None, antialias=True)\n"
        "    CenterCrop(size=(224, 224))\n"
        "    RandomHorizontalFlip(p=0.5)\n"
        "    ToTensor()\n"
        "    Normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225])\n"
        ")"
    )
