"""Seneca, Figure 10: when is a sweep of jobs done that arrive at random, two of which run at a time?

A job starts when it has arrived and one of two places is free. The makespan lasts from the first arrival to
the last end, the start of processes included. The steps of the jobs take turns.
"""

from __future__ import annotations

import random
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import accumulate

from jobs import JobFailed

from papers.result import PAPER, PEER, Goal, Result, Row, less
from papers.setup import NAMES, SEED, Setup, whose
from papers.training import run_together


@dataclass(frozen=True)
class Size:
    """How much is run."""

    jobs: int = 12
    at_once: int = 2
    mean_arrival_s: float = 8.0
    epochs: int = 2
    steps_s: tuple[float, ...] = (0.002, 0.005, 0.01, 0.02, 0.04)
    memory: float = 0.6  # of the files


def run(setup: Setup, size: Size | None = None) -> Result:
    """All loaders, the same arrivals for each."""
    size = size or Size()
    arrivals = arrivals_of(size)
    names = [*setup.peers, "seneca", "seneca-keep"]
    found = {name: sweep(setup, size, name, arrivals) for name in names}
    rows = [Row("makespan", NAMES[name], each["makespan"], "s", whose(name)) for name, each in found.items()]
    rows.append(Row("makespan", "the last job has arrived", arrivals[-1], "s", PEER))
    rows += [
        Row("mean time from arrival to end", NAMES[name], each["turnaround"], "s", whose(name))
        for name, each in found.items()
    ]
    goals = []
    if "torch" in found:
        torch = found["torch"]["makespan"]
        shorter = {name: less(torch, each["makespan"]) for name, each in found.items()}
        measure = "makespan less than torch's"
        rows.append(Row(measure, "Seneca in the paper", 45.23, "%", PAPER))
        rows += [
            Row(measure, NAMES[name], shorter[name], "%", whose(name)) for name in found if name != "torch"
        ]
        goals = [
            Goal("makespan less than torch's, with keep", shorter["seneca-keep"], 80, "%"),
            Goal("makespan less than torch's, without keep", shorter["seneca"], 65, "%"),
        ]
    storage = setup.storage
    return Result(
        "makespan",
        "Seneca, Figure 10: makespan of a sweep",
        f"{size.jobs} jobs arrive at random and {size.at_once} run at a time: when is the last one done?",
        [
            storage.words(),
            storage.memory_words(size.memory),
            f"Poisson arrivals, mean {size.mean_arrival_s:g} s, seed {SEED}, the same for every loader; the"
            f" last job arrives after {arrivals[-1]:.0f} s, and no loader can be done earlier.",
            f"{size.epochs} epochs of {storage.samples} files, batches of {setup.batch}, {setup.workers}"
            f" workers a job; steps of {', '.join(f'{1000 * step:g}' for step in size.steps_s)} ms a batch"
            " in turn.",
        ],
        rows,
        goals,
    )


def arrivals_of(size: Size) -> list[float]:
    """Seconds from the first arrival on."""
    between = random.Random(SEED)
    gaps = [between.expovariate(1 / size.mean_arrival_s) for _ in range(size.jobs - 1)]
    return [0.0, *accumulate(gaps)]


def sweep(setup: Setup, size: Size, name: str, arrivals: list[float]) -> dict[str, float]:
    """All jobs of one loader: ``makespan``, and the mean time from a job's arrival to its end,
    ``turnaround``."""
    storage = setup.storage
    memory = round(size.memory * storage.files_bytes)

    with setup.cache(name) as cache, storage.held(memory, cache):
        began = time.monotonic()

        def job(number: int) -> float:
            time.sleep(max(0.0, began + arrivals[number] - time.monotonic()))
            training = setup.training(
                name,
                cache,
                folder=storage.folder,
                samples=storage.samples,
                cache_bytes=memory,
                epochs=size.epochs,
                step_s=size.steps_s[number % len(size.steps_s)],
                seed=SEED + number,
            )
            (one,) = run_together([training], python=setup.python_of(name))
            if one["samples"] < size.epochs * storage.samples:
                raise JobFailed(f"a job of {name} was given {one['samples']} samples")
            return time.monotonic() - began

        with ThreadPoolExecutor(size.at_once) as places:
            ends = list(places.map(job, range(size.jobs)))
    taken = [end - arrival for end, arrival in zip(ends, arrivals, strict=True)]
    return {"makespan": max(ends), "turnaround": sum(taken) / len(taken)}
