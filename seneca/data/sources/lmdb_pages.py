"""Where the values of an LMDB database are in its file. Keys are read, and the first bytes of values.

LMDB itself trusts its file, and a damaged one ends the process. Here damage is an error.

A database is a tree of pages. Pages 0 and 1 are two versions of its head; the later one counts. A branch page
has the least key of each page below it. A leaf page has keys with their values. A value that is too large for
a leaf has overflow pages of its own. The format is that of LMDB 0.9: MDB_meta, MDB_page and MDB_node in
https://git.openldap.org/openldap/openldap/-/blob/mdb.RE/0.9/libraries/liblmdb/mdb.c.
"""

from __future__ import annotations

import itertools
import struct
from array import array
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from seneca.errors import SourceError

__all__ = ["Value", "values_of_database"]

Read = Callable[[int, int], bytes]

MAGIC, VERSION = 0xBEEFC0DE, 1
PAGE = struct.Struct(
    "<QHHHH"
)  # its number; unused; what it is; where its list of nodes ends; where nodes begin
PAGES = struct.Struct("<I")  # in place of the last two on an overflow page: how many pages it is
HEAD = struct.Struct("<II16xI44x4xHH24xQQQQ")  # the fields of _Head
NODE = struct.Struct("<HHHH")  # two parts of a number, flags, and the length of the key
PLACE = struct.Struct("<Q")
BRANCH, LEAF, OVERFLOW, META, DIRTY = 1, 2, 4, 8, 16  # what a page is; the last may be left over
BIG, SUB_DATABASE = 1, 2  # flags of a node in a leaf
OTHER_ORDER = 0x7E  # flags of a database: keys are not plain bytes, or have several values
PAGE_BYTES = [1 << n for n in range(9, 16)]
NO_PAGE = 2**64 - 1
MOST_DEPTH = 32
BEGINNING_BYTES = 12  # of each value that are read


class Value(NamedTuple):
    """A value.

    Attributes:
        key: Its key.
        offset, length: Where its bytes are in the file.
        beginning: The first of them, at most 12.
    """

    key: bytes
    offset: int
    length: int
    beginning: bytes


class _Head(NamedTuple):
    magic: int
    version: int
    page_bytes: int
    flags: int
    depth: int
    entries: int
    root: int
    last_page: int
    transaction: int


class _Damaged(Exception):
    """Bytes are not what the format has there."""


def values_of_database(read: Read, path: str, size: int) -> Iterator[Value]:
    """The values of the main database, in the order of their keys. Databases within it are left out.

    Args:
        read: Reads so many bytes from an offset on, fewer at the file's end.
        path: The file, for messages.
        size: Its size in bytes.

    Raises:
        SourceError: It is no database, is damaged or cut off, or its keys have several values each.
    """
    try:
        yield from _Tree(read, size).values()
    except _Damaged as error:
        raise SourceError(f"{path} cannot be read as an LMDB database: {error}") from None


