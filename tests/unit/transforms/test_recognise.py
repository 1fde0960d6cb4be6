"""torchvision's transforms are recognised where the native path means the same, else refused in words."""

import functools
import pickle
import random
import subprocess
import sys

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps
from torch.utils.data import default_collate
from torchvision_here import F, torchvision, v1, v2

from seneca import transforms as T
from seneca.transforms._pipeline import compile_transform
from seneca.transforms._recognise import recognise, run_steps, split_static

MEAN, STD = T.IMAGENET_MEAN, T.IMAGENET_STD
MODES = F.InterpolationMode
BOTH = [pytest.param(v1, id="v1"), pytest.param(v2, id="v2")]
CROP = T.CenterCrop(20)  # after which sizes are known
TENSORS = [T.PILToTensor(), T.ConvertImageDtype("float32"), T.Normalize(MEAN, STD)]

pytestmark = pytest.mark.filterwarnings("ignore:.*ToTensor", "ignore:Anti-alias option")


def picture(seed, height, width):
    """Smooth and noisy in turns, in colour."""
    rng = np.random.default_rng(seed)
    coarse = Image.fromarray(rng.integers(0, 256, (9, 7, 3), np.uint8)).resize((width, height), 3)
    return Image.fromarray(np.asarray(coarse) ^ rng.integers(0, 32, (height, width, 3), np.uint8))


PICTURES = [picture(1, 90, 131), picture(2, 203, 77), picture(3, 16, 19)]


def assert_means(ours, theirs):
    """The recognised transform is the one that is written by hand."""
    found = recognise(theirs)
    assert not isinstance(found, str), found
    assert compile_transform(found) == compile_transform(ours)


def assert_refused(transform, words):
    found = recognise(transform)
    assert isinstance(found, str), found
    assert words in found


# What is recognised


@pytest.mark.parametrize("v", BOTH)
@pytest.mark.parametrize(
    ("name", "args", "keywords"),
    [
        ("Resize", ((20, 30),), {}),
        ("Resize", ([20, 30],), {"interpolation": MODES.BICUBIC}),
        ("Resize", ((20, 30),), {"interpolation": Image.Resampling.BICUBIC}),
        ("Resize", ((20, 30),), {"interpolation": 2}),
        ("CenterCrop", (20,), {}),
        ("CenterCrop", ([20],), {}),
        ("CenterCrop", ((20, 30),), {}),
        ("RandomCrop", (20,), {}),
        ("RandomCrop", ([20, 30],), {"pad_if_needed": True}),
        ("RandomCrop", (20, 4), {}),
        ("RandomCrop", (20, (1, 2)), {"fill": (1, 2, 3)}),
        ("RandomCrop", (20, [1, 2, 3, 4]), {"padding_mode": "reflect"}),
        ("RandomCrop", (20, [1, 2, 3, 4], True, 7), {}),
        ("RandomCrop", (20, [1, 2, 3, 4], True), {"padding_mode": "edge"}),
        ("RandomResizedCrop", (20,), {}),
        ("RandomResizedCrop", ((20, 30), (0.5, 0.9), [0.8, 1.1]), {"interpolation": MODES.BICUBIC}),
    ],
)
def test_what_has_a_size_is_recognised_with_its_arguments(v, name, args, keywords):
    theirs = v.Compose([getattr(v, name)(*args, **keywords), v.ToTensor()])
    assert_means(getattr(T, name)(*args, **keywords), theirs)


