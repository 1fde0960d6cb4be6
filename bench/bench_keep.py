"""Of jobs that keep their own orders: how many samples do they find in a cache that holds few of them?

Question. Jobs with ``share="decoded"`` or ``"none"``, or with samplers of their own, take each sample when
their own order has it. The cache keeps what they need soonest. How near is that to the best that can be done?

Method. The loader's own draw under the virtual clock of ``bench/papers/simulate``, on equally fast jobs
that start evenly over an epoch. Nothing is read or decoded, and all payloads have the same size. Beside it,
computed from the same draws in the same order: *first* keeps what came first, which is the best for one job
(CoorDL's MinIO); *Belady* knows all draws to come, and evicts what is used last (Belady, IBM Systems
Journal 5(2), 1966). No cache can do better. Draws of the first epoch count too.

*draw, us* is the median time of a draw of 32 samples, as Python calls it, with what it evicts.

    python -m bench.bench_keep
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "bench"), str(ROOT)]

import numpy as np  # noqa: E402
import numpy.typing as npt  # noqa: E402
from papers.policies.belady import found  # noqa: E402
from papers.simulate import Engine, Job, Scenario, run  # noqa: E402
from report import machine, print_table  # noqa: E402


def first(draws: npt.NDArray[np.uint32], room: int) -> float:
    """The share of ``draws`` that a cache of ``room`` samples finds, if it keeps those that come first."""
    _, firsts = np.unique(draws, return_index=True)
    kept = draws[np.sort(firsts)[:room]]
    return (int(np.isin(draws, kept).sum()) - len(kept)) / len(draws)


class Drawn(Engine):
    """The loader's draw, which notes what is drawn, and how long that takes."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.samples: list[npt.NDArray[np.uint32]] = []
        self.took: list[float] = []

    def draw(self, job: int, wanted: int) -> Any:
        began = time.perf_counter()
        batch = super().draw(job, wanted)
        self.took.append(time.perf_counter() - began)
        if batch is not None:
            self.samples.append(batch.indices.copy())
        return batch


def simulated(n: int, jobs: int, cached: float, epochs: int) -> dict[str, Any]:
    each = [Job(start=j / jobs, epochs=epochs, fixed_order=True, jitter=0.3) for j in range(jobs)]
    scenario = Scenario(each, n, batch=32, preparing=1.5)
    room = int(cached * n)
    with Drawn(scenario, stage=0, kept=room) as engine:
        outcome = run(scenario, engine)
        draws = np.concatenate(engine.samples)
    return {
        "jobs": jobs,
        "cached": cached,
        "first": first(draws, room),
        "seneca": outcome.hits,
        "belady": float(found(draws, room).mean()),
        "draw_us": 1e6 * statistics.median(engine.took),
    }


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="bench_keep", description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=20_000)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--jobs", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--cached", type=float, nargs="+", default=[0.1, 0.2, 0.4])
    parser.add_argument("--json", type=Path)
    args = parser.parse_args(argv)

    rows = [simulated(args.samples, j, c, args.epochs) for j in args.jobs for c in args.cached]
    print(machine(["numpy"]))
    print_table(
        f"Share of the samples that are found in the cache: {args.samples:,} samples, {args.epochs} epochs",
        ["jobs", "cached", "first", "seneca", "Belady", "draw, us"],
        [
            [
                str(r["jobs"]),
                *(f"{r[k]:.2f}" for k in ("cached", "first", "seneca", "belady")),
                f"{r['draw_us']:.0f}",
            ]
            for r in rows
        ],
    )
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
