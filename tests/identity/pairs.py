"""Two jobs as real processes, each with a dataset that it makes itself: what each was given.

A scenario says how a job makes its dataset. Both jobs iterate a loader in step, and compare every item that
they are given with the item that their own dataset makes.
"""

from __future__ import annotations

import importlib
import json
import multiprocessing.forkserver
import multiprocessing.util
import os
import sys
import textwrap
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from engine import Process

import seneca

SAMPLES = 48
BATCH = 4
EPOCHS = 3
TRAINING, ENDED = "training", "ended"


@dataclass
class Side:
    """One of the two jobs, as it sees itself.

    Attributes:
        name: "A" or "B".
        folder: Of this job's own.
        both: A folder that both jobs have.
    """

    name: str
    folder: Path
    both: Path

    def pick(self, a: Any, b: Any) -> Any:
        """What is this job's of two values."""
        return a if self.name == "A" else b

    def module(self, name: str, text: str, *, folder: Path | None = None) -> Any:
        """Write a module, make it importable, and leave the import to the caller."""
        folder = folder or self.folder
        path = folder.joinpath(*name.split(".")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        for package in path.relative_to(folder).parents[:-1]:
            (folder / package / "__init__.py").touch()
        path.write_text(textwrap.dedent(text))
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
        importlib.invalidate_caches()
        return path

    def installed(
        self, name: str, version: str, text: str, requires: str = "", source: Path | None = None
    ) -> None:
        """A package as pip leaves it: in site-packages, with its metadata and the hashes of its files.

        Args:
            source: The folder that it was installed from; None: an index.
        """
        import base64
        import hashlib

        site = self.folder / "lib" / "site-packages"
        path = self.module(name, text, folder=site)
        about = site / f"{name}-{version}.dist-info"
        about.mkdir(exist_ok=True)
        needs = f"Requires-Dist: {requires}\n" if requires else ""
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}")
        digest = base64.urlsafe_b64encode(hashlib.sha256(path.read_bytes()).digest()).rstrip(b"=").decode()
        record = f"{path.relative_to(site)},sha256={digest},{path.stat().st_size}\n{about.name}/RECORD,,\n"
        (about / "RECORD").write_text(record)
        if source is not None:
            (about / "direct_url.json").write_text(json.dumps({"url": source.as_uri(), "dir_info": {}}))


@dataclass
class Seen:
    """What one job was given.

    Attributes:
        delivered: How many items.
        wrong: ``(epoch, index, given, wanted)`` of those that its own dataset would not have made.
        once: Whether each epoch had every index once.
        others: How many items another job had made.
        explained: What ``explain()`` said in the end.
        warned: The texts of the warnings.
        stats: What ``stats()`` said in the end.
    """

    delivered: int = 0
    wrong: list[tuple[int, int, Any, Any]] = field(default_factory=list)
    once: bool = True
    others: int = 0
    explained: str = ""
    warned: list[str] = field(default_factory=list)
    stats: dict[str, Any] = field(default_factory=dict)


Loader = Callable[..., Any]


def senecas(dataset: Any, **options: Any) -> Any:
    """The loader that jobs have where a scenario does not say."""
    defaults = {"batch_size": BATCH, "shuffle": True, "cache_bytes": "8MiB", "collate_fn": list}
    return seneca.DataLoader(dataset, **(defaults | options))


@dataclass
class Scenario:
    """How a pair of jobs goes.

    Args:
        make: Makes a job's dataset, in the job's own process.
        options: Of the loader.
        loader: Makes a job's loader of dataset and options.
        between: Called before each epoch with side, dataset and epoch's number.
        within: Likewise before each batch, with the batch's number besides.
        want: What the item of an index should be; None: what the dataset makes in this process.
        epochs: How many each job has.
        b_starts_in: The epoch of A's in which B begins.
        in_turn: Each batch is made while the other job waits, and they take turns in being first. If they go
            at once, one may be first each time by chance, and then it is served nothing.
    """

    make: Callable[[Side], Any]
    options: Callable[[Side], dict[str, Any]] = lambda side: {}
    loader: Loader = senecas
    between: Callable[[Side, Any, int], None] = lambda side, dataset, epoch: None
    within: Callable[[Side, Any, int, int], None] = lambda side, dataset, epoch, batch: None
    want: Callable[[Side, Any, int], Any] | None = None
    epochs: int = EPOCHS
    b_starts_in: int = 0
    in_turn: bool = False


