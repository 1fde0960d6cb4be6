"""A folder of class folders of pictures, as torchvision lays it out.

A loader takes the whole list of paths at once, with :meth:`ImageFolder.path_table`, and reads the files
itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from seneca.data.files import files_of
from seneca.data.pictures import PictureDataset
from seneca.transforms._pipeline import Decode

__all__ = ["IMG_EXTENSIONS", "ImageFolder", "find_classes", "find_samples"]

IMG_EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")
"""The default endings of picture files; the same list as torchvision's."""


class ImageFolder(PictureDataset):
    """A dataset of pictures arranged as ``root/class/.../picture.jpg``.

    It takes the place of ``torchvision.datasets.ImageFolder``. It has the same classes and the same
    samples, in the same order, and follows symbolic links.

    Args:
        root: The folder that holds a folder for each class.
        transform: A transform of ``seneca.transforms`` runs natively. Any other callable gets an RGB PIL
            image. With ``None`` the sample is that image. The attribute may be set later.
        target_transform: A function that makes the target of an item from its class index. With ``None`` the
            class index is the target. The attribute may be set later.
        extensions: Endings of the files that count as pictures, in lower case.
        allow_empty: Whether a class may have no pictures.
        decode: ``"exact"``: JPEGs decode to Pillow's pixels, bit for bit. ``"fast"``: if a transform of
            Seneca's shrinks a picture to half or less, the picture is decoded at a fraction of its size
            (DCT scaling). Such pictures are off by 1 of 255 levels on average, and 99.9 % of their values
            by at most 13 to 20. With RandomResizedCrop(224) this concerns one of 40 photographs of
            ImageNet.
        apply_exif_orientation: Whether pictures are turned upright as their EXIF data says. torchvision
            does not turn them.
        max_pixels: A picture with more pixels is refused before it is decoded. A small file that claims to
            be huge is usually an attack. None: only Pillow's limit counts, which counts in any case: Pillow
            warns above ``PIL.Image.MAX_IMAGE_PIXELS`` and refuses twice as many. What it is when an epoch
            begins counts for the epoch.

    Attributes:
        classes: Names of the classes, sorted.
        class_to_idx: Class name to class index.
        samples: ``(path, class index)`` of every picture; ``imgs`` is the same list.
        targets: The class index of every picture.

    Raises:
        FileNotFoundError: ``root`` has no class folders, or a class has no picture.
        ValueError: ``decode`` is unknown, or ``max_pixels`` is not positive.

    Example:
        >>> import tempfile, seneca
        >>> from seneca import transforms as T
        >>> from seneca.testing import make_pictures
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = make_pictures(folder, count=4, classes=2)
        ...     dataset = seneca.ImageFolder(folder, transform=T.Resize((32, 48)))
        ...     image, label = dataset[3]
        >>> len(dataset), tuple(image.shape), label
        (4, (3, 32, 48), 1)
    """

    samples: list[tuple[str, int]]

    def __init__(
        self,
        root: str | os.PathLike[str],
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        *,
        extensions: str | Sequence[str] = IMG_EXTENSIONS,
        allow_empty: bool = False,
        decode: Decode = "exact",
        apply_exif_orientation: bool = False,
        max_pixels: int | None = None,
    ) -> None:
        super().__init__(
            transform, decode=decode, apply_exif_orientation=apply_exif_orientation, max_pixels=max_pixels
        )
        self.target_transform = target_transform
        self.root = os.path.expanduser(os.fspath(root))
        self.extensions = (extensions,) if isinstance(extensions, str) else tuple(extensions)
        self.classes, self.class_to_idx = find_classes(self.root)
        self.samples = find_samples(self.root, self.class_to_idx, self.extensions, allow_empty)
        self.targets = [target for _, target in self.samples]

    @property
    def imgs(self) -> list[tuple[str, int]]:
        """The same list as ``samples``, under its older name."""
        return self.samples

    def path_table(self) -> tuple[bytes, np.ndarray]:
        """Every path, for the native reader; see :class:`seneca.data.files.PictureFiles`."""
        return files_of(self).path_table()

    def __repr__(self) -> str:
        lines = [
            f"Dataset {type(self).__name__}",
            f"Number of datapoints: {len(self)}",
            f"Root location: {self.root}",
        ]
        if self.transform is not None:
            lines.append(f"Transform: {self.transform!r}".replace("\n", "\n    "))
        return "\n    ".join(lines)


def find_classes(root: str) -> tuple[list[str], dict[str, int]]:
    """The folders in ``root``, sorted. Links to folders are among them."""
    classes = sorted(entry.name for entry in os.scandir(root) if entry.is_dir())
    if not classes:
        raise FileNotFoundError(f"Couldn't find any class folder in {root}.")
    return classes, {name: index for index, name in enumerate(classes)}


def find_samples(
    root: str, class_to_idx: dict[str, int], extensions: tuple[str, ...], allow_empty: bool
) -> list[tuple[str, int]]:
    """The files of all classes with these endings, in torchvision's order: by class, folder and name."""
    samples: list[tuple[str, int]] = []
    empty: list[str] = []
    for name, target in class_to_idx.items():
        before = len(samples)
        for folder, _, files in sorted(os.walk(os.path.join(root, name), followlinks=True)):
            inside = os.path.join(folder, "")  # once a folder: os.path.join is half of the time otherwise
            samples += [(inside + f, target) for f in sorted(files) if f.lower().endswith(extensions)]
        if len(samples) == before:
            empty.append(name)
    if empty and not allow_empty:
        raise FileNotFoundError(
            f"Found no valid file for the classes {', '.join(empty)}. "
            f"Supported extensions are: {', '.join(extensions)}"
        )
    return samples