@pytest.mark.parametrize("v", BOTH)
@pytest.mark.parametrize(
    ("name", "args", "keywords"),
    [
        ("Resize", (256,), {}),
        ("Resize", ([256],), {"max_size": 300}),
        ("RandomHorizontalFlip", (), {}),
        ("RandomHorizontalFlip", (0.25,), {}),
        ("RandomVerticalFlip", (), {"p": 1}),
        ("Pad", (3,), {}),
        ("Pad", ([3],), {"fill": 7}),
        ("Pad", ((1, 2), (1, 2, 3)), {}),
        ("Pad", ([1, 2, 3, 4],), {"padding_mode": "edge"}),
        ("Pad", (3,), {"padding_mode": "symmetric", "fill": 127.0}),
        ("ColorJitter", (), {}),
        ("ColorJitter", (0.4, (0.5, 2), 3, 0.1), {}),
        ("ColorJitter", (), {"hue": (-0.1, 0.3)}),
        ("RandomGrayscale", (), {}),
        ("RandomGrayscale", (0.2,), {}),
    ],
)
def test_what_goes_in_front_of_a_crop_is_recognised_with_its_arguments(v, name, args, keywords):
    theirs = v.Compose([getattr(v, name)(*args, **keywords), v.CenterCrop(20), v.ToTensor()])
    assert_means(T.Compose([getattr(T, name)(*args, **keywords), CROP]), theirs)


@pytest.mark.parametrize("v", BOTH)
@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (lambda v: [v.ToTensor()], [T.ToTensor()]),
        (lambda v: [v.PILToTensor()], [T.PILToTensor()]),
        (lambda v: [v.PILToTensor(), v.ConvertImageDtype(torch.float16)], [T.ToDtype("float16", scale=True)]),
        (lambda v: [v.ToTensor(), v.ConvertImageDtype(torch.bfloat16)], [T.ToDtype("bfloat16", scale=True)]),
        (lambda v: [v.ToTensor(), v.ConvertImageDtype(torch.uint8)], [T.PILToTensor()]),
        (lambda v: [v.ToTensor(), v.Normalize(MEAN, STD)], [T.Normalize(MEAN, STD)]),
        (lambda v: [v.ToTensor(), v.Normalize(MEAN, STD, True)], [T.Normalize(MEAN, STD)]),
        (lambda v: [v.ToTensor(), v.Normalize([0.5], (0.25,))], [T.Normalize([0.5] * 3, [0.25] * 3)]),
        (lambda v: [v.ToTensor(), v.Normalize(torch.ones(3), np.ones(3))], [T.Normalize([1] * 3, [1] * 3)]),
        (lambda v: [v.ToTensor(), v.RandomErasing()], [T.RandomErasing()]),
        (
            lambda v: [v.ToTensor(), v.RandomErasing(0.2, (0.1, 0.2), (1, 2), [0.5], True)],
            [T.RandomErasing(0.2, (0.1, 0.2), (1, 2), 0.5)],
        ),
        (
            lambda v: [v.ToTensor(), v.Normalize(MEAN, STD), v.RandomErasing(value="random")],
            [T.Normalize(MEAN, STD), T.RandomErasing(value="random")],
        ),
        (
            lambda v: [v.ToTensor(), v.RandomErasing(value=(0.1, 0.2, 0.3)), v.Normalize(MEAN, STD)],
            [T.RandomErasing(value=(0.1, 0.2, 0.3)), T.Normalize(MEAN, STD)],
        ),
        (
            lambda v: [v.PILToTensor(), v.RandomErasing(value=9), v.ConvertImageDtype(torch.float32)],
            [T.PILToTensor(), T.RandomErasing(value=9), T.ConvertImageDtype("float32")],
        ),
    ],
)
def test_the_end_is_recognised_with_its_type_and_order(v, theirs, ours):
    assert_means(T.Compose([CROP, *ours]), v.Compose([v.CenterCrop(20), *theirs(v)]))


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ([v2.ToImage()], [T.PILToTensor()]),
        ([v2.ToImage(), v2.ToPureTensor()], [T.PILToTensor()]),
        ([v2.PILToTensor(), v2.ToImage(), v2.ToImage(), v2.Identity()], [T.PILToTensor()]),
        ([v2.ToPureTensor(), v2.Identity(), v1.ToTensor()], [T.ToTensor()]),
        ([v2.ToImage(), v2.ToDtype(torch.float32, scale=True)], [T.ToTensor()]),
        ([v2.ToImage(), v2.ToDtype(torch.float32)], [T.ToDtype("float32")]),
        ([v2.ToImage(), v2.ToDtype(torch.uint8, scale=True)], [T.PILToTensor()]),
        (
            [v2.ToImage(), v2.ToDtype(torch.float32), v2.Normalize([99] * 3, [9] * 3)],
            [T.ToDtype("float32"), T.Normalize([99] * 3, [9] * 3)],
        ),
        (
            [v2.ToImage(), v2.ToDtype(torch.float16, scale=True), v2.Normalize(MEAN, STD)],
            [T.ToDtype("float16", scale=True), T.Normalize(MEAN, STD)],
        ),
        (
            [v1.ToTensor(), v2.Normalize(MEAN, STD), v2.ToDtype(torch.bfloat16)],
            [T.Normalize(MEAN, STD), T.ToDtype("bfloat16")],
        ),
    ],
)
def test_v2s_own_steps_to_a_tensor_are_recognised(theirs, ours):
    assert_means(T.Compose([CROP, *ours]), v2.Compose([v2.CenterCrop(20), *theirs]))


