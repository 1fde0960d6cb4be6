"""torchvision's transforms of a picture and its boxes are recognised, or refused in words."""

import numpy as np
import pytest
import torch
from torchvision_here import torchvision, v1, v2

from seneca import transforms as T
from seneca.transforms._detection import BoxTransform
from seneca.transforms._pipeline import compile_transform
from seneca.transforms._recognise import recognise_boxes

Image, BoundingBoxes = torchvision.tv_tensors.Image, torchvision.tv_tensors.BoundingBoxes
FIXED = v2.Resize((20, 30))


def recognised(*steps):
    known = recognise_boxes(v2.Compose(list(steps)))
    assert isinstance(known, BoxTransform), known
    return known


def moves_of(height, width, *drawn):
    rects = np.zeros((16, 4), np.uint32)
    rects[: len(drawn)] = np.array(drawn, np.uint32).reshape(-1, 4)
    return np.concatenate([np.array([height, width], np.uint32), rects.reshape(-1)])


def target_of(boxes, height, width):
    made = BoundingBoxes(torch.tensor(boxes), format="XYXY", canvas_size=(height, width))
    return {"boxes": made, "labels": torch.arange(len(boxes)), "image_id": 5}


def test_the_picture_goes_through_senecas_transform():
    known = recognised(
        v2.RandomHorizontalFlip(),
        v2.ColorJitter(0.2),
        v2.ToImage(),
        v2.ClampBoundingBoxes(),
        v2.Resize((20, 30)),
        v2.SanitizeBoundingBoxes(),
        v2.ToDtype({Image: torch.float32, "others": None}, scale=True),
    )
    ours = T.Compose([T.RandomHorizontalFlip(), T.ColorJitter(0.2), T.Resize((20, 30)), T.ToTensor()])
    assert compile_transform(known.transform) == compile_transform(ours)
    names = ["RandomHorizontalFlip", "ClampBoundingBoxes", "Resize", "SanitizeBoundingBoxes", "ToDtype"]
    assert [name for name, _ in known.steps] == names and known.is_image
    assert not recognised(FIXED, v2.ToImage(), v2.ToPureTensor()).is_image
    assert not recognised(FIXED, v2.PILToTensor()).is_image


def test_how_pictures_are_moved_is_part_of_what_a_copy_is():
    transform = recognised(v2.Resize((20, 30)), v2.RandomHorizontalFlip(), v2.ToImage()).transform
    plain, moving = compile_transform(transform), compile_transform(transform, moves=True)
    assert plain.augmented_fingerprint != moving.augmented_fingerprint
    assert moving.n_head == 0 < plain.n_head, "boxes need the size of the whole picture"
    assert moving.head_fingerprint == compile_transform(T.RandomResizedCrop(9)).head_fingerprint
    assert moving.plan.copy_bytes == plain.plan.copy_bytes + moving.plan.beside_bytes
    assert compile_transform(recognised(FIXED, v2.ToImage()).transform, moves=True).deterministic


def test_boxes_are_moved_by_the_numbers_of_the_native_core():
    known = recognised(
        v2.RandomHorizontalFlip(),
        v2.RandomVerticalFlip(),
        v2.RandomZoomOut(side_range=(1.0, 2.0)),
        v2.RandomCrop((40, 60), padding=(1, 2), pad_if_needed=True),
        v2.RandomResizedCrop((10, 20)),
        v2.ToImage(),
    )
    target = target_of([[2.0, 4.0, 10.0, 12.0], [0.0, 0.0, 1.0, 1.0]], 20, 30)
    moves = moves_of(20, 30, (0, 0, 20, 30), (0, 0, 0, 0), (3, 5, 30, 45), (4, 6, 40, 60), (7, 8, 25, 30))
    boxes = target["boxes"]
    expected = v2.functional.horizontal_flip(boxes)
    expected = v2.functional.pad(expected, [5, 3, 10, 7])  # to 30 x 45
    expected = v2.functional.pad(expected, [1 + 13, 2 + 6, 1 + 13, 2 + 6])  # to 46 x 73
    expected = v2.functional.crop(expected, 4, 6, 40, 60)
    expected = v2.functional.resized_crop(expected, 7, 8, 25, 30, size=[10, 20])
    found = known.moved(target, moves)
    assert torch.equal(found["boxes"], expected) and found["boxes"].canvas_size == (10, 20)
    assert torch.equal(target["boxes"], boxes), "the target before is left alone"


