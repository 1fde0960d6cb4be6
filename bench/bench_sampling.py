"""How much of the preparing do jobs share, beside what other systems' policies share?

Method: the loader's own draw, over a real segment, under the virtual clock of ``bench/papers/simulate``;
nothing is read or decoded, and preparing takes time: the host prepares half of what the jobs want to
consume together. The other policies (``papers/policies``) run under the same clock with the same memory,
on a dataset that is smaller in all proportions (``--peer-samples``): they are written in Python.

Seneca's rows are means over ``--seeds`` runs, with the lowest of these beside them; a seed names orders,
jitter and arrivals. The other policies run once, with the first of the seeds.

* **Sharing**: efficiency = bound / preparations, where the bound is what the fastest attached job consumes.
  Jobs start a tenth of an epoch of the fastest apart and run until the slowest could have had four epochs.
  A stage of 1 % of the dataset, batches of 64, two ahead. ``jitter``: a step's time varies by 30 % (gamma).
  ``poisson``: twelve jobs of two epochs each come at random, four run at a time.
* **Memory**: the paper's Figure 13. Three jobs, 20 to 80 % of the dataset cached (for Seneca 1 % of it stage,
  the rest encoded), the share of samples served without reading storage, from when every job has completed
  an epoch (in a run of four or more). What the threshold policy reads ahead in the background counts as read;
  the share without that is given besides, and may pass the bound. Bound: what is cached is always a hit, and
  of the rest what the fastest job consumes is read:
  ``1 - (1 - cached) * (fastest consumption) / (all consumption)``.
* **Overlap**: jobs of equal speed on subsets of one dataset, of which a part is common to all and the rest
  nobody else's. The bound adds up what is common, once, and what is each one's own.

::

    python -m bench.bench_sampling --json sampling.json
    python bench/plot_sampling.py sampling.json sampling.png
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "bench"), str(ROOT)]

import numpy as np  # noqa: E402
from papers.policies import POLICIES  # noqa: E402
from papers.simulate import Job, Scenario, run, simulate  # noqa: E402
from report import machine, print_table  # noqa: E402

STAGE = 0.01
JITTER = 0.3
CACHED = (0.2, 0.4, 0.6, 0.8)
OVERLAPS = (0.0, 0.25, 0.5, 0.75, 1.0)
SPEEDS: dict[str, tuple[float, ...]] = {
    "1:1:1": (1, 1, 1),
    "1:1:1:1": (1, 1, 1, 1),
    "8 x 1": (1,) * 8,
    "1:0.9:1.1": (1, 0.9, 1.1),
    "4:2:1": (4, 2, 1),
    "1:1:1:3": (1, 1, 1, 3),
}
OURS = "seneca"
GOAL = 0.98
HIT_GOAL = 0.70


@dataclass(frozen=True)
class Size:
    """How much is simulated, and the seed."""

    samples: int
    batch: int
    epochs: int  # of the slowest job
    seed: int = 0

    def smaller(self, samples: int) -> Size:
        """The same in proportion, on a dataset of so many samples."""
        return replace(self, samples=samples, batch=max(1, round(self.batch * samples / self.samples)))

    def scenario(self, jobs: Sequence[Job], **options: Any) -> Scenario:
        return Scenario(jobs, self.samples, batch=self.batch, seed=self.seed, **options)

    def jobs(self, speeds: Sequence[float], jitter: float = 0.0) -> list[Job]:
        """Jobs that start a tenth of the fastest job's epoch apart and run to the same end."""
        slowest, fastest = min(speeds), max(speeds)
        gap = 0.1 * slowest / fastest
        end = self.epochs + gap * len(speeds)
        return [
            Job(speed / slowest, gap * place, end=end, jitter=jitter) for place, speed in enumerate(speeds)
        ]

    def arrivals(self, jitter: float = 0.0) -> list[Job]:
        """Twelve jobs of two epochs each, Poisson arrivals; a job comes every half epoch."""
        gaps = np.random.default_rng(self.seed).exponential(0.5, 12)
        return [Job(start=float(start), epochs=2, jitter=jitter) for start in np.cumsum(gaps)]


Named = tuple[dict[str, Any], Scenario]
"""A scenario, and what names its line in a table."""


