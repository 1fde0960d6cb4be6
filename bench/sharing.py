"""How many preparations does a sample cost when three jobs share a small stage?

Question. Jobs that start one after another walk the same dataset in orders of their own. Nothing is
kept across epochs, and the stage holds a twentieth of the dataset. How close do they come to
preparing each sample once for all of them, and is each job still given each sample once an epoch?

Method. Three equal jobs, batch 32, two batches ahead. All processes start at once and build their
loaders; a job begins to draw when the one before it has been given a tenth of its first epoch. The
sum of what they prepared is divided by samples x epochs. The bound: no copy outlives an epoch, so
each sample that the fastest job takes has to be prepared; the run lasts two tenths of an epoch
longer than a job does, hence (epochs + 0.2) / epochs. It can be beaten a little, when a copy serves
a late job after the early one has gone on to its next epoch. Each job writes an audit log, which is checked.
"""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from job_loaders import Setup, missing, seneca_loader
from jobs import Voice, started

JOBS = 3
BATCH = 32
APART = 0.1


def lower_bound(epochs: int, jobs: int = JOBS, apart: float = APART) -> float:
    """The fewest preparations a sample and epoch when jobs start ``apart`` of an epoch after another."""
    return (epochs + (jobs - 1) * apart) / epochs


def consume(voice: Voice, number: int, setup: Setup, epochs: int, logs: str) -> dict[str, Any]:
    """One job: wait for its turn, take every batch of ``epochs`` epochs, write an audit log."""
    os.environ["SENECA_AUDIT"] = logs
    loader = seneca_loader(setup)
    voice.say("ready")
    voice.wait()
    delivered, has_said = 0, False
    for _ in range(epochs):
        for images, _ in loader:
            delivered += len(images)
            if not has_said and delivered >= APART * setup.samples:
                has_said = True
                voice.say("a tenth")
    return loader.stats()


def check_sharing(setup: Setup, epochs: int, file: Path | None) -> int:
    """Run the experiment and print it; with ``file``, write it down as JSON.

    Returns:
        The exit status: 0, or 1 when a job was not given each sample exactly once an epoch, or
        when seneca is not there.
    """
    if (need := missing("seneca")) is not None:
        print(f"cannot check: it needs {need}")
        return 1
    from seneca.audit.check import check

    setup = replace(setup, batch=BATCH)
    with tempfile.TemporaryDirectory(prefix="seneca-bench-audit-") as folder:
        with started([(consume, (setup, epochs, folder))] * JOBS) as jobs:
            for job in jobs:
                job.hear("ready")
            for job in jobs:
                job.go()
                job.hear("a tenth")
            stats = [job.hear("done") for job in jobs]
        report = check(Path(folder))

    wrong = [violation for violation in report.violations if violation.invariant == 1]
    good = not wrong and report.checked[1] == JOBS * epochs
    prepared = sum(each["prepared"] for each in stats)
    result = {
        "jobs": JOBS,
        "epochs": epochs,
        "samples": setup.samples,
        "batch": setup.batch,
        "workers": setup.workers,
        "stage_copies": round(setup.samples * setup.stage),
        "prepared_per_sample_and_epoch": round(prepared / (setup.samples * epochs), 4),
        "lower_bound": round(lower_bound(epochs), 4),
        "alone": float(JOBS),
        "exactly_once": good,
        "violations": [violation.text for violation in wrong],
    }
    print(
        f"{JOBS} jobs, {epochs} epochs of {setup.samples} samples, batch {setup.batch},"
        f" {setup.workers} workers a job,"
        f" stage of {result['stage_copies']} copies, starts {APART:.0%} of an epoch apart"
    )
    print(f"  preparations a sample and epoch  {result['prepared_per_sample_and_epoch']:.3f}")
    print(f"  lower bound                      {result['lower_bound']:.3f} (independent jobs: {JOBS})")
    print(f"  each sample once a job's epoch   {'yes' if good else 'NO'}")
    for violation in wrong:
        print(f"    {violation.text}")
    if file is not None:
        file.write_text(json.dumps(result, indent=1) + "\n")
    return 0 if good else 1
