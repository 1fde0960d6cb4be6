"""Seneca, Figure 10: when is a sweep of jobs done that arrive at random, two of which run at a time?

A job opens its loader when it has arrived and one of two places is free. The makespan lasts from the first
arrival to the last end. The steps of the jobs take turns.

All processes start, and import what their loader needs, before the first job arrives. The paper's jobs train
for hours. Here a job takes hardly longer than an import, which is the same for every loader.

Two settings. In the first, batches of 64 x 224 x 224 that two jobs have under way are as large as the cache.
In the paper batches are a thousandth of the cache. The second is nearer to that: small crops, three epochs,
and arrivals close together. It was chosen after the first had been seen, therefore both are printed.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import accumulate

from jobs import JobFailed, started

from papers.result import PAPER, PEER, Goal, Result, Row, less
from papers.setup import NAMES, SEED, Setup, whose
from papers.slow_storage import Storage
from papers.training import all_say, train


@dataclass(frozen=True)
class Size:
    """How much is run."""

    jobs: int = 12
    at_once: int = 2
    mean_arrival_s: float = 8.0
    epochs: int = 2
    steps_s: tuple[float, ...] = (0.002, 0.005, 0.01, 0.02, 0.04)
    memory: float = 0.6  # of the files
    crop: int = 224

    def words(self) -> str:
        """Which setting this is, in a measure's name."""
        return f"{self.epochs} epochs, crops of {self.crop} x {self.crop}"


SIZES = (Size(), Size(mean_arrival_s=1.0, epochs=3, crop=64))


def run(setup: Setup, sizes: Sequence[Size] = SIZES) -> Result:
    """All loaders in each setting, the same arrivals for each."""
    storage = setup.storage
    rows: list[Row] = []
    goals: list[Goal] = []
    conditions = [storage.words()]
    for size in sizes:
        found, asked = in_setting(setup, size)
        rows += found
        goals += asked
        conditions.append(
            f"{size.words()}: {storage.memory_words(size.memory)} Poisson arrivals, mean"
            f" {size.mean_arrival_s:g} s, seed {SEED}, the same for every loader; the last job arrives after"
            f" {arrivals_of(size)[-1]:.0f} s, and no loader can be done earlier. {storage.samples} files,"
            f" batches of {setup.batch}, {setup.workers} workers a job; steps of"
            f" {', '.join(f'{1000 * step:g}' for step in size.steps_s)} ms a batch in turn."
        )
    return Result(
        "makespan",
        "Seneca, Figure 10: makespan of a sweep",
        f"{sizes[0].jobs} jobs arrive at random and {sizes[0].at_once} run at a time: when is the last one"
        " done?",
        conditions,
        rows,
        goals,
    )


def in_setting(setup: Setup, size: Size) -> tuple[list[Row], list[Goal]]:
    """The rows and the goals of one setting."""
    arrivals, of = arrivals_of(size), size.words()
    names = [*setup.peers, "seneca", "seneca-keep"]
    found = {name: sweep(setup, size, name, arrivals) for name in names}
    rows = [
        Row(f"makespan, {of}", "the last job has arrived", arrivals[-1], "s", PEER),
        Row(f"makespan, {of}", "the least", least_s(setup.storage, size), "s", PEER),
    ]
    for measure, value, unit in (
        ("makespan", "makespan", "s"),
        ("mean time from arrival to end", "turnaround", "s"),
        ("opening all loaders, by the places", "openings", "s"),
        ("bytes from storage", "read", "MB"),
    ):
        rows += [
            Row(f"{measure}, {of}", NAMES[name], each[value], unit, whose(name))
            for name, each in found.items()
        ]
    goals = []
    if "torch" in found:
        torch = found["torch"]["makespan"]
        shorter = {name: less(torch, each["makespan"]) for name, each in found.items()}
        measure = f"makespan less than torch's, {of}"
        rows.append(Row(measure, "Seneca in the paper", 45.23, "%", PAPER))
        rows += [
            Row(measure, NAMES[name], shorter[name], "%", whose(name)) for name in found if name != "torch"
        ]
        goals = [
            Goal(f"{measure}, with keep", shorter["seneca-keep"], 80, "%"),
            Goal(f"{measure}, without keep", shorter["seneca"], 65, "%"),
        ]
    return rows, goals


def least_s(storage: Storage, size: Size) -> float:
    """The makespan if jobs need no CPU, share each read with those beside them, and all memory is in use.

    If it is not known what storage gives, only the arrivals count.
    """
    arrived = arrivals_of(size)[-1]
    if storage.bytes_per_s is None:
        return arrived
    in_turn = size.jobs * size.epochs / size.at_once - 1  # readings of the files, after the first
    readings = 1 + (1 - size.memory) * in_turn
    return max(arrived, readings * storage.files_bytes / storage.bytes_per_s)


def arrivals_of(size: Size) -> list[float]:
    """Seconds from the first arrival on."""
    between = random.Random(SEED)
    gaps = [between.expovariate(1 / size.mean_arrival_s) for _ in range(size.jobs - 1)]
    return [0.0, *accumulate(gaps)]


def sweep(setup: Setup, size: Size, name: str, arrivals: list[float]) -> dict[str, float]:
    """All jobs of one loader.

    Returns:
        ``makespan``; ``turnaround``, the mean time from a job's arrival to its end; ``openings``, the time
        that jobs took until they began their first epoch, by the places; ``read``, megabytes from storage.
    """
    storage = setup.storage
    memory = round(size.memory * storage.files_bytes)

    with setup.cache(name) as cache:
        trainings = [
            setup.training(
                name,
                cache,
                folder=storage.folder,
                samples=storage.samples,
                cache_bytes=memory,
                epochs=size.epochs,
                step_s=size.steps_s[number % len(size.steps_s)],
                seed=SEED + number,
                crop=size.crop,
            )
            for number in range(size.jobs)
        ]
        works = [(train, (training,)) for training in trainings]
        with started(works, python=setup.python_of(name)) as jobs:
            for job in jobs:
                job.hear("started")
            with storage.held(memory, cache), ThreadPoolExecutor(size.at_once) as places:
                began, before = time.monotonic(), storage.read_bytes()

                def run_one(number: int) -> tuple[float, float]:
                    time.sleep(max(0.0, began + arrivals[number] - time.monotonic()))
                    opened = time.monotonic()
                    jobs[number].go()
                    all_say([jobs[number]], "ready")
                    all_say([jobs[number]], "filled")
                    one = jobs[number].hear("done")
                    if one["samples"] < size.epochs * storage.samples:
                        raise JobFailed(f"a job of {name} was given {one['samples']} samples")
                    return time.monotonic() - began, one["began"] - opened

                ends, openings = zip(*places.map(run_one, range(size.jobs)), strict=True)
                read = storage.read_bytes() - before
    taken = [end - arrival for end, arrival in zip(ends, arrivals, strict=True)]
    return {
        "makespan": max(ends),
        "turnaround": sum(taken) / len(taken),
        "openings": sum(openings) / size.at_once,
        "read": read / 1e6,
    }
