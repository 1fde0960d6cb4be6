"""Ctrl-C, and SIGTERM, as the ordinary end of a command that runs until its user ends it."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from types import FrameType, TracebackType
from typing import Any

__all__ = ["Interrupts"]


class Interrupts:
    """A context in which SIGINT and SIGTERM raise nothing, and end a wait.

    A command therefore ends between two steps, and leaves terminal and files as they should be. Enter it in
    the main thread.

    Attributes:
        asked: Whether one of the signals has come.
    """

    def __init__(self) -> None:
        self.asked = False

    def wait(self, seconds: float) -> bool:
        """Wait so long, or until the command is asked to end. Returns whether it is."""
        select.select([self._reads], [], [], max(0.0, seconds))  # what a signal wrote is never read
        return self.asked

    def __enter__(self) -> Interrupts:
        self._reads, self._writes = os.pipe()
        os.set_blocking(self._writes, False)
        self._before: dict[int, Any] = {
            number: signal.signal(number, self._ask) for number in (signal.SIGINT, signal.SIGTERM)
        }
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        os.close(self._reads)
        os.close(self._writes)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
        with contextlib.suppress(BlockingIOError):  # it is full of earlier signals
            os.write(self._writes, b"\0")
