"""Many names as one text, because a million Python strings take long to make and a hundred megabytes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import eq
from typing import Any, overload

import numpy as np

__all__ = ["Names"]

AT_ONCE = 1 << 12  # names that are made together


class Names(Sequence[str]):
    """A list of names. A name is made into a string when it is asked for.

    Args:
        text: The bytes of all names, as file systems have them. They may be in a mapped file.
        begins, ends: Where each name begins and ends in the text, int64.
    """

    def __init__(self, text: bytes | memoryview, begins: np.ndarray, ends: np.ndarray) -> None:
        self._text, self._begins, self._ends = text, begins, ends

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_text": bytes(self._text)}

    @classmethod
    def of(cls, names: Iterable[str]) -> Names:
        """The same names."""
        every = [os.fsencode(name) for name in names]
        return cls.one_after_the_other(b"".join(every), np.fromiter(map(len, every), np.int64, len(every)))

    @classmethod
    def one_after_the_other(cls, text: bytes, lengths: np.ndarray) -> Names:
        """Names of these lengths in bytes, with nothing between them.

        Raises:
            ValueError: The text is shorter or longer.
        """
        ends = np.cumsum(lengths, dtype=np.int64)
        if (int(ends[-1]) if len(ends) else 0) != len(text):
            raise ValueError(f"{len(text)} bytes of text are not those of the names")
        return cls(text, ends - lengths, ends)

    @classmethod
    def joined(cls, parts: Sequence[Names]) -> Names:
        """The names of all lists, one list after the other."""
        if len(parts) == 1:
            return parts[0]
        before = np.cumsum([0, *(len(part._text) for part in parts)])
        return cls(
            b"".join(part._text for part in parts),
            np.concatenate([part._begins + at for part, at in zip(parts, before, strict=False)]),
            np.concatenate([part._ends + at for part, at in zip(parts, before, strict=False)]),
        )

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Names: ...
    def __getitem__(self, index: int | slice) -> str | Names:
        begins, ends = self._begins[index], self._ends[index]
        if isinstance(index, slice):
            return Names(self._text, begins, ends)
        return os.fsdecode(bytes(self._text[begins:ends]))

    def __iter__(self) -> Iterator[str]:
        return map(os.fsdecode, self._each())

    def __eq__(self, other: Any) -> bool:
        if not isinstance(other, (Names, list, tuple)):
            return NotImplemented
        return len(self) == len(other) and all(map(eq, self, other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{len(self)} names{f', the first of them {self[0]!r}' if len(self) else ''}>"

    def arrays(self, name: str) -> dict[str, np.ndarray]:
        """What :meth:`of_arrays` takes: the text and the places, by names that begin so."""
        text, lengths = self.parts()
        ends = np.cumsum(lengths, dtype=np.int64)
        return {
            name: np.frombuffer(text, np.uint8),
            f"{name}_begin": ends - lengths,
            f"{name}_end": ends,
        }

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, np.ndarray], name: str) -> Names:
        """Names that are in these arrays."""
        return cls(arrays[name].data, arrays[f"{name}_begin"], arrays[f"{name}_end"])

    def is_sound(self) -> bool:
        """Whether every name lies in the text."""
        ordered = (self._begins >= 0).all() and (self._begins <= self._ends).all()
        return (
            len(self._begins) == len(self._ends)
            and bool(ordered)
            and int(self._ends.max(initial=0)) <= len(self._text)
        )

    def take(self, places: np.ndarray) -> Names:
        """The names at these places, in this order."""
        return Names(self._text, self._begins[places], self._ends[places])

    def parts(self) -> tuple[bytes | memoryview, np.ndarray]:
        """The text of these names alone, and the length of each in bytes, int64: what
        :meth:`one_after_the_other` takes."""
        if not len(self):
            return b"", np.zeros(0, np.int64)
        if (self._begins[1:] == self._ends[:-1]).all():
            text: bytes | memoryview = memoryview(self._text)[self._begins[0] : self._ends[-1]]
        else:
            text = b"".join(self._each())
        return text, self._ends - self._begins

    def that_end_in(self, endings: Sequence[str]) -> np.ndarray:
        """The places of the names that end so, in order. Upper case counts as lower case."""
        text = np.frombuffer(bytes(self._text).lower(), np.uint8)
        found = np.zeros(len(self), bool)
        for ending in map(os.fsencode, endings):
            places = np.flatnonzero(~found & (self._ends - self._begins >= len(ending)))
            for back, byte in enumerate(reversed(ending), start=1):
                places = places[text[self._ends[places] - back] == byte]
            found[places] = True
        return np.flatnonzero(found)

    def _each(self) -> Iterator[bytes]:
        for first in range(0, len(self), AT_ONCE):
            some = slice(first, first + AT_ONCE)
            for begin, end in zip(self._begins[some].tolist(), self._ends[some].tolist(), strict=True):
                yield bytes(self._text[begin:end])
