"""Transforms say what is to be done and what is wrong, and resemble torchvision's."""

import pickle

import pytest
import torch

from seneca import transforms as T

ALL = [
    T.Resize(8, "bicubic", 9, False),
    T.CenterCrop((8, 9)),
    T.Pad((1, 2, 3, 4), 7, "edge"),
    T.RandomCrop(8, 1, True, (1, 2, 3), "reflect"),
    T.RandomResizedCrop(8, (0.5, 1), (1, 2), "bicubic", False),
    T.RandomHorizontalFlip(),
    T.RandomVerticalFlip(0.25),
    T.ColorJitter(0.5, (0, 1), 2, 0.25),
    T.RandomGrayscale(),
    T.ToTensor(),
    T.PILToTensor(),
    T.ToDtype("float16"),
    T.ConvertImageDtype("bfloat16"),
    T.Normalize((0, 0, 0), (1, 1, 1)),
    T.RandomErasing(value="random"),
]


def test_steps_say_what_the_native_core_is_to_do():
    assert [step for made in ALL for step in made.steps()] == [
        ("resize", {"size": 8, "interpolation": "bicubic", "max_size": 9, "antialias": False}),
        ("center_crop", {"size": (8, 9)}),
        ("pad", {"padding": (1, 2, 3, 4), "fill": (7, 7, 7), "padding_mode": "edge"}),
        (
            "random_crop",
            {
                "size": (8, 8),
                "padding": (1, 1, 1, 1),
                "pad_if_needed": True,
                "fill": (1, 2, 3),
                "padding_mode": "reflect",
            },
        ),
        (
            "random_resized_crop",
            {
                "size": (8, 8),
                "scale": (0.5, 1),
                "ratio": (1, 2),
                "interpolation": "bicubic",
                "antialias": False,
            },
        ),
        ("random_hflip", {"p": 0.5}),
        ("random_vflip", {"p": 0.25}),
        (
            "color_jitter",
            {"brightness": (0.5, 1.5), "contrast": (0, 1), "saturation": (0, 3), "hue": (-0.25, 0.25)},
        ),
        ("random_grayscale", {"p": 0.1}),
        ("to_tensor", {}),
        ("pil_to_tensor", {}),
        ("to_dtype", {"dtype": "float16", "scale": False}),
        ("to_dtype", {"dtype": "bfloat16", "scale": True}),
        ("normalize", {"mean": (0, 0, 0), "std": (1, 1, 1)}),
        ("random_erasing", {"p": 0.5, "scale": (0.02, 0.33), "ratio": (0.3, 3.3), "value": "random"}),
    ]


def test_steps_leave_out_what_has_its_default():
    """So that fingerprints stay what they were before there was a choice."""
    assert T.Resize(8).steps() == (("resize", {"size": 8}),)
    assert T.Pad(1, 0.0, "constant").steps() == (("pad", {"padding": (1, 1, 1, 1)}),)
    assert T.RandomCrop(8).steps() == T.RandomCrop(8, 0).steps() == (("random_crop", {"size": (8, 8)}),)
    assert set(T.RandomResizedCrop(8).steps()[0].args) == {"size", "scale", "ratio"}
    assert T.ColorJitter(hue=0.1).steps() == (("color_jitter", {"hue": (-0.1, 0.1)}),)
    assert T.ColorJitter().steps() == ()


def test_lists_and_tuples_make_equal_transforms():
    assert T.RandomResizedCrop([8, 8], [0.5, 1], [1, 1]) == T.RandomResizedCrop(8, (0.5, 1.0), (1.0, 1.0))
    assert T.Normalize([0, 0, 0], [1, 1, 1]) == T.Normalize((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))


