"""A kind of container: a row of :data:`seneca.data.sources.SOURCES`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from seneca.data.sources.listing import Listing
from seneca.data.sources.medium import PICTURES, Medium

__all__ = ["ListingOptions", "Source"]


@dataclass(frozen=True)
class ListingOptions:
    """The user's arguments about the samples in a container.

    Attributes:
        extensions, labels, label: See :func:`seneca.open`.
        column: What :func:`seneca.open` calls ``image`` or ``audio``.
        medium: Whether they are pictures or sounds.
    """

    extensions: tuple[str, ...]
    labels: Callable[[str], int] | None = None
    column: str | None = None
    label: str | None = None
    medium: Medium = PICTURES


class Source(NamedTuple):
    """A kind of container.

    Attributes:
        matches: Whether these paths or URLs are of this kind. It reads no file.
        list_pictures: Where the pictures in them are.
        endings: Of the names of such files, in lower case, for messages.
    """

    matches: Callable[[Sequence[str]], bool]
    list_pictures: Callable[[Sequence[str], ListingOptions], Listing]
    endings: tuple[str, ...] = ()
