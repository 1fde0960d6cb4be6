"""Does ``seneca analyze`` find the stalls that were planted, and what does it cost the script?

Question. A training script waits for storage, for preparing, for a core or for nothing, and it is known how
long, because the script was made so. Does ``seneca analyze`` find these shares? And how much slower is the
script under it?

Method. The script is ``planted_stalls.py``. Each sample reads a file of 110 KB from storage that is really
held back (``slow_reads.py``), and uses CPU; each step sleeps. With b samples a batch, r seconds of storage
for a batch, c of CPU, W workers and k cores, a step takes as long as the slowest of

    the step itself    (c + r) / W    r    c / k

and the shares follow by DS-Analyzer's definitions: preparing is what ``c / W`` adds to the step, fetching
what ``(c + r) / W`` and ``r`` add to that, and cores what ``c / k`` adds. Without workers nothing overlaps.
Where Seneca prepares pictures, files are read ahead: fetching is then what ``r`` alone adds.
For Seneca's own pictures the CPU of a batch is not planted. It is measured before and after each setting,
with one worker, files in memory and no step. The time in which the loop takes batches that are ready counts
as the step's: nothing plants it, and no stall causes it. A setting is right if the bottleneck that is named
is the planted one. ``off`` is the largest difference of a share from the planted one, in points. Two ranks
wait for each other after each step, and one is slow: is it the one that is named?

For the cost, the script runs in turns with ``seneca analyze`` and without, and times its own epochs. A sample
takes half a millisecond of CPU. Therefore the script gets up to 2,000 samples/s without workers, and no step
hides what the hooks cost. Beside that, the hooks are called 100,000 times around nothing. Of quick batches
the hooks measure some, and let the others pass. The CPU that both kinds of calls take, as often as they come,
is given as a share of the time of a batch at 2,000 samples/s. ``twice without`` compares two runs without the
command: a cost of time that is smaller than their difference cannot be distinguished from it. With two
workers on two cores, the time depends on how the kernel divides the cores. The CPU time of the script and its
workers (``CPU``) hardly does. Run it on a quiet machine: a core that something else takes is a stall that was
not planted. What was disturbed is measured again (quiet.py).

    python -m bench.bench_analyze
    python -m bench.bench_analyze --only-cost
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).parent))

import report
import slow_reads
from links import make_links
from quiet import least_disturbed

from seneca.cli.analyze.inject import seneca_analyze_hooks as hooks
from seneca.testing import make_pictures

SCRIPT = Path(__file__).parent / "planted_stalls.py"
NAMES = ("compute", "fetch", "prep", "cores")
NO_MATTER = 0.05  # as the command: a smaller wait is none
BATCH = 8
FILES = 64
PER_S = 2000  # samples, of the script whose cost is measured
FILE_BYTES = 110_000  # ImageNet's mean


@dataclass(frozen=True)
class Setting:
    """What is planted.

    Args:
        loader: As the script names it.
        storage: Megabytes a second; 0: as fast as memory.
        cpu: Milliseconds of a sample.
        step: Milliseconds of a step.
        workers: Of the loader.
    """

    loader: str
    storage: float
    cpu: float
    step: float
    workers: int

    def shares(self, cores: float, a_sample: float = FILE_BYTES) -> dict[str, float]:
        """The planted shares of the time, if a sample reads so many bytes."""
        cpu = self.cpu * BATCH
        read = a_sample * BATCH / self.storage / 1e3 if self.storage else 0.0
        if self.workers == 0:
            whole = cpu + read + self.step
            parts = {"fetch": read, "prep": cpu, "cores": 0.0}
        else:
            prepared = max(self.step, cpu / self.workers)
            alone = cpu if self.loader == "pictures" else cpu + read  # others read ahead for Seneca's threads
            fetched = max(prepared, read, alone / self.workers)
            whole = max(fetched, cpu / cores)
            parts = {"fetch": fetched - prepared, "prep": prepared - self.step, "cores": whole - fetched}
        return {
            "compute": 1 - sum(parts.values()) / whole,
            **{name: part / whole for name, part in parts.items()},
        }


@dataclass(frozen=True)
class Cost:
    """What the command adds to an epoch, as shares. One value a round.

    Args:
        per_s: Samples/s without the command.
        times: It adds to the time of the epoch.
        again: A second epoch without the command adds to the time of the first.
        cpus: The command adds to the CPU time of the script and its workers.
    """

    per_s: float
    times: list[float]
    again: list[float]
    cpus: list[float]


def bottleneck(shares: dict[str, float]) -> str:
    """The planted bottleneck."""
    return max(NAMES[1:], key=shares.__getitem__) if shares["compute"] < 1 - NO_MATTER else "compute"


OF_TORCH = tuple(
    Setting("torch", *one)
    for one in (
        # MB/s, cpu, step, workers: limited by storage, by preparing, by both, by cores, by the step
        (20, 2, 20, 0), (40, 5, 50, 0), (20, 2, 20, 1), (40, 2, 20, 1),
        (80, 2, 20, 1), (0, 5, 20, 1), (0, 10, 20, 1), (20, 10, 50, 1),
        (20, 2, 20, 2), (40, 5, 20, 2), (80, 10, 20, 2), (20, 2, 20, 4),
        (0, 10, 20, 4), (40, 2, 200, 1), (80, 5, 200, 2), (20, 2, 50, 4),
    )
)  # fmt: skip
OF_SENECA = tuple(
    Setting("seneca", *one) for one in ((20, 2, 20, 0), (40, 2, 20, 1), (80, 10, 20, 2), (40, 2, 200, 1))
)
# Reading takes 36, 18 or no ms a batch, and no step is about as long. Pictures are of different sizes: such a
# step would wait for some batches and not for others, while the model above knows the mean alone.
OF_PICTURES = tuple(
    Setting("pictures", storage, 0, step, workers)
    for storage, step, workers in ((20, 20, 1), (40, 10, 1), (40, 50, 1), (20, 20, 2), (0, 4, 1), (0, 200, 1))
)


class Bench:
    """The folders that the scripts read, and the storage that holds them back."""

    def __init__(self, place: Path, steps: int) -> None:
        self.place, self.steps = place, steps
        self.files = place / "files"
        self.files.mkdir()
        for number in range(FILES):
            (self.files / f"{number:02d}").write_bytes(os.urandom(FILE_BYTES))
        made = make_pictures(place / "pictures", count=256)
        self.pictures = place / "linked"
        make_links(made, self.pictures, steps * BATCH)
        sizes = [path.stat().st_size for path in self.pictures.rglob("*.jpg")]
        self.picture_bytes = statistics.fmean(sizes)

    def line(self, setting: Setting) -> list[str]:
        """The script for a setting."""
        folder = self.pictures if setting.loader == "pictures" else self.files
        return [
            *(sys.executable, str(SCRIPT), f"--loader={setting.loader}", f"--folder={folder}"),
            *(f"--cpu={setting.cpu * BATCH}", f"--step={setting.step}", f"--workers={setting.workers}"),
            *(f"--batch={BATCH}", f"--steps={self.steps}"),
        ]

    def run(self, line: list[str], storage: float = 0.0) -> str:
        """What a command prints, with its reads held back to so many megabytes a second."""
        slow = slow_reads.environment(self.place, self.place, int(storage * 1e6)) if storage else {}
        ended = subprocess.run(line, capture_output=True, text=True, env={**os.environ, **slow})
        if ended.returncode:
            raise RuntimeError(f"{' '.join(line)}: status {ended.returncode}\n{ended.stderr}")
        return ended.stdout

    def found(self, line: list[str], storage: float = 0.0) -> dict:
        """What ``seneca analyze`` finds."""
        to = self.place / "found.json"
        self.run([sys.executable, "-m", "seneca.cli", "analyze", f"--json={to}", *line], storage)
        return json.loads(to.read_text())

    def cpu_of_pictures(self) -> float:
        """Milliseconds that Seneca's own pipeline takes for a picture."""
        seconds = float(self.run(self.line(Setting("pictures", 0, 0, 0, 1))).split()[0])
        return 1e3 * seconds / (self.steps - 1) / BATCH

    def slow_rank(self) -> tuple[dict, int]:
        """What it finds of two ranks of which rank 1 waits ten times as long; and that rank."""
        runner = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
        arguments = ["--sleep=60", "--step=5", "--workers=1", f"--steps={self.steps}", "--slow-rank=1"]
        return self.found([*runner, str(SCRIPT), *arguments]), 1

    def cost(self, batch: int, workers: int, rounds: int) -> Cost:
        """Measure epochs under the command, and before and after each of them epochs without it."""
        samples = max(80 * self.steps, 8 * batch)
        own = [sys.executable, str(SCRIPT), f"--steps={samples // batch}", f"--batch={batch}"]
        own += [f"--cpu={1e3 * batch / PER_S}", f"--workers={workers}"]
        under = [sys.executable, "-m", "seneca.cli", "analyze", *own]
        took = [
            [[float(word) for word in self.run(line).split()[:2]] for line in (own, under, own)]
            for _ in range(rounds)
        ]
        alone = [epoch[0] for before, _, after in took for epoch in (before, after)]
        times, cpus = (
            [under[i] / ((before[i] + after[i]) / 2) - 1 for before, under, after in took] for i in (0, 1)
        )
        again = [after[0] / before[0] - 1 for before, _, after in took]
        return Cost((samples - batch) / statistics.median(alone), times, again, cpus)


