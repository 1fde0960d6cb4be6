"""JOADER, Table 1 and Figures 6 and 7: what do more jobs cost, and who waits for whom?

Four parts, all on files in memory, of which nothing is kept: jobs pass copies on and no more.

* One to six jobs with equal steps: the time until the last is done, by that of one job.
* Five jobs with steps of 1 : 1.6 : 2.5 : 4 : 6: the rate of the fastest by its rate alone.
* Four jobs a quarter of an epoch apart: the longest time of a job by that of one alone.
* Two jobs on parts of the dataset: CPU time of a sample by how much of the parts is common to both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from bench_sampling import subsets
from job_loaders import COPY_BYTES

from papers.result import OURS, PAPER, Goal, Result, Row, less
from papers.setup import NAMES, SEED, Setup, whose
from papers.training import Training, cpu_ms, per_s, run_together


@dataclass(frozen=True)
class Size:
    """How much is run."""

    jobs: Sequence[int] = (1, 2, 4, 6)
    step_s: float = 0.1  # of equal jobs
    epochs: int = 2
    fastest_s: float = 0.04
    speeds: Sequence[float] = (1, 1.6, 2.5, 4, 6)  # steps, by the fastest job's
    seconds: float = 10.0
    apart: int = 4  # jobs, as many parts of an epoch apart
    overlaps: Sequence[float] = (0, 0.25, 0.5, 0.75, 1)
    copies: float = 0.2  # of the samples, that the stage has room for


def run(setup: Setup, size: Size | None = None) -> Result:
    """All parts; torch in the first two."""
    size = size or Size()
    names = [name for name in ("torch", "seneca") if name in setup.loaders]
    rows, goals = [], []
    for part in (more_jobs, unequal, one_after_another, overlapping):
        found, asked = part(setup, size, names)
        rows += found
        goals += asked
    return Result(
        "joader",
        "JOADER, Table 1 and Figures 6 and 7: many jobs, unequal jobs, jobs on parts",
        "What does it cost a job that others train on the same dataset, at another speed, later, or on"
        " another part?",
        [
            f"Files are in memory; Seneca keeps nothing, its stage has copies of {size.copies:.0%} of the"
            " samples.",
            f"{setup.samples} samples, batches of {setup.batch}, {setup.workers} workers a job; orders from"
            f" seed {SEED}. A step sleeps, as one that a GPU computes.",
            f"Equal jobs: steps of {1000 * size.step_s:g} ms, {size.epochs} epochs. Unequal jobs: the fastest"
            f" has steps of {1000 * size.fastest_s:g} ms; {size.seconds:g} s count.",
            "The paper's six jobs take 37.6 minutes beside 31.7 for one, on its GPUs.",
        ],
        rows,
        goals,
    )


Part = tuple[list[Row], list[Goal]]


def job(setup: Setup, size: Size, name: str, cache: str | None, **more: Any) -> Training:
    """A job on files in memory."""
    return setup.training(
        name,
        cache,
        folder=setup.pictures,
        samples=setup.samples,
        cache_bytes=round(size.copies * setup.samples) * COPY_BYTES,
        options={"split": "0-0-100"},
        seed=SEED,
        **more,
    )


def more_jobs(setup: Setup, size: Size, names: Sequence[str]) -> Part:
    """The time until all equal jobs are done."""
    measure = "time of all jobs / time of one"
    rows, goals = [], []
    for name in names:
        took = {}
        for count in size.jobs:
            with setup.cache(name) as cache:
                one = job(setup, size, name, cache, step_s=size.step_s, epochs=size.epochs)
                results = run_together([one] * count)
            took[count] = max(each["ended"] for each in results) - min(each["began"] for each in results)
            if count > 1:
                times = took[count] / took[size.jobs[0]]
                rows.append(Row(measure, f"{NAMES[name]}, {count} jobs", times, "x", whose(name)))
    rows.append(Row(measure, "JOADER in the paper, 6 jobs", 1.18, "x", PAPER))
    rows.append(Row(measure, "torch in the paper, 6 jobs", 2.14, "x", PAPER))
    if size.jobs[-1] > 1:
        goals.append(Goal(f"{size.jobs[-1]} jobs by one", times, 1.1, "x", at_most=True))
    return rows, goals


def unequal(setup: Setup, size: Size, names: Sequence[str]) -> Part:
    """The fastest of jobs with unequal steps."""
    measure = "fastest of unequal jobs / alone"
    rows, goals = [], []
    for name in names:
        rates = []
        for speeds in (size.speeds[:1], size.speeds):
            with setup.cache(name) as cache:
                one = job(setup, size, name, cache, seconds=size.seconds, warm_s=size.seconds / 3)
                jobs = [replace(one, step_s=size.fastest_s * speed) for speed in speeds]
                rates.append(per_s(run_together(jobs)[:1]))
        share = rates[1] / rates[0]
        rows.append(Row(measure, NAMES[name], share, "x", whose(name)))
        rows.append(
            Row("samples/s of the fastest job, alone", NAMES[name], rates[0], "samples/s", whose(name))
        )
        if name == "seneca":
            goals.append(Goal("the fastest of unequal jobs by alone", share, 0.95, "x"))
    return rows, goals


def one_after_another(setup: Setup, size: Size, names: Sequence[str]) -> Part:
    """Equal jobs that begin a part of an epoch apart."""
    measure = f"longest job of {size.apart}, 1/{size.apart} of an epoch apart / alone"
    with setup.cache("seneca") as cache:
        one = job(setup, size, "seneca", cache, step_s=size.step_s, epochs=size.epochs)
        (alone,) = run_together([one])
    took = alone["ended"] - alone["began"]
    later = took / size.epochs / size.apart
    with setup.cache("seneca") as cache:
        one = job(setup, size, "seneca", cache, step_s=size.step_s, epochs=size.epochs)
        results = run_together([replace(one, late_s=later * place) for place in range(size.apart)])
    longest = max(each["ended"] - each["began"] for each in results)
    return [Row(measure, NAMES["seneca"], longest / took, "x", OURS)], []


def overlapping(setup: Setup, size: Size, names: Sequence[str]) -> Part:
    """Two jobs on parts of equal size, of which so much is common."""
    measure = "CPU of a sample of two jobs less than without overlap"
    count, cpu = round(setup.samples / 2), {}
    for overlap in size.overlaps:
        with setup.cache("seneca") as cache:
            parts = [
                tuple(int(index) for index in part[:count])
                for part in subsets(2, overlap, round(count * (2 - overlap)), SEED)
            ]
            jobs = [job(setup, size, "seneca", cache, epochs=2 * size.epochs, part=part) for part in parts]
            cpu[overlap] = cpu_ms(run_together(jobs))
    rows = [
        Row(measure, f"Seneca, {overlap:.0%} common", less(cpu[size.overlaps[0]], value), "%", OURS)
        for overlap, value in cpu.items()
    ]
    rows.append(Row(measure, "JOADER in the paper, 100% common", 40.0, "%", PAPER))
    return rows, [Goal("CPU less at full overlap", rows[len(cpu) - 1].value, 45, "%")]
