"""Do the cores get what they can do, whatever storage and the other jobs do?

Question. Storage that takes 20 ms to answer, as a network does, leaves a thread idle that reads for itself.
How much of the rate of local files does a job reach? And does ``num_workers="auto"`` find the numbers of
workers that a search would find, for jobs of different needs?

Method, ``late``. One job trains on photographs, without a step: the loader is the limit. Nothing is kept,
therefore each sample is read. Rows differ in the loader, and columns in the storage: the page cache, or the
same files with answers that are held back (``slow_reads.py``). All have as many workers as there are cores.
Rounds go over all of them in turn, and medians are shown. Read the ratio to the same loader's local files in
the same run.

Method, ``mixes``. Jobs run at once (``core_mixes.py``). First each runs alone, and a search tries all
combinations of fixed numbers, once each. Then the best of these, the usual cores / jobs, and "auto" take
turns, and medians are shown. ``speedup`` is the weighted speedup: the sum of each job's rate divided by its
rate alone. The mix with a quota needs a control group, which root may make.

Method, ``steady``. How often do the numbers of "auto" change in a minute, where steps differ by 30 %? How
long does a job take to get the cores of one that is stopped, or killed, and what is the longest time that it
waits for a batch meanwhile?

Method, ``ranks``. Two ranks wait for each other after each step (gloo). The samples of one need ten times as
much CPU as those of the other. How many of its steps wait for their batch, with one worker for each rank, and
with "auto"?

Method, ``many``. 96 cores, four light jobs that need three cores each and four heavy ones that need 24, as a
calculation: a core is divided equally between the threads that are ready to run. What pace does the worst job
reach with "auto", and with cores / jobs?

    python -m bench.bench_cores --data train/ --only late,mixes
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import report
import slow_reads
from core_mixes import JOB, MIXES, START_S, Bench
from links import linked

from seneca.partition.cores import Need, Threads, shares

WARM_S = 3.0  # what a job takes until it is at its pace
ANY_RATE = 10**12  # bytes/s: answers are late, and as many at a time as are asked for
LOADERS = {"seneca": ["--seneca", json.dumps({"cache": None})], "torch": []}
PARTS = ("late", "mixes", "steady", "ranks", "many")
MANY_CORES, MANY_NEEDS = 96, [3.0] * 4 + [24.0] * 4


def rate(folder: Path, loader: str, seconds: float, environment: dict[str, str]) -> float:
    """Samples/s that a job gets."""
    begin = time.monotonic() + START_S + WARM_S
    line = [
        *(sys.executable, str(JOB), "--dataset=pictures", f"--folder={folder}", f"--loader={loader}"),
        *(f"--workers={os.cpu_count()}", "--batch=32", f"--begin={begin}", f"--end={begin + seconds}"),
        *LOADERS[loader],
    ]
    ended = subprocess.run(line, capture_output=True, text=True, env={**os.environ, **environment})
    if ended.returncode:
        raise RuntimeError(f"{' '.join(line)}: status {ended.returncode}\n{ended.stderr}")
    return float(ended.stdout)


def print_late(folder: Path, late: dict[str, str], options: argparse.Namespace) -> Any:
    """Measure ``late``, and print it."""
    found: dict[str, dict[str, list[float]]] = {name: {"local": [], "late": []} for name in LOADERS}
    for _ in range(options.rounds):
        for name in LOADERS:
            for storage, environment in (("local", {}), ("late", late)):
                found[name][storage].append(rate(folder, name, options.seconds, environment))
    lines = []
    for name, of_storage in found.items():
        local, held = (statistics.median(rates) for rates in of_storage.values())
        lines.append([name, f"{local:,.0f}", f"{held:,.0f}", f"{held / local:.2f}"])
    head = ["loader", "local files", f"answers after {options.answer_ms:g} ms", "ratio"]
    report.print_table("samples/s of one job", head, lines)
    return found


def print_mixes(bench: Bench, rounds: int) -> Any:
    """Measure ``mixes``, and print them."""
    lines, all_found = [], []
    for mix in MIXES:
        try:
            found: Any = bench.compare(mix, rounds)
        except OSError as error:
            print(f"{mix.what}: left out: {error}")
            continue
        all_found.append(found)
        rates = {way: " ".join(f"{rate:,.0f}" for rate in found["rates"][way]) for way in found["rates"]}
        speedups = found["speedup"]
        best = " ".join(map(str, found["best"]))
        lines.append(
            [
                *(mix.what, best, rates["best"], rates["equal"], rates["auto"]),
                f"{speedups['auto'] / speedups['best']:.2f}",
                f"{speedups['auto'] / speedups['equal']:.2f}",
            ]
        )
    head = ["mix", "best W", "samples/s", "cores/jobs", "auto", "auto/best", "auto/equal"]
    report.print_table("samples/s of each job, and ratios of weighted speedups", head, lines)
    return all_found


def print_steady(bench: Bench) -> Any:
    """Measure ``steady``, and print it."""
    jitter = next(mix for mix in MIXES if mix.what == "jitter")
    changes = bench.steady(jitter, 60.0)
    print(
        f"steps that differ by 30 %: {' and '.join(map(str, changes))} changes of the jobs' workers in 60 s"
    )
    found = {"changes": changes}
    for name in ("SIGSTOP", "SIGKILL"):
        seconds, longest = bench.disturbed(getattr(signal, name))
        print(f"{name}: the other job has its cores after {seconds:.1f} s; it waited {longest:.2f} s at most")
        found[name] = [seconds, longest]
    return found


def print_ranks(rounds: int) -> Any:
    """Measure ``ranks``, and print it."""
    found: dict[str, list[float]] = {"1": [], "auto": []}
    script = Path(__file__).parent / "planted_stalls.py"
    runner = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    planted = ["--loader=seneca", "--cpu=64", "--step=44", "--batch=8", "--steps=500", "--slow-rank=1"]
    for _ in range(rounds):
        for workers, late in found.items():
            line = [*runner, str(script), *planted, f"--workers={workers}", "--count-late"]
            printed = subprocess.run(line, capture_output=True, text=True, check=True).stdout
            ranks = {one["rank"]: one["late"] for one in map(json.loads, printed.splitlines())}
            late.append(ranks[1])
    medians = {workers: statistics.median(late) for workers, late in found.items()}
    print(
        f"late steps of the rank that needs more: {medians['1']:.0%} with one worker for each rank, "
        f"{medians['auto']:.0%} with auto"
    )
    return found


def paces(threads: list[float]) -> list[float]:
    """The paces of jobs with so many threads each, as parts of what they need.

    Those that need fewer cores than an equal part for each of their threads have what they need. The others
    share the rest.
    """
    got: dict[int, float] = {}
    while len(got) < len(threads):
        rest = [job for job in range(len(threads)) if job not in got]
        left = MANY_CORES - sum(got.values())
        each = min(1.0, left / sum(threads[job] for job in rest))
        content = [job for job in rest if MANY_NEEDS[job] <= threads[job] * each]
        for job in content or rest:
            got[job] = min(MANY_NEEDS[job], threads[job] * each)
    return [got[job] / need for job, need in enumerate(MANY_NEEDS)]


def print_many() -> Any:
    """Calculate ``many``, and print it."""
    needs = [Need(cores, 0.0) for cores in MANY_NEEDS]
    given, equal = shares(needs, MANY_CORES), MANY_CORES // len(needs)
    jobs = [Threads(equal, MANY_CORES) for _ in needs]
    for _ in range(10):
        numbers = [float(job.follow(share, full=True)) for job, share in zip(jobs, given, strict=True)]
    worst = {"cores/jobs": min(paces([float(equal)] * len(needs))), "auto": min(paces(numbers))}
    print(", ".join(f"{way}: the worst of 8 jobs has {pace:.2f} of its pace" for way, pace in worst.items()))
    return worst


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="class folders of pictures")
    parser.add_argument("--only", default=",".join(PARTS), help=f"of {', '.join(PARTS)}")
    parser.add_argument("--seconds", type=float, default=6.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--answer-ms", type=float, default=20.0, help="what storage takes to answer")
    parser.add_argument("--links", type=int, default=20_000, help="samples of an epoch")
    parser.add_argument("--json", type=Path, help="also write what was found to this file")
    options = parser.parse_args()
    parts = options.only.split(",")
    print(report.machine(("torch",)))
    found: dict[str, Any] = {}
    with linked(options.data, options.links) as (folder, _), tempfile.TemporaryDirectory() as place:
        late = slow_reads.environment(
            Path(place), options.data, ANY_RATE, answer_us=round(1e3 * options.answer_ms)
        )
        bench = Bench(folder, late, options.seconds)
        if "late" in parts:
            found["late"] = print_late(folder, late, options)
        if "mixes" in parts:
            found["mixes"] = print_mixes(bench, options.rounds)
        if "steady" in parts:
            found["steady"] = print_steady(bench)
        if "ranks" in parts:
            found["ranks"] = print_ranks(options.rounds)
        if "many" in parts:
            found["many"] = print_many()
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
