"""Jobs that share two cores in different ways, for ``bench_cores.py``: what each does, and what it gets."""

from __future__ import annotations

import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

JOB = Path(__file__).parent / "what_if_job.py"
START_S = 6.0  # until a job has imported torch
SETTLE_S = 8.0  # until a job that has begun is at its pace, and "auto" at its numbers
GROUPS = Path("/sys/fs/cgroup")
GROUP = "seneca-bench"

Workers = int | str


@dataclass(frozen=True)
class Job:
    """What one job of a mix does.

    Args:
        arguments: Of ``what_if_job.py``.
        is_late: Whether its storage is slow to answer.
        begins: When it is started, in seconds.
        ends: When it is killed; None: at the end.
        choices: The numbers of workers among which the best is searched.
    """

    arguments: tuple[str, ...]
    is_late: bool = False
    begins: float = 0.0
    ends: float | None = None
    choices: tuple[int, ...] = (1, 2, 4)


@dataclass(frozen=True)
class Mix:
    """Jobs that run at once.

    Args:
        what: What is special about them.
        jobs: The jobs.
        quota: The cores' worth of CPU time that they may use together; 0: no limit.
    """

    what: str
    jobs: tuple[Job, ...]
    quota: float = 0.0

    @property
    def measured_from(self) -> float:
        """When they are measured, in seconds: all have settled since the last began or ended."""
        return max(max(job.begins + START_S, job.ends or 0.0) for job in self.jobs) + SETTLE_S


PICTURES = ("--dataset=pictures", "--batch=32")
HEAVY = (*PICTURES, "--step=0")
LIGHT = (*PICTURES, "--step=150")  # some 200 samples/s: a fifth of a core
PYTHON = (
    "--dataset=planted",
    "--batch=16",
    "--cpu=2",
    "--sleep=6",
    "--step=80",
)  # 0.4 cores, 1.2 samples asleep
MIXES = (
    Mix("unequal jobs", (Job(LIGHT), Job(HEAVY))),
    Mix("slow storage", (Job((*PICTURES, "--step=60"), is_late=True), Job(PYTHON, choices=(1, 2, 4, 8)))),
    Mix("1.5 cores", (Job(HEAVY, choices=(1, 2, 4, 8)),), quota=1.5),
    Mix("one joins", (Job(HEAVY, choices=(1, 2)), Job(HEAVY, begins=8.0, choices=(1, 2)))),
    Mix("one leaves", (Job(HEAVY, choices=(1, 2)), Job(HEAVY, ends=14.0, choices=(1, 2)))),
    Mix("jitter", (Job((*PICTURES, "--step=40", "--jitter=0.3")), Job(HEAVY))),
)


