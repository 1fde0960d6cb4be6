"""The files of a folder of pictures: which files there are, their labels, and what they are now.

The list is made of any dataset that keeps ``samples``, pairs of path and label, as
:class:`seneca.ImageFolder` and torchvision's datasets do. The dataset is not changed.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence
from operator import is_
from typing import Any

import numpy as np

from seneca._runtime.lazy_list import LazyList
from seneca.data.file_lists import AnyPiece, BucketFiles, ContainerFiles, PairFiles, PathFiles, Seen
from seneca.data.sources import Listing, Samples
from seneca.data.sources.buckets import Objects
from seneca.data.sources.labels import Labels

__all__ = ["PictureFiles", "files_of", "unchanged"]


class PictureFiles:
    """A dataset's list of pictures at one moment.

    Args:
        root: The folder. Paths below it are compared by the part after it.
        samples: ``(path, label)`` of every picture.
        listing: Where the pictures are, if they are in containers. A path is then the container's,
            followed by the picture's name in it.
        pairs: Whether each sample is a picture and a mask. The label is then the path of the mask.

    Attributes:
        samples: The list as it was at that moment.
        are_pairs: Whether each sample is a picture and a mask.
    """

    def __init__(
        self,
        root: str,
        samples: Sequence[tuple[str, Any]],
        listing: Listing | None = None,
        *,
        pairs: bool = False,
    ) -> None:
        self.root = root
        self.are_pairs = pairs
        # Samples that nobody has changed are not made into a list: there may be millions.
        samples = unchanged(samples)
        self.samples = samples if isinstance(samples, Samples) else list(samples)
        self._paths: PathFiles
        if pairs:
            self._paths = PairFiles(root, [str(path) for sample in self.samples for path in sample])
        elif listing is None:
            paths = samples.paths if isinstance(samples, Samples) else [path for path, _ in self.samples]
            self._paths = PathFiles(root, paths)
        else:
            self._paths = (BucketFiles if listing.etags else ContainerFiles)(root, listing)
        self._labels: np.ndarray | None = None
        self._fixed: bool | None = None

    def are(self, root: str, samples: Sequence[tuple[str, Any]]) -> bool:
        """Whether these are the pictures ``samples``: the same objects, none of which can have changed."""
        samples = unchanged(samples)
        if isinstance(samples, Samples):
            return self.root == root and self.samples is samples and self._paths.here == os.getcwd()
        return (
            self.root == root
            and len(self.samples) == len(samples)
            and all(map(is_, self.samples, samples))
            and self._are_fixed()
            and self._paths.here == os.getcwd()
        )

    def __len__(self) -> int:
        return len(self.samples)

    def stat(self) -> None:
        """Ask for the size and the time of modification of every file now, and read both ends of a few.

        C threads ask, without the GIL: as many as the process has cores, up to 16, and 64 if storage is slow.

        Raises:
            OSError: A file has gone, or cannot be asked. It names the first such file.
        """
        self._paths.stat()

    def fingerprint(self) -> bytes:
        """16 bytes that distinguish these files from others, and from the same files after a change.

        They are made of the path under ``root``, the size and the time of modification of every file, and
        of both ends of 16 files. Therefore two mounts of one dataset agree. Two datasets with equal names,
        sizes and times differ if these ends differ.

        The files are as :meth:`stat` last found them. The first call asks storage.

        Raises:
            OSError: A file has gone.
        """
        return self._paths.found().fingerprint

    def seen(self) -> Seen:
        """The findings of the last :meth:`stat`. The first call asks storage."""
        return self._paths.found()

    def take(self, seen: Seen) -> None:
        """Take what another process has just found about these files, instead of asking storage."""
        self._paths.take(seen)

    def newest_ctime(self) -> int:
        """The newest ctime of all files at the last :meth:`stat`, in ns of storage's clock; 0: none.

        Nobody can set a ctime. What is read after that differs from these files only if a file has a
        newer one.
        """
        return self._paths.found().newest

    def first_newest_ctime(self) -> int:
        """As :meth:`newest_ctime`, at the first :meth:`stat`. The first call asks storage."""
        self._paths.found()
        assert self._paths.first_newest is not None
        return self._paths.first_newest

    def changed_since(self, ctime_ns: int) -> tuple[np.ndarray, np.ndarray] | None:
        """The samples whose files had a newer ctime at the last :meth:`stat`; None: there are none.

        Their bytes may have changed; or their mode, owner or number of links.

        Returns:
            ``(samples, ctimes)``, sorted by sample, int64 both. Of several files of a sample, such as a
            picture and its mask, the newest ctime counts.
        """
        return self._paths.changed_since(ctime_ns)

    def ctime(self, index: int) -> int:
        """The ctime of a sample's file now, whatever the last :meth:`stat` has found.

        Raises:
            OSError: It cannot be asked.
        """
        return max(os.stat(path).st_ctime_ns for path in self._paths.files_of(index))

    def ctimes(self, samples: np.ndarray, *, now: bool) -> np.ndarray:
        """The ctimes of some samples, int64: as they are now, or else as the last :meth:`stat` found them.

        Raises:
            OSError: One of the files cannot be asked.
        """
        return self._paths.ctimes_of(samples, now=now)

    def modes(self) -> np.ndarray:
        """The mode of every file now, as ``os.stat`` gives it. Errors are those of :meth:`stat`."""
        return self._paths.stated_now()["mode"]

    def describe(self) -> str:
        """Describe what :meth:`fingerprint` is made of."""
        return self._paths.describe()

    def names(self) -> bytes:
        """16 bytes that distinguish these pictures and their order from others, whatever the files contain.

        They are made of the path of every file under ``root``. No file is touched.
        """
        return self._paths.names()

    def total_bytes(self) -> int:
        """The size of all files together, as :meth:`fingerprint` found them."""
        return self._paths.found().total_bytes

    def read(self, index: int) -> bytes:
        """The bytes of one picture."""
        return self._paths.read(index)

    def lengths(self) -> np.ndarray | None:
        """How many bytes every picture has, if they are listed; None: each has a file of its own."""
        return self._paths.lengths()

    def pieces(self) -> Sequence[AnyPiece]:
        """The bytes of every picture: where they are in which file or object."""
        return self._paths.pieces()

    def path_of(self, index: int, *, of_mask: bool = False) -> str:
        """The path of a picture, or of its mask."""
        return str(self.samples[index][1 if of_mask else 0])

    def objects(self) -> Objects | None:
        """Where the bytes of all pictures are to be fetched; None: they are in files of this host."""
        return self._paths.objects()

    def path_table(self) -> tuple[bytes | memoryview, np.ndarray]:
        """Every path, for the native reader.

        The table is made once. Relative paths are resolved against the current folder of that time.

        Returns:
            ``(blob, offsets)``. ``blob`` has the absolute paths one after the other, with a NUL after each.
            If there are many, it is a view of a file that processes share, else it is bytes.
            ``offsets`` is uint64 of shape (len + 1,). It has the place in the blob where each path begins,
            and at the end the length of the blob.
        """
        return self._paths.table()

    def places(self) -> tuple[Any, ...]:
        """Where every picture is, for the native reader: arguments of ``Stream``, from ``paths`` on."""
        return self._paths.places()

    def has_whole_labels(self) -> bool:
        """Whether every label is an int."""
        return not self.are_pairs and (self._are_fixed() or self._are_whole())

    def _are_whole(self) -> bool:
        return all(type(label) is int for _, label in self.samples)

    def _are_fixed(self) -> bool:
        """Whether every sample is a tuple of a text and an int, or of two texts: it cannot change."""
        if self._fixed is None and isinstance(self.samples, Samples):
            labels = self.samples.labels
            self._fixed = isinstance(labels, Labels) or all(type(label) is int for label in labels)
        elif self._fixed is None:
            second = str if self.are_pairs else int
            self._fixed = all(
                type(sample) is tuple and type(sample[0]) is str and type(sample[1]) is second
                for sample in self.samples
            )
        return self._fixed

    def labels(self) -> np.ndarray:
        """The label of every picture, int64.

        Raises:
            TypeError, ValueError: A label is not a whole number.
        """
        if self._labels is None or not self._are_fixed():
            samples = self.samples
            labels = samples.labels if isinstance(samples, Samples) else [label for _, label in samples]
            self._labels = labels.array if isinstance(labels, Labels) else np.asarray(labels, np.int64)
        return self._labels


def unchanged(samples: Sequence[tuple[str, Any]]) -> Sequence[tuple[str, Any]]:
    """What a lazy list has: the samples that it was made of, unless somebody has changed them."""
    return samples.items if isinstance(samples, LazyList) else samples


# The key is the dataset's id, because a dataset need not have a hash.
_known: dict[int, tuple[weakref.ref[Any], PictureFiles]] = {}


def files_of(dataset: Any) -> PictureFiles:
    """The pictures that are in ``dataset.samples`` now, with what earlier calls found about their files."""
    key = id(dataset)
    entry = _known.get(key)
    known = entry[1] if entry is not None and entry[0]() is dataset else None
    if known is not None and known.are(dataset.root, dataset.samples):
        return known
    listing = getattr(dataset, "listing", None)
    pairs = getattr(dataset, "are_pairs", False) is True
    files = PictureFiles(dataset.root, dataset.samples, listing, pairs=pairs)
    if listing is None and known is not None and known._paths.are(files.root, files._paths.paths):
        files._paths = known._paths
    _known[key] = weakref.ref(dataset, lambda _: _known.pop(key, None)), files
    return files