def test_v2s_names_of_filters_are_recognised():
    theirs = v2.Compose([v2.Resize((8, 9), "bicubic"), v2.RandomResizedCrop(7, interpolation="bilinear")])
    ours = T.Compose([T.Resize((8, 9), "bicubic"), T.RandomResizedCrop(7)])
    assert_means(ours, v2.Compose([theirs, v1.ToTensor()]))


def test_v2s_fill_none_is_black():
    assert_means(T.RandomCrop(9, 2), v2.Compose([v2.RandomCrop(9, 2, fill=None), v1.ToTensor()]))


def test_v1s_one_number_normalises_all_channels():
    theirs = v1.Compose([v1.CenterCrop(20), v1.ToTensor(), v1.Normalize(0.5, 0.25)])
    assert_means(T.Compose([CROP, T.Normalize([0.5] * 3, [0.25] * 3)]), theirs)


@pytest.mark.parametrize("antialias", [True, False, None])
@pytest.mark.parametrize("v", BOTH)
def test_pil_images_are_antialiased_whatever_antialias_says(v, antialias):
    for name in "Resize", "RandomResizedCrop":
        theirs = getattr(v, name)((8, 9), antialias=antialias)
        assert_means(getattr(T, name)((8, 9)), v.Compose([theirs, v.ToTensor()]))


def test_composes_may_be_nested_and_of_both_versions():
    inner = v1.Compose([v1.Resize(256), v2.Compose([v2.CenterCrop(20)])])
    assert_means(T.Compose([T.Resize(256), CROP]), v2.Compose([inner, v1.Compose([]), v1.ToTensor()]))


def test_a_single_transform_needs_no_compose():
    assert "pictures of different sizes" in recognise(v1.ToTensor())
    assert "PIL image" in recognise(v1.CenterCrop(20))


@pytest.mark.parametrize("v", BOTH)
def test_pixels_after_the_tensor_move_in_front_where_that_is_the_same(v):
    on_bytes = [v.RandomResizedCrop(20), v.RandomCrop(9, 2), v.RandomHorizontalFlip()]
    ours = T.Compose([T.RandomResizedCrop(20), T.RandomCrop(9, 2), T.RandomHorizontalFlip(), *TENSORS])
    convert = v.ConvertImageDtype(torch.float32)
    assert_means(ours, v.Compose([v.PILToTensor(), *on_bytes, convert, v.Normalize(MEAN, STD)]))
    flips = T.Compose([CROP, T.Pad(1), T.RandomVerticalFlip(), T.RandomHorizontalFlip(), *TENSORS])
    on_floats = [v.ToTensor(), v.CenterCrop(20), v.Pad(1), v.RandomVerticalFlip(), v.Normalize(MEAN, STD)]
    assert_means(flips, v.Compose([*on_floats, v.RandomHorizontalFlip()]))


def test_the_transforms_that_come_with_weights_are_recognised():
    preset = torchvision.transforms._presets.ImageClassification
    theirs = preset(crop_size=224, resize_size=232, interpolation=MODES.BICUBIC)
    ours = T.Compose([T.Resize(232, "bicubic"), T.CenterCrop(224), T.Normalize(MEAN, STD)])
    assert_means(ours, theirs)
    assert_same_pixels(preset(crop_size=30, resize_size=40))


