"""A picture and its mask are moved alike, and as torchvision moves them.

The native core draws the numbers of a sample. Here the same numbers are drawn again (tests/replay.py), and
torchvision's functional calls of v2 move the PIL picture and the ``tv_tensors.Mask``. Masks are equal to the
pixel. A warp alone is not: torchvision finds a mask's pixels in single floats, and takes a neighbour where a
place lies between two.
"""

from __future__ import annotations

import io

import numpy as np
import pytest
import replay
import torch
from drawn_sizes import random_resize, scale_jitter, shortest_size, zoom_out
from pair_folders import PALETTE, make_mask
from PIL import Image
from scipy import stats
from sizes import size
from torchvision_here import torchvision, v2

import seneca
from seneca._core.codec import Codec
from seneca._core.plan import Plan
from seneca.data.pairs import joined_bytes
from seneca.transforms import _recognise as pairs

F = v2.functional
Mask = torchvision.tv_tensors.Mask
PAIRS = size(120, 1000)

RRC = ("random_resized_crop", {"size": (48, 40), "scale": (0.2, 1.0), "ratio": (0.5, 2.0)})
HFLIP, VFLIP = ("random_hflip", {"p": 0.5}), ("random_vflip", {"p": 0.5})
JITTER = ("color_jitter", {"brightness": (0.6, 1.4), "hue": (-0.1, 0.1)})
EDGE = ("pad", {"padding": (5, 9, 3, 12), "padding_mode": "edge"})
REFLECT = ("pad", {"padding": (7, 2, 4, 6), "padding_mode": "reflect"})
SYMMETRIC = ("pad", {"padding": (3, 8, 9, 1), "padding_mode": "symmetric"})
FILLED = ("pad", {"padding": (4, 3, 2, 1), "fill": (9, 8, 7), "mask_fill": 255})
CROP = ("random_crop", {"size": (50, 60), "padding": (2, 2, 2, 2), "pad_if_needed": True, "mask_fill": 254})
CENTER = ("center_crop", {"size": (56, 64)})

# Each comes out in a size of its own, and is random but for what stands first.
PLANS = {
    "usual": [RRC, HFLIP],
    "flipped first": [HFLIP, VFLIP, RRC, VFLIP],
    "flipped before a resize": [HFLIP, VFLIP, ("resize", {"size": (37, 91)}), HFLIP],
    "short side": [("resize", {"size": 57}), CROP, HFLIP],
    "at most": [("resize", {"size": 60, "max_size": 70}), CENTER, HFLIP, VFLIP],
    "margins": [FILLED, HFLIP, CROP, VFLIP],
    "edges": [EDGE, HFLIP, ("resize", {"size": (45, 45)}), VFLIP],
    "mirrored": [REFLECT, VFLIP, SYMMETRIC, CENTER],
    "one colour, two classes": [
        ("pad", {"padding": (4, 3, 2, 1), "mask_fill": 255}),
        ("pad", {"padding": (1, 2, 3, 4), "mask_fill": 7}),
        HFLIP,
        ("random_crop", {"size": (20, 25), "padding": (0, 0, 0, 0), "pad_if_needed": True, "mask_fill": 0}),
    ],
    "colours between": [HFLIP, JITTER, RRC, JITTER, VFLIP],
    "twice": [("resize", {"size": 80}), RRC, HFLIP, ("resize", {"size": (99, 21)}), VFLIP],
    "sizes of a range": [("random_resize", {"size": (40, 160)}), HFLIP, CROP],
    "one of some sizes": [("random_shortest_size", {"sizes": (40, 55, 70), "max_size": 90}), VFLIP, CROP],
    "large scale jitter": [("scale_jitter", {"size": (60, 60), "scale": (0.1, 2.0)}), CROP, HFLIP],
    "zoomed out": [
        HFLIP,
        ("random_zoom_out", {"p": 0.7, "scale": (1.0, 3.0), "fill": (123, 117, 104), "mask_fill": 255}),
        ("resize", {"size": (45, 50)}),
    ],
}


def moved(ops, picture, mask, *key):
    """Both after ``ops``, by torchvision's functional calls, with the numbers of ``key``."""
    numbers = replay.Numbers(*key)
    for kind, given in ops:
        picture, mask = STEPS[kind](picture, mask, numbers, **given)
    return picture, mask


def both(function, picture, mask, *args, **given):
    return function(picture, *args, **given), function(mask, *args, **given)


def resize(picture, mask, numbers, size, max_size=None):
    size = [size] if isinstance(size, int) else list(size)
    return both(F.resize, picture, mask, size, max_size=max_size)


def rrc(picture, mask, numbers, size, scale, ratio):
    box = replay.box_of(numbers, picture.height, picture.width, scale, ratio)
    return both(F.resized_crop, picture, mask, *box, list(size))


def hflip(picture, mask, numbers, p):
    return both(F.horizontal_flip, picture, mask) if numbers.double() < p else (picture, mask)


