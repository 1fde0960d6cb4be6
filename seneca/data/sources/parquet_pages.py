"""Where the values of a Parquet column are in its file. Only headers and lengths are read, and no values.

A column chunk is a row of pages. Each page has a header in Thrift's compact protocol, then levels that say
which values are null, then the values. A value of an uncompressed PLAIN page is 4 bytes, little-endian, with
its length, and then its bytes as they were put in. The formats: https://parquet.apache.org/docs/file-format/
and https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from seneca.errors import SourceError

__all__ = ["Chunk", "Column", "MissingValue", "columns_of_file", "values_of_chunk"]

Read = Callable[[int, int], bytes]

HEADER_BYTES = (512, 1 << 16, 1 << 20)  # tried one after the other; a header has bounds of its page's values
MOST_DEPTH = 8  # of structures in a header
MOST_VARINT_BYTES = 10

DATA_PAGE, INDEX_PAGE, DICTIONARY_PAGE, DATA_PAGE_V2 = range(4)
PLAIN, RLE = 0, 3
BOOLEANS, BYTE, INTEGERS, DOUBLE, BINARY, LISTS, MAP, STRUCT = (1, 2), 3, (4, 5, 6), 7, 8, (9, 10), 11, 12

# Fields of a page's header, by Parquet's numbers.
TYPE, UNCOMPRESSED_BYTES, STORED_BYTES, OF_DATA_PAGE, OF_DATA_PAGE_V2 = 1, 2, 3, 5, 8
VALUES, ENCODING, ENCODING_OF_LEVELS = 1, 2, 3  # of OF_DATA_PAGE
VALUES_V2, ENCODING_V2, BYTES_OF_LEVELS_V2, BYTES_OF_REPETITION_V2 = 1, 4, 5, 6  # of OF_DATA_PAGE_V2

# Fields of a file's footer: of the file, a group of rows, a column in it, and what it says of that.
GROUPS, COLUMNS, ROWS_OF_GROUP, OF_COLUMN = 4, 1, 3, 3
ENCODINGS, CODEC, VALUES_OF_COLUMN, BYTES_OF_COLUMN, FIRST_PAGE, DICTIONARY = 2, 4, 5, 7, 9, 11
CODECS = ("UNCOMPRESSED", "SNAPPY", "GZIP", "LZO", "BROTLI", "LZ4", "ZSTD", "LZ4_RAW")
ENCODING_NAMES = {
    0: "PLAIN",
    2: "PLAIN_DICTIONARY",
    3: "RLE",
    4: "BIT_PACKED",
    5: "DELTA_BINARY_PACKED",
    6: "DELTA_LENGTH_BYTE_ARRAY",
    7: "DELTA_BYTE_ARRAY",
    8: "RLE_DICTIONARY",
    9: "BYTE_STREAM_SPLIT",
}


class Chunk(NamedTuple):
    """The values of one column in one group of rows.

    Attributes:
        begin, end: Where its pages are in the file.
        values: How many values the file says it has, nulls included.
        level: The definition level of a value that is not null; 0: the column has no nulls.
    """

    begin: int
    end: int
    values: int
    level: int


class MissingValue(Exception):
    """A value is null. ``index`` is its place in the chunk."""

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.index = index


class _Cut(Exception):
    """A header is longer than the bytes that were read of it."""


class _Damaged(Exception):
    """Bytes are not what the format has there."""


class Column(NamedTuple):
    """The metadata of one column in one group of rows.

    Attributes:
        rows: The rows of the group.
        values: The values of the column, nulls included.
        begin, end: Where it is in the file.
        first_page: Where its first page with values is.
        compression: How its pages are compressed.
        encodings: Of its values and levels.
    """

    rows: int
    values: int
    begin: int
    end: int
    first_page: int
    compression: str
    encodings: list[str]


class _Page(NamedTuple):
    kind: int
    begin: int
    end: int
    header: dict[int, Any]


def values_of_chunk(read: Read, chunk: Chunk, column: str) -> tuple[np.ndarray, np.ndarray]:
    """Where each value of a column chunk is.

    Args:
        read: Reads so many bytes from an offset on, fewer at the file's end.
        chunk: Where the pages are.
        column: What messages call the column; they begin with it.

    Returns:
        The offset of each value in the file, uint64, and its length, uint32.

    Raises:
        MissingValue: A value is null.
        SourceError: The pages have another encoding, or they are damaged.
    """
    offsets, lengths = array("Q"), array("I")
    at = chunk.begin
    try:
        while len(offsets) < chunk.values:
            page = _page(read, at, chunk.end)
            if page.kind in (DATA_PAGE, DATA_PAGE_V2):
                _add_values(read, page, chunk, column, offsets=offsets, lengths=lengths)
            elif page.kind == DICTIONARY_PAGE:
                raise SourceError(
                    f"{column} has a dictionary at byte {at}; write it with use_dictionary=False"
                )
            elif page.kind != INDEX_PAGE:
                raise _Damaged(f"a page is of the unknown kind {page.kind}")
            at = page.end
    except _Damaged as error:
        raise SourceError(f"{column} has a damaged page at byte {at}: {error}; copy the file again") from None
    return np.frombuffer(offsets, np.uint64), np.frombuffer(lengths, np.uint32)


def columns_of_file(read: Read, size: int, path: str) -> list[list[Column]]:
    """The metadata of a file's columns, for each group of rows. pyarrow ends the process if that is damaged.

    Args:
        read: Reads so many bytes from an offset on.
        size: The file's size in bytes.
        path: The file, for messages.

    Raises:
        SourceError: It is damaged.
    """
    try:
        length = int.from_bytes(read(8, max(0, size - 8))[:4], "little")
        if length > size - 8:
            raise _Damaged("its footer is longer than it")
        footer, _ = _structure(read(length, size - 8 - length), 0, 0)
        groups = _list(footer, GROUPS)
        return [
            [_column(one, _integer(group, ROWS_OF_GROUP)) for one in _list(group, COLUMNS)]
            for group in groups
        ]
    except (_Damaged, _Cut) as error:
        why = str(error) or "its footer does not end"
        raise SourceError(f"{path} cannot be read as a Parquet file: {why}") from None


def _column(chunk: dict[int, Any], rows: int) -> Column:
    column = chunk.get(OF_COLUMN)
    if not isinstance(column, dict):
        raise _Damaged("its footer says nothing of a column")
    first = begin = _integer(column, FIRST_PAGE)
    if isinstance(column.get(DICTIONARY), int) and column[DICTIONARY] > 0:
        begin = min(begin, column[DICTIONARY])
    encodings = column.get(ENCODINGS)
    if not isinstance(encodings, list) or not all(type(one) is int for one in encodings):
        raise _Damaged("its footer does not say how values are encoded")
    codec = _integer(column, CODEC)
    return Column(
        rows,
        _integer(column, VALUES_OF_COLUMN),
        begin,
        begin + _integer(column, BYTES_OF_COLUMN),
        first,
        CODECS[codec] if codec < len(CODECS) else f"unknown ({codec})",
        [ENCODING_NAMES.get(one, f"unknown ({one})") for one in encodings],
    )


def _list(fields: dict[int, Any], number: int) -> list[dict[int, Any]]:
    """A field that is a list of structures."""
    found = fields.get(number)
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise _Damaged("its footer lacks a list")
    return found


def _page(read: Read, at: int, end: int) -> _Page:
    """The page whose header is at this byte of the file."""
    for size in HEADER_BYTES:
        data = read(max(0, min(size, end - at)), at)
        try:
            header, length = _structure(data, 0, 0)
            break
        except _Cut:
            continue
    else:
        raise _Damaged("its header does not end")
    kind, stored = _integer(header, TYPE), _integer(header, STORED_BYTES)
    begin = at + length
    if begin + stored > end:
        raise _Damaged("it ends after its column")
    if _integer(header, UNCOMPRESSED_BYTES) != stored:
        raise _Damaged("it is compressed, and the file says that it is not")
    return _Page(kind, begin, begin + stored, header)


def _add_values(
    read: Read, page: _Page, chunk: Chunk, column: str, *, offsets: array[int], lengths: array[int]
) -> None:
    """Add where the values of a data page are."""
    second = page.kind == DATA_PAGE_V2
    header = page.header.get(OF_DATA_PAGE_V2 if second else OF_DATA_PAGE)
    if not isinstance(header, dict):
        raise _Damaged("it does not say how many values it has")
    count = _integer(header, VALUES_V2 if second else VALUES)
    encoding = _integer(header, ENCODING_V2 if second else ENCODING)
    if encoding != PLAIN:
        raise SourceError(
            f"{column} has a page of encoding {encoding} at byte {page.begin}, and only PLAIN (0) is read"
        )
    if count > chunk.values - len(offsets):
        raise _Damaged("it has more values than are left of its column")
    at = page.begin
    if second:
        size = _integer(header, BYTES_OF_LEVELS_V2)
        if _integer(header, BYTES_OF_REPETITION_V2):
            raise _Damaged("it has lists, and the file says that it has none")
    elif chunk.level:
        if _integer(header, ENCODING_OF_LEVELS) != RLE:
            raise SourceError(f"{column} says in an encoding that is no longer used which values are null")
        size = _length(read, at, page.end)
        at += 4
    else:
        size = 0
    if size > page.end - at:
        raise _Damaged("its levels end after it")
    if chunk.level:
        missing = _first_missing(read(size, at), chunk.level, count)
        if missing is not None:
            raise MissingValue(len(offsets) + missing)
    at += size
    for _ in range(count):
        length = _length(read, at, page.end)
        at += 4
        if length > page.end - at:
            raise _Damaged("a value ends after it")
        offsets.append(at)
        lengths.append(length)
        at += length
    if at != page.end:
        raise _Damaged("it has more bytes than its values")


def _length(read: Read, at: int, end: int) -> int:
    data = read(4, at) if at + 4 <= end else b""
    if len(data) < 4:
        raise _Damaged("it ends within a length")
    return int.from_bytes(data, "little")


def _first_missing(levels: bytes, level: int, count: int) -> int | None:
    """The place of the first of ``count`` levels that is not ``level``; None: all are.

    Levels come in runs. A run is either one level that is repeated, or groups of 8 levels that are packed
    into as few bits as hold ``level``.
    """
    bits = level.bit_length()
    done = at = 0
    try:
        while done < count:
            header, at = _varint(levels, at)
            if header & 1:
                size = (header >> 1) * bits
                packed = np.frombuffer(levels[at : at + size], np.uint8)
                each = np.unpackbits(packed, bitorder="little")
                each = each[: len(each) // bits * bits].reshape(-1, bits)[: count - done]
                found = (each << np.arange(bits, dtype=np.uint8)).sum(axis=1, dtype=np.uint32)
                others = np.flatnonzero(found != level)
                if len(others):
                    return done + int(others[0])
                length = len(found)
            else:
                size, length = (bits + 7) // 8, header >> 1
                value = levels[at : at + size]
                if len(value) < size:
                    raise _Cut
                if length and int.from_bytes(value, "little") != level:
                    return done
            if not length:
                raise _Damaged("a run of its levels is empty")
            done += length
            at += size
    except _Cut:
        raise _Damaged("it has fewer levels than values") from None
    return None


def _integer(fields: dict[int, Any], number: int) -> int:
    """A field that is a number of something."""
    value = fields.get(number)
    if type(value) is not int or value < 0:
        raise _Damaged("its header lacks a number")
    return value


def _structure(data: bytes, at: int, depth: int) -> tuple[dict[int, Any], int]:
    """A structure's fields by their numbers, and where it ends. Integers, structures and lists are kept."""
    if depth > MOST_DEPTH:
        raise _Damaged("its header has too many levels")
    fields: dict[int, Any] = {}
    number = 0
    while True:
        head = _byte(data, at)
        at += 1
        if head == 0:
            return fields, at
        if head >> 4:
            number += head >> 4
        else:
            number, at = _signed(data, at)
        kind = head & 15
        if kind in BOOLEANS:
            continue  # the kind is the value
        fields[number], at = _value(data, at, kind, depth)


