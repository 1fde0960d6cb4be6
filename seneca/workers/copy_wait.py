"""How long a process waits for copies that other jobs make, as ``csrc/pool/sn_copy_wait.h`` for threads."""

from __future__ import annotations

import time
from collections.abc import Iterable

__all__ = ["CopyWait"]

LEAST_S, MOST_S = 0.02, 0.1


class CopyWait:
    """The wait of one process for copies, batch after batch.

    A wait begins when all else of a batch is made. It begins anew with each copy that comes. When it is over,
    the process makes one sample after the other by itself, until a copy comes again. A member for which it
    has waited in vain is not waited for in the next batches either, until a copy of its making has come.
    """

    def __init__(self) -> None:
        self._late: set[int] = set()  # rows of members
        self._until = 0.0

    def begin(self, item_s: float) -> None:
        """Begin to wait, or begin anew.

        Args:
            item_s: How long this process needs for one sample. The wait takes four times that, within
                limits; but twice that if one sample takes longer than the upper limit.
        """
        self._until = time.monotonic() + max(LEAST_S, min(4 * item_s, MOST_S), 2 * item_s)

    def came(self, row: int) -> None:
        """Note that a copy of this member's making has come."""
        self._late.discard(row)

    def is_over(self, rows: Iterable[int]) -> bool:
        """Whether to go on without these members."""
        waited_for = set(rows)
        if waited_for <= self._late:
            return True
        if time.monotonic() < self._until:
            return False
        self._late |= waited_for
        return True
