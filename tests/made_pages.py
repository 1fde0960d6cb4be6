"""Pages of Parquet, made by hand."""

from __future__ import annotations

import struct

__all__ = ["BEFORE", "VALUES", "fields", "packed", "page", "plain", "repeated", "varint"]

VALUES = [b"", b"one", b"\xff\xd8" * 40, b"x" * 300, b"five"] * 4
BEFORE = b"PAR1"  # of the first page, in the file


def varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def fields(*given):
    """A structure in Thrift's compact protocol, of pairs of a field's number and its value.

    An int is an i32, bytes are binary, a list of pairs is a structure, a tuple is its kind and code.
    """
    out, last = b"", 0
    for number, value in given:
        kind, code = {
            bool: lambda v: (1 if v else 2, b""),
            int: lambda v: (5, varint(v << 1 if v >= 0 else -2 * v - 1)),
            bytes: lambda v: (8, varint(len(v)) + v),
            list: lambda v: (12, fields(*v)),
            tuple: lambda v: v,
        }[type(value)](value)
        far = not 0 < number - last < 16
        out += bytes([kind]) + varint(number << 1) if far else bytes([(number - last) << 4 | kind])
        out, last = out + code, number
    return out + b"\0"


def plain(values):
    return b"".join(struct.pack("<I", len(value)) + value for value in values)


def repeated(count, level=1):
    return varint(count << 1) + bytes([level])


def packed(levels, bits=1):
    levels = [*levels, *[0] * (-len(levels) % 8)]
    whole = sum(level << bits * place for place, level in enumerate(levels))
    return varint(len(levels) // 8 << 1 | 1) + whole.to_bytes(len(levels) * bits // 8, "little")


def page(
    values, levels=None, second=False, kind=None, encoding=0, count=None, of_levels=3, extra=(), body=None
):
    """A data page. ``levels`` None: the column has no nulls."""
    count = len(values) if count is None else count
    levels_ = b"" if levels is None else levels
    if body is None:
        prefix = b"" if second or levels is None else struct.pack("<I", len(levels_))
        body = prefix + levels_ + plain(values)
    if second:
        of_page = (8, [(1, count), (2, 0), (3, count), (4, encoding), (5, len(levels_)), (6, 0), (7, False)])
    else:
        of_page = (5, [(1, count), (2, encoding), (3, of_levels), (4, 3), *extra])
    kind = (3 if second else 0) if kind is None else kind
    return fields((1, kind), (2, len(body)), (3, len(body)), (4, -7), of_page) + body
