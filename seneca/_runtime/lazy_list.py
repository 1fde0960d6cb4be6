"""Lists whose items are made when they are asked for, until somebody changes the list."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableSequence, Sequence
from typing import Any, SupportsIndex, TypeVar, overload

import numpy as np

__all__ = ["LazyList"]

T = TypeVar("T")


class LazyList(MutableSequence[T]):
    """A list that takes no memory for its items.

    It has the methods of a list, and equals a list of the same items. Each item is made when it is asked for.
    With the first change, such as an assignment or :meth:`append`, it becomes a list of all items in memory.

    It is no ``list`` for ``isinstance``. Where code in C asks for one, as ``json.dumps`` does, give it
    ``list(...)`` of this.

    Args:
        items: The items at first. They never change.
    """

    def __init__(self, items: Sequence[T]) -> None:
        self._items = items

    @property
    def items(self) -> Sequence[T]:
        """All items: what this was made of, or after a change a list."""
        return self._items

    def as_list(self) -> list[T]:
        """The items as the list that this is from now on: a change of either is one of both."""
        if not isinstance(self._items, list):
            self._items = list(self._items)
        return self._items

    def __reduce__(self) -> tuple[Any, ...]:
        return (list if isinstance(self._items, list) else LazyList), (self._items,)

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, index: SupportsIndex) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: Any) -> Any:
        return self._items[index]

    def __iter__(self) -> Iterator[T]:
        return iter(self._items)

    def __reversed__(self) -> Iterator[T]:
        return reversed(self._items)

    def __contains__(self, value: object) -> bool:
        return value in self._items

    def index(self, value: Any, start: Any = 0, stop: Any = None) -> int:
        """As of a list."""
        return self._items.index(value, start, len(self) if stop is None else stop)

    def count(self, value: Any) -> int:
        """As of a list."""
        return self._items.count(value)

    def copy(self) -> list[T]:
        """A list of the same items."""
        return list(self._items)

    def __setitem__(self, index: Any, value: Any) -> None:
        self.as_list()[index] = value

    def __delitem__(self, index: Any) -> None:
        del self.as_list()[index]

    def insert(self, index: SupportsIndex, value: T) -> None:
        """As of a list."""
        self.as_list().insert(index, value)

    def extend(self, values: Iterable[T]) -> None:
        """As of a list."""
        self.as_list().extend(_list_of(values))

    def clear(self) -> None:
        """As of a list."""
        self._items = []

    def sort(self, *, key: Any = None, reverse: bool = False) -> None:
        """As of a list."""
        self.as_list().sort(key=key, reverse=reverse)

    def __iadd__(self, values: Iterable[T]) -> LazyList[T]:  # type: ignore[misc]  # as list's
        self.extend(values)
        return self

    def __imul__(self, times: SupportsIndex) -> LazyList[T]:
        self._items = list(self._items) * times
        return self

    def __add__(self, other: Any) -> list[T]:
        return list(self._items) + _list_of(other)

    def __radd__(self, other: Any) -> list[T]:
        return _list_of(other) + list(self._items)

    def __mul__(self, times: SupportsIndex) -> list[T]:
        return list(self._items) * times

    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (list, LazyList)):
            return NotImplemented
        its = other._items if isinstance(other, LazyList) else other
        return self._items is its or (
            len(self) == len(its) and all(one == another for one, another in zip(self, its, strict=True))
        )

    def __lt__(self, other: Any) -> bool:
        return list(self._items) < _list_of(other)

    def __le__(self, other: Any) -> bool:
        return list(self._items) <= _list_of(other)

    def __gt__(self, other: Any) -> bool:
        return list(self._items) > _list_of(other)

    def __ge__(self, other: Any) -> bool:
        return list(self._items) >= _list_of(other)

    __hash__ = None  # type: ignore[assignment]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """A new array of the items, as NumPy makes it of a list."""
        items: Any = self._items
        return np.array(items if hasattr(items, "__array__") else list(items), dtype)

    def __repr__(self) -> str:
        return repr(self._items)


def _list_of(other: Any) -> Any:
    """The items of a lazy list as a list. Anything else stays: Python refuses what no list takes."""
    return list(other._items) if isinstance(other, LazyList) else other
