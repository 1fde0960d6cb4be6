"""Iterators that several threads may share: each batch goes to one of them, and none is lost."""

from __future__ import annotations

import threading
from typing import Any

__all__ = ["InTurn", "turn"]


def turn(lock: Any) -> Any:
    """The ``threading.RLock`` of an iterator, for a thread that takes a batch from it while others wait.

    A thread that holds it already is in the middle of taking one, and a signal's handler or a finalizer
    has interrupted it there. It would wait for itself for ever.

    Raises:
        RuntimeError: This thread holds it.
    """
    if lock._is_owned():
        raise RuntimeError(
            "this thread is taking a batch from this iterator already; a signal handler or a finalizer that "
            "runs meanwhile cannot take another"
        )
    return lock


class InTurn:
    """Before an iterator class among the bases: threads that ask for a batch at the same time take turns."""

    _turn: Any

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        self = super().__new__(cls)
        self._turn = threading.RLock()  # before anything can be interrupted
        return self

    def __next__(self) -> Any:
        with turn(self._turn):
            return super().__next__()  # type: ignore[misc]
