"""Made-up pictures of OpenImages and the CSV files of their boxes and classes.

Each picture is black, and the first of its boxes is white, as in tests/box_folders.py.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from box_folders import made_pictures

import seneca

__all__ = ["CLASSES", "HEAD", "make_open_images", "write_rows"]

HEAD = [
    *("ImageID", "Source", "LabelName", "Confidence", "XMin", "XMax", "YMin", "YMax"),
    *("IsOccluded", "IsTruncated", "IsGroupOf", "IsDepiction", "IsInside"),
]
CLASSES = {"/m/011k07": "Tortoise", "/m/011q46kg": "Container", "/m/0bt9lr": "Dog", "/m/01yrx": "Cat, tame"}


def write_rows(path: Path, rows: list[list[Any]], head: list[str] | None = None) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([HEAD if head is None else head, *rows])
    return path


def rows_of(folder: Path, count: int, seed: int) -> list[list[Any]]:
    """Write the pictures; the rows of their boxes."""
    rows = []
    for path, (height, width), boxes, rng in made_pictures(folder, count, seed, "jpg"):
        for left, top, right, bottom in boxes.tolist():
            label = list(CLASSES)[rng.integers(len(CLASSES))]
            sides = [f"{side:.9f}" for side in (left / width, right / width, top / height, bottom / height)]
            rows.append([path.stem, "xclick", label, 1, *sides, 0, 0, int(rng.integers(-1, 2)), 0, 0])
    return rows


def make_open_images(folder: Path, count: int = 12, transforms: Any = None, *, seed: int = 0, **options: Any):
    """A ``seneca.OpenImagesDetection`` of ``count`` pictures."""
    boxes = write_rows(folder / "boxes.csv", rows_of(folder / "images", count, seed))
    classes = folder / "classes.csv"
    with classes.open("w", newline="") as file:
        csv.writer(file).writerows(CLASSES.items())
    options = {"classes": classes} | options
    return seneca.OpenImagesDetection(folder / "images", boxes, transforms, **options)
