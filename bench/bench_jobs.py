"""How many samples a second do the training jobs of one host get, all together?

Question. Several jobs train on one folder of pictures. Does the loader that shares one preparation
among them deliver more than loaders that prepare for each job alone, and does one job lose by it?

Method. Every job is a process of its own with a loader of its own: same pictures, same output
(float32 3 x 224 x 224, random crop, flip, normalised), same number of workers. It opens its loader,
takes batches for a moment, and waits for the others. Then all run; after ``--warm`` seconds, in
which what had piled up while waiting is used up, each counts what it is given for ``--seconds``,
from one batch to another, epochs rolling over. The number of a row is the sum over the jobs. The
training step is empty, so the loaders are the limit. The CPU time that a sample costs stands beside
it, and moves less than samples/s when something else runs on the machine. With ``--links N`` the
folder is N links to the pictures, so epochs are long and files come from the page cache. Times differ
from host to host and hour to hour: read the ratio to torch's DataLoader in the same run, with as many
jobs. The loader ``seneca-bytes`` makes uint8 batches, which a GPU normalises: beside ``seneca`` it shows what
that saves the CPU.

    python bench/bench_jobs.py --data train/ --jobs 1,2,4 --seconds 15 --loaders seneca,torch,dali
    python bench/bench_jobs.py --data train/ --jobs 4 --loaders seneca,seneca-bytes --repeat 3
    python bench/bench_jobs.py --data train/ --check-sharing
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import report
from job_loaders import LOADERS, SIZE, Opened, Setup, missing
from jobs import JobFailed, Voice, together
from links import linked

SHM = Path("/dev/shm")


def measure(
    voice: Voice,
    number: int,
    opener: Callable[[Setup, int], Opened],
    setup: Setup,
    warm_s: float,
    seconds: float,
) -> dict:
    """One job: open, warm up, wait, run, and count batches for ``seconds``.

    Returns:
        ``samples``, ``elapsed_s`` and ``cpu_s`` between the first and the last batch of the window,
        and the loader's own ``stats`` over the whole run (empty but for seneca).

    Raises:
        TypeError: the loader gives something else than float32 pictures (uint8 ones of ``seneca-bytes``) of
            224 x 224, channels first or last.
    """
    # torch.set_num_threads is left alone: with 1, DALI's own threads run at a third of their speed.
    opened = opener(setup, number)
    images, _ = next(opened.batches)
    shape = tuple(images.shape[1:])
    if opened.dtype not in str(images.dtype) or shape not in {(3, SIZE, SIZE), (SIZE, SIZE, 3)}:
        raise TypeError(f"the loader gave {images.dtype} {shape}")
    next(opened.batches)
    voice.say("ready")
    voice.wait()

    go = time.monotonic()
    while time.monotonic() - go < warm_s:
        next(opened.batches)
    samples, start = 0, time.monotonic()
    now, cpu = start, cpu_s()
    while now - start < seconds:
        images, _ = next(opened.batches)
        samples += len(images)
        now = time.monotonic()
    cpu = cpu_s() - cpu
    return {"samples": samples, "elapsed_s": now - start, "cpu_s": cpu, "stats": opened.stats()}


def cpu_s() -> float:
    """CPU seconds that this job has used, its worker processes included."""
    ticks = 0
    for worker in multiprocessing.active_children():
        for line in report.lines_of(Path(f"/proc/{worker.pid}/stat")):
            ticks += sum(int(field) for field in line.rpartition(")")[2].split()[11:13])
    return time.process_time() + (ticks / os.sysconf("SC_CLK_TCK") if ticks else 0.0)


def row_of(loader: str, results: list[dict]) -> dict[str, Any]:
    """The row of one measurement from what its jobs counted."""
    row: dict[str, Any] = {
        "loader": loader,
        "jobs": len(results),
        "per_s": round(sum(result["samples"] / result["elapsed_s"] for result in results), 1),
        "cpu_ms": round(
            1000 * sum(result["cpu_s"] for result in results) / sum(result["samples"] for result in results),
            3,
        ),
    }
    delivered = sum(result["stats"].get("delivered", 0) for result in results)
    if delivered:
        prepared = sum(result["stats"]["prepared"] for result in results)
        row["prepared_per_delivered"] = round(prepared / delivered, 3)
    return row


def with_ratios(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows, each with ``vs_torch``: its samples/s over torch's for as many jobs (None without)."""
    torch_per_s = {row["jobs"]: row["per_s"] for row in rows if row["loader"] == "torch"}
    return [
        {**row, "vs_torch": round(row["per_s"] / base, 2) if (base := torch_per_s.get(row["jobs"])) else None}
        for row in rows
    ]


