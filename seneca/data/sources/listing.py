"""A list of samples, each of which is a piece of a container file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

__all__ = ["PIECE", "STATED", "Listing", "Member"]

PIECE = np.dtype([("offset", "<u8"), ("length", "<u4"), ("container", "<u4")])
"""Where a sample's bytes are; as ``sn_piece``."""

STATED = np.dtype([("size_bytes", "<u8"), ("mtime_ns", "<i8")])
"""What tells a container from others, and from itself after a change; as ``sn_container``."""


class Member(NamedTuple):
    """A file in an archive. ``offset`` and ``length`` say where its bytes are."""

    name: str
    offset: int
    length: int


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
        etags: What tells each URL's object from itself after a change; empty: containers are files.
        root: What all URLs begin with, up to a slash.
    """

    containers: Sequence[str]
    stated: np.ndarray
    names: Sequence[str]
    pieces: np.ndarray
    labels: Sequence[int] | None = None
    classes: Sequence[str] = ()
    etags: Sequence[str] = ()
    root: str = ""

    def path(self, index: int) -> str:
        """What a sample is called in messages: its container, and its name in it."""
        container = self.containers[int(self.pieces["container"][index])]
        return f"{container}/{self.names[index]}" if self.names[index] else container
