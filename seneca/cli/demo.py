"""``seneca demo``: training jobs on one folder meet in one cache. ``top`` shows them, ``verify`` checks them.

::

    options -> folder (made up where none is given) -> jobs, each a process (demo_job)
                                                          | telemetry       | audit logs
                                                          v                 v
                                                     top (live)         verify -> summary, status
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from seneca._runtime.enabled import off_because
from seneca._runtime.printable import printable
from seneca._runtime.segment_folder import fault_of, segment_folder
from seneca.audit.check import Report, check
from seneca.cli import verify
from seneca.cli.paths import cannot_list, cannot_write
from seneca.cli.watch import top
from seneca.cli.watch.rates import RateMeter
from seneca.data import ImageFolder
from seneca.testing import make_pictures

__all__ = ["BadOption", "Options", "run", "summarise"]

PICTURES, CLASSES = 2000, 10
CACHE_BYTES = "64MiB"
EVERY_S = 0.25
PATIENCE_S = 5.0  # from asking a job to end until it is killed


class BadOption(ValueError):
    """An option of the demo cannot be used. The message is one line that says why."""


@dataclass(frozen=True)
class Options:
    """The options of ``seneca demo``.

    Args:
        data: A folder of class folders of pictures; None: 2,000 pictures are made up.
        jobs: The number of training jobs, from 1 to 64.
        epochs: Epochs of each job, at least 1.
        batch: Pictures in a batch, at least 1.
        workers: Threads that prepare in each job, at least 0.
        seed: The seed of made-up pictures. Job K trains with ``seed + K``.
        json: A file for the summary, or None.
    """

    data: Path | None = None
    jobs: int = 2
    epochs: int = 3
    batch: int = 64
    workers: int = 1
    seed: int = 0
    json: Path | None = None

    def check(self) -> None:
        """Raise BadOption if a path or ``SENECA_DIR`` is unfit, or Seneca is off in this process."""
        if self.data is not None and (why := cannot_list(self.data)) is not None:
            raise BadOption(f"--data: {why}")
        if self.json is not None and (why := cannot_write(self.json)) is not None:
            raise BadOption(f"--json: {why}")
        if (reason := off_because()) is not None:
            raise BadOption(f"nothing is shared here: {reason}")
        if (fault := fault_of(segment_folder())) is not None:
            raise BadOption(str(fault))


def run(options: Options) -> int:
    """Run the demo, print the result, and clean up.

    Returns:
        The exit status. 0: all is well. 1: an invariant does not hold, or a job failed. 2: an option cannot
        be used, the folder holds no pictures, or no job got a sample. 130: Ctrl-C was pressed.
    """
    console = Console()
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        options.check()
        with _scratch() as scratch:
            summary, report = _train(options, scratch, console)
    except BadOption as error:
        print(f"seneca demo: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("seneca demo: interrupted; all jobs have ended", file=sys.stderr)
        return 130
    finally:
        signal.signal(signal.SIGTERM, before)
    for line in ["", *_lines(summary), "", *verify.lines(report)]:
        console.print(printable(line), markup=False, highlight=False, soft_wrap=True)
    if options.json is not None:
        options.json.write_text(json.dumps(summary, indent=1) + "\n")
    return 0 if summary["verified"]["holds"] and not summary["failed"] else 1


def _train(options: Options, scratch: Path, console: Console) -> tuple[dict[str, Any], Report]:
    """Start the jobs, show them until the last has ended, and check what they delivered."""
    data = options.data
    if data is None:
        console.print(f"making {PICTURES:,} pictures to train on ...", highlight=False)
        data = make_pictures(scratch / "pictures", count=PICTURES, classes=CLASSES, seed=options.seed)
    try:
        samples = len(ImageFolder(data))
    except FileNotFoundError as error:
        raise BadOption(f"no pictures to train on: {error} --data takes a folder of class folders") from None
    commands = [_command(options, data, number) for number in range(options.jobs)]
    with _started(commands, scratch) as jobs:
        _show(jobs, console)
        outcomes = [_outcome(job, scratch / f"{number}.err") for number, job in enumerate(jobs)]
    if not (scratch / "audit").is_dir():
        raise BadOption(f"no job got a sample: job 0 {outcomes[0]}")
    report = check(scratch / "audit")
    return summarise(options, samples, outcomes, report), report


def _command(options: Options, data: Path, number: int) -> list[str]:
    given = {name: getattr(options, name) for name in ("epochs", "batch", "workers")}
    given |= {"number": number, "data": str(data), "seed": options.seed + number}
    given |= {"cache": _cache_name(), "cache_bytes": CACHE_BYTES}
    return [sys.executable, "-m", "seneca.cli.demo_job", json.dumps(given)]


@contextlib.contextmanager
def _started(commands: list[list[str]], scratch: Path) -> Iterator[list[subprocess.Popen[str]]]:
    """Jobs that begin together. Each has a session of its own: Ctrl-C reaches this process alone."""
    jobs: list[subprocess.Popen[str]] = []
    environment = {**os.environ, "SENECA_AUDIT": str(scratch / "audit")}
    try:
        for number, command in enumerate(commands):
            with open(scratch / f"{number}.err", "wb") as errors:
                job = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    text=True,
                    env=environment,
                    start_new_session=True,
                )
            jobs.append(job)
        for job in jobs:
            job.stdout.readline()  # type: ignore[union-attr]  # it is ready, or has failed
        for job in jobs:
            with contextlib.suppress(BrokenPipeError):
                print("go", file=job.stdin, flush=True)
        yield jobs
    finally:
        for job in jobs:
            job.terminate()
        for job in jobs:
            try:
                job.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                job.kill()
            with contextlib.suppress(BrokenPipeError), job:
                pass  # closes its pipes, and waits


def _show(jobs: list[subprocess.Popen[str]], console: Console) -> None:
    """Show the jobs as ``seneca top`` does, until all have ended. What is no terminal gets the last table."""
    watch = RateMeter(top.SMOOTH_S)
    with Live(console=console, auto_refresh=False) as live:
        while any(job.poll() is None for job in jobs):
            seen = top.snapshot(watch, _cache_name())
            if any(cache.jobs for cache in seen):
                live.update(Text("\n").join(top.lines(seen, console.width)), refresh=True)
            time.sleep(EVERY_S)


def _outcome(job: subprocess.Popen[str], errors: Path) -> dict[str, Any] | str:
    """The report of a job, or its failure."""
    printed = job.stdout.read().splitlines()  # type: ignore[union-attr]
    if job.returncode == 0 and printed:
        return json.loads(printed[-1])
    if job.returncode < 0:
        return f"was killed by {signal.Signals(-job.returncode).name}"
    said = [line for line in errors.read_text(errors="replace").splitlines() if line.strip()]
    return f"ended with status {job.returncode}" + (f": {said[-1].strip()}" if said else "")


def summarise(
    options: Options, samples: int, outcomes: Sequence[dict[str, Any] | str], report: Report
) -> dict[str, Any]:
    """Make the summary, as ``--json`` writes it.

    Args:
        options: The options.
        samples: The size of the dataset.
        outcomes: What each job reports, or how it failed.
        report: What ``seneca verify`` finds in the jobs' audit logs.

    Returns:
        A dict with these keys:

        * ``jobs``, ``epochs``, ``samples``: the options, and the size of the dataset.
        * ``per_s``: samples a second of all finished jobs together, from the first start to the last end.
        * ``prepared``: of the samples that all jobs got, those that another job had not prepared for them.
        * ``alone``: the samples that independent jobs would have prepared for the same deliveries.
        * ``losses``: the mean loss in each epoch of each finished job.
        * ``failed``: a line for each job that failed.
        * ``verified``: see :func:`seneca.cli.verify.as_json`.
    """
    done = [outcome for outcome in outcomes if isinstance(outcome, dict)]
    seconds = max(job["ended"] for job in done) - min(job["began"] for job in done) if done else 0.0
    return {
        "jobs": options.jobs,
        "epochs": options.epochs,
        "samples": samples,
        "per_s": len(done) * options.epochs * samples / seconds if done else 0.0,
        "prepared": report.samples - report.served["augmented"],
        "alone": report.samples,
        "losses": [job["losses"] for job in done],
        "failed": [f"job {number} {why}" for number, why in enumerate(outcomes) if isinstance(why, str)],
        "verified": verify.as_json(report),
    }


def _lines(summary: dict[str, Any]) -> list[str]:
    """The summary, for people."""
    learned = ", ".join(f"{losses[0]:.2f} to {losses[-1]:.2f}" for losses in summary["losses"])
    return [
        f"samples/s of all jobs together  {summary['per_s']:,.0f}",
        f"pictures prepared               {summary['prepared']:,}; independent jobs would have"
        f" prepared {summary['alone']:,}",
        *([f"loss, first to last epoch       {learned}"] if learned else []),
        *(f"failed                          {text}" for text in summary["failed"]),
    ]


def _cache_name() -> str:
    # Not "auto": the user's own jobs on the same folder would join and falsify the count.
    return f"demo-{os.getpid()}"


@contextlib.contextmanager
def _scratch() -> Iterator[Path]:
    """A temporary folder for made-up pictures, audit logs and errors. It is removed at the end.

    The cache is removed too. It still exists only if the last job to use it was killed.
    """
    folder = Path(tempfile.mkdtemp(prefix="seneca-demo-"))
    try:
        yield folder
    finally:
        from seneca.cache import SampleCache  # needs the native core, which not every system has

        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(FileNotFoundError):
            SampleCache.remove(_cache_name())
