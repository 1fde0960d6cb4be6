"""Pages of Parquet that are made by hand: where their values are, and what is said of damaged ones."""

import itertools
import random
import struct

import pytest
from made_pages import BEFORE, VALUES, fields, packed, page, repeated, varint
from sizes import size

from seneca.data.sources.parquet_pages import Chunk, MissingValue, columns_of_file, values_of_chunk
from seneca.errors import SourceError


def walk(*pages, values, level=0, cut=0):
    """The values of a file that has these pages."""
    data = BEFORE + b"".join(pages)
    end = len(data)
    data = data[: len(data) - cut]

    def read(length, at):
        return data[at : at + length]

    found = values_of_chunk(read, Chunk(len(BEFORE), end, values, level), "a.parquet: the column 'image'")
    return [data[at : at + length] for at, length in zip(*(one.tolist() for one in found), strict=True)]


@pytest.mark.parametrize("second", [False, True])
@pytest.mark.parametrize(
    ("levels", "level"),
    [(None, 0), (repeated(20), 1), (repeated(20, 2), 2), (packed([1] * 20), 1), (packed([2] * 20, 2), 2)],
)
def test_each_value_is_where_the_walk_says(second, levels, level):
    assert walk(page(VALUES, levels, second), values=20, level=level) == VALUES


def test_levels_may_come_in_several_runs():
    levels = packed([2] * 8, 2) + repeated(5, 2) + packed([2] * 7, 2)
    assert walk(page(VALUES, levels), values=20, level=2) == VALUES


def test_several_pages_follow_each_other_and_one_of_an_index_is_passed_over():
    index = page([], kind=1, body=b"any")
    pages = page(VALUES[:7]), index, page(VALUES[7:9], second=True), page([]), page(VALUES[9:])
    assert walk(*pages, values=20) == VALUES


def test_what_else_a_header_has_is_passed_over():
    """Every kind of Thrift's: statistics with long bounds, lists, maps, a double, a byte, a set."""
    many = b"\xf5" + varint(20) + b"\2" * 20  # a list of 20 numbers
    map_ = varint(2) + b"\x85" + (varint(2) + b"ab" + varint(4)) * 2  # from bytes to numbers
    extra = [
        (5, [(1, b"m" * 3000), (2, b"n" * 3000)]),
        (6, (9, many)),
        (7, (11, map_)),
        (8, (11, b"\0")),
        (9, (7, b"12345678")),
        (10, (3, b"1")),
        (11, (10, b"\x31\1\1\1")),
        (400, True),
    ]
    assert walk(page(VALUES, extra=extra), values=20) == VALUES


@pytest.mark.parametrize("second", [False, True])
@pytest.mark.parametrize(
    ("levels", "first"),
    [
        (repeated(3) + repeated(17, 0), 3),
        (packed([1, 1, 1, 1, 1, 0, 1, 1]) + repeated(12), 5),
        (repeated(20, 0), 0),
        (repeated(16) + packed([1, 1, 0, 1]), 18),
    ],
)
def test_the_first_missing_value_is_found(second, levels, first):
    before = page(VALUES[:2], repeated(2), second)
    after = page(VALUES[:1], levels, second, count=20)
    with pytest.raises(MissingValue) as missing:
        walk(before, after, values=22, level=1)
    assert missing.value.index == first + 2


DEEP = (12, b"\x1c" * 40)
REFUSED = {
    "has a dictionary at byte 4; write it with use_dictionary=False": page(VALUES, kind=2),
    "has a page of encoding 8": page(VALUES, encoding=8),
    "in an encoding that is no longer used": page(VALUES, repeated(20), of_levels=4),
}
DAMAGED = {
    "a page is of the unknown kind 9": page(VALUES, kind=9),
    "more values than are left": page(VALUES, count=21),
    "it has more bytes than its values": page(VALUES, count=19),
    "it ends within a length": page(VALUES[:19], count=20),
    "a value ends after it": page([], body=struct.pack("<I", 2**32 - 1) + b"abc", count=1),
    "its header lacks a number": page(VALUES, count=-1),
    "it does not say how many values it has": fields((1, 0), (2, 0), (3, 0)),
    "it is compressed, and the file says that it is not": fields((1, 0), (2, 9), (3, 0)),
    "it ends after its column": fields((1, 0), (2, 9), (3, 9)),
    "its header does not end": fields((1, 0), (2, b"x" * 99))[:50],
    "its header has too many levels": fields((1, DEEP)),
    "unknown kind 13": fields((1, (13, b""))),
    "a number in it does not end": fields((1, (5, b"\xff" * 11))),
    "it has lists": fields((1, 3), (2, 0), (3, 0), (8, [(1, 20), (2, 0), (4, 0), (5, 0), (6, 1)])),
}
DAMAGED_LEVELS = {
    "its levels end after it": page(VALUES, body=struct.pack("<I", 99) + b"a"),
    "fewer levels than values": page(VALUES, repeated(19)),
    "a run of its levels is empty": page(VALUES, repeated(0)),
}