def vflip(picture, mask, numbers, p):
    return both(F.vertical_flip, picture, mask) if numbers.double() < p else (picture, mask)


def pad(picture, mask, numbers, padding, fill=(0, 0, 0), mask_fill=0, padding_mode="constant"):
    mode = {"padding_mode": padding_mode}
    return F.pad(picture, list(padding), list(fill), **mode), F.pad(mask, list(padding), mask_fill, **mode)


def random_crop(picture, mask, numbers, size, padding, pad_if_needed, mask_fill):
    picture, mask = pad(picture, mask, numbers, padding, mask_fill=mask_fill)
    across, down = max(0, size[1] - picture.width), max(0, size[0] - picture.height)
    picture, mask = pad(picture, mask, numbers, (across, down, across, down), mask_fill=mask_fill)
    if (picture.height, picture.width) == tuple(size):
        return picture, mask
    top = numbers.below(picture.height - size[0] + 1)
    left = numbers.below(picture.width - size[1] + 1)
    return both(F.crop, picture, mask, top, left, *size)


def jitter(picture, mask, numbers, **ranges):
    return Image.fromarray(
        np.ascontiguousarray(replay.color_jitter(np.asarray(picture), numbers, **ranges))
    ), mask


def rotation(picture, mask, numbers, degrees, mask_fill):
    angle = numbers.uniform(*degrees)
    return F.rotate(picture, angle), F.rotate(mask, angle, fill=mask_fill)


def beside(function):
    return lambda picture, mask, numbers, **given: function([picture, mask], numbers, **given)


STEPS = {
    "resize": resize,
    "random_resize": beside(random_resize),
    "random_shortest_size": beside(shortest_size),
    "scale_jitter": beside(scale_jitter),
    "random_zoom_out": beside(zoom_out),
    "center_crop": lambda picture, mask, _, size: both(F.center_crop, picture, mask, list(size)),
    "random_resized_crop": rrc,
    "random_hflip": hflip,
    "random_vflip": vflip,
    "pad": pad,
    "random_crop": random_crop,
    "color_jitter": jitter,
    "random_rotation": rotation,
}


def made(rng):
    """A pair as PIL image and array, and its bytes."""
    height, width = rng.integers(30, 130, 2).tolist()
    smooth = Image.fromarray(rng.integers(0, 256, (9, 9, 3), np.uint8)).resize(
        (width, height), Image.Resampling.BICUBIC
    )
    mask = make_mask((height, width), rng)
    of_mask = Image.frombytes("P", (width, height), mask.tobytes())
    of_mask.putpalette(PALETTE)
    if rng.integers(2):
        of_mask = Image.fromarray(mask)
    files = io.BytesIO(), io.BytesIO()
    smooth.save(files[0], *rng.choice([["PNG"], ["JPEG"]]))
    of_mask.save(files[1], "PNG")
    picture = Image.open(files[0]).convert("RGB")
    return picture, mask, joined_bytes(*(file.getvalue() for file in files))


def planned(ops):
    return Plan(ops, 0, "uint8", False, (0, 0, 0), (1, 1, 1), mask="uint8")


