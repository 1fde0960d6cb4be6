"""Transforms of pixels of torchvision, v1 and v2, each as Seneca's of the same meaning, or the reason."""

import pytest
import torch
from PIL import Image
from torchvision_here import F, torchvision, v1, v2

from seneca import transforms as T
from seneca.transforms._pipeline import compile_transform
from seneca.transforms._recognise import recognise

pytestmark = pytest.mark.filterwarnings("ignore:.*ToTensor")

MODES = F.InterpolationMode
POLICIES = torchvision.transforms.AutoAugmentPolicy
BOTH = pytest.mark.parametrize("v", [pytest.param(v1, id="v1"), pytest.param(v2, id="v2")])


@BOTH
@pytest.mark.parametrize(
    ("name", "args", "keywords"),
    [
        ("RandomRotation", (9,), {}),
        ("RandomRotation", ([-5, 9.5],), {"interpolation": MODES.BILINEAR, "center": (3, 4.5), "fill": 7}),
        ("RandomRotation", (9,), {"interpolation": MODES.BICUBIC, "fill": (1, 2, 3)}),
        ("RandomRotation", (9,), {"fill": None}),
        ("RandomAffine", (9,), {}),
        ("RandomAffine", ((1, 2), (0.1, 0.2), (0.5, 2), 5), {"interpolation": MODES.BILINEAR}),
        ("RandomAffine", (0,), {"shear": (1, 2), "fill": [7], "center": [1, 2]}),
        ("RandomAffine", (0,), {"shear": [1, 2, -3, 4], "fill": [7, 8, 9]}),
        ("GaussianBlur", (3,), {}),
        ("GaussianBlur", ((5, 7),), {"sigma": 1.5}),
        ("GaussianBlur", ([23],), {"sigma": [0.1, 3]}),
        ("RandomInvert", (), {}),
        ("RandomInvert", (0.25,), {}),
        ("RandomPosterize", (2,), {"p": 0.3}),
        ("RandomSolarize", (128,), {}),
        ("RandomSolarize", (100.5, 0.1), {}),
        ("RandomPerspective", (), {}),
        ("RandomPerspective", (0.3, 0.9, MODES.NEAREST, [1, 2, 3]), {}),
        ("ElasticTransform", (), {}),
        ("ElasticTransform", ([9.0, 8.0], 2.5), {"interpolation": MODES.NEAREST, "fill": 7}),
        ("ElasticTransform", (30.0, [0.0, 0.0]), {"fill": (1, 2, 3)}),
        ("AugMix", (), {}),
        ("AugMix", (5, 4, 2, 0.5, False, MODES.NEAREST, 9), {}),
        ("AugMix", (), {"fill": [1, 2, 3]}),
        ("RandomAutocontrast", (), {"p": 1}),
        ("RandomEqualize", (0.2,), {}),
        ("RandomAdjustSharpness", (2,), {"p": 0.2}),
        ("RandAugment", (), {}),
        ("RandAugment", (3, 5, 11), {"interpolation": MODES.BILINEAR, "fill": [1, 2, 3]}),
        ("RandAugment", (), {"magnitude": -1, "fill": 128}),
        ("TrivialAugmentWide", (), {}),
        ("TrivialAugmentWide", (11,), {"interpolation": MODES.BICUBIC, "fill": 7}),
        ("AutoAugment", (), {}),
        ("AutoAugment", (POLICIES.CIFAR10,), {"interpolation": MODES.NEAREST_EXACT}),
        ("AutoAugment", (POLICIES.SVHN,), {"fill": (1, 2, 3)}),
    ],
)
def test_a_transform_of_pictures_is_recognised_with_its_arguments(v, name, args, keywords):
    theirs = v.Compose([v.CenterCrop(20), getattr(v, name)(*args, **keywords), v.ToTensor()])
    found = recognise(theirs)
    assert not isinstance(found, str), found
    if name in ("RandomRotation", "RandomAffine"):
        keywords = {**keywords, "fill": 0 if keywords.get("fill") is None else keywords["fill"]}
    ours = T.Compose([T.CenterCrop(20), getattr(T, name)(*args, **keywords)])
    assert compile_transform(found) == compile_transform(ours)


