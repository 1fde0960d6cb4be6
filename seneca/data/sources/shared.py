"""Puts a long listing, or a long list of paths, into a file, which all processes of a user map.

The file is named by its content. Therefore processes that have listed the same map the same file.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from seneca._runtime.private_files import private_folder
from seneca._runtime.user_cache import user_cache
from seneca.data.sources.kept_arrays import can_be_mapped, keep, opened
from seneca.data.sources.labels import Labels
from seneca.data.sources.listing import Listing
from seneca.data.sources.names import Names

__all__ = ["shared", "shared_text"]

WORTH_A_FILE = 10_000  # samples
PATH_BYTES = 100  # of a path, about
ENDING = ".listing"
UNUSED_S = 86400  # what is removed before that is soon written again


def shared(listing: Listing) -> Listing:
    """The same listing, in a file that processes share; a short one, or where there is no room, as it is."""
    if len(listing.names) < WORTH_A_FILE:
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
    found = _mapped(arrays, listing.containers[0])
    return listing if found is None else _in_file(listing, found)


def shared_text(paths: bytes, offsets: np.ndarray) -> tuple[bytes | memoryview, np.ndarray]:
    """The same paths, with a NUL after each, and where each begins; likewise."""
    if len(paths) < WORTH_A_FILE * PATH_BYTES:
        return paths, offsets
    first = os.fsdecode(paths[: int(offsets[1]) - 1])
    found = _mapped({"text": np.frombuffer(paths, np.uint8), "offsets": offsets}, first)
    return (paths, offsets) if found is None else (found["text"].data, found["offsets"])


def _mapped(arrays: dict[str, np.ndarray], of: str) -> dict[str, np.ndarray] | None:
    """These arrays in a file; None: there can be none. ``of``: what they list, or the first of that."""
    folder = user_cache() / "listings"
    if not can_be_mapped(folder):
        return None
    path = folder / f"{_digest_of(arrays)}{ENDING}"
    try:
        private_folder(folder)
        kept = opened(path)
        if kept is None:
            _sweep(folder)
            keep(path, {"of": [of]}, arrays)
            kept = opened(path)
    except OSError:
        return None
    return None if kept is None else kept.arrays


def _sweep(folder: Path) -> None:
    """Remove the files that nobody has used for a day. A process that has mapped one goes on with it.

    A job that takes other samples each time that it runs has another list each time.
    """
    for entry in os.scandir(folder):
        with contextlib.suppress(OSError):  # another process was first
            if entry.name.endswith(ENDING) and entry.stat().st_mtime < time.time() - UNUSED_S:
                os.unlink(entry.path)


def _in_file(listing: Listing, arrays: dict[str, np.ndarray]) -> Listing:
    """The listing with what a file has in place of what is in memory."""
    found: dict[str, Any] = {name: arrays[name] for name in ("pieces", "stated", "ctimes")}
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
