"""Labels as one array, because a million Python numbers take longer to make and more memory."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np

__all__ = ["Labels"]

AT_ONCE = 1 << 16  # numbers that are made or compared together
NUMBERS = (int, float, complex, np.number, np.bool_)


class Labels(Sequence[int]):
    """Whole numbers that nobody changes. Each is made a Python number when it is asked for.

    Args:
        array: The numbers, int64.
    """

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    @classmethod
    def of(cls, labels: Sequence[Any]) -> Sequence[Any]:
        """The same labels, as one array if all are whole numbers of 64 bits; else as they are."""
        if isinstance(labels, Labels) or not all(type(label) is int for label in labels):
            return labels
        try:
            return cls(np.array(labels, np.int64))
        except OverflowError:
            return labels

    def __len__(self) -> int:
        return len(self.array)

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> list[int]: ...
    def __getitem__(self, index: Any) -> Any:
        return self.array[index if isinstance(index, slice) else operator.index(index)].tolist()

    def __iter__(self) -> Iterator[int]:
        for begin in range(0, len(self), AT_ONCE):
            yield from self.array[begin : begin + AT_ONCE].tolist()

    def __contains__(self, value: object) -> bool:
        return self.count(value) > 0

    def count(self, value: Any) -> int:
        """How many of the numbers equal this value."""
        return int(np.count_nonzero(self.array == value)) if isinstance(value, NUMBERS) else 0

    def index(self, value: Any, start: int = 0, stop: int | None = None) -> int:
        """The place of the first that equals this value, as of a list."""
        begin, end, _ = slice(start, stop).indices(len(self))
        for at in range(begin, end, AT_ONCE) if isinstance(value, NUMBERS) else ():
            found = np.flatnonzero(self.array[at : min(at + AT_ONCE, end)] == value)
            if len(found):
                return at + int(found[0])
        raise ValueError(f"{value!r} is not in list")

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Labels):
            return np.array_equal(self.array, other.array)
        if not isinstance(other, (list, tuple)):
            return NotImplemented
        return len(self) == len(other) and all(one == its for one, its in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.array, dtype)

    def __deepcopy__(self, memo: Any) -> Labels:
        return self

    def __repr__(self) -> str:
        return f"<{len(self)} labels{f', the first of them {self[0]}' if len(self) else ''}>"
