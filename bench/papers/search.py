"""CoorDL, Figure 13d and Table 6: eight jobs of a search over hyperparameters on one dataset.

They run on files that are all in memory, and on slow storage with memory for 35 % of the files. Read
amplification is the bytes that storage gives while each job trains on the dataset once, by the bytes of the
dataset.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from job_loaders import COPY_BYTES

from papers.result import PAPER, Goal, Result, Row
from papers.setup import NAMES, SEED, Setup, whose
from papers.training import cpu_ms, per_s, run_together

IN_MEMORY, SLOW = "all in memory", "35 % cached at 40 MB/s"
STAGE = "0-0-100"


@dataclass(frozen=True)
class Size:
    """How much is run."""

    jobs: int = 8
    seconds: float = 10.0  # that count, in memory
    cached: float = 0.35
    epochs: int = 1  # that count, on slow storage, after one in which caches fill
    workers: int = 1
    batch: int = 32  # of jobs in memory
    copies: float = 0.2  # of the samples, that their stage has room for
    small_batch: int = 16  # on slow storage: of so few files, larger batches are too large a part
    small_crop: int = 64


def run(setup: Setup, size: Size | None = None) -> Result:
    """Both settings with every loader."""
    size = size or Size()
    names = [*setup.peers, "seneca"]
    fast = {name: in_memory(setup, size, name) for name in names}
    slow = {name: on_slow_storage(setup, size, name) for name in names}
    rows = []
    for where, found in ((IN_MEMORY, fast), (SLOW, slow)):
        rows += per_loader(f"samples/s a job, {where}", found, "per_s", "samples/s")
        rows += per_loader(f"CPU of a sample, {where}", found, "cpu_ms", "ms")
    amplification = f"bytes read / bytes of the dataset, {SLOW}"
    rows += [
        Row(amplification, "without coordination, in the paper", 7.2, "x", PAPER),
        Row(amplification, "CoorDL in the paper", 0.65, "x", PAPER),
        *per_loader(amplification, slow, "amplification", "x"),
        Row(f"times DALI's samples/s, {IN_MEMORY}", "CoorDL in the paper, least", 1.2, "x", PAPER),
        Row(f"times DALI's samples/s, {IN_MEMORY}", "CoorDL in the paper, most", 1.9, "x", PAPER),
        Row(f"times DALI's samples/s, {SLOW}", "CoorDL in the paper", 3.0, "x", PAPER),
    ]
    goals = [Goal(f"read amplification, {SLOW}", slow["seneca"]["amplification"], 0.65, "x", at_most=True)]
    base = "dali" if "dali" in names else "torch" if "torch" in names else None
    if base is not None:
        for where, found in ((IN_MEMORY, fast), (SLOW, slow)):
            times = found["seneca"]["per_s"] / found[base]["per_s"]
            rows.append(
                Row(f"times {NAMES[base]}'s samples/s, {where}", "Seneca", times, "x", whose("seneca"))
            )
            goals.append(Goal(f"times {NAMES[base]}'s samples/s, {where}", times, 6, "x"))
    storage = setup.storage
    return Result(
        "search",
        "CoorDL, Figure 13d and Table 6: a search over hyperparameters",
        f"{size.jobs} jobs train on one dataset at once: how fast is each, and how much is read?",
        [
            f"{IN_MEMORY}: files in the page cache, batches of {size.batch}; Seneca keeps nothing; its stage"
            f" has copies of {size.copies:.0%}. {size.seconds:g} s count.",
            f"{SLOW}: {storage.words()} {storage.memory_words(size.cached)} Batches of {size.small_batch},"
            f" crops of {size.small_crop} x {size.small_crop}: of so few files, more would be too large a"
            f" part. {size.epochs} epochs after the first count.",
            f"{size.workers} worker a job, no training step; orders from seed {SEED}.",
        ],
        rows,
        goals,
    )


def per_loader(measure: str, found: dict[str, dict[str, float]], value: str, unit: str) -> list[Row]:
    """A row for each loader."""
    return [Row(measure, NAMES[name], each[value], unit, whose(name)) for name, each in found.items()]


def in_memory(setup: Setup, size: Size, name: str) -> dict[str, float]:
    """Files come from the page cache, and nothing is kept of what is made of them."""
    room = round(size.copies * setup.samples) * COPY_BYTES
    with setup.cache(name) as cache:
        trainings = [
            setup.training(
                name,
                cache,
                folder=setup.pictures,
                samples=setup.samples,
                cache_bytes=room,
                options={} if name == "minio" else {"split": STAGE},
                workers=size.workers,
                batch=size.batch,
                warm_s=size.seconds / 3,
                seconds=size.seconds,
                seed=SEED,
            )
            for _ in range(size.jobs)
        ]
        return of_a_job(run_together(trainings, python=setup.python_of(name)))


def on_slow_storage(setup: Setup, size: Size, name: str) -> dict[str, float]:
    """Memory for a part of the files, page cache and cache together."""
    storage = setup.storage
    with setup.on_slow_storage(name, size.cached) as training:
        trainings = [
            training(
                workers=size.workers,
                batch=size.small_batch,
                crop=size.small_crop,
                warm=1,
                epochs=size.epochs,
            )
            for _ in range(size.jobs)
        ]
        counts: list[int] = []
        results = run_together(
            trainings, python=setup.python_of(name), mark=lambda: counts.append(storage.read_bytes())
        )
    read = counts[1] - counts[0]
    return of_a_job(results) | {"amplification": read / storage.files_bytes / size.epochs}


def of_a_job(results: list[dict[str, Any]]) -> dict[str, float]:
    """The mean rate of a job, and the CPU time of a sample."""
    return {"per_s": per_s(results) / len(results), "cpu_ms": cpu_ms(results)}
