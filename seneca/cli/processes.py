"""Processes that report events on their standard output, each as a line of JSON.

The parent reads all of them from one queue. Each process gets its own session. Therefore Ctrl-C in the
terminal reaches only the parent, which then ends the processes in order.
"""

from __future__ import annotations

import contextlib
import json
import queue
import signal
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

__all__ = ["Event", "Processes", "ending"]

PATIENCE_S = 5.0


@dataclass(frozen=True)
class Event:
    """One event of one process.

    Attributes:
        process: The number of the process, from 0.
        what: The report; ``{"event": "ended"}`` once the output of the process has closed.
    """

    process: int
    what: dict[str, Any]


class Processes:
    """A group of processes. All have ended when its ``with`` block is left.

    Args:
        commands: The argument list of each process.
        errors: A folder. The standard error of process K goes to ``K.err`` in it.
    """

    def __init__(self, commands: Sequence[Sequence[str]], errors: Path) -> None:
        self._commands = commands
        self._errors = errors
        self._running: list[subprocess.Popen[str]] = []
        self._readers: list[threading.Thread] = []
        self._events: queue.Queue[Event] = queue.Queue()

    def __enter__(self) -> Processes:
        try:
            for number, command in enumerate(self._commands):
                with open(self._errors / f"{number}.err", "wb") as errors:
                    process = subprocess.Popen(
                        command,
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                        stderr=errors,
                        text=True,
                        start_new_session=True,
                    )
                self._running.append(process)
                reader = threading.Thread(target=self._read, args=(number, process), daemon=True)
                reader.start()
                self._readers.append(reader)
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def next(self, timeout_s: float) -> Event | None:
        """The next event of any process; None if there was none for ``timeout_s`` seconds."""
        try:
            return self._events.get(timeout=timeout_s)
        except queue.Empty:
            return None

    def tell(self, number: int, line: str) -> None:
        """Write a line to the standard input of a process. If it has ended, nothing happens."""
        stdin = self._running[number].stdin
        assert stdin is not None
        with contextlib.suppress(BrokenPipeError):
            stdin.write(f"{line}\n")
            stdin.flush()

    def status(self, number: int) -> int:
        """The exit status of a process whose ``ended`` was seen; negative: the signal that killed it."""
        return self._running[number].wait()

    def last_words(self, number: int) -> str:
        """The last line that a process wrote to its standard error; empty if there is none."""
        lines = (self._errors / f"{number}.err").read_text(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def end(self) -> None:
        """End the processes that still run: ask, wait a moment, then kill."""
        for process in self._running:
            if process.poll() is None:
                process.terminate()
        for process, reader in zip(self._running, self._readers, strict=False):
            try:
                process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            reader.join(PATIENCE_S)
            for pipe in (process.stdin, process.stdout):
                assert pipe is not None
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()

    def _read(self, number: int, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            with contextlib.suppress(ValueError):  # the line is a library's print, not an event
                what = json.loads(line)
                if isinstance(what, dict) and "event" in what:
                    self._events.put(Event(number, what))
        self._events.put(Event(number, {"event": "ended"}))


def ending(status: int, last_words: str) -> str:
    """How a process ended, in words.

    Example:
        >>> ending(-9, ""), ending(3, "ValueError: no")
        ('was killed by SIGKILL', 'ended with status 3: ValueError: no')
    """
    if status < 0:
        try:
            return f"was killed by {signal.Signals(-status).name}"
        except ValueError:
            return f"was killed by signal {-status}"
    return f"ended with status {status}" + (f": {last_words}" if last_words else "")
