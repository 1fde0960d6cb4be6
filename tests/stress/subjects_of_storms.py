"""Datasets whose items show which sample they are, for jobs that are killed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import simplejpeg
import torch
from box_folders import make_coco, white_of, wrapped
from PIL import Image
from torchvision_here import torchvision, v2

import seneca
from seneca import transforms as T

__all__ = [
    "OF_BOXES",
    "SAMPLES",
    "SUBJECTS",
    "Levels",
    "Subject",
    "assert_boxes",
    "assert_pairs",
    "make_pairs",
    "pairs_of",
]

SAMPLES = 100
GREY = 2  # between the levels of two samples
Mask = torchvision.tv_tensors.Mask
OF_PAIRS = [
    v2.RandomCrop(24, padding=2, pad_if_needed=True, fill={Mask: 7, "others": [7, 0, 0]}),
    v2.RandomHorizontalFlip(),
    v2.RandomVerticalFlip(),
    v2.ToImage(),
    v2.ToDtype({Mask: torch.int64, "others": torch.uint8}),
]
OF_BOXES = [
    v2.RandomCrop(40, padding=2, pad_if_needed=True),
    v2.RandomHorizontalFlip(),
    v2.RandomVerticalFlip(),
    v2.ToImage(),
]


class Subject(NamedTuple):
    """What jobs load.

    Attributes:
        open: Makes the dataset of a folder, which it fills first.
        check: Asserts that a batch has what these samples show.
        options: Arguments of a loader that it needs.
    """

    open: Callable[[Path], Any]
    check: Callable[[Any, Any], None]
    options: Mapping[str, Any] = MappingProxyType({})


class Levels(torch.utils.data.Dataset):
    """Items of any dataset: shared as they are."""

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        time.sleep(0.001)  # or most of the time goes into starting workers, and no kill comes amid an epoch
        return torch.full((3, 8, 8), GREY * index / 255), index


def grey_pictures(folder):
    """The picture of sample i is of one grey, ``GREY * i``."""
    (folder / "class").mkdir()
    for i in range(SAMPLES):
        grey = np.full((40, 48, 3), GREY * i, np.uint8)
        (folder / "class" / f"{i:03d}.jpg").write_bytes(simplejpeg.encode_jpeg(grey, 95))
    return seneca.ImageFolder(folder, T.RandomResizedCrop(16))


def assert_levels(batch, ids):
    for item, index in zip(batch[0], ids, strict=True):
        assert (item * 255 - GREY * index).abs().max() < GREY / 2, f"sample {index}"


def level_sounds(folder):
    """The sound of sample i stays at one level, ``GREY * i / 255``. A crop that is too long ends in zeros."""
    from sound_files import encoded

    (folder / "class").mkdir()
    for i in range(SAMPLES):
        level = np.full((1, 400 + 7 * i), GREY * i / 255, np.float32)
        (folder / "class" / f"{i:03d}.flac").write_bytes(encoded(level, "flac"))
    return seneca.SoundFolder(folder, T.RandomTimeCrop(400), channels=1)


def make_pairs(folder, count):
    """Pairs whose picture's red is the class in the mask, and whose green and blue name the sample."""
    rng = np.random.default_rng(7)
    for name in ("images", "masks"):
        (folder / name).mkdir()
    for index in range(count):
        height, width = rng.integers(18, 50, 2)
        classes = rng.integers(0, 21, (height, width), np.uint8)
        named = np.full((height, width, 2), index, np.uint8)
        Image.fromarray(np.dstack([classes, named])).save(folder / "images" / f"{index:03}.png")
        Image.fromarray(classes).save(folder / "masks" / f"{index:03}.png")
    return folder / "images", folder / "masks"


def pairs_of(folders):
    return seneca.SegmentationFolder(*folders, v2.Compose(OF_PAIRS))


def assert_pairs(batch, ids):
    """Crops and flips have moved both alike."""
    pictures, masks = batch
    assert pictures.shape == (len(ids), 3, 24, 24) and masks.shape == (len(ids), 1, 24, 24)
    assert torch.equal(pictures[:, :1].long(), masks)
    named = torch.from_numpy(np.asarray(ids, np.int64))[:, None, None]
    assert bool((pictures[:, 1].long() == named).logical_or(masks[:, 0] == 7).all())


def assert_boxes(batch, ids):
    for (picture, target), index in zip(batch, ids, strict=True):
        assert target["image_id"] == 7 * index + 3
        assert_shown(picture, target["boxes"])


def assert_shown(picture, boxes):
    """Nothing but crops and flips: the first box is white to the pixel."""
    left, top, right, bottom = boxes[0].tolist()
    white = white_of(picture)
    assert white == [left, top, right, bottom] if white else (right == left or bottom == top)


SUBJECTS = {
    "pictures": Subject(grey_pictures, assert_levels),
    "pairs": Subject(lambda folder: pairs_of(make_pairs(folder, SAMPLES)), assert_pairs),
    "boxes": Subject(
        lambda folder: wrapped(make_coco(folder / "coco", SAMPLES, v2.Compose(OF_BOXES))),
        assert_boxes,
        {"collate_fn": list},
    ),
    "sounds": Subject(level_sounds, assert_levels),
    "any items": Subject(lambda folder: Levels(), assert_levels),
}