@pytest.mark.parametrize("says", [*REFUSED, *DAMAGED, *DAMAGED_LEVELS])
def test_what_is_wrong_with_a_page_is_said(says):
    of_levels = "no longer used" in says or says in DAMAGED_LEVELS
    with pytest.raises(SourceError) as error:
        walk((REFUSED | DAMAGED | DAMAGED_LEVELS)[says], values=20, level=int(of_levels))
    text = str(error.value)
    assert text.startswith("a.parquet: the column 'image' ") and says in text
    assert ("damaged page at byte 4" in text and text.endswith("copy the file again")) == (
        says not in REFUSED
    )


def test_a_file_that_ends_early_is_damaged():
    whole = page(VALUES[:10]), page(VALUES[10:])
    with pytest.raises(SourceError, match="damaged page at byte"):
        walk(whole[0], values=20)
    with pytest.raises(SourceError, match=r"damaged page at byte .*: it ends within a length"):
        walk(*whole, values=20, cut=7)


@pytest.mark.small(1)
@pytest.mark.parametrize("second", [False, True])
@pytest.mark.parametrize("level", [0, 1])
def test_mutated_pages_give_an_error_or_pieces_within_the_file(second, level):
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    levels = repeated(5) + packed([1] * 5) if level else None
    some = [
        page(VALUES[:10], levels, second, extra=() if second else [(5, [(1, b"a" * 30), (2, b"b")])]),
        page(VALUES[10:], levels, second),
    ]
    whole = BEFORE + b"".join(some)
    sound = failed = 0
    for _ in range(size(3000, 100_000)):
        data = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            # Headers, levels and lengths are few of the bytes; half of the changes hit the first of them.
            at = chance.randrange(4, chance.choice([60, len(data)]))
            data[at] = chance.choice([0, 1, 127, 128, 255, chance.randrange(256)])
        if chance.random() < 0.2:
            del data[chance.randrange(4, len(data)) :]

        def read(length, at, data=bytes(data)):
            assert length >= 0 and at >= 0
            return data[at : at + length]

        try:
            offsets, lengths = values_of_chunk(read, Chunk(4, len(whole), 20, level), "it")
        except (SourceError, MissingValue):
            failed += 1
            continue
        assert len(offsets) == 20 and (offsets >= 4).all() and (offsets + lengths <= len(whole)).all()
        sound += 1
    assert sound and failed, "some changes are to a picture's own bytes, and others are not"


def structures(*given):
    """A list of structures."""
    return (9, bytes([0xFC]) + varint(len(given)) + b"".join(fields(*one) for one in given))


def column(codec=0, first=4, length=100, values=20, more=()):
    encodings = (9, b"\x25" + varint(0) + varint(3 << 1))
    about = [(1, 6), (2, encodings), (3, (9, b"\x18\5image")), (4, codec), (5, values), (6, 0), (7, length)]
    return [(2, first), (3, [*about, (9, first), *more])]


def file_of(*groups):
    """A file whose footer says this of its columns, and that has nothing else."""
    rows = structures(*([(1, structures(*group)), (2, 0), (3, 20)] for group in groups))
    footer = fields((1, 2), (2, structures([(4, b"image")])), (3, 20), (4, rows))
    return BEFORE + footer + struct.pack("<I", len(footer)) + BEFORE


def columns(data):
    return columns_of_file(lambda length, at: data[at : at + length], len(data), "a.parquet")


def test_a_footer_says_where_columns_are_and_how_they_are_written():
    data = file_of([column(), column(first=300, more=[(11, 200)])], [column(codec=6, first=500)])
    first, second = columns(data)
    assert [(one.begin, one.end, one.first_page) for one in first] == [(4, 104, 4), (200, 300, 300)]
    assert [(one.rows, one.values, one.compression) for one in (*first, *second)] == [
        (20, 20, "UNCOMPRESSED"),
        (20, 20, "UNCOMPRESSED"),
        (20, 20, "ZSTD"),
    ]
    assert first[0].encodings == ["PLAIN", "RLE"]


def test_a_compression_that_nobody_knows_has_a_number():
    assert columns(file_of([column(codec=2**32 - 1)]))[0][0].compression == "unknown (4294967295)"


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (file_of([column(codec=-1)]), "its header lacks a number"),
        (file_of([[(2, 4)]]), "its footer says nothing of a column"),
        (BEFORE + fields((1, 2)) + struct.pack("<I", 3) + BEFORE, "its footer lacks a list"),
        (BEFORE + b"\x15" + struct.pack("<I", 1) + BEFORE, "its footer does not end"),
        (BEFORE + b"\0" + struct.pack("<I", 2**31) + BEFORE, "its footer is longer than it"),
        (BEFORE, "its footer is longer than it"),
        (b"", "its footer is longer than it"),
    ],
)
def test_a_damaged_footer_is_named(data, says):
    with pytest.raises(SourceError, match=rf"^a.parquet cannot be read as a Parquet file: {says}"):
        columns(data)


def test_mutated_footers_give_an_error_or_columns():
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    whole = file_of([column(), column(first=200)], [column(first=300), column(first=400, more=[(11, 390)])])
    sound = failed = 0
    for _ in range(size(2000, 50_000)):
        data = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(4, len(data))] = chance.choice([0, 1, 127, 128, 255, chance.randrange(256)])
        try:
            for one in itertools.chain(*columns(bytes(data))):
                assert one.begin <= one.first_page and 0 <= one.begin <= one.end and one.rows >= 0
            sound += 1
        except SourceError:
            failed += 1
    assert sound and failed