def best_of(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The fastest row of each loader and number of jobs, in order of first appearance."""
    best: dict[tuple[str, int], dict[str, Any]] = {}
    for row in rows:
        key = (row["loader"], row["jobs"])
        if key not in best or row["per_s"] > best[key]["per_s"]:
            best[key] = row
    return list(best.values())


def machine(loaders: list[str]) -> str:
    """One line about the machine and the versions measured."""
    names = {
        "seneca": ["seneca-loader"],
        "seneca-bytes": [],
        "torch": ["torchvision"],
        "dali": ["nvidia-dali-cuda120"],
    }
    return report.machine(
        ["torch", "pillow-simd", "pillow", *(name for loader in loaders for name in names[loader])]
    )


def show(rows: list[dict[str, Any]], title: str) -> None:
    """Print the rows as a table."""
    head = ["loader", "jobs", "samples/s", "vs torch", "CPU ms/sample", "prepared/delivered"]
    lines = [
        [
            row["loader"],
            str(row["jobs"]),
            f"{row['per_s']:,.0f}",
            "" if row["vs_torch"] is None else f"{row['vs_torch']:.2f} x",
            f"{row['cpu_ms']:.2f}",
            f"{row['prepared_per_delivered']:.2f}" if "prepared_per_delivered" in row else "",
        ]
        for row in rows
    ]
    report.print_table(title, head, lines)


@contextmanager
def pictures(data: Path | None) -> Iterator[Path]:
    """``data``, or a temporary folder of made-up pictures where there is none."""
    if data is not None:
        yield data
        return
    from seneca.testing import make_pictures

    with tempfile.TemporaryDirectory(prefix="seneca-bench-pictures-") as folder:
        yield make_pictures(folder, count=600)


def left_behind(cache: str) -> list[str]:
    """Remove the segments that the jobs have left under ``cache``, and name them: there should be none."""
    left = sorted(SHM.glob(f"seneca-*-{cache}"))
    for path in left:
        path.unlink()
    return [str(path) for path in left]


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line, checked; a mistake in it ends the process with status 2."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder of class folders of pictures; made up if not given")
    parser.add_argument("--jobs", default="1,2,4", help="numbers of jobs to measure")
    parser.add_argument("--seconds", type=float, default=15.0, help="length of the window that counts")
    parser.add_argument("--warm", type=float, default=5.0, help="seconds all run before it")
    parser.add_argument("--links", type=int, default=10_000, help="samples as links; 0: the folder itself")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--workers", type=int, default=2, help="worker threads or processes a job")
    parser.add_argument("--loaders", default="seneca,torch,dali")
    parser.add_argument("--repeat", type=int, default=1, help="rounds; the best of each row is kept")
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    parser.add_argument("--check-sharing", action="store_true", help="count preparations instead of speed")
    parser.add_argument("--epochs", type=int, default=3, help="epochs a job of --check-sharing")
    options = parser.parse_args(arguments)
    try:
        options.jobs = [int(number) for number in options.jobs.split(",")]
    except ValueError:
        parser.error(f"--jobs takes numbers such as 1,2,4, not {options.jobs}")
    if min(options.jobs) < 1 or options.batch < 1 or options.repeat < 1 or options.epochs < 1:
        parser.error("--jobs, --batch, --repeat and --epochs must be at least 1")
    if options.links < 0 or options.workers < 0 or options.seconds <= 0 or options.warm < 0:
        parser.error("--links, --workers and --warm cannot be negative, nor --seconds 0")
    options.loaders = options.loaders.split(",")
    for name in options.loaders:
        if name not in LOADERS:
            parser.error(f"no loader {name}; there are {', '.join(LOADERS)}")
    if options.data is not None and not options.data.is_dir():
        parser.error(f"no such folder: {options.data}")
    return options


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and return the exit status: 1 when a job failed or something was left behind."""
    options = parse(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that all is cleaned up
    cache = f"bench-{os.getpid()}"
    try:
        with pictures(options.data) as data, linked(data, options.links) as (folder, samples):
            setup = Setup(folder, samples, options.batch, options.workers, cache)
            status = run(options, setup)
    except (JobFailed, FileNotFoundError) as error:
        print(error, file=sys.stderr)
        status = 1
    except KeyboardInterrupt:
        print("interrupted; all jobs have ended", file=sys.stderr)
        status = 130
    finally:
        left = left_behind(cache)
    if left:
        print(f"the jobs left this behind: {', '.join(left)}", file=sys.stderr)
    return status or (1 if left else 0)


def run(options: argparse.Namespace, setup: Setup) -> int:
    """Do what the options ask on the folder of ``setup``, and print it."""
    print(machine(options.loaders))
    if options.check_sharing:
        from sharing import check_sharing

        return check_sharing(setup, epochs=options.epochs, file=options.json)
    loaders = []
    for name in options.loaders:
        if (need := missing(name)) is None:
            loaders.append(name)
        else:
            print(f"{name} is left out: it needs {need}")
    if not loaders:
        print("none of these loaders is installed", file=sys.stderr)
        return 1
    rows = []
    for _ in range(options.repeat):
        for jobs in options.jobs:
            for name in loaders:
                results = together(jobs, measure, LOADERS[name], setup, options.warm, options.seconds)
                rows.append(row_of(name, results))
                print(f"  {name}, {jobs} jobs: {rows[-1]['per_s']:,.0f} samples/s", flush=True)
    rows = with_ratios(best_of(rows))
    title = f"{setup.samples} samples, batch {setup.batch}, {setup.workers} workers a job"
    show(rows, title + (f", best of {options.repeat}" if options.repeat > 1 else ""))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
