"""A list of pictures with targets, such as the rows of a CSV file."""

from __future__ import annotations

import itertools
import os
import stat
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from seneca.data.files import files_of
from seneca.data.pictures import PictureDataset
from seneca.transforms._pipeline import Decode

__all__ = ["PictureList", "check_files", "common_folder", "samples_of"]


class PictureList(PictureDataset):
    """A dataset of pictures that you list, each with its target.

    A loader prepares it natively, as it does :class:`seneca.ImageFolder`. It takes the place of a
    ``Dataset`` of your own whose ``__getitem__`` opens a path, converts it to RGB, transforms it and adds a
    label.

    Args:
        entries: Pairs ``(path, target)``. A target is anything that ``collate_fn`` takes. torch's default
            takes numbers, texts, tensors, arrays, and tuples, lists and dicts of these. ``None`` needs a
            ``collate_fn``.
        transform, decode, apply_exif_orientation, max_pixels: As in :class:`seneca.ImageFolder`.
        target_transform: A function that makes the target of an item from that of its entry.
        root: The folder to which relative paths belong. None: the current folder.
        allow_duplicates: Whether a path may be listed more than once: with several captions, for example.

    Attributes:
        samples: ``(path, target)`` of every picture; a relative path begins with ``root``.
        targets: The target of every picture.

    Raises:
        FileNotFoundError, IsADirectoryError: There is no file at a path. The message names the entry.
        OSError: The file system gives no answer about a path, or the path is no regular file.
        TypeError: An entry is no pair, or its path is no path.
        ValueError: There are no entries, a path is listed twice, or an option has a wrong value.

    Example:
        >>> import csv, tempfile, seneca
        >>> from seneca import transforms as T
        >>> from seneca.testing import make_pictures
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = make_pictures(folder, count=2, classes=1)
        ...     rows = ["class_00/picture_00000.jpg,0.5", "class_00/picture_00001.jpg,0.25"]
        ...     entries = [(path, float(price)) for path, price in csv.reader(rows)]
        ...     dataset = seneca.PictureList(entries, T.Resize((32, 48)), root=folder)
        ...     image, price = dataset[1]
        >>> len(dataset), tuple(image.shape), price
        (2, (3, 32, 48), 0.25)
    """

    samples: list[tuple[str, Any]]  # type: ignore[assignment]  # a folder's labels are whole numbers
    targets: list[Any]

    def __init__(
        self,
        entries: Iterable[tuple[str | os.PathLike[str], Any]],
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        *,
        root: str | os.PathLike[str] | None = None,
        allow_duplicates: bool = False,
        decode: Decode = "exact",
        apply_exif_orientation: bool = False,
        max_pixels: int | None = None,
    ) -> None:
        super().__init__(
            transform, decode=decode, apply_exif_orientation=apply_exif_orientation, max_pixels=max_pixels
        )
        self.target_transform = target_transform
        self.samples, below = samples_of(
            entries, root, allow_duplicates=allow_duplicates, what="pictures", name="seneca.PictureList"
        )
        self.targets = [target for _, target in self.samples]
        self.root = below or common_folder(self.samples)
        check_files(self, "seneca.ImageFolder")

    def __repr__(self) -> str:
        return f"PictureList({len(self)} pictures in {self.root or '.'})"


def samples_of(
    entries: Iterable[tuple[str | os.PathLike[str], Any]],
    root: str | os.PathLike[str] | None,
    *,
    allow_duplicates: bool,
    what: str,
    name: str,
) -> tuple[list[tuple[str, Any]], str]:
    """The entries as samples, and the folder to which relative paths belong.

    Args:
        entries, root, allow_duplicates: As of :class:`seneca.PictureList`.
        what, name: What they are, and the name of the class that takes them, for messages.

    Raises:
        TypeError: An entry is no pair, or its path is no path.
        ValueError: There are no entries, or a path is listed twice.
    """
    if isinstance(entries, (str, bytes, os.PathLike)) or not isinstance(entries, Iterable):
        raise TypeError(
            f"{name}() takes pairs (path, target), but got "
            f"{type(entries).__name__}; seneca.open() opens folders and archives"
        )
    below = "" if root is None else os.path.join(os.path.expanduser(os.fspath(root)), "")
    samples = [_sample(number, entry, below) for number, entry in enumerate(entries)]
    if not samples:
        raise ValueError(f"the list of {what} is empty; give at least one pair (path, target)")
    if not allow_duplicates:
        _check_duplicates(samples)
    return samples, below.rstrip("/")


def check_files(
    dataset: Any,
    of_folders: str,
    *,
    remedy: str = "correct or remove the entry, or name with root= the folder that its path belongs to",
) -> None:
    """Ask for every file of ``samples``, in several threads.

    Args:
        dataset: Has ``root`` and ``samples``.
        of_folders: The class that opens a folder.
        remedy: What to do about a file that is not there.

    Raises:
        FileNotFoundError, IsADirectoryError, OSError: A path has no regular file. The message names the
            entry.
    """
    files = files_of(dataset)
    try:
        modes = files.modes()
    except OSError as error:
        number = next(i for i, (path, _) in enumerate(dataset.samples) if path == error.filename)
        reason = f"{error.strerror}, of entry {number}; {remedy}"
        raise OSError(error.errno, reason, error.filename) from None
    for number in np.flatnonzero(modes & 0o170000 != stat.S_IFREG).tolist():
        path = dataset.samples[number][0]
        if stat.S_ISDIR(int(modes[number])):
            instead = f"list the files in it, or open it with {of_folders}"
            raise IsADirectoryError(f"entry {number} is a folder: {path!r}; {instead}")
        raise OSError(f"entry {number} is no regular file: {path!r}; remove the entry")


def _sample(number: int, entry: Any, below: str) -> tuple[str, Any]:
    """An entry as a sample."""
    if not isinstance(entry, (tuple, list, np.ndarray)) or len(entry) != 2:
        raise TypeError(f"entry {number} is {entry!r}; give a pair (path, target)")
    path, target = entry
    if not isinstance(path, (str, os.PathLike)) or not isinstance(text := os.fspath(path), str):
        raise TypeError(
            f"entry {number} has the path {path!r}, a {type(path).__name__}; give a text or a "
            "pathlib.Path, or leave the entry out"
        )
    if not text:
        raise ValueError(f"entry {number} has an empty path; correct it, or leave the entry out")
    return os.path.join(below, text), target


def _check_duplicates(samples: list[tuple[str, Any]]) -> None:
    first: dict[str, int] = {}
    for number, (path, _) in enumerate(samples):
        known = first.setdefault(os.path.normpath(path), number)
        if known != number:
            raise ValueError(
                f"entry {number} has the path of entry {known}: {path!r}; remove one of them, or pass "
                "allow_duplicates=True"
            )


def common_folder(samples: list[tuple[str, Any]]) -> str:
    """The folder that contains all files, as their paths say it; "" if they have none in common."""
    folders = [os.path.dirname(path) for path, _ in samples]
    first, last = min(folders).split("/"), max(folders).split("/")
    same = (one == other for one, other in zip(first, last, strict=False))
    return "/".join(first[: sum(itertools.takewhile(bool, same))])
