"""What the demo shows while it runs and when it is over.

On a terminal it shows a live table with a row for each job. Elsewhere it prints a line for each epoch. The
summary is the same for both.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from seneca._runtime.printable import printable

__all__ = ["JobState", "View", "summary_lines"]

FORMS = ("storage", "encoded", "decoded", "augmented")


@dataclass
class JobState:
    """What is known about one job so far."""

    number: int
    epochs: int
    samples: int
    phase: str = "starting"
    epoch: int = 0
    finished: int = 0
    delivered: int = 0
    per_s: float = 0.0
    loss: float | None = None
    served: dict[str, int] = field(default_factory=dict)
    prepared: int = 0
    began: float | None = None
    ended: float | None = None
    failure: str | None = None

    def hear(self, what: dict[str, Any]) -> None:
        """Take in one event of the job."""
        self.phase = {"ready": "ready", "done": "done"}.get(what["event"], "training")
        for name in ("epoch", "delivered", "per_s", "loss", "began", "ended"):
            if name in what:
                setattr(self, name, what[name])
        if what["event"] == "epoch":
            self.finished = self.epoch
        if "stats" in what:
            self.served = what["stats"]["served"]
            self.prepared = what["stats"]["prepared"]

    @property
    def served_text(self) -> str:
        """The forms from which samples were served, in percent. Less than half a percent is left out."""
        total = sum(self.served.values())
        shares = {form: self.served.get(form, 0) / total for form in FORMS if total}
        return ", ".join(f"{form} {share:.0%}" for form, share in shares.items() if share >= 0.005)


class View:
    """Shows the jobs on ``console``. Call :meth:`changed` after every change."""

    def __init__(self, console: Console, jobs: list[JobState]) -> None:
        self._console = console
        self._jobs = jobs
        self._live: Live | None = None

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show the jobs while the block runs."""
        if not self._console.is_terminal:
            yield
            return
        with Live(self._table(), console=self._console, refresh_per_second=4) as self._live:
            yield
            self._live.update(self._table())
        self._live = None

    def changed(self, job: JobState, event: str) -> None:
        """Show the change that ``event`` has made to ``job``."""
        if self._live is not None:
            self._live.update(self._table())
        elif event == "epoch":
            loss = f", loss {job.loss:.2f}" if job.loss is not None else ""
            self.line(f"job {job.number}: epoch {job.epoch} of {job.epochs} done{loss}")
        elif event == "done":
            served = f"; served {job.served_text}" if job.served_text else ""
            self.line(f"job {job.number}: done, {job.delivered:,} samples{served}")

    def line(self, text: str) -> None:
        """Print one line, above the table if there is one."""
        self._console.print(printable(text), markup=False, highlight=False, soft_wrap=True)

    def _table(self) -> Table:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for name in ("job", "epoch", "", "samples/s", "loss"):
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column("served from")
        for job in self._jobs:
            done = job.delivered / (job.epochs * job.samples)
            table.add_row(
                str(job.number),
                f"{job.epoch} of {job.epochs}" if job.epoch else "",
                "failed" if job.failure else f"{done:.0%}" if job.phase == "training" else job.phase,
                f"{job.per_s:,.0f}" if job.phase == "training" and not job.failure else "",
                f"{job.loss:.2f}" if job.loss is not None else "",
                job.served_text,
            )
        return table


def summary_lines(summary: dict[str, Any]) -> list[str]:
    """The summary of :func:`seneca.cli.demo.summarise`, for people."""
    jobs, samples = summary["jobs"], summary["samples"]
    lines = [
        "",
        f"{_count(jobs, 'job')}, {_count(summary['epochs'], 'epoch')} of {_count(samples, 'picture')} each",
        f"  samples/s of all jobs together  {summary['per_s']:,.0f}",
        f"  pictures prepared               {summary['prepared']:,}; independent jobs would have"
        f" prepared {summary['alone']:,}",
    ]
    for text in summary["failed"]:
        lines.append(f"  failed                          {text}")
    checked = f"{_count(summary['ids_checked'], 'id')} in {_count(summary['epochs_checked'], 'epoch')}"
    if summary["exactly_once"]:
        answer = f"yes, by {checked}"
    elif not summary["epochs_checked"]:
        answer = "unknown: no job finished an epoch"
    else:
        answer = (
            f"NO, by {checked}: {summary['missing']:,} missing, {summary['repeated']:,} repeated,"
            f" {summary['foreign']:,} not of the dataset"
        )
    return [*lines, f"  each picture once a job's epoch {answer}"]


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
