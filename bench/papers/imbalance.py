"""Lobster, Figure 8: how often do the ranks of one job wait for the slowest of their loaders?

Four processes are one job: they meet by torch's gloo, load a shard each, and after each step wait for all,
as they do when gradients are averaged. An iteration is imbalanced if the slowest rank's batch comes more
than a tenth of a step after the fastest's.

Two settings. Batches of 6 ask storage for all that it gives beside what memory holds: a rank then waits for
storage in most steps, whatever loads. Batches of 4 leave storage a third of its time.

Ranks that load nothing are late too, by what they need to wake up after they have met. They are "the least".
"""

from __future__ import annotations

import itertools
import os
import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from jobs import Voice, started

from papers.result import PAPER, PEER, Goal, Result, Row
from papers.setup import NAMES, SEED, Setup, whose
from papers.training import Training, all_say, opened_in_its_groups

IN_THE_PAPER = {"PyTorch": 48.9, "DALI": 33.9, "NoPFS": 25.4, "Lobster": 17.5}
TIMES_IN_THE_PAPER = 1.6


@dataclass(frozen=True)
class Size:
    """How much is run."""

    ranks: int = 4
    batch: int = 6  # of a rank
    step_s: float = 0.04
    cached: float = 0.4
    tolerated: float = 0.1  # of a step
    epochs: int = 3  # the first does not count
    workers: int = 1


SIZES = (Size(), Size(batch=4))


def run(setup: Setup, sizes: Sequence[Size] = SIZES) -> Result:
    """Every loader that knows shards, in each setting."""
    rows: list[Row] = []
    goals: list[Goal] = []
    for size in sizes:
        found, asked = in_setting(setup, size)
        rows += found
        goals += asked
    first, storage = sizes[0], setup.storage
    batches = " and of ".join(str(size.batch) for size in sizes)
    return Result(
        "imbalance",
        "Lobster, Figure 8: imbalance of ranks",
        f"{first.ranks} ranks of one job: in how many iterations does the slowest batch come more than"
        f" {first.tolerated:.0%} of a step after the fastest?",
        [
            storage.words(),
            storage.memory_words(first.cached),
            f"{first.ranks} processes meet by gloo; batches of {batches} a rank, steps of"
            f" {1000 * first.step_s:g} ms, {first.workers} worker a rank; {first.epochs - 1} epochs of"
            f" {storage.samples} files after the first count; orders from seed {SEED}.",
        ],
        rows,
        goals,
    )


def in_setting(setup: Setup, size: Size) -> tuple[list[Row], list[Goal]]:
    """The rows and the goals of one setting."""
    of = f"batches of {size.batch}"
    names = [name for name in ("torch", "dali", "seneca") if name in setup.loaders]
    found = {name: ranks(setup, size, name) for name in names}
    measure = f"imbalanced iterations, {of}"
    rows = [
        Row(measure, f"{system} in the paper", value, "%", PAPER) for system, value in IN_THE_PAPER.items()
    ]
    rows += [
        Row(measure, NAMES[name], imbalanced(each, size), "%", whose(name)) for name, each in found.items()
    ]
    least = imbalanced(ranks(setup, size, "seneca", loads=False), size)
    rows.append(Row(measure, "the least", least, "%", PEER))
    rates = {name: rate(each, size) for name, each in found.items()}
    rows += [
        Row(f"samples/s of all ranks, {of}", NAMES[name], value, "samples/s", whose(name))
        for name, value in rates.items()
    ]
    goals = [Goal(measure, imbalanced(found["seneca"], size), 10, "%", at_most=True)]
    if "torch" in found:
        times = rates["seneca"] / rates["torch"]
        measure = f"times torch's samples/s, {of}"
        rows.append(Row(measure, "Lobster in the paper", TIMES_IN_THE_PAPER, "x", PAPER))
        rows.append(Row(measure, "Seneca", times, "x", whose("seneca")))
        goals.append(Goal(measure, times, 2, "x"))
    return rows, goals


def ranks(setup: Setup, size: Size, name: str, *, loads: bool = True) -> list[list[tuple[float, float]]]:
    """Of each rank the iterations that count: when it began to wait for a batch, and when it had it.

    Args:
        setup, size: As of the experiment.
        name: The loader.
        loads: Whether the ranks take its batches. If not, they only meet.
    """
    with setup.on_slow_storage(name, size.cached) as training:
        of_ranks = [
            training(
                batch=size.batch,
                workers=size.workers,
                epochs=size.epochs,
                step_s=size.step_s,
                shard=(rank, size.ranks),
            )
            for rank in range(size.ranks)
        ]
        port = free_port()
        works = [(one_rank, (training, port, loads)) for training in of_ranks]
        with started(works, python=setup.python_of(name)) as jobs:
            all_say(jobs, "ready")
            return [job.hear("done") for job in jobs]


def one_rank(
    voice: Voice, number: int, training: Training, port: int, loads: bool
) -> list[tuple[float, float]]:
    """The process of a rank."""
    import torch.distributed

    rank, count = training.setup.shard or (0, 1)
    os.environ |= {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "RANK": str(rank),
        "WORLD_SIZE": str(count),
    }
    torch.distributed.init_process_group("gloo")
    given: Iterator[Any] = itertools.repeat(None)
    if loads:
        given = opened_in_its_groups(0, training).batches  # one job: the same seed on all ranks
    voice.say("ready")
    voice.wait()
    batches = training.samples // (training.setup.batch * count)
    seen: list[tuple[float, float]] = []
    for epoch in range(training.epochs):
        for _ in range(batches):
            began = time.monotonic()
            next(given)
            if epoch > 0:
                seen.append((began, time.monotonic()))
            time.sleep(training.step_s)
            torch.distributed.barrier()
        voice.alive()
    torch.distributed.destroy_process_group()
    return seen


def imbalanced(found: list[list[tuple[float, float]]], size: Size) -> float:
    """The share of iterations in which the batches come too far apart, in per cent."""
    spans = [max(had) - min(had) for had in zip(*([had for _, had in rank] for rank in found), strict=True)]
    return 100 * sum(span > size.tolerated * size.step_s for span in spans) / len(spans)


def rate(found: list[list[tuple[float, float]]], size: Size) -> float:
    """Samples a second of all ranks."""
    took = max(rank[-1][1] for rank in found) - min(rank[0][0] for rank in found)
    return len(found[0]) * len(found) * size.batch / took


def free_port() -> int:
    """A port at which nobody listens now."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port: int = server.getsockname()[1]
        return port
