"""Pairs of jobs that differ in few items, by what no fingerprint sees. Each job is a process of its own.

As a program it prints what a number of pairs came to, by kind: ``python tests/identity/rare.py 1000``.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import random
import secrets
import sys
import tempfile
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import seneca

BATCH = 20
MORE = 1_000_000  # what differing items have more
WHERE = ("state", "code", "environment", "file")
NAMES = {"state": "STATE", "code": "CODE", "environment": "SENECA_TEST_RARE", "file": "FILE"}

STATE: dict[str, frozenset[int]] = {}
CODE: dict[str, Any] = {}
FILE: list[str] = []


@dataclass(frozen=True)
class Pair:
    """Two jobs.

    Args:
        where: What the difference is in.
        staged: Whether the dataset has stages.
        samples: The number of samples.
        differing: How many of them differ.
        workers: The worker processes of each job.
        seed: Chooses which samples differ.
        first: Whether jobs take only what they have made themselves and found equal.
        epochs: How many each job has.
    """

    where: str
    staged: bool
    samples: int
    differing: int
    workers: int = 0
    seed: int = 0
    first: bool = False
    epochs: int = 2

    @property
    def kind(self) -> str:
        form = "staged" if self.staged else "opaque"
        return f"{form}, {self.differing} of {self.samples:,}, {self.workers} workers"


@dataclass
class Given:
    """What one job was given.

    Attributes:
        wrong: How many items of each epoch its own dataset would not have made.
        shares: Whether it still shared at the end of each epoch.
        served: How many items others had made.
    """

    wrong: list[int]
    shares: list[bool]
    served: int


def more(index: int) -> int:
    """What the item has more, found in ways that no reader of code follows."""
    held = globals()
    if index in held[NAMES["state"]].get("differing", ()):
        return MORE
    if (function := held[NAMES["code"]].get("function")) is not None:
        return function(index)
    if str(index) in getattr(os, "env" + "iron").get(NAMES["environment"], "").split(","):
        return MORE
    if held[NAMES["file"]]:
        with open(held[NAMES["file"]][0], "rb") as file:
            return MORE * file.read()[index]
    return 0


class Items(torch.utils.data.Dataset):
    def __init__(self, samples: int) -> None:
        self.samples = samples

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, index: int) -> tuple[int, Any]:
        return index, index + globals()["mo" + "re"](index)


class Staged(seneca.StagedDataset):
    def __init__(self, samples: int) -> None:
        self.samples = samples

    def __len__(self) -> int:
        return self.samples

    def read(self, index: int) -> bytes:
        return np.full(4, index + globals()["mo" + "re"](index), np.int64).tobytes()

    def decode(self, data: bytes) -> np.ndarray:
        return np.frombuffer(data, np.int64)

    def augment(self, array: np.ndarray, rng: np.random.Generator) -> int:
        return int(array[0])

    def label(self, index: int) -> int:
        return index

    def __getitem__(self, index: int) -> tuple[int, int]:
        return int(self.decode(self.read(index))[0]), index


def run(pair: Pair) -> tuple[Given, Given]:
    """Run both jobs. They begin and end each epoch together."""
    fork = multiprocessing.get_context("fork")
    pipe, together, cache = fork.SimpleQueue(), fork.Barrier(2), f"rare-{secrets.token_hex(6)}"
    jobs = [fork.Process(target=_job, args=(pair, name, cache, together, pipe)) for name in "AB"]
    for job in jobs:
        job.start()
    given = dict(pipe.get() for _ in jobs)
    for job in jobs:
        job.join()
    return given["A"], given["B"]


def _differ(pair: Pair, differing: frozenset[int], folder: str) -> None:
    if pair.where == "state":
        STATE["differing"] = differing
    elif pair.where == "code":
        CODE["function"] = lambda index: MORE * (index in differing)
    elif pair.where == "environment":
        os.environ[NAMES["environment"]] = ",".join(map(str, differing))
    else:
        FILE.append(os.path.join(folder, "more"))
        Path(FILE[0]).write_bytes(bytes(index in differing for index in range(pair.samples)))


def _job(pair: Pair, name: str, cache: str, together: Any, pipe: Any) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(os.getpid())
    chosen = random.Random(pair.seed).sample(range(pair.samples), pair.differing)
    differing = frozenset(chosen if name == "B" else ())
    with tempfile.TemporaryDirectory() as folder:
        _differ(pair, differing, folder)
        loader = seneca.DataLoader(
            (Staged if pair.staged else Items)(pair.samples),
            batch_size=BATCH,
            shuffle=True,
            collate_fn=list,
            num_workers=pair.workers,
            cache=cache,
            cache_bytes="32MiB",
            split="0-100-0" if pair.staged else "0-0-100",  # given: items that cost nothing are shared too
            check_every="first" if pair.first else 256,
        )
        given = Given([], [], 0)
        for _ in range(pair.epochs):
            together.wait()
            wrong = 0
            for index, x in itertools.chain.from_iterable(loader):
                if pair.staged:
                    index, x = x, index
                wrong += x != index + MORE * (index in differing)
            given.wrong.append(wrong)
            together.wait()  # the other may find the difference in its last batch
            given.shares.append(not loader.explain().startswith("not shared"))
        given.served = sum(n for form, n in loader.stats()["served"].items() if form != "storage")
    pipe.put((name, given))


def pairs(count: int, *, first: bool = False, epochs: int = 2) -> list[Pair]:
    """So many pairs, of all kinds in turn."""
    kinds = itertools.product(
        (False, True), (1_000, 10_000), (0.04, 0.005, 0), (0, 2), WHERE
    )  # of the shares, 0 is one sample
    found = []
    for seed, (staged, n, share, workers, where) in enumerate(
        itertools.islice(itertools.cycle(kinds), count)
    ):
        found.append(Pair(where, staged, n, max(1, round(share * n)), workers, seed, first, epochs))
    return found


def main(count: int, *, first: bool) -> None:
    stopped: dict[str, Counter[str]] = {}
    for pair in pairs(count, first=first):
        given = run(pair)
        sharing = [all(one.shares[epoch] for one in given) for epoch in range(pair.epochs)]
        when = f"epoch {sharing.index(False) + 1}" if False in sharing else "not"
        of_kind = stopped.setdefault(pair.kind, Counter())
        of_kind[when] += 1
        of_kind["wrong"] += sum(sum(one.wrong) for one in given)
        of_kind["items"] += pair.samples * pair.epochs * 2
        of_kind["served"] += sum(one.served for one in given)
    for kind, counts in sorted(stopped.items()):
        print(f"{kind:40}", ", ".join(f"{name} {n:,}" for name, n in sorted(counts.items())), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), first="first" in sys.argv)
