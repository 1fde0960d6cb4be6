"""The pictures in a Hugging Face ``datasets.Dataset``, which are stored in Arrow files as they were."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from seneca.data.sources.listing import Listing
from seneca.data.sources.mapped import pieces_at
from seneca.data.sources.medium import PICTURES, SOUNDS, Medium
from seneca.errors import SourceError

__all__ = ["is_table", "list_table", "medium_of"]

SHARD = re.compile(r"(?P<table>.+)-\d{5}-of-(?P<count>\d{5})\.arrow", re.DOTALL)  # a file of several


def is_table(source: Any) -> bool:
    """Whether this is a ``datasets.Dataset``. The package is not imported for that."""
    datasets = sys.modules.get("datasets")
    return datasets is not None and isinstance(source, datasets.Dataset)


def medium_of(table: Any) -> Medium:
    """Whether a table is of pictures or of sounds, by the types of its columns."""
    import datasets

    types = set(map(type, table.features.values()))
    return SOUNDS if datasets.Audio in types and datasets.Image not in types else PICTURES


def list_table(
    table: Any, image: str | None, label: str | None, medium: Medium = PICTURES
) -> tuple[Listing, list[int] | None]:
    """The pictures, or sounds, in a column of a ``datasets.Dataset``.

    Args:
        table: The ``datasets.Dataset``.
        image: The column of them; None: the only one of type ``Image``, or ``Audio``.
        medium: Which of both.
        label: The column of labels; None: the only one of type ``ClassLabel``.

    Returns:
        The pictures of the whole table, and the indices of those that are the dataset's, in its order;
        None: all. ``select``, ``shard``, ``shuffle``, ``train_test_split`` and the like leave such a part.

    Raises:
        SourceError: There is no such column; or its pictures are not in files that are mapped into memory.
    """
    import datasets

    features = table.features
    image = _column(features, image, getattr(datasets, medium.feature), medium.argument, medium.what)
    label = _column(features, label, datasets.ClassLabel, "label", "labels")
    classes = list(getattr(features[label], "names", None) or [])
    listing = _listing(table.data.table, image, label, classes)
    order = None if table._indices is None else table._indices.column(0).to_numpy()
    whole = _whole(listing, image, label)
    if whole is not None:
        listing, places = whole
        order = places if order is None else places[order]
    return listing, None if order is None else order.tolist()


def _listing(table: Any, image: str, label: str, classes: list[str]) -> Listing:
    """The pictures and labels of all rows."""
    columns = table.select([image, label])
    addresses, lengths = _pieces(columns.column(image), image)
    given = columns.column(label).to_numpy().tolist()
    pieces, containers, stated, ctimes = _in_files(addresses, lengths, image)
    names = [f"{offset}" for offset in pieces["offset"].tolist()]
    again = functools.partial(_list_again, image, label, classes)
    return Listing(containers, stated, names, pieces, given, classes, ctimes=ctimes, again=again)


def _list_again(image: str, label: str, classes: list[str], path: str) -> Listing:
    """See :attr:`Listing.again`."""
    import pyarrow as pa

    try:
        return _listing(_rows_of([path]), image, label, classes)
    except (KeyError, pa.ArrowException) as error:
        raise SourceError(f"{path} is no longer the table that it was: {error}") from None


def _rows_of(paths: Sequence[str]) -> Any:
    """All rows of these files, one after the other."""
    import pyarrow as pa

    return pa.concat_tables([pa.ipc.open_stream(pa.memory_map(path)).read_all() for path in paths])


def _whole(part: Listing, image: str, label: str) -> tuple[Listing, np.ndarray] | None:
    """All rows of the files that a contiguous slice is of, and the places of the slice's rows among them.

    None: the slice is all of it; or the files do not show it, because they have other columns, say. Such a
    slice is a dataset of its own.
    """
    import pyarrow as pa

    try:
        paths = _files_of_one_table(part.containers)
        rows = _rows_of(paths) if paths else None
        if rows is None or rows.num_rows <= len(part.names):
            return None
        whole = _listing(rows, image, label, list(part.classes))
    except (OSError, KeyError, pa.ArrowException, SourceError):
        return None
    place_of = {place: number for number, place in enumerate(_places(whole))}
    places = [place_of.get(place, -1) for place in _places(part)]
    if -1 in places or len(set(places)) < len(places):
        return None
    if not whole.labels or [whole.labels[place] for place in places] != part.labels:
        return None
    return whole, np.array(places)


def _places(listing: Listing) -> list[tuple[str, int, int]]:
    return [
        (listing.containers[container], offset, length)
        for offset, length, container in listing.pieces.tolist()
    ]


def _files_of_one_table(containers: Sequence[str]) -> Sequence[str]:
    """The files of the table that these are of, as ``datasets`` names them; nothing: of several tables."""
    parts = [SHARD.fullmatch(path) for path in containers]
    tables = {None if part is None else part.group("table", "count") for part in parts}
    if len(tables) > 1:
        return []
    (table,) = tables
    if table is None:
        return containers if len(containers) == 1 else []
    return [f"{table[0]}-{number:05}-of-{table[1]}.arrow" for number in range(int(table[1]))]


def _column(features: Any, name: str | None, kind: type, argument: str, what: str) -> str:
    found = [column for column, feature in features.items() if isinstance(feature, kind)]
    if name is None and len(found) == 1:
        return found[0]
    if name is not None and name in features:
        return name
    why = f"there is no column {name!r}" if name else f"{len(found)} columns are of type {kind.__name__}"
    raise SourceError(f"which column has the {what}? {why}; give {argument}=, one of {', '.join(features)}")


def _pieces(column: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Where the bytes of each value are in memory: addresses, uint64, and lengths, uint32."""
    import pyarrow as pa

    addresses, lengths = [], []
    for chunk in column.chunks:
        values = chunk.field("bytes") if pa.types.is_struct(chunk.type) else chunk
        if not (pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type)):
            raise SourceError(f"the column {name!r} holds {values.type}, and not the bytes of files")
        if chunk.null_count or values.null_count:
            raise SourceError(
                f"{chunk.null_count or values.null_count} values of the column {name!r} are not in the "
                "table but in files of their own, or missing; put their bytes into it, then save_to_disk()"
            )
        width = np.int64 if pa.types.is_large_binary(values.type) else np.int32
        _, ends, data = values.buffers()
        offsets = np.frombuffer(ends, width, ends.size // np.dtype(width).itemsize)[
            values.offset : values.offset + len(values) + 1
        ].astype(np.int64)
        size = 0 if data is None else data.size
        # pyarrow does not examine them before it reads a value.
        if (
            len(offsets) <= len(values)
            or offsets[0] < 0
            or offsets[-1] > size
            or (np.diff(offsets) < 0).any()
        ):
            raise SourceError(
                f"the column {name!r} is damaged: it says that values lie elsewhere; copy the table again"
            )
        if len(values):
            addresses.append((data.address + offsets[:-1]).astype(np.uint64))
            lengths.append(np.diff(offsets).astype(np.uint32))
    if not addresses:
        raise FileNotFoundError("the table has no rows")
    return np.concatenate(addresses), np.concatenate(lengths)


def _in_files(
    addresses: np.ndarray, lengths: np.ndarray, name: str
) -> tuple[np.ndarray, Sequence[str], np.ndarray, np.ndarray]:
    """The same as pieces of the files that are mapped there, and these files."""
    found = pieces_at(addresses, lengths)
    if found is None:
        raise SourceError(
            f"the values of the column {name!r} lie in memory and in no file; save the table with "
            "save_to_disk(), and open what load_from_disk() gives"
        )
    return found