@pytest.mark.parametrize("transform", [T.ToTensor(), T.Resize(8), T.Compose([])])
def test_senecas_own_are_given_back(transform):
    assert recognise(transform) is transform


def test_senecas_may_end_torchvisions():
    end = T.Compose([T.CenterCrop(20), T.Normalize(MEAN, STD)])
    assert_means(T.Compose([T.Resize(256), end]), v1.Compose([v1.Resize(256), end]))


# The pixels


def assert_same_pixels(theirs):
    ours = recognise(theirs)
    assert not isinstance(ours, str), ours
    ours = [ours(picture) for picture in PICTURES]
    theirs = default_collate([theirs(picture) for picture in PICTURES])
    assert type(theirs) is torch.Tensor
    assert theirs.dtype == ours[0].dtype
    apart = (torch.stack(ours).float() - theirs.float()).abs()
    if theirs.dtype != torch.uint8 and theirs.max() < 50:
        apart *= 255 * (0.225 if theirs.min() < 0 else 1)
    for picture in apart:
        assert picture.mean() <= 0.3
        assert (picture <= 2.001).float().mean() >= 0.999


NORMALIZE = v1.Normalize(MEAN, STD)


@pytest.mark.small(8)
@pytest.mark.parametrize("v", BOTH)
@pytest.mark.parametrize(
    "steps",
    [
        lambda v: [v.Resize(40), v.CenterCrop(30), v.ToTensor(), NORMALIZE],
        lambda v: [v.Resize((50, 40), MODES.BICUBIC, antialias=False), v.PILToTensor()],
        lambda v: [v.Resize([12], max_size=40), v.CenterCrop((60, 51)), v.ToTensor()],
        lambda v: [v.Pad([1, 2, 3, 4], (9, 8, 7)), v.CenterCrop(31), v.PILToTensor()],
        lambda v: [v.CenterCrop(30), v.Pad(3, padding_mode="reflect"), v.PILToTensor()],
        lambda v: [v.RandomHorizontalFlip(1), v.RandomVerticalFlip(1), v.Resize((9, 8)), v.ToTensor()],
        lambda v: [v.Grayscale(3), v.CenterCrop(30), v.ToTensor()],
        lambda v: [v.RandomGrayscale(1), v.CenterCrop(30), v.ToTensor()],
        lambda v: [v.ColorJitter((2, 2)), v.ColorJitter(hue=(0.2, 0.2)), v.CenterCrop(30), v.ToTensor()],
        lambda v: [v.PILToTensor(), v.Resize((50, 40)), v.ConvertImageDtype(torch.float32), NORMALIZE],
        lambda v: [v.PILToTensor(), v2.Resize((100, 90), MODES.BICUBIC)],
        lambda v: [v.PILToTensor(), v.CenterCrop((33, 30)), v.Pad((1, 2), 5, "constant")],
        lambda v: [v.ToTensor(), v.CenterCrop((33, 30)), v.Pad(3, padding_mode="edge")],
        lambda v: [v.ToTensor(), v.CenterCrop(30), NORMALIZE, v.RandomHorizontalFlip(1)],
        lambda v: [v.CenterCrop(30), v.ToTensor(), v.ConvertImageDtype(torch.uint8)],
        lambda v: [v.CenterCrop(30), v.ToTensor(), v.ConvertImageDtype(torch.float16), NORMALIZE],
        lambda v: [v.CenterCrop(30), v.ToTensor(), NORMALIZE, v.ConvertImageDtype(torch.bfloat16)],
        lambda v: [v.CenterCrop(30), v.ToTensor(), v.Normalize([0.5], [0.25])],
        lambda v: [v2.ToImage(), v.CenterCrop(30)],
        lambda v: [v2.ToImage(), v.Resize((30, 29)), v2.ToDtype(torch.float32)],
        lambda v: [v2.ToImage(), v.CenterCrop(30), v2.ToDtype(torch.float32, scale=True), NORMALIZE],
        lambda v: [v2.ToImage(), v.CenterCrop(30), v2.ToDtype(torch.bfloat16, scale=True)],
    ],
)
def test_pixels_type_and_shape_are_torchvisions(v, steps):
    assert_same_pixels(v.Compose(steps(v)))


