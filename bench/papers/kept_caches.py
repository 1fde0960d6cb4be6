"""DLCache's Figure 7: which datasets should stay when their caches do not all fit?

Question. Jobs come one after the other, each with one of four datasets, and 160 to 240 GB are kept of what
they downloaded. How many seconds of downloading does an order of jobs cost, if the caches that
``seneca prune --to`` finds worth least are given up, beside other rules?

Method. Arithmetic alone. The datasets are those of the paper (Kang et al., ISORC '23): the sizes of their
archives, and the seconds that each took to download with eight processes, are in its artifact
(https://github.com/VUZhuangweiKang/DLCache, ``experiments/exp3``), and so is the workload: 1, 3 or 5 jobs
each take all of ImageNet; 1, 3, 5 or 7 jobs take LibriSpeech together, as often; each of some jobs takes 2,
4, 6 or 8 consecutive days of IDS2018; one takes Inrix. Their order is random. The paper has 24,000 orders:
here 100 of each of the 240 settings with 160, 180, 200, 220 or 240 GB.

What can be kept is an archive, as in the paper (*archives*), or all that a job takes, as one cache of
Seneca's (*caches*). A cache of other days is another cache. A job begins ``--gap`` seconds after the one
before; Seneca's joins count for half after half an hour.

All archives of a dataset score alike under LRFU and LFU. Among equals that which came first goes, as in the
artifact; ``--ties chance`` takes any of them.

Each dataset must be downloaded once. What is downloaded *again* is the rule's. *Belady* knows the jobs to
come, and gives up what saves least a byte and a job until its next use. With sizes and costs that is a good
rule, and no bound.

::

    python -m bench.papers.kept_caches
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "bench"), str(ROOT)]

import numpy as np  # noqa: E402
from report import machine, print_table  # noqa: E402

from papers import result  # noqa: E402
from papers.policies.clrfu import CLRFU, LRFU  # noqa: E402
from papers.result import Goal, Result, Row  # noqa: E402
from papers.setup import SEED, Setup  # noqa: E402
from seneca.segments import JOIN_HALF_LIFE_S, worth  # noqa: E402

# Of each archive: its size in MB, and the seconds of all processes that downloaded it, eight at a time.
ARCHIVES = {
    "ImageNet": (
        *((9919, 800), (9929, 800), (9929, 800), (9921, 800), (9917, 800), (9908, 800), (9923, 800)),
        *((9939, 800), (6845, 552), (9918, 800), (9926, 165), (9914, 800), (9930, 800), (9935, 800)),
        *((9927, 800), (66, 5.26)),
    ),
    "LibriSpeech": (
        *((8017, 1152), (8063, 1202), (8053, 579), (8086, 1156), (26, 69.2), (587, 59.3), (8065, 1217)),
        *((8052, 432), (8018, 937), (8032, 1149), (8044, 448), (8091, 1150), (8095, 1156), (27, 1.94)),
    ),
    "IDS2018": (  # a day each, by name
        *((376, 30.1), (358, 28.7), (322, 25.8), (4055, 324), (329, 26.3), (383, 30.6), (383, 30.6)),
        *((209, 16.7), (108, 8.63), (352, 28.2)),
    ),
    "Inrix": (
        *((1108, 164), (322, 48.0), (672, 56.4), (305, 43.9), (1046, 181), (1038, 155), (3307, 494)),
        *((765, 109), (30283, 1248), (1961, 288), (448, 65.0), (1330, 196), (2833, 362), (1401, 205)),
        *((2616, 391), (5962, 721), (1028, 114), (1383, 223), (1758, 256), (998, 145), (300, 41.6)),
        *((763, 109), (2454, 368), (1328, 198), (3798, 444), (421, 60.8), (2268, 341), (761, 114)),
        *((1236, 86.1), (13101, 1350), (505, 79.6), (1129, 151), (1354, 186), (1275, 190), (2143, 308)),
        *((2179, 323), (2120, 337)),
    ),
}
PROCESSES = 8
CAPACITIES_GB = (160, 180, 200, 220, 240)
IMAGENET_JOBS = (1, 3, 5)
LIBRISPEECH_JOBS = (1, 3, 5, 7)
DAYS = (2, 4, 6, 8)
GAP_S = 600.0
PAPER = "CLRFU at or below LRFU"

Unit = Hashable
Schedule = list[list[tuple[Unit, int]]]
"""By job: the units that it takes, and how many jobs take them together."""


class Seneca(LRFU):
    """What ``seneca prune --to`` gives up first is worth least by :func:`seneca.segments.worth`."""

    def __init__(self, costs: dict[Unit, float], sizes: dict[Unit, float], gap_s: float) -> None:
        super().__init__(costs)
        self.gap_s = gap_s
        self.HALVES_AFTER = JOIN_HALF_LIFE_S / gap_s
        self.segments = {
            unit: SimpleNamespace(
                memory_bytes=sizes[unit],
                view=SimpleNamespace(
                    joins=0.0, joined_at=0.0, cost_s=costs[unit], payloads=Counter(encoded=1)
                ),
            )
            for unit in costs
        }

    def use(self, unit: Unit, now: float, times: int = 1) -> None:
        super().use(unit, now, times)
        view = self.segments[unit].view
        view.joins, view.joined_at = self.counted[unit][0], now * self.gap_s

    def score(self, unit: Unit, now: float) -> tuple[float, ...]:
        return (worth(self.segments[unit], now * self.gap_s),)


class LRU(LRFU):
    """The one that was used last stays; what jobs of Seneca do that need memory for another cache."""

    def score(self, unit: Unit, now: float) -> tuple[float, ...]:
        return (self.counted[unit][1],)


class LFU(LRFU):
    """The one that was used most often stays."""

    HALVES_AFTER = float("inf")


class Greedy(LRFU):
    """The one that costs most stays, without regard to its use."""

    def score(self, unit: Unit, now: float) -> tuple[float, ...]:
        return (self.costs[unit],)


class Random(LRFU):
    """Any of them stays."""

    def __init__(self, costs: dict[Unit, float], seed: int) -> None:
        super().__init__(costs)
        self.rng = np.random.default_rng(seed)

    def score(self, unit: Unit, now: float) -> tuple[float, ...]:
        return (self.rng.random(),)


class Belady(LRFU):
    """Belady's rule with costs: what saves most a byte, and a job until its next use, stays."""

    def __init__(self, costs: dict[Unit, float], sizes: dict[Unit, float], schedule: Schedule) -> None:
        super().__init__(costs)
        self.sizes = sizes
        self.uses: dict[Unit, list[int]] = {}
        for number, job in reversed(list(enumerate(schedule))):
            for unit, _ in job:
                self.uses.setdefault(unit, []).append(number)

    def score(self, unit: Unit, now: float) -> tuple[float, ...]:
        uses = self.uses[unit]
        while uses and uses[-1] <= now:  # also those of this job, if it has had the unit
            uses.pop()
        return (self.costs[unit] / self.sizes[unit] / (uses[-1] - now) if uses else 0.0,)


