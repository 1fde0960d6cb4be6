"""Seneca, Figure 13: which share of the bytes that jobs are given comes from memory, by the kernel's count?

Three jobs. From their second epoch on, hits are 1 - bytes that the jobs had from read() / bytes of the files
that were delivered. What the page cache gives counts as read, therefore the loaders' own memory is all that
counts. It has room for ENCODED. Of it Seneca uses a part as the stage, for copies that jobs pass on.

Beside it stands the device's count, with a page cache that the same memory holds back. Until
the next epoch is asked for, a job brings files of it into the page cache, which others may make meanwhile.
Both counts have them, and ``stats()["read_bytes"]`` has not: they are 3 to 5 % more in epochs of 1,500 files.
The fewer samples an epoch has, the more they matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from links import linked, pictures_of

from papers.result import PAPER, PEER, Goal, Result, Row
from papers.setup import NAMES, SEED, Setup, whose
from papers.training import run_together

IN_THE_PAPER = {0.2: {"Seneca": 54.0, "MinIO": 20.0, "Quiver": 43.0}, 0.4: {"Seneca": 66.0}}
TO_REACH = {0.2: 72.0, 0.4: 79.0}


@dataclass(frozen=True)
class Size:
    """How much is run."""

    jobs: int = 3
    samples: int = 4500  # links to the files of the storage
    cached: Sequence[float] = (0.2, 0.4, 0.6, 0.8)  # of the files
    epochs: int = 2  # that count
    batch: int = 16
    crop: int = 32
    stage: float = 0.05  # of the memory with the least of it; as many copies with more


def run(setup: Setup, size: Size | None = None) -> Result:
    """Seneca, and what is like MinIO, with each amount of memory."""
    size = size or Size()
    rows, goals = [], []
    with linked(setup.storage.folder, size.samples) as (folder, _):
        for cached in size.cached:
            measure = f"hits, memory for {cached:.0%} of the files"
            for system, value in IN_THE_PAPER.get(cached, {}).items():
                rows.append(Row(measure, f"{system} in the paper", value, "%", PAPER))
            bound = 100 * (1 - (1 - cached) / size.jobs)
            rows.append(Row(measure, "bound of sharing jobs", bound, "%", PEER))
            for name in ("minio", "seneca"):
                found, by_device = hits(setup, size, name, cached, folder)
                rows.append(Row(measure, NAMES[name], found, "%", whose(name)))
                rows.append(Row(measure, f"{NAMES[name]}, device's count", by_device, "%", whose(name)))
            if cached in TO_REACH:
                goals.append(Goal(f"hits with memory for {cached:.0%}", found, TO_REACH[cached], "%"))
    storage = setup.storage
    return Result(
        "hits",
        "Seneca, Figure 13: hits by the kernel's count",
        f"{size.jobs} jobs: which share of the bytes of their files comes from memory, from the second epoch"
        " on?",
        [
            storage.words(),
            "Hits are counted by /proc/self/io, rchar: what the page cache gives counts as read.",
            f"{size.epochs} epochs of {size.samples} links to the files count, batches of {size.batch}, crops"
            f" of {size.crop} x {size.crop}; orders from seed {SEED}.",
            "Seneca's stage lies within the memory: kept files and copies that jobs pass on have as much"
            " together. With millions of files the stage is a hundredth of it. With so few files, small"
            " crops and small batches keep it small.",
        ],
        rows,
        goals,
    )


def hits(setup: Setup, size: Size, name: str, cached: float, folder: Path) -> tuple[float, float]:
    """Of one loader, in per cent: by what the jobs had from read(), and by what storage gave."""
    storage = setup.storage
    files_bytes = sum(path.stat().st_size for path in pictures_of(folder))
    memory = round(cached * files_bytes)
    with setup.cache(name) as cache, storage.held(memory, cache):
        trainings = [
            setup.training(
                name,
                cache,
                folder=folder,
                samples=size.samples,
                cache_bytes=memory,
                options=split_of(name, size, cached),
                batch=size.batch,
                crop=size.crop,
                warm=1,
                epochs=size.epochs,
                seed=SEED,
            )
            for _ in range(size.jobs)
        ]
        counts: list[int] = []
        results = run_together(trainings, mark=lambda: counts.append(storage.read_bytes()))
    delivered = sum(each["samples"] for each in results) / size.samples * files_bytes
    asked = sum(each["asked_bytes"] for each in results)
    return 100 * (1 - asked / delivered), 100 * (1 - (counts[1] - counts[0]) / delivered)


def split_of(name: str, size: Size, cached: float) -> dict[str, str]:
    """Files in all of the memory, but for Seneca's stage."""
    if name == "minio":
        return {}
    stage = round(100 * size.stage * min(size.cached) / cached)
    return {"split": f"{100 - stage}-0-{stage}"}