class _Tree:
    """The main database.

    Args:
        read: Reads so many bytes from an offset on.
        size: The file's size in bytes.
    """

    def __init__(self, read: Read, size: int) -> None:
        self._read, self._size = read, size
        first = self._head_at(0, 0)
        self._page_bytes = first.page_bytes
        if self._page_bytes not in PAGE_BYTES:
            raise _Damaged(f"it says that a page has {self._page_bytes} bytes")
        second = self._head_at(1, self._page_bytes)
        self._head = head = max(first, second, key=lambda one: one.transaction)
        if head.flags & OTHER_ORDER:
            raise _Damaged("its keys are no plain bytes, or have several values each, which is not read")
        if head.depth > MOST_DEPTH or (head.depth == 0) != (head.root == NO_PAGE):
            raise _Damaged("its head is damaged")
        self._tree_pages: set[int] = set()
        self._firsts, self._counts = array("Q"), array("Q")  # of the overflow pages of each large value
        self._last_key: bytes | None = None
        self._least_key = b""  # that the next key may be

    def _head_at(self, number: int, at: int) -> _Head:
        data = self._read(PAGE.size + HEAD.size, at)
        if len(data) < PAGE.size + HEAD.size:
            raise _Damaged("it has no head")
        page, _, kind, _, _ = PAGE.unpack_from(data)
        head = _Head(*HEAD.unpack_from(data, PAGE.size))
        if page != number or not kind & META or head.magic != MAGIC:
            raise _Damaged("it has no head")
        if head.version != VERSION:
            raise _Damaged(f"it has version {head.version} of the format, and only version {VERSION} is read")
        return head

    def values(self) -> Iterator[Value]:
        found = 0
        if self._head.depth:
            for value in self._below(self._head.root, self._head.depth):
                found += 1
                if value is not None:
                    yield value
        if found != self._head.entries:
            raise _Damaged(f"it has {found} values, and its head says {self._head.entries}")
        self._check_pages()

    def _check_pages(self) -> None:
        """Each page belongs to one place. Therefore no value has bytes of another one."""
        tree = np.fromiter(self._tree_pages, np.int64, len(self._tree_pages))
        first = np.concatenate([tree, np.array(self._firsts, np.int64)])
        end = first + np.concatenate([np.ones(len(tree), np.int64), np.array(self._counts, np.int64)])
        order = np.argsort(first)
        twice = np.flatnonzero(first[order][1:] < end[order][:-1])
        if len(twice):
            raise _Damaged(f"its page {first[order][1:][twice[0]]} is used twice")

    def _below(self, number: int, depth: int) -> Iterator[Value | None]:
        """The values in a page and below it; None: a database."""
        if number in self._tree_pages:
            raise _Damaged(f"its page {number} is used twice")
        self._tree_pages.add(number)
        data = self._page(number, LEAF if depth == 1 else BRANCH, self._page_bytes)
        nodes = self._nodes(data, number, depth == 1)
        if depth == 1:
            for at, length, flags, key_bytes in nodes:
                key = data[at : at + key_bytes]
                yield self._value(data, number, key, at=at, length=length, flags=flags)
            return
        for place, (at, below, flags, key_bytes) in enumerate(nodes):
            if place:  # the key of the first one says nothing
                key = data[at : at + key_bytes]
                if self._last_key is not None and key <= self._last_key:
                    raise _Damaged(f"the keys on its page {number} are not in order")
                self._least_key = max(self._least_key, key)
            yield from self._below(below | flags << 32, depth - 1)

    def _value(
        self, data: bytes, number: int, key: bytes, *, at: int, length: int, flags: int
    ) -> Value | None:
        if (self._last_key is not None and key <= self._last_key) or key < self._least_key:
            raise _Damaged(f"the keys on its page {number} are not in order")
        self._last_key = key
        at += len(key)
        if flags == 0:
            beginning = data[at : at + min(length, BEGINNING_BYTES)]
            return Value(key, number * self._page_bytes + at, length, beginning)
        if flags == SUB_DATABASE:
            return None
        if flags != BIG:
            raise _Damaged(f"a key on its page {number} has several values")
        (first,) = PLACE.unpack_from(data, at)
        head = self._page(first, OVERFLOW, PAGE.size + BEGINNING_BYTES)
        (count,) = PAGES.unpack_from(head, PAGE.size - PAGES.size)
        if count * self._page_bytes < PAGE.size + length or first + count - 1 > self._head.last_page:
            raise _Damaged(f"a value on its page {first} does not end there")
        if first * self._page_bytes + PAGE.size + length > self._size:
            raise _Damaged(f"it ends within its page {first}: it was not copied to its end")
        self._firsts.append(first)
        self._counts.append(count)
        beginning = head[PAGE.size :][: min(length, BEGINNING_BYTES)]
        return Value(key, first * self._page_bytes + PAGE.size, length, beginning)

    def _page(self, number: int, kind: int, length: int) -> bytes:
        """The first bytes of a page, which is of that kind."""
        if not 2 <= number <= self._head.last_page:
            raise _Damaged(f"there is no page {number}")
        if number * self._page_bytes >= self._size:
            raise _Damaged(f"it ends before its page {number}: it was not copied to its end")
        data = self._read(length, number * self._page_bytes)
        if len(data) < length:
            raise _Damaged(f"it ends within its page {number}: it was not copied to its end")
        said, _, its, _, _ = PAGE.unpack_from(data)
        if said != number or its & ~DIRTY != kind:
            raise _Damaged(f"its page {number} is damaged")
        return data

    def _nodes(self, data: bytes, number: int, is_leaf: bool) -> list[tuple[int, int, int, int]]:
        """The nodes of a page in the order of their keys, none of which has bytes of another.

        For each: where its key is; the length of its value, or the lower bits of the page below it; its
        flags; the length of its key.
        """
        _, _, _, end, begin = PAGE.unpack_from(data)
        if end % 2 or not PAGE.size <= end <= begin <= self._page_bytes:
            raise _Damaged(f"its page {number} is damaged")
        found, spans = [], []
        for place in struct.unpack_from(f"<{(end - PAGE.size) // 2}H", data, PAGE.size):
            if not begin <= place <= self._page_bytes - NODE.size:
                raise _Damaged(f"its page {number} is damaged")
            low, high, flags, key_bytes = NODE.unpack_from(data, place)
            low |= high << 16
            at = place + NODE.size
            its_end = at + key_bytes
            if is_leaf:
                its_end += PLACE.size if flags & BIG else low
            found.append((at, low, flags, key_bytes))
            spans.append((place, its_end))
        spans.sort()
        spans.append((self._page_bytes, 0))
        if any(its_end > following for (_, its_end), (following, _) in itertools.pairwise(spans)):
            raise _Damaged(f"its page {number} is damaged")
        return found
