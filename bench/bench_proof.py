"""What does it cost that jobs prove to each other that they mean the same, and how soon is a lie found?

Method: three measurements, each with ``check_every`` as it is by default.

* **Spot checks**: two loaders of one process, which differ in ``check_every`` alone (the default, and None),
  each with a cache of its own that holds all samples. They load epochs in turn, ``--rounds`` times. What is
  compared is an epoch's CPU time in all threads, and its time by the clock. The default costs less than the
  noise. Therefore ``--times-more`` as many checks are made, and the difference is divided by that.
* **Joining**: a second job joins a cache. The time from its first inspection of the dataset to its first
  verdict, less what it took to make the examples.
* **A lie**: two jobs share a dataset. Amid an epoch one of them begins to make other items, which no
  fingerprint can see. Counted is what both are served from the cache from there on.

::

    python -m bench.bench_proof --data train/
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "bench"), str(ROOT)]

import numpy as np  # noqa: E402
import report  # noqa: E402
import torch  # noqa: E402
from bench_jobs import pictures  # noqa: E402
from links import make_links  # noqa: E402

import seneca  # noqa: E402
from seneca import transforms as T  # noqa: E402
from seneca.options import CHECK_EVERY  # noqa: E402

LINKS = 2400
LIE_SAMPLES = 10_000
LIE_EPOCHS = 4
LIE_BEGINS = 1.5  # epochs
MAKES = {"times": 1}  # what items are multiplied with, in this process


class Staged(seneca.StagedDataset):
    """Rows of 64 KiB, with stages."""

    def __len__(self) -> int:
        return LINKS

    def read(self, index: int) -> bytes:
        return np.full(8192, index).tobytes()

    def decode(self, data: bytes) -> np.ndarray:
        return np.frombuffer(data, np.int64)

    def augment(self, array: np.ndarray, rng: np.random.Generator) -> torch.Tensor:
        return torch.from_numpy(array + rng.integers(0, 9))

    def label(self, index: int) -> int:
        return index

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.from_numpy(self.decode(self.read(index)).copy())


class Unseen(torch.utils.data.Dataset[Any]):
    """Items that depend on what no fingerprint sees."""

    def __len__(self) -> int:
        return LIE_SAMPLES

    def __getitem__(self, index: int) -> tuple[int, torch.Tensor]:
        return index, torch.full((64,), index * globals()["MAKES"]["times"])


def native(folder: str) -> Any:
    return seneca.ImageFolder(folder, T.Compose([T.RandomResizedCrop(224), T.RandomHorizontalFlip()]))


def in_turn(make: Callable[[], Any], split: str, workers: int, rounds: int, more: int) -> dict[str, Any]:
    """Epochs with checks and without, in turn: the cost of checks at the default rate, as a ratio."""
    rates = {"checked": max(1, CHECK_EVERY // more), "unchecked": None}
    loaders = {
        name: seneca.DataLoader(
            make(), 64, shuffle=True, num_workers=workers, split=split, cache_bytes="2GiB",
            cache=f"bench-proof-{name}-{os.getpid()}", check_every=rate, share="decoded",
        )
        for name, rate in rates.items()
    }  # fmt: skip
    cpu: dict[str, list[float]] = {name: [] for name in loaders}
    wall: dict[str, list[float]] = {name: [] for name in loaders}
    for round_ in range(rounds + 1):
        for name in sorted(loaders, reverse=bool(round_ % 2)):
            began, began_cpu = time.perf_counter(), time.process_time()
            for _ in loaders[name]:
                pass
            if round_:  # the first fills the cache
                cpu[name].append(time.process_time() - began_cpu)
                wall[name].append(time.perf_counter() - began)
    stats = loaders["checked"].stats()

    def cost(seconds: dict[str, list[float]]) -> float:
        ratios = [a / b for a, b in zip(seconds["checked"], seconds["unchecked"], strict=True)]
        return (statistics.median(ratios) - 1) / (CHECK_EVERY / (rates["checked"] or 1))

    samples = sum(stats["served"].values())
    return {
        "cpu": cost(cpu),
        "wall": cost(wall),
        "checked": stats["checked"],
        "delivered": samples,
        "ms": 1e3 * statistics.median(cpu["unchecked"]) / LINKS,
    }


def joining(rounds: int) -> list[float]:
    """Seconds that joining takes beside the making of examples, the fingerprint included."""
    from seneca.workers.proof import prove

    first = seneca.SharedDataset(Staged(), cache=f"bench-join-{os.getpid()}", cache_bytes="64MiB")
    first.look()
    first.__getitems__(first.batch([1, 2]))
    took, made = [], 0.0
    examples_of = prove.examples_of

    def timed(*arguments: Any) -> Any:
        nonlocal made
        began = time.perf_counter()
        try:
            return examples_of(*arguments)
        finally:
            made += time.perf_counter() - began

    prove.examples_of = timed
    try:
        for _ in range(rounds):
            made = 0.0
            began = time.perf_counter()
            other = seneca.SharedDataset(Staged(), cache=first.cache, cache_bytes="64MiB")
            other.look()
            other.__getitems__(other.batch([0]))
            took.append(time.perf_counter() - began - made)
            assert made, "it has made no example"
    finally:
        prove.examples_of = examples_of
    return took


def train(name: str, lies: bool, meet: Any, answers: Any) -> None:
    """One of two jobs; how many samples it was served from the cache after the lie began, and how many
    of what it was given was not its own."""
    loader = seneca.DataLoader(
        Unseen(), 50, shuffle=True, cache=name, cache_bytes="64MiB", num_workers=0, split="auto"
    )
    per_epoch = LIE_SAMPLES // 50
    begins, batch, before, wrong, once = int(LIE_BEGINS * per_epoch), 0, 0, 0, True
    for _ in range(LIE_EPOCHS):
        meet.wait()
        seen = []
        for indices, values in loader:
            wrong += int((values[:, 0] != indices * MAKES["times"]).sum())
            seen += indices.tolist()
            batch += 1
            if batch == begins:
                meet.wait()
                before = served(loader)
                if lies:
                    MAKES["times"] = 100
        once &= sorted(seen) == list(range(LIE_SAMPLES))
    answers.put({"served": served(loader) - before, "wrong": wrong, "once": once, "of": loader.explain()})


def served(loader: Any) -> int:
    forms = loader.stats()["served"]
    return sum(forms.values()) - forms["storage"]


def lie(number: int) -> dict[str, Any]:
    """Of both jobs together."""
    context = multiprocessing.get_context("fork")
    meet, answers = context.Barrier(2), context.SimpleQueue()
    name = f"bench-lie-{os.getpid()}-{number}"
    jobs = [context.Process(target=train, args=(name, bool(i), meet, answers)) for i in range(2)]
    for job in jobs:
        job.start()
    given = [answers.get() for _ in jobs]
    for job in jobs:
        job.join()
    return {
        "served": sum(one["served"] for one in given),
        "wrong": sum(one["wrong"] for one in given),
        "once": all(one["once"] for one in given),
        "stopped": any(one["of"].startswith("not shared") for one in given),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder of class folders of pictures; made up if not given")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--times-more", type=int, default=64, help="checks than by default")
    parser.add_argument("--lies", type=int, default=10)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(report.machine(["seneca-loader", "torch"]))
    results: dict[str, Any] = {"lies": [lie(number) for number in range(options.lies)]}
    with pictures(options.data) as data, tempfile.TemporaryDirectory(prefix="seneca-bench-") as folder:
        make_links(data, Path(folder), LINKS)
        makers: dict[str, Callable[[], Any]] = {"native": lambda: native(folder), "staged": Staged}
        for kind, make in makers.items():
            for split in ("0-100-0", "100-0-0"):
                row = f"{kind}, {'DECODED' if split[0] == '0' else 'ENCODED'}"
                results[row] = in_turn(make, split, 0, options.rounds, options.times_more)
    took = results["joining"] = joining(options.rounds)
    lines = [
        (row, f"{one['ms']:.3f}", f"{one['checked']}", f"{one['cpu']:+.3%}", f"{one['wall']:+.3%}")
        for row, one in results.items()
        if isinstance(one, dict)
    ]
    title = f"Spot checks, one in {CHECK_EVERY:,}; {options.times_more} times as many were made and measured"
    report.print_table(title, ["", "ms a sample", "checked", "cost, CPU", "cost, clock"], lines)
    joins = [("median", f"{1e3 * statistics.median(took):.2f}"), ("most", f"{1e3 * max(took):.2f}")]
    report.print_table("Joining less examples", ["", "ms"], joins)
    lines = [
        (str(number), f"{one['served']:,}", f"{one['wrong']:,}", str(one["stopped"]), str(one["once"]))
        for number, one in enumerate(results["lies"])
    ]
    head = ["", "served until sharing stopped", "wrong", "stopped", "each once"]
    report.print_table("A lie of one of two jobs, amid an epoch", head, lines)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