def cost_of_calls(apart_s: float, calls: int = 100_000) -> dict[str, float]:
    """Microseconds of CPU that the hook of a step takes, and that of a batch: the least of five rounds.

    Args:
        apart_s: As the hooks have it: 0: all calls are measured; infinite: nearly none.
        calls: Of each hook in each round.
    """
    import torch  # noqa: F401  # the hook of a step asks whether it uses a GPU

    class Nothing:
        """In place of an iterator of torch, and of what makes its batches."""

        _dataset: tuple[()] = ()

    def nothing(*_: object) -> None:
        pass

    def took(function: Callable[..., None], *arguments: object) -> float:
        began = time.thread_time()
        for _ in range(calls):
            function(*arguments)
        return 1e6 * (time.thread_time() - began) / calls

    one, indices = Nothing(), [0]
    with mock.patch.object(hooks, "APART_S", apart_s), tempfile.TemporaryDirectory() as folder:
        made = hooks.Hooks(hooks.Trace(folder))
        step, fetch = made.timed_next(nothing), made.timed_fetch(nothing)
        rounds = [
            (took(step, one) - took(nothing, one), took(fetch, one, indices) - took(nothing, one, indices))
            for _ in range(5)
        ]
    return dict(zip(("step", "batch"), map(min, zip(*rounds, strict=True)), strict=True))