def prepared_s(
    schedule: Schedule,
    rule: LRFU,
    sizes: dict[Unit, float],
    room: float,
    chance: random.Random | None = None,
) -> float:
    """The seconds of downloading of one order, if what ``rule`` scores least is given up.

    Among equals that which came first goes, or with ``chance`` any of them.
    """
    kept: dict[Unit, None] = {}  # in the order in which they came
    used = total = 0.0
    for now, job in enumerate(schedule):
        for unit, times in job:
            if unit not in kept:
                total += rule.costs[unit]
                if used + sizes[unit] > room:
                    scores = {one: rule.score(one, now) for one in kept}
                    victims = list(kept)
                    if chance is not None:
                        chance.shuffle(victims)
                    for victim in sorted(victims, key=scores.__getitem__):
                        del kept[victim]
                        used -= sizes[victim]
                        if used + sizes[unit] <= room:
                            break
                kept[unit] = None
                used += sizes[unit]
            rule.use(unit, now, times)
    return total


def schedules(orders: int, seed: int) -> Iterator[tuple[float, list[tuple[str, range, int]]]]:
    """The room in MB and the jobs of each order: the dataset, which archives of it, and for how many jobs."""
    rng = np.random.default_rng(seed)
    for gigabytes, reuse, share, days in product(CAPACITIES_GB, IMAGENET_JOBS, LIBRISPEECH_JOBS, DAYS):
        whole = {name: range(len(archives)) for name, archives in ARCHIVES.items()}
        windows = len(whole["IDS2018"]) - days + 1
        names = ["ImageNet"] * reuse + ["LibriSpeech"] * share + ["IDS2018"] * windows + ["Inrix"]
        for _ in range(orders):
            jobs, day = [], 0
            for name in rng.permutation(names).tolist():
                part = range(day, day + days) if name == "IDS2018" else whole[name]
                day += name == "IDS2018"
                jobs.append((name, part, share if name == "LibriSpeech" else 1))
            yield 1000.0 * gigabytes, jobs


def of_archives(
    jobs: Sequence[tuple[str, range, int]],
) -> tuple[Schedule, dict[Unit, float], dict[Unit, float]]:
    """The schedule, sizes and costs, if each archive is kept by itself."""
    schedule: Schedule = [[((name, n), times) for n in part] for name, part, times in jobs]
    units = {unit: ARCHIVES[unit[0]][unit[1]] for job in schedule for unit, _ in job}  # type: ignore[index]
    return schedule, *_sizes_and_costs(units)


def of_caches(
    jobs: Sequence[tuple[str, range, int]],
) -> tuple[Schedule, dict[Unit, float], dict[Unit, float]]:
    """The same, if all that a job takes is one cache."""
    schedule: Schedule = [[((name, part), times)] for name, part, times in jobs]
    units = {
        (name, part): tuple(np.sum([ARCHIVES[name][n] for n in part], axis=0).tolist())
        for name, part, _ in jobs
    }
    return schedule, *_sizes_and_costs(units)