# What is refused


def augment(picture):
    return picture


class Resize(v1.Resize):
    pass


class MyCompose(v2.Compose):
    pass


@pytest.mark.parametrize(
    ("transform", "words"),
    [
        (None, "the result is a PIL image"),
        (v1.Compose([]), "the result is a PIL image"),
        (v1.Compose([v1.RandomCrop(9)]), "the result is a PIL image"),
        (augment, "augment is not one that the native path knows"),
        (functools.partial(augment), "partial is not one that the native path knows"),
        (T.Static(augment), "Static is not one that the native path knows"),
        (v1.Lambda(augment), "Lambda is not one that the native path knows"),
        (v2.Lambda(augment), "Lambda is not one that the native path knows"),
        (MyCompose([v1.ToTensor()]), "MyCompose is not one that the native path knows"),
        (torch.nn.Sequential(v1.CenterCrop(9)), "Sequential is not one"),
        (Resize((8, 9)), "test_recognise.Resize is not one that the native path knows"),
        (v1.Compose([T.CenterCrop(9), v1.ToTensor()]), "ToTensor comes after Seneca's CenterCrop"),
        (v1.Compose([T.CenterCrop(9), Resize(8)]), "test_recognise.Resize comes after Seneca's CenterCrop"),
        (v1.Compose([v1.ToTensor(), T.CenterCrop(9)]), "Seneca's CenterCrop gets a float tensor"),
        (v2.Compose([v2.Resize(None, max_size=9), v1.ToTensor()]), "Resize has size=None"),
        (v2.Compose([v2.Pad(1, {Image.Image: 1, "others": 0}), v1.ToTensor()]), "Pad has fill={"),
        (v2.Compose([v2.RandomCrop(9, 1, fill={"others": 1}), v1.ToTensor()]), "RandomCrop has fill={"),
        (v2.Compose([v2.ToImage(), v2.ToDtype({"others": torch.float32})]), "ToDtype has dtype={"),
        (v2.Compose([v2.ToDtype(torch.float32), v1.ToTensor()]), "ToDtype gets a PIL image"),
        (v2.Compose([v2.ToImage(), v1.ToTensor()]), "ToTensor gets a uint8 tensor"),
        (v2.Compose([v2.ToImage(), v2.PILToTensor()]), "PILToTensor gets a uint8 tensor"),
        (
            v2.Compose([v2.RandomCrop(99, 4, True, padding_mode="reflect"), v1.ToTensor()]),
            "RandomCrop of v2 has padding, pad_if_needed and padding_mode='reflect'",
        ),
        (
            v2.Compose([v1.ToTensor(), v2.ToDtype(torch.bfloat16), v2.Normalize(MEAN, STD)]),
            "Normalize works on bfloat16",
        ),
        (
            v2.Compose([v1.ToTensor(), v2.ToDtype(torch.float16), v2.ToDtype(torch.float32)]),
            "ToDtype makes float32 of float16",
        ),
        (v2.Compose([v1.ToTensor(), v2.ToDtype(torch.uint8)]), "ToDtype to uint8 from floats in [0, 1]"),
        (v1.Compose([v1.PILToTensor(), v1.Pad(1, (1, 2, 3))]), "Pad has fill=(1, 2, 3) on a tensor"),
        (v1.Compose([v1.PILToTensor(), v1.RandomCrop(9, fill=None)]), "RandomCrop has fill=None on a tensor"),
        (v1.Compose([v1.PILToTensor(), v1.Resize((8, 9), 3)]), "v1 has interpolation=BICUBIC on a tensor"),
        (v1.Compose([v1.ToTensor(), v1.ToTensor()]), "ToTensor gets a float tensor"),
    ],
)
def test_what_is_refused_says_which_step_and_why(transform, words):
    assert_refused(transform, words)


