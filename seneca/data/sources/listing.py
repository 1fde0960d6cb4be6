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
        containers: Absolute paths of the containers.
        stated: Size and time of modification of each, of type :data:`STATED`.
        names: The name of each sample within its container.
        pieces: Where its bytes are, of type :data:`PIECE`.
        labels: Its label; None: the containers have none.
        classes: The names of the classes; empty where labels are numbers without names.
    """

    containers: Sequence[str]
    stated: np.ndarray
    names: Sequence[str]
    pieces: np.ndarray
    labels: Sequence[int] | None = None
    classes: Sequence[str] = ()