def _sizes_and_costs(units: dict[Unit, Any]) -> tuple[dict[Unit, float], dict[Unit, float]]:
    sizes = {unit: float(size) for unit, (size, _) in units.items()}
    return sizes, {unit: cost / PROCESSES for unit, (_, cost) in units.items()}


OURS = "seneca"
UNITS = {"archives": of_archives, "caches": of_caches}


def rules(
    schedule: Schedule, sizes: dict[Unit, float], costs: dict[Unit, float], gap_s: float, seed: int
) -> dict[str, LRFU]:
    return {
        OURS: Seneca(costs, sizes, gap_s),
        "CLRFU": CLRFU(costs),
        "LRFU": LRFU(costs),
        "LRU": LRU(costs),
        "LFU": LFU(costs),
        "Greedy": Greedy(costs),
        "random": Random(costs, seed),
        "Belady": Belady(costs, sizes, schedule),
    }


def rows(orders: int = 100, seed: int = 0, gap_s: float = GAP_S, ties: str = "first") -> list[dict[str, Any]]:
    """A row for each figure, ``{"kind", "what", "ours", "paper", "peers"}``; ``peers`` is by name.

    The kinds are archives and caches.

    Args:
        orders: Random orders of each of the 240 settings.
        seed: Of the orders and of the random rule.
        gap_s: Seconds from the start of a job to the start of the next one.
        ties: Among equals, ``"first"``: that which came first goes; ``"chance"``: any of them.
    """
    found = []
    for kind, of_jobs in UNITS.items():
        totals: dict[str, list[float]] = {}
        once = []
        for number, (room, jobs) in enumerate(schedules(orders, seed)):
            schedule, sizes, costs = of_jobs(jobs)
            once.append(sum(costs.values()))
            for name, rule in rules(schedule, sizes, costs, gap_s, seed + number).items():
                chance = random.Random(seed + number) if ties == "chance" else None
                totals.setdefault(name, []).append(prepared_s(schedule, rule, sizes, room, chance))
        least = np.array(once)
        again = {name: np.array(each) - least for name, each in totals.items()}
        figures: dict[str, Callable[[Any], float]] = {
            "seconds downloaded again, mean": lambda each: float(each.mean()),
            "in nine of ten orders at most": lambda each: float(np.quantile(each, 0.9)),
            "orders with nothing again, %": lambda each: float(100 * (each < 1e-6).mean()),
        }
        for what, figure in figures.items():
            values = {name: figure(each) for name, each in again.items()}
            mine = values.pop(OURS)
            found.append({"kind": kind, "what": what, "ours": mine, "paper": PAPER, "peers": values})
    return found


def run(setup: Setup, orders: int = 10) -> Result:
    """For the page: a tenth of the orders, with the seed of all experiments."""
    found, goals = [], []
    for row in rows(orders, SEED):
        measure = f"{row['what'].removesuffix(', %')}, {row['kind']}"
        unit = "%" if "%" in row["what"] else "s"
        found.append(Row(measure, "Seneca", row["ours"], unit, result.OURS))
        found += [Row(measure, name, value, unit, result.PEER) for name, value in row["peers"].items()]
        if "mean" in row["what"]:
            goals.append(
                Goal(f"{measure}: Seneca's of CLRFU's", row["ours"] / row["peers"]["CLRFU"], 1, "x", True)
            )
    return Result(
        "kept_caches",
        "DLCache, Figure 7: which datasets should stay when their caches do not all fit?",
        "How many seconds of downloading again does an order of jobs cost, if what is worth least goes?",
        [
            "Arithmetic alone, on the paper's datasets, costs and workload, which its artifact has.",
            f"{240 * orders:,} random orders of each kind, seed {SEED}; the paper has 24,000.",
            f"The paper has a figure and no table of this: {PAPER}.",
        ],
        found,
        goals,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="kept_caches", description=__doc__.splitlines()[0])
    parser.add_argument("--orders", type=int, default=100, help="of each of the 240 settings")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--gap", type=float, default=GAP_S, help="seconds from job to job")
    parser.add_argument("--ties", choices=["first", "chance"], default="first", help="among equals")
    options = parser.parse_args(arguments)
    if options.orders < 1 or options.gap <= 0:
        parser.error("--orders is at least 1, and --gap above 0")
    made = rows(options.orders, options.seed, options.gap, options.ties)
    print(machine(["numpy"]))
    each = 240 * options.orders
    print(f"{each:,} orders of each kind, seed {options.seed}, {options.gap:,.0f} s from job to job")
    print(f"paper: {PAPER}")
    for kind in UNITS:
        of_kind = [row for row in made if row["kind"] == kind]
        values = [{OURS: row["ours"]} | row["peers"] for row in of_kind]
        print_table(
            f"Kept: {kind}",
            ["rule", *(row["what"] for row in of_kind)],
            [[name, *(f"{value[name]:,.1f}" for value in values)] for name in values[0]],
        )


if __name__ == "__main__":
    main()
