"""The common part of all datasets of pictures: samples, a transform, and how a picture is decoded."""

from __future__ import annotations

from collections.abc import Callable, MutableSequence, Sequence
from typing import Any, get_args

from seneca.data.files import files_of
from seneca.transforms._pipeline import Decode

__all__ = ["PictureDataset"]


class PictureDataset:
    """Pictures with labels, which the native core reads, decodes and transforms.

    It holds paths and labels, and nothing that is open. Therefore it pickles and forks. See
    :class:`seneca.ImageFolder` for the arguments.

    Attributes:
        root: The folder in which the files are.
        samples: ``(path, label)`` of every picture.
        targets: The label of every picture.
        target_transform: Makes an item's target of the label; None: the label is the target.
    """

    root: str
    samples: Sequence[tuple[str, int]]
    targets: MutableSequence[int]
    target_transform: Callable[[Any], Any] | None = None

    def __init__(
        self,
        transform: Callable[..., Any] | None,
        *,
        decode: Decode,
        apply_exif_orientation: bool,
        max_pixels: int | None,
    ) -> None:
        if decode not in get_args(Decode):
            raise ValueError(f'decode is "exact" or "fast", but got {decode!r}')
        if max_pixels is not None and max_pixels < 1:
            raise ValueError(f"max_pixels is at least 1 or None, but got {max_pixels!r}")
        self.transform = transform
        self.decode = decode
        self.apply_exif_orientation = apply_exif_orientation
        self.max_pixels = max_pixels

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """Read, decode and transform one picture in this process.

        Args:
            index: Place in ``samples``.

        Returns:
            ``(image, target)``. The target is the class index, or what ``target_transform`` makes of it.
            With a transform of Seneca's, ``image`` is a tensor of shape (3, height, width), float32 or of the
            type that the transform says. Its random numbers are drawn from torch's global generator.

        Raises:
            DecodeError: The file is damaged, or its picture has more than ``max_pixels``. The message names
                the file.
            OSError: The file cannot be read.
        """
        # Imported here only: this module knows paths and bytes, and the pipeline knows pixels and
        # tensors.
        from seneca.transforms._apply import load_picture

        path, target = self.samples[index]
        picture = load_picture(
            self.read(index),
            self.transform,
            path,
            decode=self.decode,
            apply_orientation=self.apply_exif_orientation,
            max_pixels=self.max_pixels,
        )
        if self.target_transform is not None:
            target = self.target_transform(target)
        return picture, target

    def read(self, index: int) -> bytes:
        """The bytes of one picture."""
        return files_of(self).read(index)

    def fingerprint(self) -> bytes:
        """16 bytes that distinguish this dataset from others; see :class:`seneca.data.files.PictureFiles`."""
        return files_of(self).fingerprint()

    def total_bytes(self) -> int:
        """The size of all files together, as :meth:`fingerprint` found them."""
        return files_of(self).total_bytes()

    def newest_ctime(self) -> int:
        """The newest ctime of all files; see :meth:`seneca.data.files.PictureFiles.newest_ctime`."""
        return files_of(self).newest_ctime()
