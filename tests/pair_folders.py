"""Made-up pairs of pictures and masks, as Seneca's folder and torchvision's datasets lay them out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from seneca.testing import make_pictures

__all__ = ["PALETTE", "make_mask", "make_pairs", "make_pets", "make_voc"]

PALETTE = np.random.default_rng(7).integers(0, 256, 768).tolist()


def make_mask(size: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    """Blocks of classes, uint8 ``(height, width)``: no two neighbouring rows or columns are all equal."""
    coarse = rng.integers(0, 21, (size[0] // 5 + 1, size[1] // 7 + 1), np.uint8)
    mask = np.repeat(np.repeat(coarse, 5, 0), 7, 1)[: size[0], : size[1]].copy()
    mask[rng.random(size) < 0.1] = 255
    return mask


def save_mask(mask: np.ndarray, path: Path, *, palette: bool) -> None:
    picture = Image.fromarray(mask)
    if palette:
        picture = Image.frombytes("P", picture.size, mask.tobytes())
        picture.putpalette(PALETTE)
    picture.save(path)


def make_pairs(
    folder: Path, count: int = 24, *, seed: int = 0, sides: tuple[int, int] = (40, 90), palette: bool = True
):
    """``folder/images/*.jpg`` and ``folder/masks/*.png``, for :class:`seneca.SegmentationFolder`."""
    made = make_pictures(folder / "made", count, 1, seed, sides=sides)
    rng = np.random.default_rng(seed)
    (folder / "images").mkdir()
    (folder / "masks").mkdir()
    for path in sorted(made.glob("*/*.jpg")):
        path = path.rename(folder / "images" / path.name)
        with Image.open(path) as picture:
            size = picture.height, picture.width
        save_mask(make_mask(size, rng), folder / "masks" / f"{path.stem}.png", palette=palette)
    return folder / "images", folder / "masks"


def make_voc(folder: Path, count: int = 12, **options: Any) -> Path:
    """The same as ``torchvision.datasets.VOCSegmentation`` finds it below ``folder``."""
    images, masks = make_pairs(folder / "pairs", count, **options)
    root = folder / "VOCdevkit" / "VOC2012"
    (root / "ImageSets" / "Segmentation").mkdir(parents=True)
    images.rename(root / "JPEGImages")
    masks.rename(root / "SegmentationClass")
    names = sorted(path.stem for path in (root / "JPEGImages").iterdir())
    (root / "ImageSets" / "Segmentation" / "train.txt").write_text("\n".join(names) + "\n")
    return folder


def make_pets(folder: Path, count: int = 12, **options: Any) -> Path:
    """The same as ``torchvision.datasets.OxfordIIITPet`` finds it below ``folder``."""
    images, masks = make_pairs(folder / "pairs", count, palette=False, **options)
    root = folder / "oxford-iiit-pet"
    (root / "annotations").mkdir(parents=True)
    images.rename(root / "images")
    masks.rename(root / "annotations" / "trimaps")
    names = sorted(path.stem for path in (root / "images").iterdir())
    lines = [f"{name} 1 1 1\n" for name in names]
    (root / "annotations" / "trainval.txt").write_text("".join(lines))
    return folder