@pytest.mark.parametrize("v", BOTH)
@pytest.mark.parametrize(
    ("steps", "words"),
    [
        (
            lambda v: [v.LinearTransformation(torch.eye(3), torch.ones(3))],
            "LinearTransformation is not one that",
        ),
        (lambda v: [v.Grayscale()], "Grayscale makes one channel"),
        (lambda v: [v.FiveCrop(9), v.Lambda(torch.stack)], "FiveCrop makes five pictures of one"),
        (lambda v: [v.Resize((8, 9), MODES.NEAREST)], "Resize has interpolation=NEAREST"),
        (lambda v: [v.Resize((8, 9), Image.Resampling.BOX)], "Resize has interpolation=BOX"),
        (lambda v: [v.RandomResizedCrop(9, interpolation=0)], "RandomResizedCrop has interpolation="),
        (lambda v: [v.Resize((8, 9), max_size=10)], "Resize: max_size"),
        (lambda v: [v.Resize(9, max_size=8)], "Resize: max_size"),
        (lambda v: [v.Pad(-1)], "Pad: padding"),
        (lambda v: [v.Pad(1, 256)], "Pad: fill"),
        (lambda v: [v.Pad(1, 0.5)], "Pad: fill"),
        (lambda v: [v.RandomResizedCrop(9, scale=(0, 1))], "RandomResizedCrop: scale"),
        (lambda v: [v.CenterCrop(0)], "CenterCrop: size"),
        (lambda v: [v.ToTensor()], "pictures of different sizes cannot be stacked"),
        (lambda v: [v.Resize(9), v.ToTensor()], "pictures of different sizes cannot be stacked"),
        (lambda v: [v.RandomCrop(9)] * 16 + [v.ToTensor()], "17 transforms of pixels"),
        (lambda v: [v.RandomCrop(9), v.Normalize(MEAN, STD)], "Normalize gets a PIL image"),
        (lambda v: [v.ConvertImageDtype(torch.float32), v.ToTensor()], "ConvertImageDtype gets a PIL image"),
        (lambda v: [v.RandomErasing(), v.ToTensor()], "RandomErasing gets a PIL image"),
        (lambda v: [v.ToTensor(), v.Resize((8, 9))], "Resize gives different pixels on a float tensor"),
        (
            lambda v: [v.ToTensor(), v.RandomResizedCrop(9)],
            "RandomResizedCrop gives different pixels on a float tensor",
        ),
        (lambda v: [v.PILToTensor(), v.Resize((8, 9), antialias=False)], "Resize has antialias=False"),
        (lambda v: [v.PILToTensor(), v.RandomResizedCrop(9, antialias=None)], "has antialias=None"),
        (
            lambda v: [v.PILToTensor(), v.ColorJitter(hue=0.1)],
            "ColorJitter gives different pixels on a uint8 tensor",
        ),
        (
            lambda v: [v.PILToTensor(), v.RandomGrayscale()],
            "RandomGrayscale gives different pixels on a uint8 tensor",
        ),
        (lambda v: [v.ToTensor(), v.Pad(1, 1)], "Pad has fill=1 on a float tensor"),
        (lambda v: [v.ToTensor(), NORMALIZE, v.CenterCrop(9)], "move it before Normalize"),
        (lambda v: [v.ToTensor(), NORMALIZE, v.Pad(1)], "Pad gives different pixels on a normalised tensor"),
        (lambda v: [v.ToTensor(), v.RandomErasing(), v.RandomVerticalFlip()], "with an erased part"),
        (lambda v: [v.PILToTensor(), NORMALIZE], "Normalize takes floats, not uint8"),
        (lambda v: [v.ToTensor(), NORMALIZE, NORMALIZE], "Normalize is there twice"),
        (lambda v: [v.ToTensor(), v.Normalize([0] * 3, [0] * 3)], "Normalize: std"),
        (lambda v: [v.ToTensor(), v.Normalize([0] * 4, [1] * 4)], "Normalize: mean"),
        (lambda v: [v.ToTensor(), v.RandomErasing(), v.RandomErasing()], "RandomErasing is there twice"),
        (lambda v: [v.PILToTensor(), v.RandomErasing(value="random")], "'random' is no uint8"),
        (lambda v: [v.ToTensor(), v.RandomErasing(value=(1, 2))], "RandomErasing: value"),
        (lambda v: [v.ToTensor(), v.ConvertImageDtype(torch.float64)], "ConvertImageDtype: dtype"),
        (lambda v: [v.ToTensor(), NORMALIZE, v.ConvertImageDtype(torch.uint8)], "does not fit into uint8"),
    ],
)
def test_in_both_versions_what_is_refused_says_which_step_and_why(v, steps, words):
    crop = [] if "different sizes" in words else [v.CenterCrop(20)]
    assert_refused(v.Compose([*crop, *steps(v)]), words)


