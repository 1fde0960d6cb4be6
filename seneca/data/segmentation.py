"""A folder of pictures and a folder of their masks."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from PIL import Image

from seneca.data.folder import IMG_EXTENSIONS
from seneca.data.pairs import pair_of, split_bytes
from seneca.errors import DecodeError
from seneca.transforms._apply import open_mask, open_picture

__all__ = ["MASK_EXTENSIONS", "SegmentationFolder"]

MASK_EXTENSIONS = (".png", ".bmp", ".tif", ".tiff", ".gif", ".pgm")
"""The default endings of masks. A JPEG would change classes."""


class SegmentationFolder:
    """Pictures and their masks, which are in two folders under equal names: a dataset for segmentation.

    ``images/street/7.jpg`` has the mask ``masks/street/7.png``. A mask has one byte a pixel, a class: it is
    grey, or has a palette, whose indices are the classes. It has the picture's size.

    With ``transforms`` of ``torchvision.transforms.v2`` that the native core knows, the loader's threads
    read, decode and transform both, by one geometry.

    Args:
        images: The folder of pictures. Folders in it are searched too.
        masks: The folder of masks.
        transforms: A function of a picture and a mask, as torchvision's datasets have it. It gets an RGB PIL
            image, and a ``tv_tensors.Mask`` of uint8 ``(1, height, width)``. None: an item is a PIL image and
            one of the mask. The attribute may be set later.
        extensions: Endings of the files that count as pictures, in lower case.
        mask_extensions: Endings of masks, in lower case.
        max_pixels: A picture with more pixels is refused before it is decoded. None: only Pillow's limit
            counts, as in :class:`seneca.ImageFolder`.

    Attributes:
        samples: ``(path of the picture, path of the mask)`` of every pair, sorted by the picture's path.

    Raises:
        FileNotFoundError: There is no picture, or one has no mask. The message names it.

    Example:
        >>> import tempfile, numpy, seneca
        >>> from PIL import Image
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for name, pixels in ("images", (4, 6, 3)), ("masks", (4, 6)):
        ...         os.mkdir(f"{folder}/{name}")
        ...         Image.fromarray(numpy.zeros(pixels, numpy.uint8)).save(f"{folder}/{name}/a.png")
        ...     dataset = seneca.SegmentationFolder(f"{folder}/images", f"{folder}/masks")
        ...     picture, mask = dataset[0]
        >>> len(dataset), picture.size, mask.mode
        (1, (6, 4), 'L')
    """

    are_pairs = True  # for files_of()

    def __init__(
        self,
        images: str | os.PathLike[str],
        masks: str | os.PathLike[str],
        transforms: Callable[..., Any] | None = None,
        *,
        extensions: Sequence[str] = IMG_EXTENSIONS,
        mask_extensions: Sequence[str] = MASK_EXTENSIONS,
        max_pixels: int | None = None,
    ) -> None:
        if max_pixels is not None and max_pixels < 1:
            raise ValueError(f"max_pixels is at least 1 or None, but got {max_pixels!r}")
        self.images = os.path.expanduser(os.fspath(images))
        self.masks = os.path.expanduser(os.fspath(masks))
        self.transforms = transforms
        self.max_pixels = max_pixels
        self.samples = _find_pairs(self.images, self.masks, tuple(extensions), tuple(mask_extensions))
        self.root = os.path.commonpath([os.path.abspath(self.images), os.path.abspath(self.masks)])

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """Read, decode and transform one pair in this process.

        Args:
            index: Place in ``samples``.

        Returns:
            What ``transforms`` makes of the picture and the mask; without it, two PIL images.

        Raises:
            DecodeError: A file is damaged, the mask has another size than the picture, or a pixel of it has
                not one byte. The message names the file.
            OSError: A file cannot be read.
        """
        picture, classes = read_pair(
            pair_of(*self.samples[index]).read(), *self.samples[index], self.max_pixels
        )
        if self.transforms is None:
            return picture, Image.fromarray(classes)
        import torch
        from torchvision import tv_tensors

        return self.transforms(picture, tv_tensors.Mask(torch.from_numpy(classes)[None]))

    def __repr__(self) -> str:
        return f"SegmentationFolder({len(self)} pairs, {self.images!r}, {self.masks!r})"


def read_pair(
    data: bytes, path: str, mask_path: str, max_pixels: int | None
) -> tuple[Image.Image, np.ndarray]:
    """Decode the two files of a pair with Pillow.

    Args:
        data: The bytes of the pair.
        path, mask_path: The files, for errors.
        max_pixels: The most pixels that the picture may have. None: only Pillow's limit counts.

    Returns:
        The RGB picture, and the mask, uint8 ``(height, width)``.

    Raises:
        DecodeError: As of :meth:`SegmentationFolder.__getitem__`.
    """
    at = path
    try:
        of_picture, of_mask = split_bytes(data)
        picture = open_picture(of_picture, max_pixels=max_pixels)
        at = mask_path
        mask = open_mask(of_mask, max_pixels=max_pixels)
        if mask.shape != (picture.height, picture.width):
            raise DecodeError(
                f"the mask has {mask.shape[0]} x {mask.shape[1]} pixels and its picture {picture.height} x "
                f"{picture.width}: give it the picture's size, or leave the pair out"
            )
    except DecodeError as error:
        error.path = error.path or at
        raise
    return picture, mask


def _find_pairs(
    images: str, masks: str, extensions: tuple[str, ...], mask_extensions: tuple[str, ...]
) -> list[tuple[str, str]]:
    """The pictures below a folder, sorted, each with its mask."""
    of_names: dict[str, str] = {}
    for path in _files_below(masks, mask_extensions):
        name = _name_below(masks, path)
        if name in of_names:
            raise ValueError(
                f"{of_names[name]} and {path} are both masks of {name!r}: leave one, or give mask_extensions"
            )
        of_names[name] = path
    pairs = []
    for path in _files_below(images, extensions):
        mask = of_names.get(_name_below(images, path))
        if mask is None:
            raise FileNotFoundError(
                f"{path} has no mask {os.path.join(masks, _name_below(images, path))} "
                f"({', '.join(mask_extensions)}): add it, or take the picture out of the folder"
            )
        pairs.append((path, mask))
    if not pairs:
        raise FileNotFoundError(f"no picture in {images}. Supported extensions are: {', '.join(extensions)}")
    return pairs


def _files_below(root: str, extensions: tuple[str, ...]) -> list[str]:
    if not os.path.isdir(root):
        raise FileNotFoundError(f"{root} is no folder")
    return sorted(
        os.path.join(folder, name)
        for folder, _, names in os.walk(root, followlinks=True)
        for name in names
        if name.lower().endswith(extensions)
    )


def _name_below(root: str, path: str) -> str:
    """The path below the folder, without its ending."""
    return os.path.splitext(os.path.relpath(path, root))[0]
