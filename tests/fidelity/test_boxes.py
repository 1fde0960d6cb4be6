"""Boxes are moved as torchvision moves them, by the geometry that the native core gave their picture.

The native core draws the numbers of a sample. Here the same numbers are drawn again (tests/replay.py), and
torchvision's functional calls of v2 move the boxes and the PIL picture with them. Boxes are equal to the bit.
"""

from __future__ import annotations

import io

import numpy as np
import pytest
import replay
import torch
from box_folders import boxes_of, make_coco, white_of, wrapped
from drawn_sizes import random_resize, scale_jitter, shortest_size, zoom_out
from PIL import Image
from scipy import stats
from sizes import size
from torchvision_here import torchvision, v2

import seneca
from seneca._core.codec import Codec
from seneca.transforms._pipeline import compile_transform
from seneca.transforms._recognise import recognise_boxes

F = v2.functional
BoundingBoxes = torchvision.tv_tensors.BoundingBoxes
PICTURES = size(120, 1000)

HFLIP, VFLIP = v2.RandomHorizontalFlip(), v2.RandomVerticalFlip()
RRC = v2.RandomResizedCrop((48, 40), scale=(0.2, 1.0), ratio=(0.5, 2.0))
JITTER = v2.ColorJitter(0.4, hue=0.1)
ANY_CROP = v2.RandomCrop((50, 60), padding=(2, 3, 4, 5), pad_if_needed=True)

RECIPES = {
    "usual": [RRC, HFLIP],
    "flipped first": [HFLIP, VFLIP, RRC, VFLIP],
    "flipped before a resize": [HFLIP, VFLIP, v2.Resize((37, 91)), HFLIP],
    "short side": [v2.Resize(57), ANY_CROP, HFLIP],
    "at most": [v2.Resize(60, max_size=70), v2.CenterCrop((56, 64)), HFLIP, VFLIP],
    "margins": [v2.Pad((4, 3, 2, 1), fill=255), HFLIP, ANY_CROP, VFLIP],
    "colours between": [HFLIP, JITTER, RRC, v2.RandomApply([JITTER], 0.5), v2.RandomGrayscale(0.3), VFLIP],
    "twice": [v2.Resize(80), RRC, HFLIP, v2.Resize((99, 21)), VFLIP],
    "zoomed out": [v2.RandomZoomOut(p=0.7), v2.RandomZoomOut(side_range=(1, 1.5)), HFLIP, RRC],
    "large scale jitter": [v2.ScaleJitter((60, 60)), HFLIP, v2.RandomCrop((60, 60), pad_if_needed=True)],
    "overlapping": [
        v2.RandomZoomOut(p=0.7),
        HFLIP,
        JITTER,
        VFLIP,
        v2.RandomIoUCrop(),
        HFLIP,
        v2.Resize((40, 50)),
    ],
    "overlapping, of fewer": [v2.RandomIoUCrop(0.1, 0.8, 0.2, 1.5, [0.2, 0.6, 1.0], 5), v2.Resize((30, 50))],
    "sizes of a range": [v2.RandomResize(40, 70), HFLIP, ANY_CROP],
    "one of some sizes": [v2.RandomShortestSize([40, 55, 70], max_size=90), VFLIP, ANY_CROP],
}


def resize(sample, _numbers, size, max_size=None):
    wanted = [size] if isinstance(size, int) else list(size)
    return [F.resize(one, wanted, max_size=max_size) for one in sample]


def resized_crop(sample, numbers, size, scale, ratio):
    box = replay.box_of(numbers, sample[0].height, sample[0].width, scale, ratio)
    return [F.resized_crop(one, *box, list(size)) for one in sample]


def hflip(sample, numbers, p):
    return list(map(F.horizontal_flip, sample)) if numbers.double() < p else sample


def vflip(sample, numbers, p):
    return list(map(F.vertical_flip, sample)) if numbers.double() < p else sample


def pad(sample, _numbers, padding, fill=(0, 0, 0)):
    return [F.pad(one, list(padding), list(fill)) for one in sample]


def random_crop(sample, numbers, size, padding=(0, 0, 0, 0), pad_if_needed=False, fill=(0, 0, 0)):
    left, top, right, bottom = padding
    across = max(0, size[1] - sample[0].width - left - right) if pad_if_needed else 0
    down = max(0, size[0] - sample[0].height - top - bottom) if pad_if_needed else 0
    sample = pad(sample, numbers, (left + across, top + down, right + across, bottom + down), fill)
    height, width = sample[0].height, sample[0].width
    if (height, width) == tuple(size):
        return sample
    place = numbers.below(height - size[0] + 1), numbers.below(width - size[1] + 1)
    return [F.crop(one, *place, *size) for one in sample]


