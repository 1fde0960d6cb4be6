"""Pictures and sounds read where they are: in archives, tables, databases, and buckets."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from torch.utils.data import Subset

from seneca._runtime.lazy_list import LazyList
from seneca.data import sources
from seneca.data.folder import IMG_EXTENSIONS, ImageFolder
from seneca.data.pictures import PictureDataset
from seneca.data.sounds import SOUND_EXTENSIONS, SoundDataset, SoundFolder
from seneca.data.sources import PICTURES, SOUNDS, ListedPaths, Listing, ListingOptions, Medium, Samples
from seneca.data.sources.arrow import is_table, list_table, medium_of
from seneca.data.sources.labels import Labels
from seneca.data.sources.shared import shared
from seneca.transforms._pipeline import Decode, NativeTransform

__all__ = ["PictureArchive", "SoundArchive", "open"]


class _InContainers:
    """The part of a dataset that is made of a listing."""

    samples: Any
    targets: Any

    def _take(self, listing: Listing) -> None:
        given = Labels(np.zeros(len(listing.names), np.int64)) if listing.labels is None else listing.labels
        self.listing = listing = shared(dataclasses.replace(listing, labels=Labels.of(given)))
        self.root = listing.root.rstrip("/") or os.path.commonpath(
            [os.path.dirname(path) for path in listing.containers]
        )
        self.classes = list(listing.classes)
        self.class_to_idx = {name: number for number, name in enumerate(self.classes)}
        labels = listing.labels
        assert labels is not None
        self.samples = Samples(ListedPaths(listing), labels)
        self.targets = LazyList(labels) if isinstance(labels, Labels) else list(labels)

    def _described(self, what: str) -> str:
        n, first = len(self.listing.containers), self.listing.containers[0]
        where = first if n == 1 else f"{n} files in {self.root}"
        return f"{type(self).__name__}({len(self.samples)} {what} in {where})"


class PictureArchive(_InContainers, PictureDataset):
    """A dataset of pictures in containers or buckets; :func:`seneca.open` makes it.

    Samples are read at random where they are, and nothing is unpacked. Items are as those of
    :class:`seneca.ImageFolder`.

    Attributes:
        classes: Names of the classes, sorted; empty if labels are numbers without names.
        class_to_idx: Class name to class index.
        samples: ``(path, label)`` of every picture. The path is the container's, followed by the picture's
            name in it; or the URL of the picture. The samples cannot be changed; take a ``Subset`` for
            some of them.
        targets: The label of every picture.
        listing: Where the pictures are.
    """

    def __init__(self, listing: Listing, transform: Callable[..., Any] | None, **options: Any) -> None:
        super().__init__(transform, **options)
        self._take(listing)

    def __repr__(self) -> str:
        return self._described("pictures")


class SoundArchive(_InContainers, SoundDataset):
    """A dataset of sounds in containers or buckets; :func:`seneca.open` makes it.

    Items are as those of :class:`seneca.SoundFolder`, attributes as those of :class:`PictureArchive`.
    """

    def __init__(self, listing: Listing, transform: Callable[..., Any] | None, **options: Any) -> None:
        super().__init__(transform, **options)
        self._take(listing)

    def __repr__(self) -> str:
        return self._described("sounds")


def open(
    source: Any,
    transform: Callable[..., Any] | None = None,
    *,
    image: str | None = None,
    audio: str | None = None,
    label: str | None = None,
    labels: Callable[[str], int] | None = None,
    extensions: str | Sequence[str] | None = None,
    decode: Decode = "exact",
    apply_exif_orientation: bool = False,
    max_pixels: int | None = None,
    rate: int | None = None,
    mono: bool = False,
    channels: int | None = None,
) -> ImageFolder | SoundFolder | PictureArchive | SoundArchive | Subset[Any]:
    """Open pictures or sounds where they are stored, as a dataset for :class:`seneca.DataLoader`. Nothing is
    converted.

    If ``audio``, ``rate``, ``mono`` or ``channels`` is given, or a transform of sounds, they are sounds. Else
    they are pictures; and if there are none, sounds.

    * A folder is opened as :class:`seneca.ImageFolder` or :class:`seneca.SoundFolder`.
    * A ``.tar`` archive, a pattern, a range ``train-{000..146}.tar``, or a list of these: its members are
      read. So are WebDataset's shards.
    * A ``.json`` list of shards, as WebDataset's ``widsindex`` writes it: the archives in it are read.
    * A ``.zip`` archive whose members are stored and not compressed: likewise.
    * A ``datasets.Dataset`` (Hugging Face): its column of pictures is read.
    * ``.parquet`` files, likewise as a pattern, a range or a list: a column of pictures that is neither
      compressed nor in a dictionary is read, in the order of the rows.
    * An LMDB database, a folder with a ``data.mdb`` or a file ``.lmdb`` or ``.mdb``: values that begin as
      pictures do are read, in the order of their keys. Give ``labels``.
    * ``s3://``, ``gs://``, ``az://`` and ``hf://`` URLs: a prefix with folders of classes; or ``.tar``
      archives, whose members are read by their ranges. ``http://`` and ``https://``: such archives.

    What an archive lists is kept below ``$XDG_CACHE_HOME/seneca/archives`` for the next run.

    Args:
        source: What to open.
        transform, decode, apply_exif_orientation, max_pixels: As in :class:`seneca.ImageFolder`.
        rate, mono, channels: As in :class:`seneca.SoundFolder`.
        image, audio, label: Of a ``datasets.Dataset`` or Parquet files: the columns of pictures or sounds,
            and of labels. None: the only ones of type ``Image`` or ``Audio``, and ``ClassLabel``; in Parquet
            files without these types the only column of bytes, and the only one of whole numbers.
        labels: Of an archive, a database or Parquet files: a function that gives the label of a member, given
            its name or key. In Parquet files that is the path beside the picture, or the number of the row.
            None: in an archive a ``.cls`` member beside the picture has the label, as in WebDataset's
            shards; or the last folder in the picture's name is its class. Parquet files have a column.
        extensions: Of a folder or an archive: endings of the files that count, in lower case. None: the usual
            ones of pictures or sounds.

    Returns:
        The dataset. Of a ``datasets.Dataset`` that is shuffled, split or sliced it is a ``Subset`` of the
        whole table. Jobs on parts of one table therefore share the samples that they have in common.

    Raises:
        FileNotFoundError: There is no such file, or no picture in it.
        OSError: A server refuses or does not answer.
        SourceError: The file cannot be read in place, or it has no labels. The message says what to do.
        TypeError: ``source`` is something else.

    Example:
        >>> import tarfile, tempfile, seneca
        >>> from seneca.testing import make_pictures
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = make_pictures(f"{folder}/pictures", count=4, classes=2)
        ...     with tarfile.open(f"{folder}/pictures.tar", "w") as archive:
        ...         archive.add(f"{folder}/pictures", "pictures")
        ...     dataset = seneca.open(f"{folder}/pictures.tar")
        ...     image, label = dataset[3]
        >>> len(dataset), dataset.classes, label
        (4, ['class_00', 'class_01'], 1)
    """
    of_pictures: dict[str, Any] = {
        "decode": decode,
        "apply_exif_orientation": apply_exif_orientation,
        "max_pixels": max_pixels,
    }
    of_sounds: dict[str, Any] = {"rate": rate, "mono": mono, "channels": channels}
    endings = (extensions,) if isinstance(extensions, str) else extensions
    are_sounds = _are_sounds(transform) or audio is not None or any(of_sounds.values())
    if are_sounds and image is not None:
        raise ValueError(
            f"image={image!r} is of pictures, and other arguments are of sounds: give one kind of them"
        )
    if is_table(source):
        medium = SOUNDS if are_sounds else medium_of(source)
        listing, order = list_table(source, audio or image, label, medium)
        archive = _archive(listing, transform, medium, of_pictures, of_sounds)
        return archive if order is None else Subset(archive, order)  # type: ignore[arg-type]
    paths = [os.fspath(source)] if isinstance(source, (str, os.PathLike)) else source
    if not isinstance(paths, (list, tuple)) or not all(isinstance(path, str) for path in paths):
        raise TypeError(
            "seneca.open() takes the path of a folder or an archive, a list of archives, a URL, or a "
            f"datasets.Dataset, but got {type(source).__name__}"
        )
    kind = next((kind for kind in sources.SOURCES if kind.matches(paths)), None)

    def opened(medium: Medium) -> Any:
        usual = SOUND_EXTENSIONS if medium is SOUNDS else IMG_EXTENSIONS
        wanted = tuple(endings or usual)
        if kind is not None:
            listing = kind.list_pictures(paths, ListingOptions(wanted, labels, audio or image, label, medium))
            return _archive(listing, transform, medium, of_pictures, of_sounds)
        if medium is SOUNDS:
            return SoundFolder(paths[0], transform, extensions=wanted, **of_sounds)
        return ImageFolder(paths[0], transform, extensions=wanted, **of_pictures)

    if kind is None and not (len(paths) == 1 and _is_folder(paths[0])):
        raise ValueError(_why_not_opened(paths))
    if are_sounds:
        return opened(SOUNDS)
    try:
        return opened(PICTURES)
    except FileNotFoundError:
        if endings is not None:
            raise
        try:
            return opened(SOUNDS)
        except FileNotFoundError:
            pass  # neither: the first error says so
        raise


def _archive(
    listing: Listing, transform: Any, medium: Medium, of_pictures: dict[str, Any], of_sounds: dict[str, Any]
) -> PictureArchive | SoundArchive:
    if medium is SOUNDS:
        return SoundArchive(listing, transform, **of_sounds)
    return PictureArchive(listing, transform, **of_pictures)


def _are_sounds(transform: Any) -> bool:
    """Whether a transform is of sounds, as far as it says."""
    return isinstance(transform, NativeTransform) and transform.is_of_sounds()


def _is_folder(path: str) -> bool:
    return os.path.isdir(os.path.expanduser(path))


def _why_not_opened(paths: Sequence[str]) -> str:
    """Why no source matches these paths."""
    for path in paths:
        if not _is_folder(path) and not any(kind.matches([path]) for kind in sources.SOURCES):
            endings = ", ".join(ending for kind in sources.SOURCES for ending in kind.endings)
            return f"{path} is no folder, archive, table or database: its name ends in none of {endings}"
    return (
        f"{paths[0]} and the others cannot be one dataset; open each of them, and concatenate these with "
        "torch.utils.data.ConcatDataset"
    )
