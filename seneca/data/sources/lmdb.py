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
from seneca.data.sources.medium import Medium
from seneca.data.sources.source import ListingOptions
from seneca.errors import SourceError

__all__ = ["ENDINGS", "is_database", "list_database", "matches"]

FILE = "data.mdb"  # of a database that is a folder
ENDINGS = (".lmdb", ".mdb")


def is_database(path: str) -> bool:
    """Whether this is a folder with a database, or is called like the file of one."""
    path = os.path.expanduser(path)
    if os.path.isdir(path):
        return os.path.isfile(os.path.join(path, FILE))
    return path.lower().endswith(ENDINGS)


def matches(paths: Sequence[str]) -> bool:
    return len(paths) == 1 and is_database(paths[0])


def list_database(paths: Sequence[str], options: ListingOptions) -> Listing:
    """The values that are pictures, or sounds, in the order of their keys.

    A value is one if it begins as such a file does (``medium.py``). Other values, such as a count of the
    pictures, are left out.

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
            f"the {options.medium.what} in {path} have keys, and no classes; give labels=, a function of a "
            "key that returns the label"
        )
    if not os.path.exists(path):
        raise FileNotFoundError(f"there is no database {path}")
    path = os.path.realpath(os.path.join(path, FILE) if os.path.isdir(path) else path)
    return _list(path, options.labels, options.medium)


def _list(path: str, labels: Callable[[str], int], medium: Medium) -> Listing:
    keys, pieces = [], []
    file = open_regular(path)
    try:
        # Nothing is locked: what is read later is checked against the file's size and time instead.
        state = State.of(os.fstat(file))
        for value in values_of_database(functools.partial(os.pread, file), path, state.size_bytes):
            if medium.begins(value.beginning):
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
        raise FileNotFoundError(f"{path} has no {medium.what}: no value begins as one")
    found, of_file = np.array(pieces, PIECE), np.array([state.stated], STATED)
    given, ctimes = [int(labels(key)) for key in keys], np.array([state.ctime_ns], np.int64)
    return Listing(
        [path], of_file, keys, found, given, ctimes=ctimes, again=functools.partial(_list_again, medium)
    )


def _list_again(medium: Medium, path: str) -> Listing:
    """See :attr:`Listing.again`."""
    return dataclasses.replace(_list(path, no_label, medium), labels=None)
