"""Whether something that was looked at is still the same, found in microseconds.

A look walks over everything that items hang on. On its way it hands the mutable things that it meets to a
:class:`Watch`, which remembers what was in them: the same objects, not their contents. Where the user's code
has put something else into one of them since, it says so, and it is time for another look.

What it does not see: changes in large arrays, in containers with more than 4,096 elements (but for their
length), and in what an object keeps outside its ``__dict__``. A look sees these.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from operator import is_
from typing import Any

import numpy as np
import torch

__all__ = ["Watch"]

MOST_ELEMENTS = 4096  # of one container
MOST_BYTES = 4096  # of one array
MISSING = object()


class Watch:
    """Remembers what was in the mutable things that a look has met."""

    def __init__(self) -> None:
        self._checks: list[tuple[Callable[[], Any], Any]] = []

    def mapping(self, live: Mapping[Any, Any]) -> None:
        """All of a mapping."""
        self._remember(lambda: (*live, *live.values()) if len(live) <= MOST_ELEMENTS else (len(live),))

    def names(self, live: Mapping[str, Any], names: tuple[str, ...]) -> None:
        """What a mapping has under some names."""
        self._remember(lambda: tuple(live.get(name, MISSING) for name in names))

    def elements(self, live: list[Any]) -> None:
        """The elements of a list."""
        self._remember(lambda: tuple(live) if len(live) <= MOST_ELEMENTS else (len(live),))

    def cells(self, cells: tuple[types.CellType, ...]) -> None:
        """What the variables of a closure hold."""
        self._remember(lambda: tuple(map(_inside, cells)))

    def tensor(self, live: torch.Tensor) -> None:
        """Whether torch has written to a tensor; a small one by content."""
        if live.nbytes <= MOST_BYTES:
            self._remember(lambda: (live._version, live.data_ptr(), *live.flatten().tolist()))
        else:
            self._remember(lambda: (live._version, live.data_ptr()))

    def array(self, live: np.ndarray) -> None:
        """A small array, by content."""
        if live.nbytes <= MOST_BYTES:
            self._remember(lambda: (live.tobytes(),))

    def value(self, read: Callable[[], Any]) -> None:
        """What a function answers."""
        self._remember(lambda: (read(),))

    def changed(self) -> bool:
        """Whether anything is another object than when it was met, or than at the last :meth:`settle`."""
        return not all(_same(read(), before) for read, before in self._checks)

    def settle(self) -> None:
        """Take everything as it is now."""
        self._checks = [(read, read()) for read, _ in self._checks]

    def _remember(self, read: Callable[[], tuple[Any, ...]]) -> None:
        self._checks.append((read, read()))


def _same(now: tuple[Any, ...], before: tuple[Any, ...]) -> bool:
    return len(now) == len(before) and (all(map(is_, now, before)) or _equal(now, before))


def _equal(now: tuple[Any, ...], before: tuple[Any, ...]) -> bool:
    """Of numbers and texts, which need not be the same objects to be the same."""
    return all(
        one is other or (type(one) is type(other) and type(one) in _BY_VALUE and one == other)
        for one, other in zip(now, before, strict=True)
    )


_BY_VALUE = frozenset({bool, int, float, str, bytes})


def _inside(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not yet filled
        return MISSING
