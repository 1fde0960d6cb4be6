"""Iterators that several threads may share. Each batch goes to one thread, and no batch is lost."""

from __future__ import annotations

import threading
from typing import Any

from seneca._runtime.finalizers import shielded

__all__ = ["InTurn", "turn"]


def turn(lock: Any) -> Any:
    """Return the ``threading.RLock`` of an iterator, which a thread holds while it takes a batch.

    If this thread already holds the lock, it is in the middle of taking a batch. A signal handler or a
    finalizer has interrupted it there, and would wait for its own thread for ever.

    Raises:
        RuntimeError: This thread already holds the lock.
    """
    if lock._is_owned():
        raise RuntimeError(
            "this thread is taking a batch from this iterator already; a signal handler or a finalizer that "
            "runs meanwhile cannot take another"
        )
    return lock


class InTurn:
    """A base class for iterators, to stand before the other bases. Threads that ask for batches take turns.

    When the process ends, daemon threads complete the batch that they are taking, and then take no more.
    """

    _turn: Any
    _progress: Any  # of the epoch, a seneca.epochs.progress.EpochProgress

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        self = super().__new__(cls)
        self._turn = threading.RLock()  # made before anything can be interrupted
        return self

    def __next__(self) -> Any:
        progress = self._progress
        with shielded, turn(self._turn):
            if progress.watched:  # a batch is handed out later
                return super().__next__()  # type: ignore[misc]
            batch = progress.taken(super().__next__)  # type: ignore[misc]
        progress.asked = None  # no signal handler runs from here until the caller has the batch
        return batch
