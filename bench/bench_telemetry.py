"""What does it cost a job to publish what it does, for those who watch?

Question. Each process writes its counters into its cache's segment, at most four times a second. How much
slower is a job by that, and how much CPU time does a sample cost more?

Method. Jobs run at once, as in bench_jobs.py. By the clock that they share, they all publish during one
window, are all silent for two, and publish again for one: that is a round, and one follows another in the
same jobs. A drift of the machine thus falls on both sides alike. The table shows the mean over the rounds of
publishing over silent, with its standard error. Nobody watches meanwhile, because a snapshot does not
concern the jobs: ``seneca top`` costs what its own process takes.

    python -m bench.bench_telemetry --data train/
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import report
from bench_jobs import cpu_s, left_behind, pictures
from job_loaders import Setup, open_seneca
from jobs import JobFailed, Voice, together
from links import linked

PUBLISHES = (True, False, False, True)  # the windows of a round


def measure(voice: Voice, number: int, setup: Setup, window_s: float, rounds: int) -> list[dict[str, Any]]:
    """One job: for each window that it ran through, its number, samples and CPU seconds."""
    from seneca.tuning.telemetry import Telemetry

    tick = Telemetry.tick
    opened = open_seneca(setup, number)
    next(opened.batches)
    voice.say("ready")
    voice.wait()

    windows: list[dict[str, Any]] = []
    last = None
    while len(windows) <= len(PUBLISHES) * rounds:
        window = int(time.monotonic() / window_s)
        if window != last:
            last, cpu = window, cpu_s()
            if windows:
                windows[-1]["cpu_s"] += cpu
            windows.append({"window": window, "samples": 0, "cpu_s": -cpu})
            Telemetry.tick = tick if PUBLISHES[window % len(PUBLISHES)] else _silent
        images, _ = next(opened.batches)
        windows[-1]["samples"] += len(images)
    return windows[1:-1]  # those that it saw the beginning and the end of


def _silent(self: Any, work: Any, *, ended: bool = False) -> None:
    """Takes the place of ``Telemetry.tick``: publishes nothing."""


def rounds_of(jobs: list[list[dict[str, Any]]]) -> list[dict[str, dict[str, float]]]:
    """Samples and CPU seconds of all jobs, publishing and silent, of each round that all ran through."""
    totals: dict[int, dict[str, float]] = {}
    for windows in jobs:
        for one in windows:
            total = totals.setdefault(one["window"], {"jobs": 0, "samples": 0, "cpu_s": 0.0})
            total["jobs"] += 1
            for what in ("samples", "cpu_s"):
                total[what] += one[what]
    rounds = []
    for first in range(min(totals), max(totals) + 1):
        windows = [totals.get(first + i, {"jobs": 0}) for i in range(len(PUBLISHES))]
        if first % len(PUBLISHES) == 0 and all(window["jobs"] == len(jobs) for window in windows):
            sides = {
                name: [w for w, publishes in zip(windows, PUBLISHES, strict=True) if publishes is wanted]
                for name, wanted in (("publishing", True), ("silent", False))
            }
            rounds.append(
                {
                    name: {what: sum(w[what] for w in side) for what in ("samples", "cpu_s")}
                    for name, side in sides.items()
                }
            )
    return rounds


def mean_ratio(rounds: list[dict[str, dict[str, float]]], what: str) -> tuple[float, float]:
    """The mean over the rounds of publishing over silent, and its standard error."""
    values = {
        "samples": lambda side: side["samples"],
        "cpu": lambda side: side["cpu_s"] / side["samples"],
    }[what]
    each = [values(one["publishing"]) / values(one["silent"]) for one in rounds]
    return statistics.mean(each), statistics.stdev(each) / len(each) ** 0.5


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line, checked; a mistake in it ends the process with status 2."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder of class folders of pictures; made up if not given")
    parser.add_argument("--jobs", default="1,4", help="numbers of jobs to measure")
    parser.add_argument("--rounds", type=int, default=30, help="rounds of four windows")
    parser.add_argument("--window", type=float, default=2.0, help="seconds of a window")
    parser.add_argument("--links", type=int, default=10_000, help="samples of an epoch")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--workers", type=int, default=2, help="threads of each job")
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    options = parser.parse_args(arguments)
    try:
        options.jobs = [int(number) for number in options.jobs.split(",")]
    except ValueError:
        parser.error(f"--jobs takes numbers such as 1,4, not {options.jobs}")
    if min(*options.jobs, options.batch, options.links) < 1 or options.window <= 0 or options.rounds < 3:
        parser.error("--jobs, --batch and --links must be at least 1, --rounds 3, --window above 0")
    return options


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and return the exit status: 1 when a job failed."""
    options = parse(arguments)
    print(report.machine(["seneca-loader", "torch"]))
    cache = f"bench-{os.getpid()}"
    lines, rows = [], []
    try:
        with pictures(options.data) as data, linked(data, options.links) as (folder, samples):
            setup = Setup(folder, samples, options.batch, options.workers, cache)
            for jobs in options.jobs:
                # A round begins with a window whose number is a multiple of four.
                ran = together(jobs, measure, setup, options.window, options.rounds + 1)
                rounds = rounds_of(ran)
                if len(rounds) < 2:
                    raise JobFailed(f"too few whole rounds with --jobs {jobs}; give a longer --window")
                rows.append({"jobs": jobs, "rounds": rounds})
                lines.append([str(jobs), str(len(rounds))])
                for what in ("samples", "cpu"):
                    mean, error = mean_ratio(rounds, what)
                    lines[-1].append(f"{mean:.4f} ± {error:.4f}")
    except (JobFailed, FileNotFoundError) as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        left_behind(cache)
    head = ["jobs", "rounds", "samples/s, publishing over silent", "CPU of a sample, publishing over silent"]
    report.print_table("What publishing costs", head, lines)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
