"""Time to accuracy: when do jobs reach a fixed validation accuracy, and is their final accuracy the same?

Two jobs train the small CNN of bench/bench_accuracy.py at once, with torch's loader and with Seneca's, which
share copies. The clock starts when both are ready. A difference is Seneca's accuracy less torch's of the
same seed.

``seneca analyze --deep`` measures one job of torch's (``accuracy_job.py``), and ``seneca plan`` predicts from
that how many times torch's pace two jobs get with Seneca. That is the pace of training alone, without the
test pictures.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import bench_accuracy
from jobs import JobFailed

from papers.result import OURS, PAPER, PEER, Goal, Result, Row
from papers.setup import SEED, Setup

SCRIPT = Path(__file__).parent / "accuracy_job.py"
TIMES_IN_THE_PAPER, WITHIN_IN_THE_PAPER = 4.0, 2.83


@dataclass(frozen=True)
class Size:
    """How much is run."""

    seeds: int = 5
    epochs: int = 4
    target: float = 0.45  # of the test pictures
    batch: int = 64
    copies: int = 1000
    made_up: tuple[int, int] = (2000, 400)  # pictures, where no folder is given
    predicts: bool = True  # takes a minute


def run(setup: Setup, size: Size | None = None) -> Result:
    """Both loaders with each seed."""
    size = size or Size()
    rows: list[dict[str, Any]] = []
    with bench_accuracy.pictures(setup.cifar, *size.made_up) as folder, setup.cache("seneca") as cache:
        of_torch = bench_accuracy.Setup(
            folder, "torch", 0.0, SEED, size.epochs, size.batch, str(cache), size.copies, every=1
        )
        foreseen = predicted(of_torch) if size.predicts else None
        for seed in range(SEED, SEED + size.seeds):
            for loader in bench_accuracy.ARMS[:2]:
                of_job = replace(of_torch, loader=loader, seed=seed)
                rows += [{"loader": loader, "seed": seed, **each} for each in bench_accuracy.pair(of_job)]
    summary = bench_accuracy.summary_of(rows)
    seconds = {loader: to_target(rows, loader, size.target) for loader in bench_accuracy.ARMS[:2]}
    found, goals = [], []
    measure = f"seconds to {size.target:.0%} of the test pictures, mean of jobs that reach it"
    for loader, times in seconds.items():
        name = loader.capitalize() if loader == "seneca" else loader
        who = OURS if loader == "seneca" else PEER
        if times:
            found.append(Row(measure, name, statistics.mean(times), "s", who))
        found.append(Row("jobs that reach it", name, len(times), "jobs", who))
        found.append(Row("final accuracy", name, 100 * summary[loader]["accuracy"], "%", who))
    if all(seconds.values()):
        times = statistics.mean(seconds["torch"]) / statistics.mean(seconds["seneca"])
        found.append(Row("times as soon as torch", "CoorDL in the paper", TIMES_IN_THE_PAPER, "x", PAPER))
        found.append(Row("times as soon as torch", "Seneca", times, "x", OURS))
    trained = {
        loader: statistics.mean(row["trained_s"] for row in rows if row["loader"] == loader)
        for loader in bench_accuracy.ARMS[:2]
    }
    times = trained["torch"] / trained["seneca"]
    found.append(Row("times torch's pace of training", "Seneca", times, "x", OURS))
    if foreseen is not None:
        found.append(Row("times torch's pace of training", "predicted", foreseen, "x", OURS))
        goals.append(
            Goal(
                "pace beside what plan predicts, off by",
                100 * abs(times / foreseen - 1),
                10,
                "%",
                at_most=True,
            )
        )
    difference = 100 * summary["seneca"]["difference"]
    error = 100 * summary["seneca"]["difference_error"]
    measure = "accuracy less torch's"
    found.append(Row(measure, "within, in the paper", WITHIN_IN_THE_PAPER, "points", PAPER))
    found.append(Row(measure, "Seneca", difference, "points", OURS))
    if size.seeds > 1:
        found.append(Row(measure, "its standard error", error, "points", OURS))
        goals.append(
            Goal("accuracy less torch's, in standard errors", abs(difference) / error, 1, "x", at_most=True)
        )
    goals.append(
        Goal("accuracy less torch's, in size", abs(difference), WITHIN_IN_THE_PAPER, "points", at_most=True)
    )
    return Result(
        "accuracy",
        "Seneca, Figure 9, and CoorDL: time to accuracy",
        f"Two jobs at once: after how many seconds does each classify {size.target:.0%} of the test pictures,"
        " and is the final accuracy that of torch's loader?",
        [
            f"{setup.cifar or 'Made-up pictures'}, 32 x 32, in memory; a CNN of three convolutions, computed"
            f" by the CPU; {size.epochs} epochs, batches of {size.batch}, one worker a job.",
            f"Seeds {SEED} to {SEED + size.seeds - 1}, {bench_accuracy.JOBS} jobs each. A CPU that trains"
            " takes most of the time: a GPU would leave more to the loaders.",
        ],
        found,
        goals,
    )


def predicted(of_torch: bench_accuracy.Setup) -> float:
    """How many times torch's pace two jobs get with Seneca, by ``seneca plan``."""
    cli = [sys.executable, "-m", "seneca.cli"]
    with tempfile.TemporaryDirectory(prefix="seneca-bench-") as place:
        profile = Path(place) / "run.json"
        job = [sys.executable, str(SCRIPT), str(of_torch.folder), str(of_torch.batch)]
        called([*cli, "analyze", "--deep", f"--json={profile}", *job])
        room = of_torch.copies * bench_accuracy.GRANULE
        rates = [
            json.loads(called([*cli, "plan", f"--profile={profile}", "--json", f"--what-if={text}"]))[
                "instead"
            ]
            for text in (
                f"jobs={bench_accuracy.JOBS}",
                f"loader=seneca jobs={bench_accuracy.JOBS} memory={room}B",
            )
        ]
    before, after = (float(rate["samples_per_s"]) for rate in rates)
    return after / before


def called(command: list[str]) -> str:
    """What a command prints.

    Raises:
        JobFailed: it failed; with what it said.
    """
    ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode:
        raise JobFailed(f"{' '.join(command)}: {ran.stderr.strip()}")
    return ran.stdout


def to_target(rows: Sequence[dict[str, Any]], loader: str, target: float) -> list[float]:
    """Seconds until the first epoch after which a job's accuracy was that high, of the jobs that reach it."""
    found = []
    for row in rows:
        reached = (
            seconds
            for accuracy, seconds in zip(row["curve"], row["ended_s"], strict=True)
            if accuracy >= target
        )
        if row["loader"] == loader and (first := next(reached, None)) is not None:
            found.append(first)
    return found
