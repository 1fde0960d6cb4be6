"""How long does a sweep take, in which job follows job and two run at a time?

Question. A search over hyperparameters starts job after job on the same pictures. Two train at once, and
whenever one has ended, the next starts. When is the last one done, with a cache that goes with its last job,
with one that is kept for some time (``keep="10min"``), and with torch's DataLoader?

Method. Every job is a process of its own that makes a loader, iterates a number of epochs, and ends. Its
pictures, crops and workers are those of bench_jobs.py. The training step is empty, therefore the loaders are
the limit. The makespan is the time from the start of the first job to the end of the last, imports included.
``cold`` is the first job of a row, ``warm`` the mean of the last half of its jobs. Seneca's cache has room
for all decoded pictures. Read ratios to torch's makespan in the same run.

    python -m bench.bench_sweep --data train/
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import report
from bench_jobs import left_behind, pictures
from job_loaders import Setup, missing, open_torch, seneca_loader
from jobs import JobFailed, Voice, started
from links import linked

LOADERS = ("kept", "seneca", "torch")


def job(voice: Voice, number: int, loader: str, setup: Setup, cache_bytes: str, epochs: int) -> dict:
    """One job of the sweep: all its epochs. Returns how many samples it was given."""
    if loader == "torch":
        batches, samples = open_torch(setup, number).batches, 0
        while samples < epochs * setup.samples:
            samples += len(next(batches)[0])
        return {"samples": samples}
    keep = "10min" if loader == "kept" else None
    batches = seneca_loader(setup, cache_bytes=cache_bytes, split="auto", keep=keep)
    return {"samples": sum(len(images) for _ in range(epochs) for images, _ in batches)}


def sweep(loader: str, setup: Setup, options: argparse.Namespace) -> dict[str, Any]:
    """All jobs of one loader, ``options.at_once`` at a time: makespan and each job's seconds."""

    def run(_: int) -> float:
        began = time.monotonic()
        with started([(job, (loader, setup, options.cache_bytes, options.epochs))]) as (one,):
            given = one.hear("done")["samples"]
        if given < options.epochs * setup.samples:
            raise JobFailed(f"a job was given {given} samples")
        return time.monotonic() - began

    began = time.monotonic()
    with ThreadPoolExecutor(options.at_once) as pool:
        each = list(pool.map(run, range(options.jobs)))
    return {"loader": loader, "makespan_s": time.monotonic() - began, "jobs_s": each}


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line, checked; a mistake in it ends the process with status 2."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder of class folders of pictures; made up if not given")
    parser.add_argument("--jobs", type=int, default=12, help="jobs of the sweep")
    parser.add_argument("--at-once", type=int, default=2, help="jobs that train at a time")
    parser.add_argument("--epochs", type=int, default=2, help="epochs of each job")
    parser.add_argument("--links", type=int, default=4000, help="samples of an epoch")
    parser.add_argument("--cache-bytes", default="3GiB", help="memory of Seneca's cache")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--workers", type=int, default=2, help="threads or processes of each job")
    parser.add_argument("--loaders", default=",".join(LOADERS))
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    options = parser.parse_args(arguments)
    if min(options.jobs, options.at_once, options.epochs, options.links, options.batch) < 1:
        parser.error("--jobs, --at-once, --epochs, --links and --batch must be at least 1")
    options.loaders = options.loaders.split(",")
    for name in options.loaders:
        if name not in LOADERS:
            parser.error(f"no loader {name}; there are {', '.join(LOADERS)}")
    return options


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and return the exit status: 1 when a job failed."""
    options = parse(arguments)
    print(report.machine(["seneca-loader", "torch", "torchvision"]))
    if "torch" in options.loaders and (need := missing("torch")) is not None:
        print(f"torch is left out: it needs {need}")
        options.loaders.remove("torch")
    cache = f"bench-{os.getpid()}"
    rows = []
    try:
        with pictures(options.data) as data, linked(data, options.links) as (folder, samples):
            setup = Setup(folder, samples, options.batch, options.workers, cache)
            for loader in options.loaders:
                rows.append(sweep(loader, setup, options))
                left_behind(cache)
                print(f"  {loader}: {rows[-1]['makespan_s']:.1f} s", flush=True)
    except (JobFailed, FileNotFoundError) as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        left_behind(cache)
    torch_s = next((row["makespan_s"] for row in rows if row["loader"] == "torch"), None)
    lines = [
        [
            row["loader"],
            f"{row['makespan_s']:.1f} s",
            "" if torch_s is None else f"{row['makespan_s'] / torch_s:.2f}",
            f"{row['jobs_s'][0]:.1f} s",
            f"{statistics.mean(row['jobs_s'][len(row['jobs_s']) // 2 :]):.1f} s",
        ]
        for row in rows
    ]
    title = f"{options.jobs} jobs, {options.at_once} at a time, {options.epochs} epochs of {options.links}"
    report.print_table(title, ["loader", "makespan", "of torch's", "cold", "warm"], lines)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
