"""Seneca, Figures 14 and 15: four jobs at once, in their first epoch and in later ones.

A loader that fills a cache pays for it in the first epoch. Which rate do all jobs reach together then, which
later, and how much of the CPU do they use?
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from papers.result import PAPER, Goal, Result, Row
from papers.setup import NAMES, SEED, Setup, whose
from papers.training import cpu_ms, run_together

NEXT_BEST_IN_THE_PAPER, QUIVER_IN_THE_PAPER = 3.45, 1.81


@dataclass(frozen=True)
class Size:
    """How much is run."""

    jobs: int = 4
    epochs: int = 3
    cached: float = 0.6  # of the files
    batch: int = 16  # copies of larger ones would fill a cache of so few files


def run(setup: Setup, size: Size | None = None) -> Result:
    """Every loader."""
    size = size or Size()
    found = {name: of_loader(setup, size, name) for name in (*setup.peers, "seneca")}
    rows = []
    for measure, value, unit in (
        ("samples/s of all jobs, first epoch", "first", "samples/s"),
        ("samples/s of all jobs, later epochs", "later", "samples/s"),
        ("CPU of a sample", "cpu_ms", "ms"),
        ("cores in use, of those there", "cores", "%"),
    ):
        rows += [Row(measure, NAMES[name], each[value], unit, whose(name)) for name, each in found.items()]
    best = max(setup.peers, key=lambda name: found[name]["later"])
    later = found["seneca"]["later"]
    measure = "times the samples/s of others, later epochs"
    rows += [
        Row(measure, "Seneca in the paper, times the next best", NEXT_BEST_IN_THE_PAPER, "x", PAPER),
        Row(measure, "Seneca in the paper, times Quiver", QUIVER_IN_THE_PAPER, "x", PAPER),
        *(
            Row(measure, f"Seneca, times {NAMES[name]}", later / found[name]["later"], "x", whose("seneca"))
            for name in setup.peers
        ),
    ]
    storage = setup.storage
    return Result(
        "shares",
        "Seneca, Figures 14 and 15: four jobs, the first epoch and later ones",
        f"{size.jobs} jobs at once: how many samples/s do they get together, and at which use of the CPU?",
        [
            storage.words(),
            storage.memory_words(size.cached),
            f"{size.epochs} epochs of {storage.samples} files, batches of {size.batch}, {setup.workers}"
            f" workers a job, no training step; orders from seed {SEED}.",
            "Quiver's loader is not to be had.",
        ],
        rows,
        [
            Goal(
                "times the next best, later epochs", later / found[best]["later"], NEXT_BEST_IN_THE_PAPER, "x"
            )
        ],
    )


def of_loader(setup: Setup, size: Size, name: str) -> dict[str, float]:
    """One loader's rates: an epoch lasts from when its first job begins it until the last ends it."""
    with setup.on_slow_storage(name, size.cached) as training:
        one = training(batch=size.batch, epochs=size.epochs)
        results = run_together([one] * size.jobs, python=setup.python_of(name))
    took = max(each["ended"] for each in results) - min(each["began"] for each in results)
    return {
        "first": rate(results, slice(1)),
        "later": rate(results, slice(1, None)),
        "cpu_ms": cpu_ms(results),
        "cores": 100 * sum(each["cpu_s"] for each in results) / took / len(os.sched_getaffinity(0)),
    }


def rate(results: list[dict[str, Any]], which: slice) -> float:
    """Samples a second of all jobs together in these epochs."""
    epochs = [each for result in results for each in result["epochs"][which]]
    took = max(each["ended"] for each in epochs) - min(each["began"] for each in epochs)
    return sum(each["samples"] for each in epochs) / took
