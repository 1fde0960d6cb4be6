"""Puts a long listing into a file, which all processes of a user map.

The file is named by its content. Therefore processes that have listed the same map the same file, however each of
them came to it.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence

import numpy as np
import xxhash

from seneca._runtime.private_files import private_folder
from seneca._runtime.user_cache import user_cache
from seneca.data.sources.kept_arrays import Kept, can_be_mapped, keep, opened
from seneca.data.sources.labels import Labels
from seneca.data.sources.listing import Listing
from seneca.data.sources.names import Names

__all__ = ["shared"]

WORTH_A_FILE = 10_000  # samples
ENDING = ".listing"


def shared(listing: Listing) -> Listing:
    """The same listing, in a file that processes share; a short one, or where there is no room, as it is."""
    folder = user_cache() / "listings"
    if len(listing.names) < WORTH_A_FILE or not can_be_mapped(folder):
        return listing
    arrays = {
        "pieces": listing.pieces,
        "stated": listing.stated,
        "ctimes": listing.ctimes,
        **listing.all_names().arrays("names"),
        **_names_of(listing.containers).arrays("containers"),
        **_names_of(listing.etags).arrays("etags"),
    }
    if isinstance(listing.labels, Labels):
        arrays["labels"] = listing.labels.array
    path = folder / f"{_digest_of(arrays)}{ENDING}"
    try:
        private_folder(folder)
        kept = opened(path)
        if kept is None:
            keep(path, {"of": [*listing.containers[:1]]}, arrays)
            kept = opened(path)
    except OSError:
        return listing
    return listing if kept is None else _in_file(listing, kept)


def _in_file(listing: Listing, kept: Kept) -> Listing:
    """The listing with what the file has in place of what is in memory."""
    arrays = kept.arrays
    found = {name: arrays[name] for name in ("pieces", "stated", "ctimes")}
    if "labels" in arrays:
        found["labels"] = Labels(arrays["labels"])
    for name in ("names", "containers", "etags"):
        if len(getattr(listing, name)) >= WORTH_A_FILE:
            found[name] = Names.of_arrays(arrays, name)
    return dataclasses.replace(listing, **found)


def _names_of(texts: Sequence[str]) -> Names:
    return texts if isinstance(texts, Names) else Names.of(texts)


def _digest_of(arrays: dict[str, np.ndarray]) -> str:
    digest = xxhash.xxh3_128()
    for array in arrays.values():
        digest.update(len(array).to_bytes(8, "little"))
        digest.update(np.ascontiguousarray(array).view(np.uint8).data if len(array) else b"")
    return digest.hexdigest()
