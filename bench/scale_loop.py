"""Jobs that draw from one segment, processes that time their draws in C (native/scale_loop.c)."""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import numpy.typing as npt
from compiled import compile_program

WRAPPED = ("sn_lock_enter",)
TURN = 64  # draws of one job before the next has its turn


def compile_loop(folder: Path) -> Path:
    """The program, compiled in ``folder``."""
    return compile_program("scale_loop", folder, wrap=WRAPPED)


class ScaleJobs:
    """Processes with a member each; a context manager, at whose end they and the segment are gone.

    Args:
        program: As :func:`compile_loop` made it.
        samples: Of the dataset.
        jobs: How many.
        copies: Room in the stage; a copy takes one granule.
        batch: Samples of a draw.
    """

    def __init__(self, program: Path, samples: int, jobs: int, copies: int, batch: int) -> None:
        self._batch = batch
        self._samples = samples
        self._path = f"/dev/shm/seneca-{os.geteuid()}-bench-scale-{secrets.token_hex(4)}"
        command = [str(part) for part in (program, self._path, samples, copies, 1)]
        self.attached: list[float] = []  # seconds that each took; the first makes the segment
        self._processes: list[subprocess.Popen[str]] = []
        for job in range(jobs):
            self._processes.append(
                subprocess.Popen(
                    [*command, str(job + 1)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
                )
            )
            self.attached.append(int(self._hear(self._processes[-1])) * 1e-9)

    def __enter__(self) -> ScaleJobs:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            with process, suppress(BrokenPipeError):
                process.stdin.close()
        with suppress(FileNotFoundError):
            os.unlink(self._path)

    @property
    def reserved_bytes(self) -> int:
        """Memory that the segment takes now."""
        return os.stat(self._path).st_blocks * 512

    def open(self, epoch: int) -> list[float]:
        """Begin an epoch in each job; the seconds that each took."""
        return [int(self._ask(process, f"open {epoch}")) * 1e-9 for process in self._processes]

    def close(self) -> list[float]:
        """End it; likewise."""
        return [int(self._ask(process, "close")) * 1e-9 for process in self._processes]

    def warm(self, draws: int) -> None:
        """So many draws of each job, not timed, in turns."""
        for begin in range(0, draws, TURN):
            for process in self._processes:
                self._ask(process, f"turn {min(TURN, draws - begin)} {self._batch}")

    def left(self) -> int:
        """Samples that the job with the most of them has left of its epoch."""
        return max(int(self._ask(process, "left")) for process in self._processes)

    def draw(self, draws: int, period_s: float) -> npt.NDArray[np.float64]:
        """All jobs draw at once, each so many batches, one about every ``period_s`` (0: without a pause).

        Returns:
            Seconds of each draw and, in a second column, those it waited for the lock.
        """
        for process in self._processes:
            self._say(process, f"draw {draws} {self._batch} {round(period_s * 1e9)}")
        return np.concatenate([_pairs(self._hear(process)) for process in self._processes])

    def draw_in_turn(self, rounds: int) -> npt.NDArray[np.float64]:
        """Each job draws once, one after another, so many times; as :meth:`draw`, with nobody to wait for."""
        return np.concatenate(
            [
                _pairs(self._ask(process, f"draw 1 {self._batch} 0"))
                for _ in range(rounds)
                for process in self._processes
            ]
        )

    def _ask(self, process: subprocess.Popen[str], request: str) -> str:
        self._say(process, request)
        return self._hear(process)

    def _say(self, process: subprocess.Popen[str], request: str) -> None:
        process.stdin.write(request + "\n")
        process.stdin.flush()

    def _hear(self, process: subprocess.Popen[str]) -> str:
        answer = process.stdout.readline()
        if not answer:
            raise RuntimeError(f"scale_loop has ended with status {process.wait()}")
        return answer


def _pairs(line: str) -> npt.NDArray[np.float64]:
    return np.array(line.split(), np.float64).reshape(-1, 2) * 1e-9


def bytes_of(samples: int, members: int, slots: int) -> dict[str, float]:
    """What records may take: 64 bytes a slot, 8 a sample, one bit a member and sample."""
    return {"slots": 64.0 * slots, "samples": 8.0 * samples, "members": members * samples / 8}


def percentiles(values: Sequence[float] | npt.NDArray[np.float64]) -> dict[str, float]:
    """The median, the 99th percentile and the worst."""
    return {
        "median": float(np.median(values)),
        "p99": float(np.percentile(values, 99)),
        "max": float(np.max(values)),
    }
