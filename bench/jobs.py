"""Jobs of a benchmark: processes that start, get ready, go together, and are gone at the end.

One pipe a job carries all that is said. The job says ``ready``, waits for ``go``, does its work (one that
works for long says ``alive`` now and then) and says ``done`` with a result, or ``failed`` with the reason;
a job that dies says nothing, and the closed pipe shows it. Whatever happens, leaving :func:`started` ends
every job by its own handle.

A job may run in another interpreter, which has a loader that this one lacks: this file is then the program.
"""

from __future__ import annotations

import importlib
import multiprocessing
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

END_S = 10.0
SILENCE_S = 600.0
ALIVE = "alive"


class JobFailed(RuntimeError):
    """A job of the benchmark died or raised; the message says which and why."""


class Job:
    """One process of the benchmark, seen from the parent."""

    def __init__(
        self, number: int, work: Callable[..., Any], arguments: tuple[Any, ...], python: str | None = None
    ) -> None:
        context = multiprocessing.get_context("spawn")
        self.number = number
        self._done = False
        self._pipe, theirs = context.Pipe()
        self._process: BaseProcess | _Elsewhere
        if python is None:
            self._process = context.Process(target=_run, args=(theirs, work, number, arguments))
            self._process.start()
        else:
            self._process = _Elsewhere(python, theirs)
            self._pipe.send((work.__module__, work.__qualname__, number))
            self._pipe.send(arguments)
        theirs.close()

    def hear(self, word: str) -> Any:
        """Wait until the job says ``word`` and return what came with it.

        Raises:
            JobFailed: it said that it failed, died, or said nothing for ten minutes.
        """
        said, what = ALIVE, None
        while said == ALIVE:
            if not self._pipe.poll(SILENCE_S):
                raise JobFailed(f"job {self.number} has said nothing for {SILENCE_S:.0f} s")
            try:
                said, what = self._pipe.recv()
            except EOFError:
                self._process.join(END_S)
                raise JobFailed(f"job {self.number} ended with status {self._process.exitcode}") from None
        if said != word:
            raise JobFailed(f"job {self.number} failed:\n{what}")
        self._done = word == "done"
        return what

    def go(self, what: Any = None) -> None:
        """Let the job go on; :meth:`Voice.wait` returns ``what`` there."""
        try:
            self._pipe.send(what)
        except (BrokenPipeError, ConnectionResetError):
            self.hear("")

    def end(self) -> None:
        """End the process, by force if it does not answer."""
        self._pipe.close()
        self._process.join(END_S if self._done else 0.5)
        for stop in (self._process.terminate, self._process.kill):
            if self._process.is_alive():
                stop()
                self._process.join(END_S)
        self._process.close()


class _Elsewhere:
    """A process of another interpreter, with those methods of multiprocessing's that a job needs."""

    def __init__(self, python: str, pipe: Connection) -> None:
        self._popen = subprocess.Popen(
            [python, __file__, str(pipe.fileno())], pass_fds=[pipe.fileno()], stdin=subprocess.DEVNULL
        )
        self.terminate, self.kill = self._popen.terminate, self._popen.kill

    @property
    def exitcode(self) -> int | None:
        return self._popen.poll()

    def is_alive(self) -> bool:
        return self._popen.poll() is None

    def join(self, timeout: float) -> None:
        with suppress(subprocess.TimeoutExpired):
            self._popen.wait(timeout)

    def close(self) -> None:
        """Nothing is left to close: the process has been waited for."""


class Voice:
    """The job's end of the pipe."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe

    def say(self, word: str, what: Any = None) -> None:
        self._pipe.send((word, what))

    def alive(self) -> None:
        """So that a long silence is not taken for the end."""
        self.say(ALIVE)

    def wait(self) -> Any:
        return self._pipe.recv()


@contextmanager
def started(
    works: Sequence[tuple[Callable[..., Any], tuple[Any, ...]]], *, python: str | None = None
) -> Iterator[list[Job]]:
    """A job for each ``(work, arguments)``; all have ended when this is left.

    Job K runs ``work(voice, K, *arguments)``, in a process that imports ``work`` anew: of this interpreter,
    or of ``python``.
    """
    jobs: list[Job] = []
    try:
        for number, (work, arguments) in enumerate(works):
            jobs.append(Job(number, work, arguments, python))
        yield jobs
    finally:
        for job in jobs:
            job.end()


def together(count: int, work: Callable[..., Any], *arguments: Any) -> list[Any]:
    """Run ``work`` in ``count`` jobs, let them go when all are ready, return their results in order."""
    with started([(work, arguments)] * count) as jobs:
        for job in jobs:
            job.hear("ready")
        for job in jobs:
            job.go()
        return [job.hear("done") for job in jobs]


def _run(pipe: Connection, work: Callable[..., Any], number: int, arguments: tuple[Any, ...]) -> None:
    """The whole of a job: its result, or why there is none, goes into the pipe."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends the jobs
    voice = Voice(pipe)
    try:
        voice.say("done", work(voice, number, *arguments))
    except (EOFError, BrokenPipeError):
        sys.exit(1)  # the parent is gone or wants no more
    except Exception:
        voice.say("failed", traceback.format_exc())
        sys.exit(1)


def _serve(pipe: Connection) -> None:
    """The program of another interpreter: hear what the work is, and do it."""
    module, name, number = pipe.recv()
    work = getattr(importlib.import_module(module), name)
    _run(pipe, work, number, pipe.recv())


if __name__ == "__main__":
    _serve(Connection(int(sys.argv[1])))
