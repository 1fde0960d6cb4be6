"""``seneca demo``: training jobs on one folder meet in one cache, and the result is shown.

::

    options -> folder (made up where none is given) -> jobs, each a process (demo_job)
                                                          | events        | ids, a file a job
                                                          v               v
                                                      view (live)     verdict -> summary, status
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from seneca._runtime.enabled import off_because
from seneca._runtime.segment_folder import fault_of, segment_folder
from seneca.cli.demo_job import JobOptions
from seneca.cli.paths import cannot_list, cannot_write
from seneca.cli.processes import Processes, ending
from seneca.cli.verdict import Verdict, judge
from seneca.cli.view import JobState, View, summary_lines
from seneca.data import ImageFolder
from seneca.partition.jobs import MOST_JOBS
from seneca.testing import make_pictures

__all__ = ["BadOption", "Options", "run", "summarise"]

PICTURES = 2000
CLASSES = 10
CACHE_BYTES = "64MiB"


class BadOption(ValueError):
    """An option of the demo cannot be used. The message is one line that says why."""


@dataclass(frozen=True)
class Options:
    """The options of ``seneca demo``. They are checked when the object is made.

    Args:
        data: A folder of class folders of pictures; None: 2,000 pictures are made up.
        jobs: The number of training jobs, from 1 to 64.
        epochs: Epochs of each job, at least 1.
        batch: Pictures in a batch, at least 1.
        workers: Threads that prepare in each job, at least 0.
        seed: The seed of made-up pictures. Job K trains with ``seed + K``.
        json: A file for the summary, or None.

    Raises:
        BadOption: An option is not as described, Seneca is off in this process, or ``SENECA_DIR`` is unfit.
    """

    data: Path | None = None
    jobs: int = 2
    epochs: int = 3
    batch: int = 64
    workers: int = 1
    seed: int = 0
    json: Path | None = None

    def __post_init__(self) -> None:
        for name, least in (("jobs", 1), ("epochs", 1), ("batch", 1), ("workers", 0), ("seed", 0)):
            if getattr(self, name) < least:
                raise BadOption(f"--{name} must be at least {least}, not {getattr(self, name)}")
        if self.jobs > MOST_JOBS:
            raise BadOption(f"--jobs must be at most {MOST_JOBS}, not {self.jobs}: no more can share a cache")
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
        The exit status. 0: all is well. 1: the verdict is bad, or a job failed. 2: the folder holds no
        pictures, or no job got a sample. 130: Ctrl-C was pressed.
    """
    console = Console()
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        with _scratch() as scratch:
            summary = _train(options, scratch, console)
    except BadOption as error:
        print(f"seneca demo: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("seneca demo: interrupted; all jobs have ended", file=sys.stderr)
        return 130
    finally:
        signal.signal(signal.SIGTERM, before)
    for line in summary_lines(summary):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    if options.json is not None:
        options.json.write_text(json.dumps(summary, indent=1) + "\n")
    return 0 if summary["exactly_once"] and not summary["failed"] else 1


def _train(options: Options, scratch: Path, console: Console) -> dict[str, Any]:
    """Start the jobs, show them until the last has ended, and make the summary."""
    if options.data is None:
        console.print(f"making {PICTURES:,} pictures to train on ...", highlight=False)
        data = make_pictures(scratch / "pictures", count=PICTURES, classes=CLASSES, seed=options.seed)
    else:
        data = options.data
    try:
        samples = len(ImageFolder(data))
    except FileNotFoundError as error:
        raise BadOption(f"no pictures to train on: {error} --data takes a folder of class folders") from None
    commands = [_command(options, data, scratch, number) for number in range(options.jobs)]
    states = [JobState(number, options.epochs, samples) for number in range(options.jobs)]
    view = View(console, states)
    with Processes(commands, errors=scratch) as processes, view.shown():
        _follow(processes, states, view)
    if all(state.failure and not state.delivered for state in states):
        raise BadOption(f"no job got a sample: job 0 {states[0].failure}")
    verdicts = [
        # A job that failed is checked up to its last whole epoch.
        judge(_ids_file(scratch, state.number), samples, state.finished)
        for state in states
    ]
    return summarise(options, samples, states, sum(verdicts, start=Verdict()))


def _follow(processes: Processes, states: list[JobState], view: View) -> None:
    """Let the jobs begin together, and take in their events until all have ended."""
    starting = set(range(len(states)))
    running = set(range(len(states)))
    while running:
        heard = processes.next(timeout_s=1.0)
        if heard is None:
            continue
        state, event = states[heard.process], heard.what["event"]
        if event == "ended":
            running.discard(state.number)
            status = processes.status(state.number)
            if status != 0 or state.phase != "done":
                state.failure = ending(status, processes.last_words(state.number))
        else:
            state.hear(heard.what)
        view.changed(state, event)
        if state.number in starting and event in ("ready", "ended"):
            starting.discard(state.number)
            if not starting:
                for number in running:
                    processes.tell(number, "go")


def summarise(options: Options, samples: int, states: list[JobState], verdict: Verdict) -> dict[str, Any]:
    """Make the summary, as ``--json`` writes it.

    Returns:
        A dict with these keys:

        * ``jobs``, ``epochs``, ``samples``: the options, and the size of the dataset.
        * ``per_s``: samples a second of all finished jobs together, from the first start to the last end.
        * ``prepared``: the samples that all jobs prepared.
        * ``alone``: the samples that independent jobs would have prepared for the same deliveries.
        * ``exactly_once``, with ``epochs_checked``, ``ids_checked``, ``missing``, ``repeated``,
          ``foreign``.
        * ``failed``: a line for each job that failed.
    """
    done = [state for state in states if state.began is not None and state.ended is not None]
    seconds = max(state.ended or 0 for state in done) - min(state.began or 0 for state in done) if done else 0
    return {
        "jobs": options.jobs,
        "epochs": options.epochs,
        "samples": samples,
        "per_s": sum(state.delivered for state in done) / seconds if seconds else 0.0,
        "prepared": sum(state.prepared for state in states),
        "alone": sum(state.delivered for state in states),
        "exactly_once": verdict.good,
        "epochs_checked": verdict.epochs,
        "ids_checked": verdict.ids,
        "missing": verdict.missing,
        "repeated": verdict.repeated,
        "foreign": verdict.foreign,
        "failed": [f"job {state.number} {state.failure}" for state in states if state.failure],
    }


def _command(options: Options, data: Path, scratch: Path, number: int) -> list[str]:
    job = JobOptions(
        number=number,
        data=str(data),
        ids=str(_ids_file(scratch, number)),
        epochs=options.epochs,
        batch=options.batch,
        workers=options.workers,
        seed=options.seed + number,
        cache=_cache_name(),
        cache_bytes=CACHE_BYTES,
    )
    return [sys.executable, "-m", "seneca.cli.demo_job", json.dumps(asdict(job))]


def _cache_name() -> str:
    # Not "auto": the user's own jobs on the same folder would join and falsify the count.
    return f"demo-{os.getpid()}"


def _ids_file(scratch: Path, number: int) -> Path:
    return scratch / f"{number}.ids"


@contextlib.contextmanager
def _scratch() -> Iterator[Path]:
    """A temporary folder for made-up pictures, ids and errors. It is removed at the end.

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
