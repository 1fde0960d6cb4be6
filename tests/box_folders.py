"""Made-up pictures with boxes, as torchvision's datasets for detection find them. pycocotools is not needed.

Each picture is black, and the first of its boxes is white. Therefore a picture shows how it was moved.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torchvision_here import torchvision

__all__ = ["Annotations", "make_coco", "make_voc_boxes", "white_of", "wrapped"]

datasets = torchvision.datasets
WORDS = ["cat", "dog", "person", "sheep"]


def wrapped(dataset: Any, target_keys: Any = None) -> Any:
    return datasets.wrap_dataset_for_transforms_v2(dataset, target_keys)


class Annotations:
    """What ``CocoDetection`` asks of ``pycocotools.coco.COCO``."""

    def __init__(self, images: list[dict[str, Any]], boxes: dict[int, list[dict[str, Any]]]) -> None:
        self.imgs = {image["id"]: image for image in images}
        self.boxes = boxes

    def loadImgs(self, number: int) -> list[dict[str, Any]]:
        return [self.imgs[number]]

    def getAnnIds(self, number: int) -> list[int]:
        return [number]

    def loadAnns(self, numbers: list[int]) -> list[dict[str, Any]]:
        return [one for number in numbers for one in self.boxes[number]]


def boxes_of(rng: np.random.Generator, height: int, width: int) -> np.ndarray:
    """One to four boxes inside a picture, as left, top, right, bottom. The first has whole numbers."""
    count = int(rng.integers(1, 5))
    corners = np.sort(rng.random((count, 2, 2)) * (height, width), axis=1)
    boxes = corners[:, :, ::-1].reshape(count, 4)
    top, left = rng.integers(0, (height - 12, width - 12))
    bottom, right = rng.integers((top + 10, left + 10), (height + 1, width + 1))
    boxes[0] = left, top, right, bottom
    return boxes


def made_pictures(folder: Path, count: int, seed: int, kind: str):
    """Write pictures. Gives the path, the size and the boxes of each."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    for number in range(count):
        height, width = rng.integers(30, 120, 2).tolist()
        boxes = boxes_of(rng, height, width)
        pixels = np.zeros((height, width, 3), np.uint8)
        left, top, right, bottom = boxes[0].astype(int)
        pixels[top:bottom, left:right] = 255
        path = folder / f"{number:04}.{kind}"
        Image.fromarray(pixels).save(path, **({"quality": 95} if kind == "jpg" else {}))
        yield path, (height, width), boxes, rng


def make_coco(
    folder: Path, count: int = 12, transforms: Any = None, *, seed: int = 0, kind: str = "png", empty: int = 0
) -> Any:
    """A ``CocoDetection``, not wrapped. The last ``empty`` pictures have no annotations."""
    images, annotations = [], {}
    for number, (path, (height, width), boxes, rng) in enumerate(
        made_pictures(folder / "images", count, seed, kind)
    ):
        one = 7 * number + 3
        images.append({"id": one, "file_name": path.name, "height": height, "width": width})
        annotations[one] = [
            {
                "image_id": one,
                "bbox": [left, top, right - left, bottom - top],
                "category_id": int(rng.integers(1, 91)),
                "area": (right - left) * (bottom - top),
                "iscrowd": 0,
                "segmentation": [[left, top, right, top, right, bottom]],
            }
            for left, top, right, bottom in boxes.tolist()
        ]
        if number >= count - empty:
            annotations[one] = []
    kind_of_dataset = datasets.CocoDetection
    dataset = kind_of_dataset.__new__(kind_of_dataset)  # its __init__ imports pycocotools
    datasets.VisionDataset.__init__(dataset, folder / "images", transforms=transforms)
    dataset.coco = Annotations(images, annotations)
    dataset.ids = sorted(dataset.coco.imgs)
    return dataset


def make_voc_boxes(folder: Path, count: int = 12, transforms: Any = None, *, seed: int = 0) -> Any:
    """A ``VOCDetection``, not wrapped."""
    root = folder / "VOCdevkit" / "VOC2012"
    (root / "ImageSets" / "Main").mkdir(parents=True)
    (root / "Annotations").mkdir()
    names = []
    for path, (height, width), boxes, rng in made_pictures(root / "JPEGImages", count, seed, "jpg"):
        names.append(path.stem)
        objects = "".join(
            f"<object><name>{WORDS[rng.integers(4)]}</name><bndbox><xmin>{left}</xmin><ymin>{top}</ymin>"
            f"<xmax>{right}</xmax><ymax>{bottom}</ymax></bndbox></object>"
            for left, top, right, bottom in boxes.astype(int).tolist()
        )
        size = f"<size><width>{width}</width><height>{height}</height></size>"
        (root / "Annotations" / f"{path.stem}.xml").write_text(f"<annotation>{size}{objects}</annotation>")
    (root / "ImageSets" / "Main" / "train.txt").write_text("\n".join(names) + "\n")
    return datasets.VOCDetection(folder, transforms=transforms)


def white_of(picture: torch.Tensor) -> list[float] | None:
    """Left, top, right and bottom of what is white in a picture; None: nothing is."""
    levels = picture.as_subclass(torch.Tensor).float().mean(0)
    white = levels > levels.new_tensor(255 if picture.dtype == torch.uint8 else 1).div(2)
    if not white.any():
        return None
    rows, columns = white.any(1).nonzero().flatten(), white.any(0).nonzero().flatten()
    return [columns[0].item(), rows[0].item(), columns[-1].item() + 1, rows[-1].item() + 1]
