"""Pictures read where they are: in archives, tables, databases, and buckets."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from torch.utils.data import Subset

from seneca.data import sources
from seneca.data.folder import IMG_EXTENSIONS, ImageFolder
from seneca.data.pictures import PictureDataset
from seneca.data.sources import Listing, ListingOptions, Samples
from seneca.data.sources.arrow import is_table, list_table
from seneca.transforms._pipeline import Decode

__all__ = ["PictureArchive", "open"]


class PictureArchive(PictureDataset):
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
        self.listing = listing
        self.root = listing.root.rstrip("/") or os.path.commonpath(
            [os.path.dirname(path) for path in listing.containers]
        )
        self.classes = list(listing.classes)
        self.class_to_idx = {name: number for number, name in enumerate(self.classes)}
        labels = [0] * len(listing.names) if listing.labels is None else list(listing.labels)
        self.samples = Samples(listing, labels)
        self.targets = list(labels)

    def __repr__(self) -> str:
        n, first = len(self.listing.containers), self.listing.containers[0]
        return f"PictureArchive({len(self)} pictures in {first if n == 1 else f'{n} files in {self.root}'})"


def open(
    source: Any,
    transform: Callable[..., Any] | None = None,
    *,
    image: str | None = None,
    label: str | None = None,
    labels: Callable[[str], int] | None = None,
    extensions: str | Sequence[str] = IMG_EXTENSIONS,
    decode: Decode = "exact",
    apply_exif_orientation: bool = False,
    max_pixels: int | None = None,
) -> ImageFolder | PictureArchive | Subset[Any]:
    """Open pictures where they are stored, as a dataset for :class:`seneca.DataLoader`. Nothing is converted.

    * A folder is opened as :class:`seneca.ImageFolder`.
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
        image, label: Of a ``datasets.Dataset`` or Parquet files: the columns of pictures and labels. None:
            the only ones of type ``Image`` and ``ClassLabel``; in Parquet files without these types the
            only column of bytes, and the only one of whole numbers.
        labels: Of an archive, a database or Parquet files: a function that gives the label of a member, given
            its name or key. In Parquet files that is the path beside the picture, or the number of the row.
            None: in an archive a ``.cls`` member beside the picture has the label, as in WebDataset's
            shards; or the last folder in the picture's name is its class. Parquet files have a column.
        extensions: Of an archive: endings of the members that are pictures, in lower case.

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
    options: dict[str, Any] = {
        "decode": decode,
        "apply_exif_orientation": apply_exif_orientation,
        "max_pixels": max_pixels,
    }
    endings = (extensions,) if isinstance(extensions, str) else tuple(extensions)
    if is_table(source):
        listing, order = list_table(source, image, label)
        dataset = PictureArchive(listing, transform, **options)
        return dataset if order is None else Subset(dataset, order)  # type: ignore[arg-type]
    paths = [os.fspath(source)] if isinstance(source, (str, os.PathLike)) else source
    if not isinstance(paths, (list, tuple)) or not all(isinstance(path, str) for path in paths):
        raise TypeError(
            "seneca.open() takes the path of a folder or an archive, a list of archives, a URL, or a "
            f"datasets.Dataset, but got {type(source).__name__}"
        )
    kind = next((kind for kind in sources.SOURCES if kind.matches(paths)), None)
    if kind is not None:
        listing = kind.list_pictures(paths, ListingOptions(endings, labels, image, label))
        return PictureArchive(listing, transform, **options)
    if len(paths) == 1 and _is_folder(paths[0]):
        return ImageFolder(paths[0], transform, extensions=endings, **options)
    raise ValueError(_why_not_opened(paths))


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
