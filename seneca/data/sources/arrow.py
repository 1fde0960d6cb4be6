"""The pictures in a Hugging Face ``datasets.Dataset``, which lie in Arrow files as they were."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from seneca.data.sources.listing import Listing
from seneca.data.sources.mapped import pieces_at
from seneca.errors import SourceError

__all__ = ["is_table", "list_table"]


def is_table(source: Any) -> bool:
    """Whether this is a ``datasets.Dataset``. The package is not imported for that."""
    datasets = sys.modules.get("datasets")
    return datasets is not None and isinstance(source, datasets.Dataset)


def list_table(table: Any, image: str | None, label: str | None) -> tuple[Listing, list[int] | None]:
    """The pictures in a column of a ``datasets.Dataset``.

    Args:
        table: The ``datasets.Dataset``.
        image: The column of pictures; None: the only one of type ``Image``.
        label: The column of labels; None: the only one of type ``ClassLabel``.

    Returns:
        The pictures, and the indices of those that are the dataset's, in its order; None: all. ``select``,
        ``shuffle``, ``train_test_split`` and the like make such indices.

    Raises:
        SourceError: There is no such column; or its pictures do not lie in files that are mapped into memory.
    """
    import datasets

    features = table.features
    image = _column(features, image, datasets.Image, "image", "pictures")
    label = _column(features, label, datasets.ClassLabel, "label", "labels")
    columns = table.data.table.select([image, label])
    addresses, lengths = _pieces(columns.column(image), image)
    given = columns.column(label).to_numpy()
    pieces, containers, stated = _in_files(addresses, lengths, image)
    names = [f"{offset}" for offset in pieces["offset"].tolist()]
    classes = list(getattr(features[label], "names", None) or [])
    order = None if table._indices is None else table._indices.column(0).to_pylist()
    return Listing(containers, stated, names, pieces, given.tolist(), classes), order


def _column(features: Any, name: str | None, kind: type, argument: str, what: str) -> str:
    found = [column for column, feature in features.items() if isinstance(feature, kind)]
    if name is None and len(found) == 1:
        return found[0]
    if name is not None and name in features:
        return name
    why = f"there is no column {name!r}" if name else f"{len(found)} columns are of type {kind.__name__}"
    raise SourceError(f"which column has the {what}? {why}; give {argument}=, one of {', '.join(features)}")


def _pieces(column: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Where the bytes of each value lie in memory: addresses, uint64, and lengths, uint32."""
    import pyarrow as pa

    addresses, lengths = [], []
    for chunk in column.chunks:
        values = chunk.field("bytes") if pa.types.is_struct(chunk.type) else chunk
        if not (pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type)):
            raise SourceError(f"the column {name!r} holds {values.type}, and not the bytes of pictures")
        if chunk.null_count or values.null_count:
            raise SourceError(
                f"{chunk.null_count or values.null_count} pictures of the column {name!r} are not in the "
                "table but in files of their own, or missing; put their bytes into it, then save_to_disk()"
            )
        width = np.int64 if pa.types.is_large_binary(values.type) else np.int32
        _, ends, data = values.buffers()
        offsets = np.frombuffer(ends, width)[values.offset : values.offset + len(values) + 1].astype(np.int64)
        if len(values):
            addresses.append((data.address + offsets[:-1]).astype(np.uint64))
            lengths.append(np.diff(offsets).astype(np.uint32))
    if not addresses:
        raise FileNotFoundError("the table has no rows")
    return np.concatenate(addresses), np.concatenate(lengths)


def _in_files(
    addresses: np.ndarray, lengths: np.ndarray, name: str
) -> tuple[np.ndarray, Sequence[str], np.ndarray]:
    """The same as pieces of the files that are mapped there, and these files."""
    found = pieces_at(addresses, lengths)
    if found is None:
        raise SourceError(
            f"the pictures of the column {name!r} lie in memory and in no file; save the table with "
            "save_to_disk(), and open what load_from_disk() gives"
        )
    return found
