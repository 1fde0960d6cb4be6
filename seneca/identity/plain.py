"""Plain data: containers of numbers and texts, digested as a whole, and remembered from look to look."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple

__all__ = ["CONTAINERS", "LEAVES", "Memory", "Plain", "plain"]

# marshal writes these, version 2, by value alone; later versions tell which strings are interned.
LEAVES = frozenset({int, float, complex, bool, str, bytes, type(None)})
CONTAINERS = frozenset({list, tuple, dict})
LEVELS = 4  # of containers that are tried as plain data; deeper ones are walked


class Plain(NamedTuple):
    """What is in a container that holds nothing but leaves, in lists, tuples and dicts a few levels deep."""

    texts: Sequence[str | bytes]
    mutable: Sequence[Any]  # the lists and dicts inside
    immutable: bool  # all that is inside


def plain(value: Any) -> Plain | None:
    """What is in a container, if it is plain data."""
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
    """Digests of large containers from one look to the next.

    Only of those whose elements are immutable all the way down: they are the same if the elements are the
    same objects, which is found in a tenth of the time.
    """

    def __init__(self) -> None:
        self._kept: dict[int, _Remembered] = {}
        self._used: dict[int, _Remembered] = {}

    def find(self, container: Any) -> _Remembered | None:
        """What was found in a container, if it holds what it held then."""
        found = self._kept.get(id(container))
        if found is None or found.container is not container or len(found.elements) != _count(container):
            return None
        if not all(map(_is, found.elements, _elements(container))):
            return None
        self._used[id(container)] = found
        return found

    def keep(self, container: Any, digest: bytes, texts: list[str | bytes]) -> None:
        """What was found in a container."""
        found = _Remembered(container, list(_elements(container)), digest, texts)
        self._kept[id(container)] = self._used[id(container)] = found

    def looked(self) -> None:
        """A look is over: what it did not meet is forgotten."""
        self._kept, self._used = self._used, {}


def _is(one: Any, other: Any) -> bool:
    return one is other


def _elements(container: Any) -> Iterable[Any]:
    return chain(container, container.values()) if type(container) is dict else container


def _count(container: Any) -> int:
    return 2 * len(container) if type(container) is dict else len(container)