class Bench:
    """Runs mixes.

    Args:
        folder: The pictures.
        late: The environment in which storage is slow to answer.
        seconds: How long jobs are measured.
    """

    def __init__(self, folder: Path, late: Mapping[str, str], seconds: float) -> None:
        self.folder, self.late, self.seconds = folder, late, seconds

    def rates(self, mix: Mix, workers: Sequence[Workers]) -> list[float]:
        """Samples/s of each job that is there at the end.

        Args:
            mix: The mix.
            workers: ``num_workers`` of each job.
        """
        began = time.monotonic()
        begin = began + mix.measured_from
        with quota_of(mix.quota) as group:
            running = []
            for job, number in sorted(zip(mix.jobs, workers, strict=True), key=lambda one: one[0].begins):
                time.sleep(max(0.0, began + job.begins - time.monotonic()))
                running.append((job, self.start(job, number, begin, begin + self.seconds, group)))
            for job, process in running:
                if job.ends is not None:
                    time.sleep(max(0.0, began + job.ends - time.monotonic()))
                    process.kill()
            printed = [process.communicate() for _, process in running]
        rates = []
        for (job, process), (out, err) in zip(running, printed, strict=True):
            if job.ends is None:
                if process.returncode:
                    raise RuntimeError(f"{mix.what}: a job ended with status {process.returncode}\n{err}")
                rates.append(float(out))
        return rates

    def start(
        self,
        job: Job,
        workers: Workers,
        begin: float,
        end: float,
        group: Path | None,
        log: Path | None = None,
    ) -> subprocess.Popen[str]:
        """Start a job that measures itself from ``begin`` to ``end``."""
        line = [sys.executable, str(JOB), *job.arguments, "--loader=seneca", f"--workers={workers}"]
        line += [f"--begin={begin}", f"--end={end}", f"--seneca={json.dumps({'cache': None})}"]
        if "--dataset=pictures" in job.arguments:
            line.append(f"--folder={self.folder}")
        if log is not None:
            line.append(f"--log={log}")
        if group is not None:
            line = ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh", *line]
        environment = {**os.environ, **(self.late if job.is_late else {})}
        return subprocess.Popen(
            line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )

    def alone(self, mix: Mix) -> list[float]:
        """Samples/s of each job that is there at the end, without the others and with the most workers."""
        stays = [job for job in mix.jobs if job.ends is None]
        return [self.rates(Mix(mix.what, (job,), mix.quota), [max(job.choices)])[0] for job in stays]

    def best_fixed(self, mix: Mix, alone: Sequence[float]) -> tuple[Workers, ...]:
        """The numbers of workers with the highest weighted speedup, of all that the jobs may choose."""
        combinations = list(itertools.product(*(job.choices for job in mix.jobs)))
        return max(combinations, key=lambda workers: speedup(self.rates(mix, workers), alone))

    def compare(self, mix: Mix, rounds: int) -> dict[str, object]:
        """The best fixed numbers, as many as cores / jobs, and "auto", in turns."""
        alone = self.alone(mix)
        best = self.best_fixed(mix, alone)
        equal = (max(1, len(os.sched_getaffinity(0)) // len(mix.jobs)),) * len(mix.jobs)
        ways: dict[str, tuple[Workers, ...]] = {
            "best": best,
            "equal": equal,
            "auto": ("auto",) * len(mix.jobs),
        }
        found: dict[str, list[list[float]]] = {way: [] for way in ways}
        for _ in range(rounds):
            for way, workers in ways.items():
                found[way].append(self.rates(mix, workers))
        return {
            "what": mix.what,
            "best": best,
            "rates": {
                way: [statistics.median(job) for job in zip(*rates, strict=True)]
                for way, rates in found.items()
            },
            "speedup": {
                way: statistics.median(speedup(one, alone) for one in rates) for way, rates in found.items()
            },
        }

    def steady(self, mix: Mix, seconds: float) -> list[int]:
        """How often the number of each job's workers changes in so many seconds, once they have settled."""
        logs = self.logged(mix, seconds)
        return [sum(a[1] != b[1] for a, b in itertools.pairwise(log) if b[0] > 0) for log in logs]

    def logged(self, mix: Mix, seconds: float) -> list[list[tuple[float, int, float]]]:
        """The logs of its jobs with "auto". Time 0 is when all have settled."""
        with tempfile.TemporaryDirectory() as place:
            begin = time.monotonic() + mix.measured_from
            paths = [Path(place) / str(number) for number, _ in enumerate(mix.jobs)]
            jobs = [
                self.start(job, "auto", begin, begin + seconds, None, path)
                for job, path in zip(mix.jobs, paths, strict=True)
            ]
            for job in jobs:
                job.communicate()
            return [read_log(path, begin) for path in paths]

    def disturbed(self, signal_number: int) -> tuple[float, float]:
        """Two heavy jobs, of which one gets a signal.

        Returns:
            Seconds until the other has its cores, and the longest time that it then waited for a batch.
        """
        with tempfile.TemporaryDirectory() as place:
            log, at = Path(place) / "log", time.monotonic() + START_S + SETTLE_S
            stays = self.start(Job(HEAVY), "auto", at, at + 20, None, log)
            other = self.start(Job(HEAVY), "auto", at, at + 600, None)
            time.sleep(at - time.monotonic())
            other.send_signal(signal_number)
            stays.communicate()
            other.send_signal(signal.SIGCONT)
            other.kill()
            other.communicate()
            lines = [line for line in read_log(log, at) if line[0] > 0]
        grew = next((when for when, workers, _ in lines if workers > lines[0][1]), float("nan"))
        return grew, max(longest for _, _, longest in lines)


def speedup(rates: Sequence[float], alone: Sequence[float]) -> float:
    """The weighted speedup of jobs that run at once: the sum of what each gets of its rate alone."""
    return sum(rate / own for rate, own in zip(rates, alone, strict=True))


def read_log(path: Path, zero: float) -> list[tuple[float, int, float]]:
    """The lines of a job's log: seconds since ``zero``, workers, the longest time between two batches."""
    lines = []
    for line in path.read_text().splitlines():
        when, workers, longest = line.split()
        lines.append((float(when) - zero, int(workers), float(longest)))
    return lines


@contextmanager
def quota_of(cores: float) -> Iterator[Path | None]:
    """A control group with so much CPU time; None for 0.

    Raises:
        OSError: This user may not make one.
    """
    if not cores:
        yield None
        return
    if (GROUPS / "cpu").is_dir():
        group, limits = (
            GROUPS / "cpu" / GROUP,
            {"cpu.cfs_period_us": 100_000, "cpu.cfs_quota_us": cores * 100_000},
        )
    else:
        group, limits = GROUPS / GROUP, {"cpu.max": cores * 100_000}
    group.mkdir()
    try:
        for name, value in limits.items():
            (group / name).write_text(f"{value:.0f}")
        yield group
    finally:
        group.rmdir()