def test_pillows_numbers_and_v2s_names_of_filters_are_recognised():
    for given in ("bilinear", Image.Resampling.BILINEAR, 2):
        theirs = v2.Compose([v2.CenterCrop(9), v2.RandAugment(interpolation=given), v2.PILToTensor()])
        ours = T.Compose([T.CenterCrop(9), T.RandAugment(interpolation="bilinear"), T.PILToTensor()])
        assert compile_transform(recognise(theirs)) == compile_transform(ours)


@pytest.mark.small(1)
@BOTH
def test_on_bytes_blurs_and_inversions_are_the_same_as_on_pictures(v):
    theirs = v.Compose([v.PILToTensor(), v.CenterCrop(20), v.GaussianBlur(5), v.RandomInvert()])
    ours = T.Compose([T.CenterCrop(20), T.GaussianBlur(5), T.RandomInvert(), T.PILToTensor()])
    assert compile_transform(recognise(theirs)) == compile_transform(ours)
    image = Image.effect_noise((20, 20), 90).convert("RGB")
    for change in (v.GaussianBlur(5, 1.5), v.RandomInvert(1)):
        first, second = v.PILToTensor()(change(image)), change(v.PILToTensor()(image))
        assert torch.equal(first, second)


class RandAugment(v1.RandAugment):
    """One's own, with other operations."""


def with_other_pairs(v):
    made = v.AutoAugment()
    setattr(made, "policies" if v is v1 else "_policies", [(("Invert", 1.0, None),) * 2])
    return made


@BOTH
@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda v: v.RandomRotation(9, expand=True), "RandomRotation: expand: each result would have a size"),
        (lambda v: v.RandomRotation(9, Image.Resampling.BOX), "RandomRotation has interpolation="),
        (lambda v: v.RandomAffine(9, fill=(0.5, 0, 0)), "RandomAffine: fill"),
        (lambda v: v.GaussianBlur(301), "GaussianBlur: kernel_size: from 1 to 255 run natively"),
        (lambda v: v.RandomPosterize(9), "RandomPosterize: bits"),
        (lambda v: v.RandomAdjustSharpness(-1), "RandomAdjustSharpness: sharpness_factor"),
        (lambda v: v.RandAugment(9), "RandAugment: num_ops: from 0 to 8 run natively"),
        (lambda v: v.RandAugment(magnitude=31), "RandAugment: magnitude"),
        (lambda v: v.AutoAugment(interpolation=MODES.LANCZOS), "AutoAugment has interpolation=LANCZOS"),
        (with_other_pairs, "AutoAugment has other policies than torchvision's"),
        (lambda v: RandAugment(), "test_recognise_each.RandAugment is not one that the native path knows"),
        (lambda v: v.AugMix(mixture_width=8), "AugMix: mixture_width: from 1 to 7 run natively"),
        (lambda v: v.AugMix(interpolation=MODES.BICUBIC), "AugMix: interpolation: one of 'nearest'"),
        (lambda v: v.RandomPerspective(interpolation=MODES.BOX), "RandomPerspective has interpolation=BOX"),
        (lambda v: v.RandomPerspective(fill=(0.5, 0, 0)), "RandomPerspective: fill"),
        (lambda v: v.ElasticTransform(sigma=40.0), "ElasticTransform: sigma: up to 31.5"),
        (
            lambda v: v.ElasticTransform(interpolation=MODES.BICUBIC),
            "ElasticTransform: interpolation: one of",
        ),
        (lambda v: v.FiveCrop(9), "FiveCrop makes five pictures of one"),
        (lambda v: v.TenCrop(9), "TenCrop makes ten pictures of one"),
    ],
)
def test_what_is_refused_says_which_and_why(v, make, words):
    found = recognise(v.Compose([v.CenterCrop(20), make(v), v.ToTensor()]))
    assert isinstance(found, str) and words in found


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (v2.ScaleJitter((30, 40), (0.5, 2), "bicubic"), T.ScaleJitter((30, 40), (0.5, 2), "bicubic")),
        (v2.RandomShortestSize(30), T.RandomShortestSize(30)),
        (v2.RandomShortestSize([30, 40], 50), T.RandomShortestSize((30, 40), 50)),
        (v2.RandomResize(30, 40, "bicubic"), T.RandomResize(30, 40, "bicubic")),
        (v2.RandomZoomOut((1, 2, 3), (1, 2), 0.2), T.RandomZoomOut((1, 2, 3), (1, 2), 0.2)),
        (v2.RandomZoomOut(fill=None), T.RandomZoomOut()),
    ],
)
def test_sizes_that_are_drawn_are_recognised_in_front_of_a_crop(theirs, ours):
    found = recognise(v2.Compose([theirs, v2.RandomCrop(9, pad_if_needed=True), v2.PILToTensor()]))
    expected = T.Compose([ours, T.RandomCrop(9, pad_if_needed=True), T.PILToTensor()])
    assert compile_transform(found) == compile_transform(expected)
    assert "different sizes" in recognise(v2.Compose([theirs, v2.PILToTensor()]))