def iou_crop(sample, numbers, scale, ratio, overlaps, trials):
    """``RandomIoUCrop.make_params`` and its transform. After many overlaps the picture stays as it is."""
    picture, boxes = sample
    x, y = 0.5 * (boxes[:, 0] + boxes[:, 2]), 0.5 * (boxes[:, 1] + boxes[:, 3])
    for _ in range(1024):
        least = overlaps[numbers.below(len(overlaps))]
        if least >= 1:
            break
        for _ in range(trials):
            width, height = (
                int(np.float32(side) * np.float32(numbers.uniform(*scale)))
                for side in (picture.width, picture.height)
            )
            if not width or not height or not ratio[0] <= width / height <= ratio[1]:
                continue
            left, top = (
                int(np.float32(room) * np.float32(numbers.double()))
                for room in (picture.width - width, picture.height - height)
            )
            within = (left < x) & (x < left + width) & (top < y) & (y < top + height)
            if not within.any():
                continue
            part = torch.tensor([[left, top, left + width, top + height]], dtype=boxes.dtype)
            if torchvision.ops.box_iou(boxes[within].as_subclass(torch.Tensor), part).max() < least:
                continue
            cropped = F.crop(boxes, top, left, height, width)
            cropped[~within] = 0
            return [F.crop(picture, top, left, height, width), cropped]
    return sample


def colours(sample, numbers, **args):
    picture, boxes = sample
    done = replay.color_jitter(np.asarray(picture), numbers, **args)
    return [Image.fromarray(np.ascontiguousarray(done)), boxes]


def greyed(sample, numbers, p):
    done = replay.random_grayscale(np.asarray(sample[0]), numbers, p)
    return [Image.fromarray(np.ascontiguousarray(done)), sample[1]]


def applied(sample, numbers, p, steps):
    return moved(steps, sample, numbers) if numbers.double() < p else sample


STEPS = {
    "resize": resize,
    "center_crop": lambda sample, _, size: [F.center_crop(one, list(size)) for one in sample],
    "random_resized_crop": resized_crop,
    "random_hflip": hflip,
    "random_vflip": vflip,
    "pad": pad,
    "random_crop": random_crop,
    "random_zoom_out": zoom_out,
    "random_iou_crop": iou_crop,
    "scale_jitter": scale_jitter,
    "random_shortest_size": shortest_size,
    "random_resize": random_resize,
    "color_jitter": colours,
    "random_grayscale": greyed,
    "random_apply": applied,
}


def moved(steps, sample, numbers):
    """A picture and its boxes after ``steps``, by torchvision's functional calls."""
    for kind, given in steps:
        sample = STEPS[kind](sample, numbers, **given)
    return sample


def made(rng):
    """A picture, its boxes, and its file."""
    height, width = rng.integers(30, 130, 2).tolist()
    smooth = Image.fromarray(rng.integers(0, 256, (9, 9, 3), np.uint8))
    file = io.BytesIO()
    smooth.resize((width, height), Image.Resampling.BICUBIC).save(file, str(rng.choice(["PNG", "JPEG"])))
    boxes = torch.from_numpy(boxes_of(rng, height, width)).float()
    picture = Image.open(file).convert("RGB")
    return picture, BoundingBoxes(boxes, format="XYXY", canvas_size=(height, width)), file.getvalue()


