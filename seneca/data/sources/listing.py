"""A list of samples, each of which is a piece of a container file."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, overload

import numpy as np

from seneca.data.sources.names import Names
from seneca.errors import SourceError

__all__ = [
    "PIECE",
    "RANGE",
    "STATED",
    "ListedPaths",
    "Listing",
    "Member",
    "Samples",
    "State",
    "key_of",
]

PIECE = np.dtype([("offset", "<u8"), ("length", "<u4"), ("container", "<u4")])
"""Where a sample's bytes are; as ``sn_piece``."""

STATED = np.dtype([("size_bytes", "<u8"), ("mtime_ns", "<i8")])
"""What distinguishes a container from others, and from itself after a change; as ``sn_container``."""


RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}")
"""In a path or URL: it stands for one with each number."""


class State(NamedTuple):
    """What distinguishes the content of a container from another that came to the same place.

    Size and time can be set back after a change. Nobody can set the ctime.
    """

    size_bytes: int
    mtime_ns: int
    ctime_ns: int
    inode: int

    @classmethod
    def of(cls, status: os.stat_result) -> State:
        return cls(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)

    @property
    def stated(self) -> tuple[int, int]:
        """The part of it that a copy has too, as :data:`STATED` has it."""
        return self.size_bytes, self.mtime_ns


class Member(NamedTuple):
    """A file in an archive. ``offset`` and ``length`` say where its bytes are."""

    name: str
    offset: int
    length: int


def key_of(name: str) -> str:
    """The key that members of one sample share in WebDataset's convention: the name up to the first dot of
    its last part."""
    folder, slash, last = name.rpartition("/")
    return folder + slash + last.partition(".")[0]


@dataclass(frozen=True)
class Listing:
    """Samples in containers, as they were when the containers were opened.

    Attributes:
        containers: Absolute paths of the containers; or URLs.
        stated: Size and time of modification of each, of type :data:`STATED`. A URL has no such time.
        names: The name of each sample within its container; empty: the container is the sample.
        pieces: Where its bytes are, of type :data:`PIECE`.
        labels: Its label; None: the containers have none.
        classes: The names of the classes; empty where labels are numbers without names.
        etags: What distinguishes each URL's object from itself after a change; empty: containers are files.
        root: What all URLs begin with, up to a slash.
        ctimes: The ctime of each container when it was listed, int64; empty for URLs.
        again: Lists one container, given its path, as it is now. Labels are None if a user's function gave
            them. None: it cannot be listed again.
    """

    containers: Sequence[str]
    stated: np.ndarray
    names: Sequence[str]
    pieces: np.ndarray
    labels: Sequence[int] | None = None
    classes: Sequence[str] = ()
    etags: Sequence[str] = ()
    root: str = ""
    ctimes: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    again: Callable[[str], Listing] | None = None

    def holds(self, container: int) -> bool:
        """Whether a container lists these samples now, each with its name and label in its place.

        Raises:
            OSError: It cannot be read.
        """
        mine = np.flatnonzero(self.pieces["container"] == container)
        if not len(mine):
            return True
        if self.again is None:
            return False
        try:
            now = self.again(self.containers[container])
        except (SourceError, FileNotFoundError):
            return False  # it is being written, is damaged, or has no pictures
        has_labels = now.labels is not None
        by_name = self.classes != now.classes
        return self._samples(mine, has_labels, by_name) <= now._samples(
            np.arange(len(now.names)), has_labels, by_name
        )

    def _samples(self, places: np.ndarray, has_labels: bool, by_name: bool) -> set[tuple[Any, ...]]:
        """Where some samples are, what they are called, and their labels, or the names of their classes."""
        pieces, found = self.pieces[places], places.tolist()
        labels: Sequence[Any] = [None] * len(found)
        if has_labels and self.labels is not None:
            labels = [self.labels[place] for place in found]
            labels = [self.classes[label] for label in labels] if by_name and self.classes else labels
        names = [self.names[place] for place in found]
        return set(zip(pieces["offset"].tolist(), pieces["length"].tolist(), names, labels, strict=True))

    def path(self, index: int) -> str:
        """A sample's name in messages: its container, and its name in it."""
        container = self.containers[int(self.pieces["container"][index])]
        name = self.names[index]
        return f"{container}/{name}" if name else container

    def all_names(self) -> Names:
        """The names as one text."""
        return self.names if isinstance(self.names, Names) else Names.of(self.names)


class ListedPaths(Sequence[str]):
    """The path of each sample of a listing. It is made when it is asked for."""

    def __init__(self, listing: Listing) -> None:
        self._listing = listing

    def __len__(self) -> int:
        return len(self._listing.names)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        places = range(len(self))[index]
        return (
            list(map(self._listing.path, places)) if isinstance(places, range) else self._listing.path(places)
        )

    def __iter__(self) -> Iterator[str]:
        return map(self._listing.path, range(len(self)))


class Samples(Sequence[tuple[str, int]]):
    """``(path, label)`` of each sample. A pair is made when it is asked for, and none is kept.

    Args:
        paths: The paths.
        labels: Their labels.
    """

    def __init__(self, paths: Sequence[str], labels: Sequence[int]) -> None:
        self._paths, self._labels = paths, labels

    @property
    def paths(self) -> Sequence[str]:
        """The paths alone, which nobody may change."""
        return self._paths

    @property
    def labels(self) -> Sequence[int]:
        """The labels alone, which nobody may change."""
        return self._labels

    def __len__(self) -> int:
        return len(self._labels)

    @overload
    def __getitem__(self, index: int) -> tuple[str, int]: ...
    @overload
    def __getitem__(self, index: slice) -> list[tuple[str, int]]: ...
    def __getitem__(self, index: int | slice) -> tuple[str, int] | list[tuple[str, int]]:
        if isinstance(index, slice):
            return list(zip(self._paths[index], self._labels[index], strict=True))
        return self._paths[index], self._labels[index]

    def __iter__(self) -> Iterator[tuple[str, int]]:
        return zip(self._paths, self._labels, strict=True)

    def __eq__(self, other: Any) -> bool:
        if not isinstance(other, (Samples, list, tuple)):
            return NotImplemented
        return len(self) == len(other) and all(one == its for one, its in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __deepcopy__(self, memo: Any) -> Samples:
        return self

    def __repr__(self) -> str:
        return f"<{len(self)} samples{f', the first of them {self[0]}' if len(self) else ''}>"