@pytest.mark.parametrize("name", PLANS)
def test_pictures_and_masks_are_moved_as_torchvision_moves_them(name):
    seed = sum(map(ord, name))
    rng, codec, plan = np.random.default_rng(seed), Codec(), planned(PLANS[name])
    for index in range(PAIRS // len(PLANS)):
        print(f"seed {seed}, index {index}")
        picture, mask, data = made(rng)
        theirs, their_mask = moved(
            PLANS[name], picture, Mask(torch.from_numpy(mask)[None]), seed, 0, 0, index
        )
        from_file = codec.augment_encoded(plan, data, seed, 0, 0, index)
        from_pixels = codec.augment_decoded(plan, codec.decode(plan, data), seed, 0, 0, index)
        for ours, our_mask in (from_file, from_pixels):
            assert np.array_equal(our_mask, their_mask[0].numpy())
            apart = np.abs(ours.astype(int) - np.asarray(theirs).astype(int))
            assert apart.mean() <= 0.3 and (apart <= 2).mean() >= 0.99


def test_a_warped_mask_is_torchvisions_but_for_places_between_two_pixels():
    ops = [
        ("resize", {"size": (90, 70)}),
        ("random_rotation", {"degrees": (-60.0, 60.0), "mask_fill": 255}),
        VFLIP,
    ]
    rng, codec, plan = np.random.default_rng(3), Codec(), planned(ops)
    different = 0.0
    for index in range(40):
        picture, mask, data = made(rng)
        _, theirs = moved(ops, picture, Mask(torch.from_numpy(mask)[None]), 3, 0, 0, index)
        _, ours = codec.augment_encoded(plan, data, 3, 0, 0, index)
        different = max(different, float((ours != theirs[0].numpy()).mean()))
    print(f"{different:.5f} at the most")
    assert different < 0.002


def test_a_head_is_kept_with_its_mask():
    ops = [("resize", {"size": 40}), CENTER, RRC]
    rng, codec = np.random.default_rng(5), Codec()
    plan = Plan(ops, 2, "uint8", False, (0, 0, 0), (1, 1, 1), mask="int64")
    picture, mask, data = made(rng)
    theirs, their_mask = moved(ops[:2], picture, Mask(torch.from_numpy(mask)[None]), 0, 0, 0, 0)
    ours, our_mask = codec.decode(plan, data)
    again, again_mask = codec.head(plan, (np.asarray(picture), mask))
    assert np.array_equal(our_mask, their_mask[0]) and np.array_equal(again_mask, our_mask)
    assert np.abs(ours.astype(int) - np.asarray(theirs)).mean() < 0.3 and np.array_equal(ours, again)


def test_crops_of_pairs_are_distributed_as_torchvisions(tmp_path):
    """The shares of a mask that crops show, and its flips, by two Kolmogorov-Smirnov tests."""
    height, width, n = 60, 80, size(200, 2000)
    corners = np.zeros((height, width), np.uint8)
    corners[: height // 2, : width // 2] = 1
    for folder, pixels in ("images", np.zeros((height, width, 3), np.uint8)), ("masks", corners):
        (tmp_path / folder).mkdir()
        for index in range(40):
            Image.fromarray(pixels).save(tmp_path / folder / f"{index}.png")
    steps = [v2.ToImage(), v2.RandomResizedCrop(24), v2.RandomHorizontalFlip(0.3)]
    dataset = seneca.SegmentationFolder(tmp_path / "images", tmp_path / "masks", v2.Compose(steps))
    torch.manual_seed(11)
    print("seed 11")
    theirs, ours = [], []
    for _ in range(n // len(dataset)):
        theirs += [dataset[index][1][0] for index in range(len(dataset))]
    loader = seneca.DataLoader(dataset, batch_size=40, shuffle=True, cache=None)
    assert loader.explain().startswith("native")
    while len(ours) < n:
        for _, masks in loader:
            ours += list(masks[:, 0])
    for measure in (
        lambda mask: mask.float().mean(),
        lambda mask: mask[:, :12].float().mean() - mask[:, 12:].float().mean(),
    ):
        sides = [[float(measure(mask)) for mask in some] for some in (theirs, ours)]
        assert stats.ks_2samp(*sides).pvalue > 1e-4


RECIPES = {
    "usual": lambda: [
        v2.ToImage(),
        v2.Resize((50, 40)),
        v2.ToDtype({Mask: torch.int64, "others": torch.float32}, scale=True),
    ],
    "masks of uint8": lambda: [
        v2.Resize(40),
        v2.CenterCrop(44),
        v2.ToImage(),
        v2.ToDtype(torch.float32, scale=True),
    ],
    "fills": lambda: [
        v2.ToImage(),
        v2.Pad((3, 4), fill={Mask: 255, "others": 7}),
        v2.Resize((33, 60)),
        v2.Pad(2, padding_mode="edge"),
        v2.ToDtype({torchvision.tv_tensors.Image: torch.float32, Mask: torch.int64}, scale=True),
        v2.Normalize((0.5, 0.4, 0.3), (0.2, 0.3, 0.4)),
        v2.ToPureTensor(),
    ],
    "one fill": lambda: [v2.Pad(5, fill=3), v2.PILToTensor(), v2.Resize((30, 30), antialias=True)],
    "half": lambda: [v2.Resize((30, 31)), v2.ToImage(), v2.ToDtype(torch.float16, scale=True)],
}  # fmt: skip


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("made_by", ["folder", "voc", "pets"])
def test_a_loader_yields_what_torchs_yields(recipe, made_by, tmp_path):
    from pair_folders import make_pairs, make_pets, make_voc

    transforms = v2.Compose(RECIPES[recipe]())
    wrap = torchvision.datasets.wrap_dataset_for_transforms_v2
    if made_by == "folder":
        dataset = seneca.SegmentationFolder(*make_pairs(tmp_path, 9), transforms)
    elif made_by == "voc":
        dataset = wrap(torchvision.datasets.VOCSegmentation(make_voc(tmp_path, 9), transforms=transforms))
    else:
        kind = torchvision.datasets.OxfordIIITPet
        dataset = wrap(kind(make_pets(tmp_path, 9), target_types="segmentation", transforms=transforms))
    assert isinstance(pairs.recognise_pair(transforms), pairs.PairTransform)
    loader = seneca.DataLoader(dataset, batch_size=4, cache=None)
    assert loader.explain().startswith("native")
    for ours, theirs in zip(loader, torch.utils.data.DataLoader(dataset, batch_size=4), strict=True):
        assert type(ours) is type(theirs)
        assert [part.dtype for part in ours] == [part.dtype for part in theirs]
        assert torch.equal(ours[1], theirs[1])
        unit = 1 if ours[0].dtype == torch.uint8 else 1 / 255 / 0.2
        assert (ours[0].float() - theirs[0].float()).abs().mean() <= 0.3 * unit