def test_on_floats_a_resize_is_refused_because_its_pixels_are_others():
    ours = T.Compose([T.Resize((224, 224), "bicubic"), T.ToTensor()])
    theirs = v1.Compose([v1.ToTensor(), v1.Resize((224, 224), MODES.BICUBIC)])
    assert (ours(PICTURES[0]) - theirs(PICTURES[0])).abs().mean() * 255 > 0.3


def test_another_default_type_than_float32_is_refused():
    torch.set_default_dtype(torch.float64)
    try:
        assert_refused(v1.Compose([v1.CenterCrop(9), v1.ToTensor()]), "ToTensor makes torch.float64")
    finally:
        torch.set_default_dtype(torch.float32)


def test_batches_of_tv_tensors_are_refused_until_they_are_made_pure():
    images = v2.Compose([v2.CenterCrop(9), v2.ToImage()])
    with torchvision.tv_tensors.set_return_type("TVTensor"):
        assert_refused(images, "put ToPureTensor at the end")
        assert_means(T.Compose([T.CenterCrop(9), T.PILToTensor()]), v2.Compose([images, v2.ToPureTensor()]))
    assert not isinstance(recognise(images), str)


def test_torchvision_is_not_imported_for_what_is_not_its_own():
    code = (
        "import sys; from seneca.transforms._recognise import *; recognise(print); split_static(print); "
        "sys.exit('torchvision' in sys.modules or 'torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# The deterministic head


def names(steps):
    return [getattr(step, "__name__", type(step).__name__) for step in steps]


@pytest.mark.parametrize("v", BOTH)
@pytest.mark.parametrize(
    ("steps", "head", "tail"),
    [
        (lambda v: [], [], []),
        (lambda v: [augment], [], ["augment"]),
        (lambda v: [v.Resize(9), augment, v.ToTensor()], ["Resize"], ["augment", "ToTensor"]),
        (lambda v: [v.Resize(9), T.Static(augment), v.ToTensor()], ["Resize", "Static", "ToTensor"], []),
        (lambda v: [v.Resize(9), v.RandomCrop(8), v.ToTensor()], ["Resize"], ["RandomCrop", "ToTensor"]),
        (lambda v: [v.CenterCrop(9), v.Pad(1), v.Grayscale(), v.GaussianBlur(3)],
         ["CenterCrop", "Pad", "Grayscale"], ["GaussianBlur"]),
        (lambda v: [v.PILToTensor(), v.ConvertImageDtype(torch.float32), NORMALIZE, v.RandomErasing()],
         ["PILToTensor", "ConvertImageDtype", "Normalize"], ["RandomErasing"]),
        (lambda v: [v2.ToImage(), v2.ToDtype(torch.uint8), v2.ToPureTensor(), v.Lambda(augment)],
         ["ToImage", "ToDtype", "ToPureTensor"], ["Lambda"]),
        (lambda v: [Resize(9), v.ToTensor()], [], ["Resize", "ToTensor"]),
        (lambda v: [v.Resize(9), v.Compose([v.CenterCrop(8), augment]), v.ToTensor()],
         ["Resize", "CenterCrop"], ["augment", "ToTensor"]),
        (lambda v: [v.Resize(9), T.Compose([T.CenterCrop(8), T.ToTensor()]), augment],
         ["Resize", "Compose"], ["augment"]),
        (lambda v: [T.Compose([T.CenterCrop(8), T.RandomHorizontalFlip()]), augment], [],
         ["Compose", "augment"]),
        (lambda v: [T.Compose([T.CenterCrop(8), T.RandomErasing()]), augment], [], ["Compose", "augment"]),
        (lambda v: [T.Resize(8), augment], [], ["Resize", "augment"]),
    ],
)  # fmt: skip
def test_a_transform_is_split_behind_its_deterministic_head(v, steps, head, tail):
    transform = v1.Compose(steps(v))
    found = split_static(transform)
    assert (names(found.head), names(found.tail)) == (head, tail)


def test_no_compose_is_one_step_and_none_is_no_step():
    assert split_static(None)[:2] == ([], [])
    assert split_static(augment)[:2] == ([], [augment])
    marked = T.Static(augment)
    assert split_static(marked)[:2] == ([marked], [])


def test_the_two_parts_one_after_the_other_are_the_transform():
    jitter = v2.Compose([v2.ColorJitter(0.4, 0.4, 0.4, 0.1), v2.GaussianBlur(3)])
    end = T.Compose([T.Resize(40), T.CenterCrop(30), T.Normalize(MEAN, STD)])
    transform = v1.Compose([v1.Pad(3), T.Static(ImageOps.equalize), jitter, end])
    head, tail, *_ = split_static(transform)
    assert (len(head), len(tail)) == (2, 3)
    for picture in PICTURES:
        random.seed(1), torch.manual_seed(1)
        whole = transform(picture)
        random.seed(1), torch.manual_seed(1)
        assert torch.equal(run_steps(tail, run_steps(head, picture)), whole)


IN_BOTH = {"CenterCrop": 9, "FiveCrop": 9, "TenCrop": 9, "Resize": 9, "Pad": 3, "Grayscale": 3}
FOR_TENSORS = ("PILToTensor", "ToTensor")
ONLY_V2 = ("RGB", "Identity", "ToImage", "ToPureTensor")


@pytest.mark.small(6)
@pytest.mark.parametrize(
    ("v", "name", "args"),
    [
        *((v, name, [arg]) for v in (v1, v2) for name, arg in IN_BOTH.items()),
        *((v, name, []) for v in (v1, v2) for name in FOR_TENSORS),
        *((v2, name, []) for name in ONLY_V2),
    ],
)
def test_a_deterministic_type_is_in_the_head_and_gives_equal_results(v, name, args):
    step = getattr(v, name)(*args)
    assert split_static(step)[:2] == ([step], [])
    results = [step(PICTURES[0]) for _ in range(2)]
    for one, other in zip(*(r if isinstance(r, tuple) else [r] for r in results), strict=True):
        assert np.array_equal(np.asarray(one), np.asarray(other))


@pytest.mark.parametrize("v", BOTH)
@pytest.mark.parametrize(
    "name", ["RandomCrop", "RandomResizedCrop", "RandomRotation", "RandomHorizontalFlip", "GaussianBlur"]
)
def test_a_random_type_is_never_in_the_head(v, name):
    step = getattr(v, name)(*([] if "Flip" in name else [9]))
    assert split_static(step)[:2] == ([], [step])


# Static


def test_static_calls_what_it_marks_and_looks_like_it():
    marked = T.Static(ImageOps.mirror)
    assert np.array_equal(marked(PICTURES[0]), ImageOps.mirror(PICTURES[0]))
    assert repr(marked) == "Static(ImageOps.mirror)"
    assert repr(T.Static(v1.CenterCrop(8))) == "Static(CenterCrop(size=(8, 8)))"
    assert marked == T.Static(ImageOps.mirror) != T.Static(ImageOps.flip)
    assert pickle.loads(pickle.dumps(marked)) == marked


def test_static_refuses_what_cannot_be_called():
    with pytest.raises(TypeError, match="transform: a callable, such as a function, but got 3"):
        T.Static(3)