@pytest.mark.parametrize("name", RECIPES)
def test_pictures_and_boxes_are_moved_as_torchvision_moves_them(name):
    seed = sum(map(ord, name))
    known = recognise_boxes(v2.Compose([*RECIPES[name], v2.ToImage()]))
    assert not isinstance(known, str), known
    pipeline = compile_transform(known.transform, moves=True)
    assert known.needs_boxes == name.startswith("overlapping")
    rng, codec, plan = np.random.default_rng(seed), Codec(), pipeline.plan
    for index in range(-(-PICTURES // len(RECIPES))):
        print(f"seed {seed}, index {index}")
        picture, boxes, data = made(rng)
        theirs, their_boxes = moved(pipeline.steps, [picture, boxes], replay.Numbers(seed, 0, 0, index))
        codec.set_boxes(boxes.numpy())
        for make, given in (codec.augment_encoded, data), (codec.augment_decoded, codec.decode(plan, data)):
            ours = make(plan, given, seed, 0, 0, index)
            found = known.moved({"boxes": boxes}, codec.moves())["boxes"]
            assert torch.equal(found, their_boxes) and found.dtype == their_boxes.dtype
            assert found.canvas_size == their_boxes.canvas_size == ours.shape[:2]
            apart = np.abs(ours.astype(int) - np.asarray(theirs).astype(int))
            assert apart.mean() <= 0.3 and (apart <= 2).mean() >= 0.99


CROPS = {
    "resized": [v2.RandomResizedCrop(24, scale=(0.3, 1))],
    "overlapping": [v2.RandomZoomOut(), v2.RandomIoUCrop(), v2.Resize((24, 24))],
}


@pytest.mark.small(1)
@pytest.mark.parametrize("crop", CROPS)
def test_boxes_are_distributed_as_torchvisions(crop, tmp_path):
    """The corners of boxes, and of what pictures show there, by two Kolmogorov-Smirnov tests each."""
    n = size(120, 2000)
    steps = [v2.ToImage(), *CROPS[crop], v2.RandomHorizontalFlip(0.3)]
    dataset = wrapped(make_coco(tmp_path, 40, v2.Compose(steps)))
    torch.manual_seed(11)
    print("seed 11")
    theirs, ours = [], []
    for _ in range(n // len(dataset)):
        theirs += [dataset[index] for index in range(len(dataset))]
    loader = seneca.DataLoader(dataset, batch_size=40, shuffle=True, cache=None, collate_fn=list)
    assert loader.explain().startswith("native")
    while len(ours) < n:
        ours += next(iter(loader))
    for place in range(4):
        sides = [[float(target["boxes"][0, place]) for _, target in some] for some in (theirs, ours)]
        assert stats.ks_2samp(*sides).pvalue > 1e-4
        seen = [
            [white[place] for white in (white_of(one) for one, _ in some) if white] for some in (theirs, ours)
        ]
        assert stats.ks_2samp(*seen).pvalue > 1e-4


# The preset of SSD300, and what it is made of.

DISTORT, ZOOM, IOU = v2.RandomPhotometricDistort(), v2.RandomZoomOut([123, 117, 104]), v2.RandomIoUCrop()
SIZE = v2.Resize((60, 60))
PARTS = {
    "distorted": [DISTORT, SIZE],
    "zoomed out": [ZOOM, SIZE],
    "overlapping": [IOU, SIZE],
    "ssd": [DISTORT, ZOOM, IOU, HFLIP, SIZE],
    "ssdlite": [IOU, HFLIP, SIZE],
}


def distorted(picture, edits):
    """RandomPhotometricDistort's calls, with the factors and in the order that the core has drawn."""
    for name, value in edits:
        if name == "permute":
            picture = F.permute_channels(picture, [value >> 2 * k & 3 for k in range(3)])
        elif name == "hue":
            steps = (value + 128) % 256 - 128
            picture = F.adjust_hue(picture, (steps + 0.5 * np.sign(steps)) / 255)
        else:
            picture = getattr(F, f"adjust_{name}")(picture, value)
    return picture


def zoomed_as_told(sample, rect):
    (top, left, height, width), picture = rect, sample[0]
    padding = [left, top, width - left - picture.width, height - top - picture.height]
    return [F.pad(sample[0], padding, [123, 117, 104]), F.pad(sample[1], padding)]


def cropped_as_told(sample, rect):
    top, left, height, width = rect
    picture, boxes = sample
    x, y = 0.5 * (boxes[:, 0] + boxes[:, 2]), 0.5 * (boxes[:, 1] + boxes[:, 3])
    cropped = F.crop(boxes, *rect)
    cropped[~((left < x) & (x < left + width) & (top < y) & (y < top + height))] = 0
    return [F.crop(picture, *rect), cropped]


TOLD = {
    "random_zoom_out": zoomed_as_told,
    "random_iou_crop": cropped_as_told,
    "random_hflip": lambda sample, _: list(map(F.horizontal_flip, sample)),
}


@pytest.mark.parametrize("name", PARTS)
def test_ssds_pictures_and_boxes_are_torchvisions_for_what_the_core_says_that_it_drew(name):
    known = recognise_boxes(v2.Compose([*PARTS[name], v2.ToImage(), v2.SanitizeBoundingBoxes(1.0)]))
    pipeline = compile_transform(known.transform, moves=True)
    seed = sum(map(ord, name))
    rng, codec, plan = np.random.default_rng(seed), Codec(), pipeline.plan
    for index in range(size(30, 1000)):
        print(f"seed {seed}, index {index}")
        picture, boxes, data = made(rng)
        codec.set_boxes(boxes.numpy())
        ours = codec.augment_encoded(plan, data, seed, 0, 0, index)
        moves = codec.moves()
        target = {"boxes": boxes, "labels": torch.arange(len(boxes)) + 1}
        found = known.moved(target, moves)
        sample = [picture, boxes]
        if DISTORT in PARTS[name]:
            edits = plan.route(picture.height, picture.width, seed, index=index)[0]["edits"]
            sample[0] = distorted(picture, edits)
        rects = iter(moves[2:].reshape(-1, 4).tolist())
        for kind in (step.kind for step in pipeline.steps if step.kind in TOLD):
            if any(rect := next(rects)):
                sample = TOLD[kind](sample, rect)
        sample = [F.resize(one, [60, 60]) for one in sample]
        _, expected = v2.SanitizeBoundingBoxes(1.0)(
            sample[0], {"boxes": sample[1], "labels": target["labels"]}
        )
        assert torch.equal(found["boxes"], expected["boxes"])
        assert torch.equal(found["labels"], expected["labels"])
        assert found["boxes"].canvas_size == ours.shape[:2] == (60, 60)
        apart = np.abs(ours.astype(int) - np.asarray(sample[0]).astype(int))
        assert apart.mean() <= 0.3 and (apart <= 2).mean() >= 0.99


CROPPERS = {
    "all": v2.RandomIoUCrop(),
    "any overlap": v2.RandomIoUCrop(sampler_options=[0.0]),
    "half": v2.RandomIoUCrop(sampler_options=[0.5]),
    "sides that differ": v2.RandomIoUCrop(0.2, 0.7, 0.3, 0.9, [0.1]),
    "one trial": v2.RandomIoUCrop(sampler_options=[0.7, 1.0], trials=1),
    "few trials": v2.RandomIoUCrop(sampler_options=[0.7, 1.0], trials=7),
}


@pytest.mark.small(3)
@pytest.mark.parametrize("name", CROPPERS)
def test_crops_that_overlap_are_drawn_as_torchvisions(name):
    """Places, sizes, ratios and overlaps of crops by Kolmogorov-Smirnov tests; how often there is none by
    Fisher's."""
    height, width, draws, theirs = 90, 120, size(300, 2000), CROPPERS[name]
    sides = np.array([[5, 8, 60, 50], [40, 30, 115, 88], [70, 2, 90, 20]], np.float32)
    boxes = BoundingBoxes(torch.from_numpy(sides), format="XYXY", canvas_size=(height, width))
    picture = torchvision.tv_tensors.Image(torch.zeros(3, height, width, dtype=torch.uint8))
    print("seed 13")
    torch.manual_seed(13)
    params = [theirs.make_params([picture, boxes]) for _ in range(draws)]
    drawn = np.array([[one[k] for k in ("top", "left", "height", "width")] for one in params if one])
    known = recognise_boxes(v2.Compose([theirs, v2.Resize((8, 8)), v2.ToImage()]))
    plan, codec = compile_transform(known.transform, moves=True).plan, Codec()
    codec.set_boxes(sides)
    found = []
    for index in range(draws):
        codec.augment_decoded(plan, np.zeros((height, width, 3), np.uint8), 13, 0, 0, index)
        found.append(codec.moves()[2:6].astype(np.int64))
    ours = np.array([rect for rect in found if rect.any()])
    hits = [[len(some), draws - len(some)] for some in (ours, drawn)]
    assert stats.fisher_exact(hits).pvalue > 1e-4
    for measure in (*(lambda rects, k=k: rects[:, k] for k in range(4)), ratios, lambda r: most(r, sides)):
        assert stats.ks_2samp(measure(ours), measure(drawn)).pvalue > 1e-4


def ratios(rects):
    return rects[:, 3] / rects[:, 2]


def most(rects, sides):
    """The greatest Jaccard overlap of each crop with a box."""
    corners = np.stack([rects[:, 1], rects[:, 0], rects[:, 1] + rects[:, 3], rects[:, 0] + rects[:, 2]], 1)
    parts = torch.from_numpy(corners.astype(np.float32))
    return torchvision.ops.box_iou(parts, torch.from_numpy(sides)).max(1).values.numpy()