def sharing(size: Size) -> Iterator[Named]:
    for jitter, suffix in ((0.0, ""), (JITTER, " jitter")):
        for name, speeds in SPEEDS.items():
            yield {"speeds": name + suffix, "stage": STAGE}, size.scenario(size.jobs(speeds, jitter))
        arrivals = size.scenario(size.arrivals(jitter), at_once=4)
        yield {"speeds": "poisson" + suffix, "stage": STAGE}, arrivals


def memory(size: Size) -> Iterator[Named]:
    for name in ("1:1:1", "4:2:1"):
        jobs = size.jobs(SPEEDS[name])
        for cached in CACHED:
            # Who waits for storage completes half as many epochs as who never does.
            yield {"speeds": name, "cached": cached}, size.scenario(jobs, warm=size.epochs // 4)


def overlap(size: Size) -> Iterator[Named]:
    for count in (2, 4):
        for part in OVERLAPS:
            jobs = [
                Job(len(own) / size.samples, 0.1 * place, end=size.epochs + 0.1 * count, samples=own)
                for place, own in enumerate(subsets(count, part, size.samples, size.seed))
            ]
            yield {"jobs": count, "overlap": part}, size.scenario(jobs)


PARTS = {"sharing": sharing, "memory": memory, "overlap": overlap}


def subsets(count: int, overlap: float, n_samples: int, seed: int) -> list[np.ndarray]:
    """``count`` subsets of equal size, ``overlap`` of each common to all; together they are the dataset."""
    size = int(n_samples / (overlap + count * (1 - overlap)))
    common = round(overlap * size)
    mixed = np.random.default_rng(seed).permutation(n_samples).astype(np.uint32)
    own = [mixed[common + part * (size - common) :][: size - common] for part in range(count)]
    return [np.concatenate([mixed[:common], part]) for part in own]


def one(policy: str, scenario: Scenario, cached: float) -> dict[str, float]:
    """Run one simulation with memory for ``cached`` of the dataset."""
    memory = round(cached * scenario.n_samples)
    if policy == OURS:
        stage = round(STAGE * scenario.n_samples)
        outcome = simulate(scenario, stage=stage, kept=memory - stage)
    else:
        outcome = run(scenario, POLICIES[policy](scenario, memory))
    return {
        "efficiency": outcome.efficiency,
        "hits": outcome.hits,
        "from_cache": 1 - outcome.served[0] / sum(outcome.served),
        "preparations": outcome.preparations,
        "bound": 1 - (1 - cached) * outcome.bound / sum(outcome.served),  # of hits
    }


def measure(
    part: str, sizes: dict[str, list[Size]], pool: Executor
) -> Iterator[tuple[dict[str, Any], list[Future]]]:
    """Start all runs of a part: a row for each policy and scenario, and its runs, one a seed."""
    for policy, of_seeds in sizes.items():
        if part == "overlap" and policy not in (OURS, "joader"):
            continue  # the others' jobs have one dataset, or share no preparing
        if part == "sharing" and policy == "shade":
            continue  # it does not deliver each sample once: only its hits compare
        for same in zip(*(PARTS[part](size) for size in of_seeds), strict=True):
            row = {"policy": policy} | same[0][0]
            yield row, [pool.submit(one, policy, scenario, row.get("cached", STAGE)) for _, scenario in same]


def collect(row: dict[str, Any], runs: list[Future]) -> dict[str, Any]:
    """The means over the seeds, and the lowest of what the table is about."""
    found = [run.result() for run in runs]
    means = {key: sum(each[key] for each in found) / len(found) for key in found[0]}
    about = "hits" if "cached" in row else "efficiency"
    columns = ("hits", "from_cache", "bound") if "cached" in row else ("efficiency", "hits", "preparations")
    lowest = min(each[about] for each in found)
    return row | {key: means[key] for key in columns} | {"lowest": lowest, "seeds": len(found)}


def show(title: str, rows: list[dict], line: tuple[str, ...], value: str) -> None:
    """One line for each combination of the keys ``line``, one column a policy."""
    lines: dict[tuple, dict[str, float]] = {}
    for row in rows:
        cells = lines.setdefault(tuple(row[key] for key in line), {})
        cells[row["policy"]] = row[value]
        if row["seeds"] > 1:
            cells["lowest"] = row["lowest"]
        if "bound" in row and (row["policy"] == OURS or "bound" not in cells):
            cells["bound"] = row["bound"]
    columns = [c for c in (OURS, "lowest", *POLICIES, "bound") if any(c in cells for cells in lines.values())]
    table = [
        [" ".join(f"{part:.0%}" if isinstance(part, float) else str(part) for part in key)]
        + [f"{cells[column]:.3f}" if column in cells else "" for column in columns]
        for key, cells in lines.items()
    ]
    print_table(title, [", ".join(line), *columns], table)


def verdict(what: str, rows: list[dict]) -> None:
    """Whether Seneca reached the goal, with each seed."""
    for row in (row for row in rows if "cached" in row):
        if (row["cached"], row["speeds"]) == (CACHED[0], "1:1:1"):
            hits = f"{row['hits']:.1%} hits at 20 % cached (lowest {row['lowest']:.1%})"
            reached = "reached" if row["lowest"] >= HIT_GOAL else "missed"
            print(f"{what}: {hits}, bound {row['bound']:.1%}; {HIT_GOAL:.0%} {reached}")
    for row in (row for row in rows if "efficiency" in row and row["lowest"] < GOAL):
        where = row.get("speeds") or f"{row['jobs']} jobs, overlap {row['overlap']:.0%}"
        print(f"{what}: {where} misses {GOAL}: {row['efficiency']:.4f}, lowest {row['lowest']:.4f}")
    if what != "memory":
        print(f"{what}: least efficiency of a seed {min(row['lowest'] for row in rows):.4f}; goal {GOAL}")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="bench_sampling", description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=200_000, help="of the dataset")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=4, help="of the slowest job")
    parser.add_argument("--seed", type=int, default=0, help="the first")
    parser.add_argument("--seeds", type=int, default=3, help="runs of each of Seneca's rows")
    parser.add_argument("--peer-samples", type=int, default=20_000, help="of the other policies' dataset")
    parser.add_argument("--policies", default=",".join([OURS, *POLICIES]), help="comma-separated")
    parser.add_argument("--parts", default=",".join(PARTS), help="which of these, comma-separated")
    parser.add_argument("--quick", action="store_true", help="one epoch of 20,000 samples, one seed")
    parser.add_argument("--workers", type=int, default=2, help="simulations at a time")
    parser.add_argument("--json", type=Path, help="write all rows there")
    options = parser.parse_args(arguments)
    size = Size(options.samples, options.batch, options.epochs, options.seed)
    seeds, peers = options.seeds, options.peer_samples
    if options.quick:
        size, seeds, peers = Size(20_000, 16, 1, options.seed), 1, 5_000
    policies, parts = options.policies.split(","), options.parts.split(",")
    for asked, known in ((policies, [OURS, *POLICIES]), (parts, list(PARTS))):
        if unknown := set(asked) - set(known):
            parser.error(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    if seeds < 1:
        parser.error(f"--seeds is at least 1, not {seeds}")
    sizes = {
        policy: [replace(size, seed=size.seed + i) for i in range(seeds)]
        if policy == OURS
        else [size.smaller(peers)]
        for policy in policies
    }

    print(machine(["numpy"]))
    print(f"{OURS}: {size.samples:,} samples, batches of {size.batch}, {size.epochs} epochs, {seeds} seeds")
    if set(policies) - {OURS}:
        small = size.smaller(peers)
        print(f"other policies: {small.samples:,} samples, batches of {small.batch}, 1 seed")
    began = time.perf_counter()
    with ProcessPoolExecutor(options.workers) as pool:
        started = {part: list(measure(part, sizes, pool)) for part in parts}
        found = {part: [collect(row, runs) for row, runs in started.get(part, [])] for part in PARTS}
    tables = {
        "sharing": (f"Sharing efficiency, a stage of {STAGE:.0%}", ("speeds",), "efficiency"),
        "memory": ("Served without reading storage", ("speeds", "cached"), "hits"),
        "overlap": ("Sharing efficiency of subsets", ("jobs", "overlap"), "efficiency"),
    }
    for part in parts:
        title, line, value = tables[part]
        show(title, found[part], line, value)
    for row in found["memory"]:
        if row["policy"] == "threshold":
            where = f"{row['speeds']} {row['cached']:.0%}"
            print(f"threshold, {where}: {row['from_cache']:.3f} if reading ahead were not counted")
    for part in parts:
        ours = [row for row in found[part] if row["policy"] == OURS]
        if ours:
            verdict(part, ours)
    times = os.times()
    busy = times.user + times.system + times.children_user + times.children_system
    print(f"took {time.perf_counter() - began:.0f} s, {busy:.0f} s of CPU time")
    if options.json:
        results = {"rows": found["sharing"], "by_cache_size": found["memory"], "overlap": found["overlap"]}
        options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