def _value(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    """A value of a kind, None for a kind that is not needed; and where it ends."""
    if kind in INTEGERS:
        return _signed(data, at)
    if kind == STRUCT:
        return _structure(data, at, depth + 1)
    if kind in BOOLEANS or kind == BYTE:
        return None, at + 1
    if kind == DOUBLE:
        return None, at + 8
    if kind == BINARY:
        length, at = _varint(data, at)
        return None, at + length
    if depth > MOST_DEPTH:
        raise _Damaged("its header has too many levels")
    kinds: tuple[int, ...]
    items: list[Any] | None = None
    if kind in LISTS:
        head = _byte(data, at)
        count, at = (head >> 4, at + 1) if head >> 4 < 15 else _varint(data, at + 1)
        kinds, items = (head & 15,), []
    elif kind == MAP:
        count, at = _varint(data, at)
        head, at = (_byte(data, at), at + 1) if count else (0, at)
        kinds = (head >> 4, head & 15)
    else:
        raise _Damaged(f"its header has a field of the unknown kind {kind}")
    for _ in range(count):
        for one in kinds:
            item, at = _value(data, at, one, depth + 1)
            if at > len(data):
                raise _Cut
            if items is not None:
                items.append(item)
    return items, at


def _signed(data: bytes, at: int) -> tuple[int, int]:
    value, at = _varint(data, at)
    return (value >> 1) ^ -(value & 1), at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place in range(MOST_VARINT_BYTES):
        byte = _byte(data, at + place)
        value |= (byte & 127) << 7 * place
        if byte < 128:
            return value, at + place + 1
    raise _Damaged("a number in it does not end")


def _byte(data: bytes, at: int) -> int:
    if at >= len(data):
        raise _Cut
    return data[at]
