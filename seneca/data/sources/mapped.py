"""Addresses in memory as places in the files that are mapped there."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from seneca._runtime.mappings import file_mappings
from seneca.data.sources.listing import PIECE, STATED, State
from seneca.errors import SourceError

__all__ = ["pieces_at"]


def pieces_at(
    addresses: np.ndarray, lengths: np.ndarray
) -> tuple[np.ndarray, Sequence[str], np.ndarray, np.ndarray] | None:
    """Find the pieces of files that are mapped at these addresses; None: some are in no file.

    Args:
        addresses: Where each value begins, uint64.
        lengths: Of the values, uint32.

    Returns:
        Pieces, containers, and what is stated of these and their ctimes, as a :class:`Listing` has them.
    """
    begins, ends, offsets, paths = _mapped()
    at = np.searchsorted(begins, addresses, side="right").astype(np.int64) - 1
    if not len(begins) or (at < 0).any() or (addresses + lengths > ends[at]).any():
        return None
    used = np.unique(at)
    containers = sorted({paths[mapping] for mapping in used.tolist()})
    number_of = {path: number for number, path in enumerate(containers)}
    pieces = np.zeros(len(addresses), PIECE)
    pieces["offset"] = addresses - begins[at] + offsets[at]
    pieces["length"] = lengths
    pieces["container"] = np.array([number_of.get(path, 0) for path in paths], np.uint32)[at]
    states = [State.of(status) for status in map(os.stat, containers)]
    stated = np.array([state.stated for state in states], STATED)
    return pieces, containers, stated, np.array([state.ctime_ns for state in states], np.int64)


def _mapped() -> tuple[np.ndarray, np.ndarray, np.ndarray, list[str]]:
    """The files that are mapped into this process, by address: begin, end, offset in the file, path.

    Raises:
        SourceError: The kernel does not list them, because there is no /proc.
    """
    try:
        mappings = file_mappings()
    except OSError as error:
        raise SourceError(
            f"/proc/self/maps cannot be read ({error.strerror}), so the files of the table are unknown; "
            "mount /proc, or open the pictures as files"
        ) from None
    there = [one for one in mappings if not one.path.endswith(" (deleted)")]
    columns = np.array([(one.begin, one.end, one.at) for one in there], np.uint64).reshape(-1, 3)
    return columns[:, 0], columns[:, 1], columns[:, 2], [one.path for one in there]