def test_sizes_that_were_drawn_are_those_of_boxes():
    known = recognised(
        v2.ScaleJitter((40, 40)),
        v2.RandomShortestSize(30),
        v2.RandomCrop(16, pad_if_needed=True),
        v2.ToImage(),
    )
    moves = moves_of(20, 30, (0, 0, 33, 50), (0, 0, 30, 45), (10, 20, 16, 16))
    target = target_of([[3.0, 4.0, 29.0, 19.0]], 20, 30)
    expected = v2.functional.resize(v2.functional.resize(target["boxes"], [33, 50]), [30, 45])
    expected = v2.functional.crop(expected, 10, 20, 16, 16)
    assert torch.equal(known.moved(target, moves)["boxes"], expected)


def test_what_else_torchvision_does_to_targets_is_done():
    known = recognised(
        v2.Resize((10, 15)),
        v2.ConvertBoundingBoxFormat("CXCYWH"),
        v2.ToImage(),
        v2.SanitizeBoundingBoxes(min_size=3),
        v2.ToDtype({BoundingBoxes: torch.float64, Image: torch.float32}, scale=True),
        v2.ToPureTensor(),
    )
    found = known.moved(target_of([[0.0, 0.0, 4.0, 4.0], [2.0, 2.0, 22.0, 12.0]], 20, 30), moves_of(20, 30))
    assert type(found["boxes"]) is torch.Tensor and found["boxes"].dtype == torch.float64
    assert found["boxes"].tolist() == [[6.0, 3.5, 10.0, 5.0]] and found["labels"].tolist() == [1]
    assert found["image_id"] == 5


REFUSED = {
    "there is no transform": None,
    "RandomIoUCrop reads the boxes behind Resize: put it in front of that": v2.Compose(
        [FIXED, v2.RandomIoUCrop(), FIXED]
    ),
    "sampler_options: 1 to 16 overlaps": v2.RandomIoUCrop(sampler_options=[0.5] * 17),
    "RandomRotation is not written for boxes yet: use RandomResizedCrop": v2.RandomRotation(9),
    "RandomApply has RandomHorizontalFlip, which moves boxes": v2.RandomApply([v2.RandomHorizontalFlip()]),
    "torchvision pads no boxes with 'edge'": v2.Pad(2, padding_mode="edge"),
    "torchvision pads no boxes with 'reflect'": v2.RandomCrop(9, padding=2, padding_mode="reflect"),
    "has a labels_getter of your own": v2.SanitizeBoundingBoxes(labels_getter=lambda inputs: None),
    "Resize of torchvision.transforms takes no mask and no boxes": v1.Resize((3, 4)),
    "Seneca's Resize takes no mask and no boxes": T.Resize((3, 4)),
    "pictures of different sizes cannot be stacked": v2.Resize(30),
    "ToDtype names no dtype for a": v2.ToDtype({BoundingBoxes: torch.float32}),
    "function is not one that the native path knows": lambda picture, target: (picture, target),
}  # fmt: skip


@pytest.mark.parametrize("why", REFUSED)
def test_what_is_refused_says_why(why):
    step = REFUSED[why]
    found = recognise_boxes(None if step is None else v2.Compose([step, v2.ToImage()]))
    if why.startswith("function"):
        why = "<lambda> is not one that the native path knows"
    assert isinstance(found, str) and why in found


def test_an_epoch_goes_on_with_the_steps_as_they_were():
    step = v2.Resize((20, 30))
    known = recognised(step, v2.ToImage())
    step.size = (2, 3)
    found = known.moved(target_of([[0.0, 0.0, 4.0, 4.0]], 40, 60), moves_of(40, 60))
    assert found["boxes"].canvas_size == (20, 30)


def test_a_labels_getter_that_was_put_in_is_refused():
    step = v2.SanitizeBoundingBoxes()
    step._labels_getter = lambda inputs: inputs[1]["labels"]
    assert "has a labels_getter of your own" in recognise_boxes(v2.Compose([step, v2.ToImage()]))


def test_colours_and_margins_are_those_of_pictures():
    crop = v2.RandomCrop(9, pad_if_needed=True, fill={"others": 7}, padding_mode="constant")
    known = recognised(v2.RandomApply([v2.ColorJitter(0.3)]), v2.RandomGrayscale(), crop, v2.ToImage())
    assert [name for name, _ in known.steps] == ["RandomCrop"]
    assert compile_transform(known.transform).steps[-1].args["fill"] == (7, 7, 7)
    edge = recognised(v2.RandomCrop(9, padding_mode="edge"), v2.ToImage())
    assert len(edge.steps) == 1, "a crop that adds no margins has no mode"