def run(scenario: Scenario, folder: Path) -> tuple[Seen, Seen]:
    """Run both jobs to their ends, in step: batch by batch while both are training."""
    both = folder / "both"
    both.mkdir(parents=True, exist_ok=True)
    sides = []
    for name in "AB":
        (folder / name).mkdir(exist_ok=True)
        sides.append(Side(name, folder / name, both))
    a = Process(_job, scenario, sides[0])
    with a:
        b: Process | None = None
        at = {id(a): a.receive()}
        turn = False
        while True:
            if b is None and (at[id(a)][1] == (scenario.b_starts_in, 0) or at[id(a)][0] == ENDED):
                b = Process(_job, scenario, sides[1])
                at[id(b)] = b.receive()
            jobs = [job for job in (a, b) if job is not None and at[id(job)][0] == TRAINING]
            if not jobs:
                break
            if scenario.in_turn and (turn := not turn):
                jobs.reverse()
            for some in [[job] for job in jobs] if scenario.in_turn else [jobs]:
                for job in some:
                    job.send("go on")
                for job in some:
                    at[id(job)] = job.receive()
        assert b is not None
        with b:
            seen = at[id(a)][1], at[id(b)][1]
            for job in (a, b):
                job.send("end")
                assert job.join() == 0
    return seen


def _job(pipe: Process, scenario: Scenario, side: Side) -> None:
    torch.set_num_threads(1)  # OpenMP's threads are the parent's and did not come along
    multiprocessing.forkserver._forkserver.__init__()
    multiprocessing.process._children.clear()
    torch.manual_seed(os.getpid())
    os.chdir(side.folder)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        seen = _train(pipe, scenario, side)
    seen.warned = [str(one.message) for one in caught]
    pipe.send((ENDED, seen))
    pipe.receive()
    multiprocessing.util._exit_function()


def _train(pipe: Process, scenario: Scenario, side: Side) -> Seen:
    dataset = scenario.make(side)
    loader = scenario.loader(dataset, **scenario.options(side))
    seen = Seen()
    for epoch in range(scenario.epochs):
        pipe.send((TRAINING, (epoch, 0)))
        pipe.receive()
        scenario.between(side, dataset, epoch)
        given = []
        for number, batch in enumerate(loader):
            given += batch
            for index, x in batch:
                want = dataset[index][1] if scenario.want is None else scenario.want(side, dataset, index)
                if not same(x, want):
                    seen.wrong.append((epoch, int(index), x, want))
            pipe.send((TRAINING, (epoch, number + 1)))
            pipe.receive()
            scenario.within(side, dataset, epoch, number + 1)
        seen.delivered += len(given)
        seen.once &= sorted(int(index) for index, _ in given) == list(range(len(dataset)))
    source = loader if hasattr(loader, "stats") else loader.dataset
    seen.stats = source.stats()
    seen.others = sum(seen.stats["served"][form] for form in ("encoded", "decoded", "augmented"))
    seen.explained = source.explain()
    return seen


def same(one: Any, other: Any) -> bool:
    """Whether two items' values are equal to the bit."""
    if isinstance(one, torch.Tensor):
        return isinstance(other, torch.Tensor) and one.dtype == other.dtype and torch.equal(one, other)
    return type(one) is type(other) and one == other


def assert_nothing_wrong(seen: tuple[Seen, Seen]) -> None:
    """No job was given another's item, or an item twice, or one less."""
    for name, one in zip("AB", seen, strict=True):
        assert one.wrong == [], f"{name}: {len(one.wrong)} of {one.delivered} items are not its own"
        assert one.once, f"{name}: an epoch was not each sample once"
