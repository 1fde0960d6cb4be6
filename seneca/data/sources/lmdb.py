"""The pictures in an LMDB database, whose values are stored in its file as they were put."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Sequence

import numpy as np

from seneca._runtime.regular_files import open_regular
from seneca.data.sources.archives import MOST_BYTES, no_label
from seneca.data.sources.listing import PIECE, STATED, Listing, State
from seneca.data.sources.lmdb_pages import values_of_database
from seneca.data.sources.source import ListingOptions
from seneca.errors import SourceError

__all__ = ["ENDINGS", "is_database", "is_picture", "list_database", "matches"]

FILE = "data.mdb"  # of a database that is a folder
ENDINGS = (".lmdb", ".mdb")
BEGINNINGS = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF8", b"BM", b"II*\0", b"MM\0*")


def is_database(path: str) -> bool:
    """Whether this is a folder with a database, or is called like the file of one."""
    path = os.path.expanduser(path)
    if os.path.isdir(path):
        return os.path.isfile(os.path.join(path, FILE))
    return path.lower().endswith(ENDINGS)


def matches(paths: Sequence[str]) -> bool:
    return len(paths) == 1 and is_database(paths[0])


def list_database(paths: Sequence[str], options: ListingOptions) -> Listing:
    """The values that are pictures, in the order of their keys.

    A value is a picture if it begins as a JPEG, PNG, WebP, GIF, BMP or TIFF does. Other values, such as a
    count of the pictures, are left out.

    Args:
        paths: The folder of the one database, or its file.
        options: The labels of pictures, given their keys.

    Raises:
        FileNotFoundError: There is no such database, or no picture in it.
        SourceError: The file is no database or is damaged, a picture is too large, or there are no labels.
    """
    path = os.path.expanduser(paths[0])
    if options.labels is None:
        raise SourceError(
            f"the pictures in {path} have keys, and no classes; give labels=, a function of a key that "
            "returns the label"
        )
    if not os.path.exists(path):
        raise FileNotFoundError(f"there is no database {path}")
    return _list(os.path.realpath(os.path.join(path, FILE) if os.path.isdir(path) else path), options.labels)


def _list(path: str, labels: Callable[[str], int]) -> Listing:
    keys, pieces = [], []
    file = open_regular(path)
    try:
        # Nothing is locked: what is read later is checked against the file's size and time instead.
        state = State.of(os.fstat(file))
        for value in values_of_database(functools.partial(os.pread, file), path, state.size_bytes):
            if is_picture(value.beginning):
                key = value.key.decode(errors="backslashreplace")
                if value.length > MOST_BYTES:
                    raise SourceError(
                        f"{path}: {key} has {value.length:,} bytes, and a sample has at most 1 GiB"
                    )
                keys.append(key)
                pieces.append((value.offset, value.length, 0))
        now = State.of(os.fstat(file))
    finally:
        os.close(file)
    if now != state:
        raise SourceError(f"{path} is being written; open it when it is complete")
    if not keys:
        raise FileNotFoundError(f"{path} has no pictures: no value begins as one")
    found, of_file = np.array(pieces, PIECE), np.array([state.stated], STATED)
    given, ctimes = [int(labels(key)) for key in keys], np.array([state.ctime_ns], np.int64)
    return Listing([path], of_file, keys, found, given, ctimes=ctimes, again=_list_again)


def _list_again(path: str) -> Listing:
    """See :attr:`Listing.again`."""
    return dataclasses.replace(_list(path, no_label), labels=None)


def is_picture(beginning: bytes) -> bool:
    """Whether a value whose first 12 bytes these are is a picture."""
    return beginning.startswith(BEGINNINGS) or (beginning[:4] == b"RIFF" and beginning[8:12] == b"WEBP")
