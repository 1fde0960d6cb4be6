"""Calls of the core's stages, timed in C, on a clock that pytest-benchmark can read.

A call of ``commit`` takes a nanosecond and a call from Python a thousand, so the loop and the time
are in bench/native/stage_loop.c. Its answer moves :data:`CLOCK`, which is the timer of every benchmark
here: what pytest-benchmark takes for the duration of a call is the duration of a call.
"""

from __future__ import annotations

import subprocess
from pathlib import Path


class Clock:
    """Seconds that the stages have taken so far."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


CLOCK = Clock()


class Stages:
    """A running stage_loop; a context manager, at whose end it is gone."""

    def __init__(self, program: Path, picture: Path) -> None:
        self._process = subprocess.Popen(
            [program, picture], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        words = self._ask("names").split()
        self.there = {name: there == "1" for name, there in zip(words[::2], words[1::2], strict=True)}

    def __enter__(self) -> Stages:
        return self

    def __exit__(self, *_: object) -> None:
        with self._process:
            self._process.stdin.close()

    def seconds_of(self, stage: str, calls: int) -> float:
        """What so many calls of the stage take."""
        return int(self._ask(f"{stage} {calls}")) * 1e-9

    def calls_in(self, stage: str, seconds: float) -> int:
        """About as many calls as fill this time; also a warm-up."""
        calls, took = 1, 0.0
        while (took := self.seconds_of(stage, calls)) < seconds / 4:
            calls *= 2
        return max(1, round(calls * seconds / took))

    def _ask(self, request: str) -> str:
        self._process.stdin.write(request + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"stage_loop has ended with status {self._process.wait()} at {request!r}")
        return answer
