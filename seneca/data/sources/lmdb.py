"""The pictures in an LMDB database, whose values lie in its file as they were put."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np

from seneca.data.sources.listing import Listing
from seneca.data.sources.mapped import pieces_at
from seneca.errors import SourceError

__all__ = ["is_database", "is_picture", "list_database"]

FILE = "data.mdb"  # of a database that is a folder
ENDINGS = (".lmdb", ".mdb")
BEGINNINGS = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF8", b"BM", b"II*\0", b"MM\0*")


def is_database(path: str) -> bool:
    """Whether this is a folder with a database, or is called like the file of one."""
    path = os.path.expanduser(path)
    if os.path.isdir(path):
        return os.path.isfile(os.path.join(path, FILE))
    return path.lower().endswith(ENDINGS)


def list_database(path: str, labels: Callable[[str], int] | None) -> Listing:
    """The values that are pictures, in the order of their keys.

    A value is a picture if it begins as a JPEG, PNG, WebP, GIF, BMP or TIFF does. Other values, such as a
    count of the pictures, are left out.

    Args:
        path: The folder of the database, or its file.
        labels: The label of a picture, given its key.

    Raises:
        FileNotFoundError: There is no such database, or no picture in it.
        SourceError: The package ``lmdb`` is not installed, the file is no database, or there are no labels.
    """
    path = os.path.expanduser(path)
    if labels is None:
        raise SourceError(
            f"the pictures in {path} have keys, and no classes; give labels=, a function of a key that "
            "returns the label"
        )
    try:
        import lmdb
    except ImportError:
        raise SourceError(f"{path} needs the package lmdb: pip install lmdb") from None
    if not os.path.exists(path):
        raise FileNotFoundError(f"there is no database {path}")
    keys, addresses, lengths = [], [], []
    try:
        # Nothing is locked: what is read later is checked against the file's size and time instead.
        with (
            lmdb.open(path, subdir=os.path.isdir(path), readonly=True, lock=False, create=False) as database,
            database.begin(buffers=True) as reading,
        ):
            for key, value in reading.cursor():
                if is_picture(bytes(value[:12])):
                    keys.append(bytes(key).decode(errors="backslashreplace"))
                    addresses.append(np.frombuffer(value, np.uint8).ctypes.data)
                    lengths.append(len(value))
            found = pieces_at(np.array(addresses, np.uint64), np.array(lengths, np.uint32))
    except lmdb.Error as error:
        raise SourceError(f"{path} cannot be read as an LMDB database: {error}") from None
    if not keys:
        raise FileNotFoundError(f"{path} has no pictures: no value begins as one")
    assert found is not None, "LMDB maps its file"
    pieces, containers, stated = found
    return Listing(containers, stated, keys, pieces, [int(labels(key)) for key in keys])


def is_picture(beginning: bytes) -> bool:
    """Whether a value whose first 12 bytes these are is a picture."""
    return beginning.startswith(BEGINNINGS) or (beginning[:4] == b"RIFF" and beginning[8:12] == b"WEBP")
