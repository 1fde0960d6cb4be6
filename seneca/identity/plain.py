"""Plain data: containers of numbers and texts. Each is digested as a whole and remembered."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple

__all__ = ["CONTAINERS", "LEAVES", "Memory", "Plain", "plain"]

# Version 2 of marshal writes these by value alone. Later versions also write which strings are interned.
LEAVES = frozenset({int, float, complex, bool, str, bytes, type(None)})
CONTAINERS = frozenset({list, tuple, dict})
LEVELS = 4  # of nested containers that are tried as plain data; deeper ones are walked


class Plain(NamedTuple):
    """The content of a container of leaves alone, in lists, tuples and dicts a few levels deep."""

    texts: Sequence[str | bytes]
    mutable: Sequence[Any]  # the lists and dicts inside it
    immutable: bool  # all that is inside


def plain(value: Any) -> Plain | None:
    """The content of a container that is plain data; None for any other."""
    texts: list[str | bytes] = []
    mutable: list[Any] = []
    level: list[Any] = [value]
    for _ in range(LEVELS):
        values = [part.values() for part in level if type(part) is dict]
        inner = list(chain.from_iterable(chain(level, values)))
        kinds = set(map(type, inner))
        if not kinds <= LEAVES | CONTAINERS:
            return None
        if str in kinds or bytes in kinds:
            texts += [part for part in inner if type(part) in (str, bytes)]
        level = [part for part in inner if type(part) in CONTAINERS]
        if not level:
            return Plain(texts, mutable, not mutable)
        if kinds & {list, dict}:
            mutable += [part for part in level if type(part) is not tuple]
    return None


class _Remembered(NamedTuple):
    container: Any
    elements: list[Any]
    digest: bytes
    texts: list[str | bytes]


class Memory:
    """Digests of large containers, kept from one fingerprinter to the next.

    Only containers whose elements are immutable all the way down are kept. Such a container is the same if
    its elements are the same objects. To compare these takes a tenth of the time of a digest.
    """

    def __init__(self) -> None:
        self._kept: dict[int, _Remembered] = {}
        self._used: dict[int, _Remembered] = {}

    def find(self, container: Any) -> _Remembered | None:
        """The remembered digest of a container, if it still holds the same objects."""
        found = self._kept.get(id(container))
        if found is None or found.container is not container or len(found.elements) != _count(container):
            return None
        if not all(map(_is, found.elements, _elements(container))):
            return None
        self._used[id(container)] = found
        return found

    def keep(self, container: Any, digest: bytes, texts: list[str | bytes]) -> None:
        """Remember what was found in a container."""
        found = _Remembered(container, list(_elements(container)), digest, texts)
        self._kept[id(container)] = self._used[id(container)] = found

    def end_pass(self) -> None:
        """End a fingerprinter's pass. Containers that it did not meet are forgotten."""
        self._kept, self._used = self._used, {}


def _is(one: Any, other: Any) -> bool:
    return one is other


def _elements(container: Any) -> Iterable[Any]:
    return chain(container, container.values()) if type(container) is dict else container


def _count(container: Any) -> int:
    return 2 * len(container) if type(container) is dict else len(container)
