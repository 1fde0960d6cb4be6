"""The pictures in a column of Parquet files, where they are neither compressed nor in a dictionary."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from seneca._runtime.regular_files import open_regular
from seneca.data.sources.archives import MOST_BYTES, Members, expand_paths, kept_members, no_label
from seneca.data.sources.listing import PIECE, STATED, Listing, State
from seneca.data.sources.parquet_pages import Chunk, Column, MissingValue, columns_of_file, values_of_chunk
from seneca.data.sources.source import ListingOptions
from seneca.errors import SourceError

__all__ = ["ENDINGS", "list_parquet", "matches"]

ENDINGS = (".parquet",)
READABLE = {"PLAIN", "RLE", "BIT_PACKED"}  # the last two are encodings of levels, not of values
COMPARED = 3  # values at the beginning of a file's first and last group of rows
COMPARED_BUFFER_BYTES = 1 << 16  # with a buffer pyarrow reads a page, without one a whole column chunk


class _Table(NamedTuple):
    """The pictures of one file.

    Attributes:
        members: Names and places of its pictures. Labels are not among them.
        labels: The label of each; empty: they were not asked for.
        classes: The names of the classes; empty: labels are numbers without names.
    """

    members: Members
    labels: list[int]
    classes: list[str]


def matches(paths: Sequence[str]) -> bool:
    """Whether one is called like a Parquet file, and none is a folder."""
    return any(path.lower().endswith(ENDINGS) for path in paths) and not any(map(os.path.isdir, paths))


def list_parquet(source: Sequence[str], options: ListingOptions) -> Listing:
    """The pictures in one Parquet file or several, in the order of the rows.

    Args:
        source: Paths, patterns or ranges of paths, as :func:`list_archives` takes them.
        options: The columns of pictures and labels, or a function for the labels.

            * ``column``: binary, or a struct whose field ``bytes`` is binary, as Hugging Face ``datasets``
              writes it. None: the only one of the type ``Image`` or ``Audio`` of ``datasets``; if the file
              does not say such types, the only one that is binary.
            * ``label``: None: the only ``ClassLabel``; else the only one with whole numbers.
            * ``labels``: The label of a picture, given its name. The name is the struct's ``path``, or the
              number of the row in its file if there is no path. None: the column ``label`` has the labels.

    Raises:
        FileNotFoundError: There is no such file, or no row in it.
        SourceError: The package ``pyarrow`` is not installed. A file cannot be read in place, lacks a picture
            or a label, or is damaged.
        ValueError: Both ``label`` and ``labels`` are given, or some paths are of other containers.
    """
    if not all(path.lower().endswith(ENDINGS) for path in source):
        raise ValueError("one dataset is either of Parquet files or of other containers")
    if options.label is not None and options.labels is not None:
        raise ValueError("labels come from a column or from a function; give label= or labels=, not both")
    return _list(expand_paths(source), options)


def _list(containers: Sequence[str], options: ListingOptions) -> Listing:
    labels = options.labels
    stated, ctimes = np.zeros(len(containers), STATED), np.zeros(len(containers), np.int64)
    names: list[str] = []
    pieces = []
    given: list[int] = []
    classes: list[str] | None = None
    for number, path in enumerate(containers):
        table, state = _table(path, options)
        stated[number], ctimes[number] = state.stated, state.ctime_ns
        if classes not in (None, table.classes):
            raise SourceError(
                f"{path} names other classes than {containers[0]}; write the files again with the same ones"
            )
        classes = table.classes
        piece = np.zeros(len(table.members.names), PIECE)
        piece["offset"], piece["length"] = table.members.offsets, table.members.lengths
        piece["container"] = number
        pieces.append(piece)
        names += table.members.names
        given += table.labels if labels is None else [int(labels(name)) for name in table.members.names]
    if not names:
        raise FileNotFoundError(f"{containers[0]}{' and the others' if len(containers) > 1 else ''}: no rows")
    again = functools.partial(_list_again, dataclasses.replace(options, labels=None), labels is None)
    return Listing(
        containers, stated, names, np.concatenate(pieces), given, classes or [], ctimes=ctimes, again=again
    )


def _list_again(options: ListingOptions, has_labels: bool, path: str) -> Listing:
    """See :attr:`Listing.again`."""
    listing = _list([path], options if has_labels else dataclasses.replace(options, labels=no_label))
    return listing if has_labels else dataclasses.replace(listing, labels=None)


def _table(path: str, options: ListingOptions) -> tuple[_Table, State]:
    """The samples of a file, and the file's state."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise SourceError(f"{path} needs the package pyarrow: pip install pyarrow") from None
    handle = open_regular(path)
    try:
        state = State.of(os.fstat(handle))
        with open(handle, "rb", closefd=False) as file:
            try:
                found = pq.ParquetFile(file)
                column = _Column(path, handle, state.size_bytes, found, options)
                table = column.table(options.label, options.labels is None, state)
            except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
                raise SourceError(f"{path} cannot be read as a Parquet file: {error}") from None
        if State.of(os.fstat(handle)) != state:
            raise SourceError(f"{path} is being written; open it when it is complete")
        return table, state
    finally:
        os.close(handle)


