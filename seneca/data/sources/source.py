"""A kind of container: a row of :data:`seneca.data.sources.SOURCES`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from seneca.data.sources.listing import Listing

__all__ = ["ListingOptions", "Source"]


@dataclass(frozen=True)
class ListingOptions:
    """The user's arguments about the pictures in a container. Attributes: see :func:`seneca.open`."""

    extensions: tuple[str, ...]
    labels: Callable[[str], int] | None = None
    image: str | None = None
    label: str | None = None


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