def test_transforms_are_frozen_hashable_and_pickle():
    compose = T.Compose(ALL)
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
        (lambda: T.Resize(8, "nearest"), ValueError, "interpolation"),
        (lambda: T.Resize(8, 0), ValueError, "interpolation"),
        (lambda: T.Resize(8, max_size=8), ValueError, "max_size"),
        (lambda: T.Resize((8, 8), max_size=9), ValueError, "max_size"),
        (lambda: T.Resize(8, max_size=9.5), TypeError, "max_size"),
        (lambda: T.Resize(8, antialias="warn"), TypeError, "antialias"),
        (lambda: T.CenterCrop(-1), ValueError, "size"),
        (lambda: T.RandomResizedCrop(8, scale=(1, 0.5)), ValueError, "scale"),
        (lambda: T.RandomResizedCrop(8, scale=(0, 1)), ValueError, "scale"),
        (lambda: T.RandomResizedCrop(8, scale=(0.5, 1, 2)), ValueError, "scale"),
        (lambda: T.RandomResizedCrop(8, ratio=1.0), TypeError, "ratio"),
        (lambda: T.RandomResizedCrop(8, ratio=(1, float("inf"))), ValueError, "ratio"),
        (lambda: T.RandomResizedCrop(8, interpolation="nearest"), ValueError, "interpolation"),
        (lambda: T.RandomCrop(-1), ValueError, "size"),
        (lambda: T.RandomCrop(8, -1), ValueError, "padding: to cut off margins use a crop"),
        (lambda: T.RandomCrop(8, 1, False, 0, "wrap"), ValueError, "padding_mode"),
        (lambda: T.Pad(None), TypeError, "padding"),
        (lambda: T.Pad((1, 2, 3)), ValueError, "padding"),
        (lambda: T.Pad(1.5), TypeError, "padding"),
        (lambda: T.Pad(1, "black"), TypeError, "fill"),
        (lambda: T.Pad(1, 256), ValueError, "fill"),
        (lambda: T.Pad(1, (1, 2)), ValueError, "fill"),
        (lambda: T.Pad(1, 0.5), ValueError, "fill"),
        (lambda: T.Pad(1, padding_mode="circular"), ValueError, "padding_mode"),
        (lambda: T.RandomHorizontalFlip(1.5), ValueError, "p is a probability"),
        (lambda: T.RandomHorizontalFlip(float("nan")), ValueError, "p is a probability"),
        (lambda: T.RandomVerticalFlip(-0.1), ValueError, "p is a probability"),
        (lambda: T.RandomGrayscale(2), ValueError, "p is a probability"),
        (lambda: T.ColorJitter(-0.1), ValueError, "brightness"),
        (lambda: T.ColorJitter(contrast=(2, 1)), ValueError, "contrast"),
        (lambda: T.ColorJitter(contrast=(1, float("inf"))), ValueError, "contrast"),
        (lambda: T.ColorJitter(saturation=(-1, 1)), ValueError, "saturation"),
        (lambda: T.ColorJitter(saturation=(1, 1, 1)), TypeError, "saturation"),
        (lambda: T.ColorJitter(hue=0.6), ValueError, "hue"),
        (lambda: T.ColorJitter(hue="red"), TypeError, "hue"),
        (lambda: T.ToDtype(torch.int64), ValueError, "dtype: one of torch.uint8"),
        (lambda: T.ToDtype({torch.Tensor: torch.float32}), ValueError, "dtype"),
        (lambda: T.ConvertImageDtype("float64"), ValueError, "dtype"),
        (lambda: T.RandomErasing(1.5), ValueError, "p is a probability"),
        (lambda: T.RandomErasing(scale=(0.1, 1.1)), ValueError, "scale"),
        (lambda: T.RandomErasing(scale=0.1), TypeError, "scale"),
        (lambda: T.RandomErasing(ratio=(0, 1)), ValueError, "ratio"),
        (lambda: T.RandomErasing(value="noise"), ValueError, "value"),
        (lambda: T.RandomErasing(value=None), TypeError, "value"),
        (lambda: T.RandomErasing(value=(1, 2)), ValueError, "value"),
        (lambda: T.RandomErasing(value=float("nan")), ValueError, "value"),
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
    assert repr(T.Compose(ALL)) == (
        "Compose(\n"
        "    Resize(size=8, interpolation=bicubic, max_size=9, antialias=False)\n"
        "    CenterCrop(size=(8, 9))\n"
        "    Pad(padding=(1, 2, 3, 4), fill=(7, 7, 7), padding_mode=edge)\n"
        "    RandomCrop(size=(8, 8), padding=(1, 1, 1, 1))\n"
        "    RandomResizedCrop(size=(8, 8), scale=(0.5, 1.0), ratio=(1.0, 2.0), "
        "interpolation=bicubic, antialias=False)\n"
        "    RandomHorizontalFlip(p=0.5)\n"
        "    RandomVerticalFlip(p=0.25)\n"
        "    ColorJitter(brightness=(0.5, 1.5), contrast=(0.0, 1.0), saturation=(0.0, 3.0), "
        "hue=(-0.25, 0.25))\n"
        "    RandomGrayscale(p=0.1)\n"
        "    ToTensor()\n"
        "    PILToTensor()\n"
        "    ToDtype(dtype='float16', scale=False)\n"
        "    ConvertImageDtype(dtype='bfloat16')\n"
        "    Normalize(mean=[0.0, 0.0, 0.0], std=[1.0, 1.0, 1.0])\n"
        "    RandomErasing(p=0.5, scale=(0.02, 0.33), ratio=(0.3, 3.3), value='random', inplace=False)\n"
        ")"
    )