class _Column:
    """The column of pictures in an open file.

    Args:
        path: The file's path, for messages.
        handle: The open file.
        size: Its size in bytes.
        file: The same as a ``pyarrow.parquet.ParquetFile``.
        options: Which column, and of what.
    """

    def __init__(self, path: str, handle: int, size: int, file: Any, options: ListingOptions) -> None:
        self.path, self.handle, self.size, self.file = path, handle, size, file
        self.schema = file.schema_arrow
        self.features = _features(self.schema)
        leaves = [file.schema.column(number) for number in range(len(file.schema))]
        self.leaves = {leaf.path: number for number, leaf in enumerate(leaves)}
        self.binary = {
            name: number
            for number, leaf in enumerate(leaves)
            for name in (leaf.path, leaf.path.removesuffix(".bytes"))
            if name in self.schema.names
            and leaf.max_repetition_level == 0
            and leaf.physical_type == "BYTE_ARRAY"
            and leaf.logical_type.type == "NONE"
        }
        medium = options.medium
        binary = list(self.binary)
        self.name = self._the_column(options.column, medium.feature, binary, medium.argument, medium.what)
        if self.name not in self.binary:
            raise SourceError(
                f"{path}: the column {self.name!r} holds {self.schema.field(self.name).type}, and not the "
                f"bytes of {medium.what}"
            )
        self.number = self.binary[self.name]
        self.level = leaves[self.number].max_definition_level
        self.called = f"{path}: the column {self.name!r}"

    def _the_column(
        self, name: str | None, type_: str, fitting: Sequence[str], argument: str, what: str
    ) -> str:
        """The column of that name; without a name the only one of a type of Hugging Face, or that fits."""
        if name is not None and name in self.schema.names:
            return name
        typed = [one for one in self.schema.names if self.features.get(one, {}).get("_type") == type_]
        found = typed or fitting
        if name is None and len(found) == 1:
            return found[0]
        why = f"there is no column {name!r}" if name else f"{len(found)} columns can be it"
        raise SourceError(
            f"{self.path}: which column has the {what}? {why}; give {argument}=, one of "
            f"{', '.join(self.schema.names)}"
        )

    def table(self, label: str | None, labelled: bool, state: State) -> _Table:
        """The pictures, and their labels if they are wanted."""
        members = kept_members(self.path, (*state, self.name), self._listed)
        if not labelled:
            return _Table(members, [], [])
        import pyarrow as pa

        whole = [field.name for field in self.schema if pa.types.is_integer(field.type)]
        label = self._the_column(label, "ClassLabel", whole, "label", "labels")
        if label not in whole:
            raise SourceError(
                f"{self.path}: the column {label!r} holds {self.schema.field(label).type}, and not whole "
                "numbers; give labels=, a function of a picture's name, or write numbers into it"
            )
        values = self.file.read(columns=[label]).column(label)
        if values.null_count:
            raise SourceError(f"{self.path}: {values.null_count} rows have no {label!r}; {LEAVE_OUT}")
        self._is_as_long(label, len(values), len(members.names))
        return _Table(members, values.to_pylist(), list(self.features.get(label, {}).get("names") or []))

    def _listed(self) -> Members:
        """Where the pictures are, and what they are called."""
        offsets, lengths, row = [np.zeros(0, np.uint64)], [np.zeros(0, np.uint32)], 0
        read = functools.partial(os.pread, self.handle)
        groups = columns_of_file(read, self.size, self.path)
        if any(len(columns) != len(self.file.schema) for columns in groups):
            raise SourceError(f"{self.called} is not where the file says; copy the file again")
        self._check_places(groups)
        for columns in groups:
            try:
                found = values_of_chunk(read, self._chunk(columns[self.number]), self.called)
            except MissingValue as missing:
                raise SourceError(
                    f"{self.called} has no picture in row {row + missing.index}; {LEAVE_OUT}"
                ) from None
            offsets.append(found[0])
            lengths.append(found[1])
            row += len(found[0])
        at, length = np.concatenate(offsets), np.concatenate(lengths)
        if row and length.max() > MOST_BYTES:
            raise SourceError(
                f"{self.called} has {length.max():,} bytes in row {length.argmax()}, and a sample has at "
                "most 1 GiB"
            )
        self._compare(offsets[1:], lengths[1:])
        return Members.of(self._names(row), at, length, {})

    def _chunk(self, column: Column) -> Chunk:
        """Where the column's values of a group of rows are, if they are there as they were put in."""
        others = sorted({*column.encodings} - READABLE)
        if column.compression != "UNCOMPRESSED" or column.begin != column.first_page or others:
            encodings = ", ".join(others) or "PLAIN"
            raise SourceError(
                f"{self.called} cannot be read in place: its compression is {column.compression}, and its "
                f"encoding {encodings}; write the file again with pyarrow.parquet.write_table("
                f'pyarrow.parquet.read_table({self.path!r}), NEW_PATH, compression="none", '
                "use_dictionary=False)"
            )
        if not column.end <= self.size or column.values != column.rows:
            raise SourceError(f"{self.called} is not where the file says; copy the file again")
        return Chunk(column.begin, column.end, column.values, self.level)

    def _check_places(self, groups: Sequence[Sequence[Column]]) -> None:
        """See that no two columns or groups of rows are in one place: values would be those of others."""
        spans = [(one.begin, one.end, number) for columns in groups for number, one in enumerate(columns)]
        spans.sort()
        for (_, end, number), (begin, _, following) in itertools.pairwise(spans):
            if end > begin and self.number in (number, following):
                raise SourceError(f"{self.called} is not where the file says; copy the file again")

    def _compare(self, offsets: Sequence[np.ndarray], lengths: Sequence[np.ndarray]) -> None:
        """Compare the first values of the first and the last group of rows with what pyarrow reads."""
        import pyarrow.parquet as pq

        leaf = self.file.schema.column(self.number).path
        with open(self.handle, "rb", closefd=False) as file:
            buffered = pq.ParquetFile(file, buffer_size=COMPARED_BUFFER_BYTES, pre_buffer=False)
            for group in sorted({0, len(offsets) - 1} if offsets else ()):
                here = zip(
                    offsets[group][:COMPARED].tolist(), lengths[group][:COMPARED].tolist(), strict=True
                )
                mine = [os.pread(self.handle, length, offset) for offset, length in here]
                batches = buffered.iter_batches(COMPARED, [group], columns=[leaf], use_threads=False)
                values = next(iter(batches)).column(0).to_pylist() if mine else []
                if [value["bytes"] if isinstance(value, dict) else value for value in values] != mine:
                    raise SourceError(
                        f"{self.called} has other bytes in the file than pyarrow reads; write the file again"
                    )

    def _names(self, rows: int) -> list[str]:
        """The name of each picture: its path if the file has one, else the number of its row."""
        leaf = self.leaves.get(f"{self.name}.path")
        if leaf is None or self.file.schema.column(leaf).logical_type.type != "STRING":
            return [str(row) for row in range(rows)]
        import pyarrow as pa
        import pyarrow.compute as pc

        column = self.file.read(columns=[f"{self.name}.path"]).column(self.name)
        paths = pc.struct_field(column, "path").cast(pa.binary()).to_pylist()
        self._is_as_long(f"{self.name}.path", len(paths), rows)
        return [os.fsdecode(path) if path else str(row) for row, path in enumerate(paths)]

    def _is_as_long(self, name: str, rows: int, pictures: int) -> None:
        if rows != pictures:
            raise SourceError(
                f"{self.path} is damaged: the column {self.name!r} has {pictures} rows, and {name!r} has "
                f"{rows}; copy the file again"
            )


LEAVE_OUT = "write the file again without such rows"


def _features(schema: Any) -> dict[str, Any]:
    """The types of the columns as Hugging Face ``datasets`` writes them into a file; empty: it did not."""
    try:
        said = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
        features = said["info"]["features"]
        return {name: feature for name, feature in features.items() if isinstance(feature, dict)}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}
