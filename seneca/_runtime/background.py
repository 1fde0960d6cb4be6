"""Work that goes on in a thread of its own, step by step, until it is done or its owner ends it."""

from __future__ import annotations

import threading
from collections.abc import Callable

__all__ = ["Background"]


class Background:
    """Takes one step after another in a daemon thread.

    Its owner ends it at the end of the process at the latest: a step must not run while the process ends.

    Args:
        step: Takes a step. It returns for how many seconds to wait before the next; None: all is done.
        name: Of the thread, for people.
    """

    def __init__(self, step: Callable[[], float | None], name: str) -> None:
        self._step, self._name = step, name
        self.begin()

    def begin(self) -> None:
        """Go on after :meth:`end`."""
        self._ends = threading.Event()
        self._thread = threading.Thread(
            target=_run, args=(self._step, self._ends), name=self._name, daemon=True
        )
        self._thread.start()

    def end(self) -> None:
        """Let the step that runs be the last, and wait for its end. A step may call this as well.

        In a forked child nothing may be called: the thread is the parent's.
        """
        self._ends.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()


def _run(step: Callable[[], float | None], ends: threading.Event) -> None:
    while not ends.is_set() and (pause_s := step()) is not None:
        if pause_s > 0:
            ends.wait(pause_s)
