"""The pipelines that torchvision's reference scripts train classifiers with run natively, as they build
them."""

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision_here import F, torchvision, v1, v2

from seneca.transforms._pipeline import compile_transform
from seneca.transforms._recognise import recognise

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