def test_v2s_elastic_transform_without_a_colour_is_refused():
    steps = v2.Compose([v2.CenterCrop(9), v2.ElasticTransform(fill=None), v2.PILToTensor()])
    assert "ElasticTransform has fill=None" in recognise(steps)


@pytest.mark.small(1)
@BOTH
def test_on_bytes_elastic_transforms_and_mixes_are_the_same_as_on_pictures(v):
    theirs = v.Compose([v.PILToTensor(), v.CenterCrop(20), v.ElasticTransform(), v.AugMix()])
    ours = T.Compose([T.CenterCrop(20), T.ElasticTransform(), T.AugMix(), T.PILToTensor()])
    assert compile_transform(recognise(theirs)) == compile_transform(ours)
    image = Image.effect_noise((20, 24), 90).convert("RGB")
    for change in (v.ElasticTransform(sigma=1.0), v.AugMix(), v.AugMix(fill=9)):
        made = []
        for steps in ((v.PILToTensor(), change), (change, v.PILToTensor())):
            torch.manual_seed(8)
            made.append(v.Compose(steps)(image))
        assert torch.equal(*made)


@BOTH
@pytest.mark.parametrize(
    "name", ["RandomPerspective", "RandAugment", "TrivialAugmentWide", "AutoAugment", "RandomEqualize"]
)
def test_on_tensors_the_pixels_would_be_others(v, name):
    found = recognise(v.Compose([v.CenterCrop(20), v.PILToTensor(), getattr(v, name)()]))
    assert f"{name} gives different pixels on a uint8 tensor" in found
    assert "move it before PILToTensor" in found


def test_other_operations_of_v2_are_refused(monkeypatch):
    space = dict(v2.RandAugment._AUGMENTATION_SPACE)
    own = v2.RandAugment()
    own._AUGMENTATION_SPACE = space
    steps = v2.Compose([v2.CenterCrop(9), own, v2.PILToTensor()])
    assert "RandAugment has other operations" in recognise(steps)
    steps = v2.Compose([v2.CenterCrop(9), v2.RandAugment(), v2.PILToTensor()])
    assert not isinstance(recognise(steps), str)
    monkeypatch.setitem(v2.RandAugment._AUGMENTATION_SPACE, "Invert", (lambda *_: None, False))
    assert "RandAugment has other operations" in recognise(steps)
    mixed = v2.Compose([v2.CenterCrop(9), v2.AugMix(all_ops=False), v2.PILToTensor()])
    assert not isinstance(recognise(mixed), str)
    monkeypatch.setitem(v2.AugMix._PARTIAL_AUGMENTATION_SPACE, "Invert", (lambda *_: None, False))
    assert "AugMix has other operations" in recognise(mixed)


def test_a_function_of_torchvisions_recipes_that_was_replaced_is_named(monkeypatch):
    monkeypatch.setattr(torchvision.transforms.autoaugment, "_apply_op", lambda img, *_: img)
    steps = v1.Compose([v1.CenterCrop(9), v1.RandAugment(), v1.PILToTensor()])
    assert recognise(steps) == "torchvision.transforms.autoaugment._apply_op was replaced"
