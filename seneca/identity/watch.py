"""Whether objects that a fingerprinter has met are still the same, found out in microseconds.

A fingerprinter walks over everything on which items depend. It hands the mutable objects that it meets to a
:class:`Watch`. The watch remembers what was in them: the same objects, not their contents. If the user's
code has since put other objects into one of them, the watch says so. Then another inspection is due.

A watch does not see changes in large arrays, or in what an object keeps outside its ``__dict__``. Of
containers with more than 4,096 elements it sees only the length. A fingerprinter sees all of these.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Mapping
from operator import is_
from typing import Any

import numpy as np
import torch

__all__ = ["Attributes", "Watch", "is_in_foreign_memory"]

MOST_ELEMENTS = 4096  # of one container
MOST_BYTES = 4096  # of one array
MOST_ALIKE = 1 << 20  # bytes of two arrays that are compared
LEVELS = 4  # of containers whose elements are compared one by one
MISSING = object()


class Watch:
    """Remembers what was in the mutable objects that a fingerprinter has met."""

    def __init__(self) -> None:
        self._checks: list[tuple[Callable[[], Any], Any]] = []
        self._shared: list[tuple[Callable[[], Any], Any]] = []  # of memory that other processes may write

    def mapping(self, live: Mapping[Any, Any]) -> None:
        """Watch all of a mapping."""
        self._remember(lambda: (*live, *live.values()) if len(live) <= MOST_ELEMENTS else (len(live),))

    def names(self, live: Mapping[str, Any], names: tuple[str, ...]) -> None:
        """Watch some names in a mapping."""
        if not names:
            return
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

        Values in shared memory are still compared with what they were when they were met. Another process
        may have changed them, at any time.
        """
        self._checks = [(read, read()) for read, _ in self._checks]

    def _remember(self, read: Callable[[], tuple[Any, ...]], *, shared: bool = False) -> None:
        (self._shared if shared else self._checks).append((read, read()))


class Attributes:
    """The attributes of a dataset, to find out whether making items has bound others.

    Args:
        owner: The dataset.
        counted: Returns, by name, the attributes that count in its identity. It may raise anything. None: all
            count.
        stores: Returns whether code sets an attribute of a name.
        repeat: Calls a function once more, and returns what that returns; a new object if that is random.
    """

    def __init__(
        self,
        owner: Any,
        counted: Callable[[], Mapping[str, Any]] | None = None,
        stores: Callable[[str], bool] = lambda name: True,
        repeat: Callable[[Callable[[], Any]], Any] = lambda make: make(),
    ) -> None:
        self._owner, self._stores, self._repeat = owner, stores, repeat
        self._uncounted: set[str] = set()  # attributes that were bound anew, and were found not to count
        self._counted = counted or (lambda: dict(getattr(owner, "__dict__", {})))
        self._bound = self._bound_now()
        self._before = self._counted_now()

    def changed(self) -> list[str]:
        """The names of attributes that count and are no longer alike; empty: items are what they were.

        Those that do not count may change. So may a ``functools.cached_property`` get its value, if the
        property gives the same once more.
        """
        bound = self._bound_now()
        anew = {
            name
            for name in {*self._bound, *bound}
            if bound.get(name, MISSING) is not self._bound.get(name, MISSING)
        }
        if anew <= self._uncounted:
            self._bound = bound
            return []
        now = self._counted_now()
        changed = [
            name
            for name in sorted({*self._before, *now})
            if not _alike(now.get(name, MISSING), self._before.get(name, MISSING))
            and not (name not in self._before and self._is_computed(name, now[name]))
        ]
        if not changed:
            self._bound, self._before = bound, now
            self._uncounted |= {name for name in anew if now.get(name) is None is not bound.get(name)}
        return changed

    def _bound_now(self) -> dict[str, Any]:
        return dict(getattr(self._owner, "__dict__", {}))

    def _counted_now(self) -> Mapping[str, Any]:
        try:
            return self._counted()
        except Exception as error:  # of the dataset's own code; no error is alike another
            return {"__reduce_ex__": error}

    def _is_computed(self, name: str, value: Any) -> bool:
        """Whether an attribute has its value from a ``cached_property``, and no code sets it."""
        member = next((vars(kind)[name] for kind in type(self._owner).__mro__ if name in vars(kind)), None)
        if type(member) is not functools.cached_property or self._stores(name):
            return False
        try:
            return _alike(self._repeat(functools.partial(member.func, self._owner)), value)
        except Exception:  # of the dataset's own code: it does not give the same
            return False


def _alike(one: Any, other: Any, levels: int = LEVELS) -> bool:
    """Whether two values are the same object, equal numbers or texts, or containers of what is alike.

    Arrays and tensors are alike if they have equal elements, and not many.
    """
    if one is other or type(one) is not type(other):
        return one is other
    if type(one) in (set, frozenset):
        return {type(inner) for inner in (*one, *other)} <= _BY_VALUE and bool(one == other)
    if type(one) in (np.ndarray, torch.Tensor):
        return _are_equal(one, other)
    if type(one) not in (dict, list, tuple) or levels == 0:
        return type(one) in _BY_VALUE and bool(one == other)
    if type(one) is dict:
        one, other = (*one, *one.values()), (*other, *other.values())
    if len(one) != len(other):
        return False
    return all(map(is_, one, other)) or all(
        _alike(inner, its_other, levels - 1) for inner, its_other in zip(one, other, strict=True)
    )


def _are_equal(one: Any, other: Any) -> bool:
    if max(one.nbytes, other.nbytes) > MOST_ALIKE or (one.dtype, one.shape) != (other.dtype, other.shape):
        return False
    if isinstance(one, torch.Tensor):
        return bool(one.requires_grad == other.requires_grad and torch.equal(one, other))
    return not one.dtype.hasobject and one.tobytes() == other.tobytes()


def is_in_foreign_memory(array: np.ndarray) -> bool:
    """Whether an array is in memory that NumPy did not allocate, which may be shared memory."""
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
