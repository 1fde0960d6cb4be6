"""A folder of class folders of pictures, as torchvision lays it out.

A loader takes the whole list of paths at once, with :meth:`ImageFolder.path_table`, and reads the files
itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable, MutableSequence, Sequence
from typing import Any

import numpy as np

from seneca._runtime.lazy_list import LazyList
from seneca.data.files import files_of
from seneca.data.listed_folder import table_of
from seneca.data.path_table import Paths, labels_of
from seneca.data.pictures import PictureDataset
from seneca.data.sources import Samples
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
        samples: ``(path, class index)`` of every picture; ``imgs`` is the same list. An item is made when
            it is asked for, until somebody changes the list.
        targets: The class index of every picture, likewise.

    The folder is listed once for all processes of a user, until an entry of it changes.

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

    samples: MutableSequence[tuple[str, int]]
    targets: MutableSequence[int]

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
        self.samples, self.targets = find_samples(self.root, self.classes, self.extensions, allow_empty)

    @property
    def imgs(self) -> MutableSequence[tuple[str, int]]:
        """The same list as ``samples``, under its older name."""
        return self.samples

    def path_table(self) -> tuple[bytes, np.ndarray]:
        """Every path, for the native reader; see :class:`seneca.data.files.PictureFiles`."""
        blob, offsets = files_of(self).path_table()
        return bytes(blob), offsets

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
    root: str, classes: Sequence[str], extensions: tuple[str, ...], allow_empty: bool
) -> tuple[LazyList[tuple[str, int]], LazyList[int]]:
    """The files of all classes with these endings, in torchvision's order: by class, folder and name.

    Returns:
        ``(path, class index)`` of each, and the class indices alone.
    """
    table = table_of(root, classes, extensions)
    files_of_class = np.bincount(table.labels, minlength=len(classes))
    empty = [name for name, count in zip(classes, files_of_class.tolist(), strict=True) if not count]
    if empty and not allow_empty:
        raise FileNotFoundError(
            f"Found no valid file for the classes {', '.join(empty)}. "
            f"Supported extensions are: {', '.join(extensions)}"
        )
    labels = labels_of(table)
    return LazyList(Samples(Paths(table, root), labels)), LazyList(labels)
