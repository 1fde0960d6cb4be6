"""The paths and labels of a folder's files as one table, which the processes of a user map.

::

    text      /data/train/ant/1.jpg\\0/data/train/ant/2.jpg\\0/data/train/bee/1.jpg\\0
    offsets   0                      22                     44                     66
    labels    0                      0                      1

The native core reads the text as it is. Python strings are made when somebody asks for them.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np

from seneca.data.sources.kept_arrays import Kept, opened
from seneca.data.sources.labels import Labels

__all__ = ["PathTable", "Paths", "labels_of"]

AT_ONCE = 1 << 12  # paths that are made together


class PathTable:
    """Paths and labels that nobody changes.

    Args:
        text: The absolute paths, with a NUL after each.
        offsets: Where each path begins, and at the end the length of the text, uint64.
        labels: The label of each, int64.
        base: What all paths begin with, a folder with the slash behind it.
        names: 16 bytes that distinguish these paths below ``base``, in their order, from others.
        kept: The file and the digest of what is mapped; None: the table is this process's alone.
    """

    def __init__(
        self,
        text: bytes | memoryview,
        offsets: np.ndarray,
        labels: np.ndarray,
        *,
        base: bytes,
        names: bytes,
        kept: tuple[str, bytes] | None = None,
    ) -> None:
        self.text, self.offsets, self.labels = text, offsets, labels
        self.base, self.names, self._kept = base, names, kept

    @classmethod
    def mapped(cls, kept: Kept, base: bytes) -> PathTable:
        """The table in a file. ``base`` is as above."""
        arrays = kept.arrays
        names = bytes.fromhex(kept.about["names"])
        where = kept.path, kept.digest
        return cls(kept.text, arrays["offsets"], arrays["labels"], base=base, names=names, kept=where)

    def __len__(self) -> int:
        return len(self.labels)

    def __reduce__(self) -> tuple[Any, ...]:
        # A process that is being started maps the same file. What is pickled for later, or for another host,
        # holds the paths.
        if self._kept is not None and multiprocessing.context.get_spawning_popen() is not None:
            kept = opened(self._kept[0], digest=self._kept[1])
            if kept is not None:
                return _mapped, (*self._kept, self.base)
        arrays = np.array(self.offsets), np.array(self.labels)
        return _in_memory, (bytes(self.text), *arrays, self.base, self.names)

    def __deepcopy__(self, memo: Any) -> PathTable:
        return self


def _mapped(path: str, digest: bytes, base: bytes) -> PathTable:
    kept = opened(path, digest=digest)
    if kept is None:
        raise FileNotFoundError(f"{path} was removed while this process started: start it again")
    return PathTable.mapped(kept, base)


def _in_memory(text: bytes, offsets: np.ndarray, labels: np.ndarray, base: bytes, names: bytes) -> PathTable:
    return PathTable(text, offsets, labels, base=base, names=names)


class Paths(Sequence[str]):
    """The paths of a table, as torchvision makes them. Each is made when it is asked for.

    Args:
        table: The table.
        root: What the paths begin with, in place of the table's ``base``: the folder as the user gave it.
    """

    def __init__(self, table: PathTable, root: str) -> None:
        self.table, self.root = table, root
        self._given = os.fsencode(os.path.join(root, ""))

    def text_in(self, folder: str) -> tuple[bytes | memoryview, np.ndarray] | None:
        """The text and the offsets, if these are the paths relative to a folder; None: they are others."""
        same = os.fsencode(os.path.join(folder, self.root, "")) == self.table.base
        return (self.table.text, self.table.offsets) if same else None

    def names_below(self, root: str) -> bytes | None:
        """What distinguishes the paths below a folder from others, if it is the root of these; else None."""
        return self.table.names if os.path.join(root, "") == os.path.join(self.root, "") else None

    def __len__(self) -> int:
        return len(self.table)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            places = range(len(self))[index]
            return self._between(places.start, places.stop) if places.step == 1 else [self[i] for i in places]
        place = range(len(self))[index]
        begin, end = self.table.offsets[place : place + 2].tolist()
        return os.fsdecode(self._given + bytes(self.table.text[begin + len(self.table.base) : end - 1]))

    def __iter__(self) -> Iterator[str]:
        for begin in range(0, len(self), AT_ONCE):
            yield from self._between(begin, min(begin + AT_ONCE, len(self)))

    def _between(self, first: int, last: int) -> list[str]:
        if first >= last:
            return []
        begin, end = int(self.table.offsets[first]), int(self.table.offsets[last])
        text, base = bytes(self.table.text[begin : end - 1]), self.table.base
        if base != self._given:
            text = (b"\0" + text).replace(b"\0" + base, b"\0" + self._given)[1:]
        return os.fsdecode(text).split("\0")

    def __deepcopy__(self, memo: Any) -> Paths:
        return self


class _LabelsOfTable(Labels):
    """The labels of a table, which are pickled with it."""

    def __init__(self, table: PathTable) -> None:
        super().__init__(table.labels)
        self._table = table

    def __reduce__(self) -> tuple[Any, ...]:
        return _LabelsOfTable, (self._table,)


def labels_of(table: PathTable) -> Labels:
    """The labels of a table."""
    return _LabelsOfTable(table)
