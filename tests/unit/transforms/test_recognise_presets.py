"""The pipelines that torchvision's reference scripts train with run natively, as they build them."""

from collections import defaultdict

import numpy as np
import pytest
import torch
from box_folders import make_coco, make_voc_boxes, wrapped
from open_images_files import make_open_images
from pair_folders import make_pairs, make_voc
from PIL import Image
from torchvision_here import F, torchvision, v1, v2

import seneca
from seneca.transforms._pipeline import compile_transform
from seneca.transforms._recognise import recognise, recognise_boxes, recognise_pair

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
MODES = F.InterpolationMode
POLICIES = (None, "ra", "ta_wide", "augmix", "imagenet", "cifar10")
BOTH = pytest.mark.parametrize("v", [pytest.param(v1, id="v1"), pytest.param(v2, id="v2")])


def training(v, policy, erase, interpolation=MODES.BILINEAR):
    """references/classification/presets.py of torchvision, in the order in which it adds its transforms."""
    steps = [
        v.RandomResizedCrop(24, interpolation=interpolation, antialias=True),
        v.RandomHorizontalFlip(0.5),
    ]
    if policy == "ra":
        steps.append(v.RandAugment(interpolation=interpolation, magnitude=9))
    elif policy == "ta_wide":
        steps.append(v.TrivialAugmentWide(interpolation=interpolation))
    elif policy == "augmix":
        steps.append(v.AugMix(interpolation=interpolation, severity=3))
    elif policy is not None:
        known = torchvision.transforms.AutoAugmentPolicy(policy)
        steps.append(v.AutoAugment(policy=known, interpolation=interpolation))
    steps.append(v.PILToTensor())
    steps.append(v2.ToDtype(torch.float, scale=True) if v is v2 else v.ConvertImageDtype(torch.float))
    steps.append(v.Normalize(mean=MEAN, std=STD))
    if erase > 0:
        steps.append(v.RandomErasing(p=erase))
    return v.Compose([*steps, v2.ToPureTensor()] if v is v2 else steps)


@pytest.mark.small(3)
@BOTH
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("erase", [0.0, 0.1])
def test_the_presets_for_training_run_natively(v, policy, erase):
    theirs = training(v, policy, erase)
    found = recognise(theirs)
    assert not isinstance(found, str), found
    pipeline = compile_transform(found)
    assert pipeline.output_size == (24, 24) and (pipeline.erase is not None) == (erase > 0)
    image = Image.fromarray(np.random.default_rng(1).integers(0, 256, (40, 50, 3), np.uint8))
    ours, expected = found(image), theirs(image)
    assert (ours.shape, ours.dtype) == (expected.shape, expected.dtype)
    assert len({float(found(image).mean()) for _ in range(5)}) == 5


@BOTH
def test_the_presets_for_evaluation_run_natively(v):
    steps = [v.Resize(30, antialias=True), v.CenterCrop(24), v.PILToTensor()]
    steps.append(v2.ToDtype(torch.float, scale=True) if v is v2 else v.ConvertImageDtype(torch.float))
    found = recognise(v.Compose([*steps, v.Normalize(mean=MEAN, std=STD)]))
    assert not isinstance(found, str) and compile_transform(found).deterministic


# Detection and segmentation: v2, with the backends "pil", "tensor" and "tv_tensor".

tv = torchvision.tv_tensors
COLOUR = (123.0, 117.0, 104.0)
BACKENDS = {"pil": [], "tensor": [v2.PILToTensor()], "tv_tensor": [v2.ToImage()]}
DETECTION = ("hflip", "lsj", "multiscale", "ssd", "ssdlite", "eval")
ONE_SIZE = v2.Resize((60, 72))  # which models of the reference do for themselves
LENGTHS = (48, 51, 54, 57, 60, 64)  # a tenth of the reference's, for small pictures


def for_detection(preset, backend, *one_size):
    """references/detection/presets.py. The crop of "lsj" is one of the script's own, FixedSizeCrop."""
    fill = defaultdict(lambda: COLOUR, {tv.Mask: 0})
    flip = v2.RandomHorizontalFlip(p=0.5)
    steps = {
        "hflip": [flip],
        "lsj": [v2.ScaleJitter((96, 96)), v2.RandomCrop((96, 96), pad_if_needed=True, fill=COLOUR), flip],
        "multiscale": [v2.RandomShortestSize(LENGTHS, max_size=133), flip],
        "ssd": [v2.RandomPhotometricDistort(), v2.RandomZoomOut(fill=fill), v2.RandomIoUCrop(), flip],
        "ssdlite": [v2.RandomIoUCrop(), flip],
        "eval": [],
    }[preset]
    to_image = [v2.ToImage()] if backend == "pil" else []
    floats = v2.ToDtype(torch.float, scale=True)
    ending = [v2.ConvertBoundingBoxFormat(tv.BoundingBoxFormat.XYXY), v2.SanitizeBoundingBoxes()]
    ending = [] if preset == "eval" else ending
    steps = [*BACKENDS[backend], *steps, *one_size, *to_image, floats, *ending, v2.ToPureTensor()]
    return v2.Compose(steps)