def print_cost(bench: Bench, rounds: int) -> None:
    """Measure what the hooks cost, and print it."""
    all_measured, passed = cost_of_calls(0.0), cost_of_calls(math.inf)
    lines = []
    for batch in (1, 32, 256):
        for workers in (0, 2):
            cost = bench.cost(batch, workers, rounds)
            often = min(1.0, batch / PER_S / hooks.APART_S)  # how many of the batches are measured
            both = often * sum(all_measured.values()) + (1 - often) * sum(passed.values())
            lines.append(
                [
                    *(f"{batch}", f"{workers}", f"{cost.per_s:,.0f}"),
                    *(f"{statistics.median(of):+.2%}" for of in (cost.times, cost.cpus)),
                    *(f"{min(of):+.1%} to {max(of):+.1%}" for of in (cost.times, cost.again, cost.cpus)),
                    f"{both * PER_S / batch / 1e6:.2%}",
                ]
            )
    print(
        f"CPU of the hooks: {all_measured['step']:.1f} us a step and {all_measured['batch']:.1f} us a batch; "
        f"{passed['step']:.1f} and {passed['batch']:.1f} us for quick ones that pass\n"
        f"share: of the time of a batch at {PER_S:,} samples/s"
    )
    head = ["batch", "W", "samples/s", "time", "CPU", "times", "twice without", "CPUs", "share"]
    report.print_table("what an epoch takes more under the command", head, lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--steps", type=int, default=100, help="steps of each setting")
    parser.add_argument(
        "--rounds", type=int, default=5, help="rounds of the measurement of the cost; 0: none"
    )
    parser.add_argument("--only-cost", action="store_true", help="measure the cost alone")
    parser.add_argument("--json", type=Path, help="also write what was found to this file")
    options = parser.parse_args()
    print(report.machine(("torch",)))
    if options.only_cost:
        with tempfile.TemporaryDirectory() as folder:
            print_cost(Bench(Path(folder), options.steps), options.rounds)
        return
    cores = len(os.sched_getaffinity(0))
    lines, all_found, right, worst = [], [], 0, []
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), options.steps)
        print(f"a picture has {bench.picture_bytes:,.0f} bytes")
        for setting in (*OF_TORCH, *OF_SENECA, *OF_PICTURES):
            of_pictures = setting.loader == "pictures"
            before = bench.cpu_of_pictures() if of_pictures else setting.cpu
            answer, others = least_disturbed(lambda one=setting: bench.found(bench.line(one), one.storage))
            after = bench.cpu_of_pictures() if of_pictures else setting.cpu
            setting = replace(setting, cpu=(before + after) / 2)
            a_sample = bench.picture_bytes if of_pictures else FILE_BYTES
            planted = setting.shares(cores, a_sample)
            found = answer["shares"]
            found["compute"] += found.pop("handover")  # the loop's own work too; nobody plants it
            off = 100 * max(abs(found[name] - planted[name]) for name in NAMES)
            is_right = answer["bottleneck"] == bottleneck(planted)
            right += is_right
            worst.append(off)
            all_found.append({"setting": vars(setting), "planted": planted, "found": found})
            lines.append(
                [
                    setting.loader,
                    "-" if not setting.storage else f"{setting.storage:g}",
                    *(f"{value:g}" for value in (round(setting.cpu, 2), setting.step, setting.workers)),
                    *(f"{planted[name]:.0%} {found[name]:.0%}" for name in NAMES),
                    f"{off:.1f}",
                    f"{others:.1%}",
                    answer["bottleneck"] + ("" if is_right else " WRONG"),
                ]
            )
        ranks, slow = bench.slow_rank()
        if options.rounds:
            print_cost(bench, options.rounds)
    head = ["loader", "MB/s", "cpu ms", "step ms", "W", *NAMES, "off", "others", "bottleneck"]
    report.print_table("planted and found shares of the time", head, lines)
    within = sum(off <= 5 for off in worst)
    print(
        f"bottleneck right in {right} of {len(lines)}; all shares within 5 points in {within}; "
        f"at most {max(worst):.1f} off"
    )
    late = ", ".join(f"rank {rank} late in {share:.0%}" for rank, share in ranks["late_ranks"].items())
    print(f"two ranks, rank {slow} is slow: {late} of the steps; {ranks['sentence']}")
    if options.json is not None:
        options.json.write_text(json.dumps(all_found, indent=2) + "\n")


if __name__ == "__main__":
    main()
