"""Whether objects of a look are still the same, found out in microseconds.

A look walks over everything on which items depend. It hands the mutable objects that it meets to a
:class:`Watch`. The watch remembers what was in them: the same objects, not their contents. If the user's
code has since put other objects into one of them, the watch says so. Then another look is due.

A watch does not see changes in large arrays, or in what an object keeps outside its ``__dict__``. Of
containers with more than 4,096 elements it sees only the length. A look sees all of these.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from operator import is_
from typing import Any

import numpy as np
import torch

__all__ = ["Watch", "is_in_foreign_memory"]

MOST_ELEMENTS = 4096  # of one container
MOST_BYTES = 4096  # of one array
MISSING = object()


class Watch:
    """Remembers what was in the mutable objects that a look has met."""

    def __init__(self) -> None:
        self._checks: list[tuple[Callable[[], Any], Any]] = []
        self._shared: list[tuple[Callable[[], Any], Any]] = []  # of memory that other processes may write

    def mapping(self, live: Mapping[Any, Any]) -> None:
        """Watch all of a mapping."""
        self._remember(lambda: (*live, *live.values()) if len(live) <= MOST_ELEMENTS else (len(live),))

    def names(self, live: Mapping[str, Any], names: tuple[str, ...]) -> None:
        """Watch some names in a mapping."""
        self._remember(lambda: tuple(live.get(name, MISSING) for name in names))

    def elements(self, live: list[Any] | set[Any]) -> None:
        """Watch the elements of a list or of a set."""
        self._remember(lambda: tuple(live) if len(live) <= MOST_ELEMENTS else (len(live),))

    def cells(self, cells: tuple[types.CellType, ...]) -> None:
        """Watch the variables of a closure."""
        self._remember(lambda: tuple(map(_inside, cells)))

    def tensor(self, live: torch.Tensor) -> None:
        """Watch a tensor: whether torch has written to it, and a small one also by content."""
        if live.nbytes <= MOST_BYTES:
            self._remember(
                lambda: (live._version, live.data_ptr(), *live.flatten().tolist()), shared=live.is_shared()
            )
        else:
            self._remember(lambda: (live._version, live.data_ptr()))

    def array(self, live: np.ndarray) -> None:
        """Watch a small array, by content."""
        if live.nbytes <= MOST_BYTES:
            self._remember(lambda: (live.tobytes(),), shared=is_in_foreign_memory(live))

    def value(self, read: Callable[[], Any]) -> None:
        """Watch the result of a function."""
        self._remember(lambda: (read(),))

    def changed(self) -> bool:
        """Whether anything has changed since it was met, or since the last :meth:`settle`."""
        return self.changed_elsewhere() or not all(_same(read(), before) for read, before in self._checks)

    def changed_elsewhere(self) -> bool:
        """Whether anything in memory that other processes may write has changed since it was met."""
        return not all(_same(read(), before) for read, before in self._shared)

    def settle(self) -> None:
        """Compare with the present state from now on.

        What lies in shared memory is still compared with what it was when it was met. Another process may
        have changed it, at any time.
        """
        self._checks = [(read, read()) for read, _ in self._checks]

    def _remember(self, read: Callable[[], tuple[Any, ...]], *, shared: bool = False) -> None:
        (self._shared if shared else self._checks).append((read, read()))


def is_in_foreign_memory(array: np.ndarray) -> bool:
    """Whether an array lies in memory that NumPy did not allocate, which may be shared memory."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array.base is not None


def _same(now: tuple[Any, ...], before: tuple[Any, ...]) -> bool:
    return len(now) == len(before) and (all(map(is_, now, before)) or _equal(now, before))


def _equal(now: tuple[Any, ...], before: tuple[Any, ...]) -> bool:
    """Whether two tuples are equal. Numbers and texts are compared by value, all else by identity."""
    return all(
        one is other or (type(one) is type(other) and type(one) in _BY_VALUE and one == other)
        for one, other in zip(now, before, strict=True)
    )


_BY_VALUE = frozenset({bool, int, float, str, bytes})


def _inside(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # the variable is not yet set
        return MISSING