def for_segmentation(preset, backend):
    """references/segmentation/presets.py. The script's own PadIfSmaller is part of the crop here."""
    crop = v2.RandomCrop(48, pad_if_needed=True, fill={tv.Mask: 255, "others": 0})
    steps = {
        "train": [v2.RandomResize(26, 104), v2.RandomHorizontalFlip(0.5), crop],
        "eval": [v2.Resize(size=(52, 52))],
    }[preset]
    to_tensor = [v2.PILToTensor()] if backend == "pil" else []
    image = tv.Image if backend == "tv_tensor" else torch.Tensor
    floats = v2.ToDtype({image: torch.float32, tv.Mask: torch.int64, "others": None}, scale=True)
    ending = [v2.Normalize(mean=MEAN, std=STD), v2.ToPureTensor()]
    return v2.Compose([*BACKENDS[backend], *steps, *to_tensor, floats, *ending])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("preset", DETECTION)
def test_the_presets_for_detection_are_recognised(preset, backend):
    found = recognise_boxes(for_detection(preset, backend, *([] if preset == "lsj" else [ONE_SIZE])))
    if (preset, backend != "pil") == ("ssd", True):
        # The hue of a tensor is turned in floats, and that of a picture in 256 steps.
        assert "RandomPhotometricDistort gives different pixels on a uint8 tensor" in found
        return
    assert not isinstance(found, str), found
    assert found.needs_boxes == preset.startswith("ssd") and not found.is_image


@pytest.mark.parametrize("preset", [one for one in DETECTION if one != "lsj"])
def test_without_one_size_a_preset_for_detection_says_what_is_missing(preset):
    found = recognise_boxes(for_detection(preset, "pil"))
    assert "pictures of different sizes cannot be stacked" in found


@pytest.mark.small(6)
@pytest.mark.parametrize("make", [make_coco, make_voc_boxes, make_open_images])
@pytest.mark.parametrize("preset", DETECTION)
def test_a_loader_runs_the_presets_for_detection_natively(preset, make, tmp_path):
    transforms = for_detection(preset, "pil", *([] if preset == "lsj" else [ONE_SIZE]))
    dataset = make(tmp_path, 6, transforms)
    if make is not make_open_images:
        keys = ["boxes", "labels", "image_id"] if make is make_coco else None
        dataset = wrapped(dataset, keys)
    loader = seneca.DataLoader(dataset, 3, cache=None, collate_fn=list)
    assert loader.explain().startswith("native"), loader.explain()
    for index, (picture, target) in enumerate(item for batch in loader for item in batch):
        theirs, their_target = dataset[index]
        assert type(picture) is type(theirs) and picture.dtype == theirs.dtype
        assert picture.shape == theirs.shape and target.keys() == their_target.keys()
        for key, value in their_target.items():
            assert type(target[key]) is type(value)
        assert target["boxes"].dtype == their_target["boxes"].dtype
        if preset == "eval":
            assert torch.equal(target["boxes"], their_target["boxes"])
            assert (picture - theirs).abs().mean() <= 0.3 / 255


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("preset", ["train", "eval"])
@pytest.mark.parametrize("made_by", ["folder", "voc"])
def test_the_presets_for_segmentation_run_natively(made_by, preset, backend, tmp_path):
    transforms = for_segmentation(preset, backend)
    assert not isinstance(recognise_pair(transforms), str)
    if made_by == "folder":
        dataset = seneca.SegmentationFolder(*make_pairs(tmp_path, 6), transforms)
    else:
        dataset = wrapped(torchvision.datasets.VOCSegmentation(make_voc(tmp_path, 6), transforms=transforms))
    loader = seneca.DataLoader(dataset, 3, cache=None)
    assert loader.explain().startswith("native"), loader.explain()
    for place, (pictures, masks) in enumerate(loader):
        for k, (picture, mask) in enumerate(zip(pictures, masks, strict=True)):
            theirs, their_mask = dataset[3 * place + k]
            assert picture.dtype == theirs.dtype and picture.shape == theirs.shape
            assert mask.dtype == their_mask.dtype == torch.int64 and mask.shape == their_mask.shape
            if preset == "eval":
                assert torch.equal(mask, their_mask)
                assert (picture - theirs).abs().mean() <= 0.3 / 255 / min(STD)
