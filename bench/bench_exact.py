"""What does it cost jobs of one seed to get exactly what they would get alone?

Question. Jobs with ``share="exact"`` and the same seed wait for each other's copies. How often is a sample
prepared, when they start together and when they start a part of an epoch apart? How much of the rate of
``share="augmented"`` do they reach? How long does a job wait for a copy, if others are killed or stopped?

Method. All jobs are processes that train on the same pictures without a step: the loader is the limit.
Nothing is kept across epochs. *Together*: all are let go when the last is ready. *Apart*: each is let go
when the one before has been given a part of its first epoch, so that the last begins ``--apart`` of an
epoch after the first; and the cache has room for ``--stage`` of the dataset. That should be more than
what all jobs have in flight: batches of 8, three at a time, are 192 samples of eight jobs. Jobs in front
go slowly for those that come later. With ``--after first`` each is therefore let go when the first job
has been given another such part: it is ``--apart`` through its epoch when the last begins. Preparations
are summed over the jobs, and divided by samples x epochs. The rate of four jobs is that of their slowest,
in rounds that take turns with ``"augmented"``; the ratio of each round is taken, and medians are shown.
*Disturbed*: of four jobs one is stopped for a while again and again, and one is killed. An extra wait is
the time in which nothing of a batch was left but copies that others were to make. Each job has a checksum
of each epoch, and all have to be equal.

    python bench/bench_exact.py --data train/
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import secrets
import signal
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import report
from jobs import Job, JobFailed, Voice, started
from links import linked

STOP_S, PAUSE_S = 0.3, 0.2  # a job is stopped for so long, and then goes on for so long


def work(voice: Voice, number: int, folder: str, cache: str, setup: dict[str, Any]) -> dict[str, Any]:
    """One job: all epochs of its loader; says when it has been given each part after which another begins."""
    import torch

    import seneca
    from seneca import transforms as T

    normalize = T.Normalize(T.IMAGENET_MEAN, T.IMAGENET_STD)
    transform = T.Compose([T.RandomResizedCrop(setup["size"]), T.RandomHorizontalFlip(), normalize])
    loader = seneca.DataLoader(
        seneca.ImageFolder(folder, transform),
        setup["batch"],
        shuffle=True,
        num_workers=setup["threads"],
        generator=torch.Generator().manual_seed(7),
        cache=cache,
        cache_bytes=setup["cache_bytes"],
        split="0-0-100",
        share=setup["share"],
        verify_files="run",
    )
    loader.explain()  # its files are listed
    voice.say("ready", os.getpid())
    voice.wait()
    sums, delivered, begun = [], 0, 0
    starts = setup["first_starts"] if number == 0 else setup["others_start"]
    began = time.monotonic()
    for _ in range(setup["epochs"]):
        digest = hashlib.blake2b(digest_size=8)
        for images, labels in loader:
            digest.update(images.numpy().tobytes())
            digest.update(labels.numpy().tobytes())
            delivered += len(labels)
            while begun < starts and delivered >= (begun + 1) * setup["apart"] * len(loader.dataset):
                begun += 1
                voice.say("begun")
        sums.append(digest.hexdigest())
    return {**loader.stats(), "sums": sums, "per_s": delivered / (time.monotonic() - began), "cache": None}


def run(folder: Path, jobs: int, setup: dict[str, Any], disturb: bool = False) -> list[dict[str, Any]]:
    """What the jobs report that have come to their end."""
    cache = f"bench-exact-{secrets.token_hex(4)}"
    by_first = setup["apart"] and setup["after"] == "first"
    starts = {"first_starts": jobs if by_first else 1, "others_start": 0 if by_first else 1}
    with started([(work, (str(folder), cache, {**setup, **starts}))] * jobs) as processes:
        pids = [job.hear("ready") for job in processes]
        for job in processes:
            job.go()
            if setup["apart"]:
                (processes[0] if by_first else job).hear("begun")
        if not setup["apart"]:
            for job in processes:
                job.hear("begun")
        if disturb:
            _disturb(pids)
        return [end for end in map(_end_of, processes) if end is not None]


def _disturb(pids: list[int]) -> None:
    """Stop one of them again and again, until it ends; kill another amid that."""
    for turn in range(20):
        if turn == 5:
            os.kill(pids[1], signal.SIGKILL)
        for signal_, pause in ((signal.SIGSTOP, STOP_S), (signal.SIGCONT, PAUSE_S)):
            try:
                os.kill(pids[0], signal_)
            except ProcessLookupError:
                return
            time.sleep(pause)


def _end_of(job: Job) -> dict[str, Any] | None:
    try:
        return job.hear("done")
    except JobFailed:
        return None  # it was killed


def sums_of(ends: list[dict[str, Any]]) -> list[str]:
    """The checksums that all jobs have of their epochs.

    Raises:
        RuntimeError: Two jobs were given other batches.
    """
    if any(one["sums"] != ends[0]["sums"] for one in ends):
        raise RuntimeError(f"jobs of one seed got other batches: {[one['sums'] for one in ends]}")
    return ends[0]["sums"]


def preparations(ends: list[dict[str, Any]], samples: int, epochs: int) -> float:
    """How often a sample was prepared in an epoch, by all jobs together."""
    return sum(one["prepared"] for one in ends) / samples / epochs


def measure(folder: Path, samples: int, options: argparse.Namespace) -> dict[str, Any]:
    """All of it."""
    small = max(1, round(samples * options.stage * options.size**2 * 3 / 2**20))
    setup = {
        **{
            "size": options.size,
            "batch": options.batch,
            "threads": options.threads,
            "epochs": options.epochs,
        },
        **{"share": "exact", "apart": 0.0, "after": options.after, "cache_bytes": f"{options.cache_mib}MiB"},
    }
    alone = sums_of(run(folder, 1, setup))
    found: dict[str, Any] = {"preparations": [], "rates": [], "waits": []}
    for jobs in options.jobs:
        for apart, cache_bytes in ((0.0, setup["cache_bytes"]), (options.apart, f"{small}MiB")):
            each = apart / max(1, jobs - 1)
            ends = run(folder, jobs, {**setup, "apart": each, "cache_bytes": cache_bytes})
            equal = sums_of(ends) == alone
            found["preparations"].append({
                **{"jobs": jobs, "apart": apart, "per_sample": preparations(ends, samples, options.epochs)},
                **{"equal": equal, "in_vain": sum(one["in_vain"] for one in ends)},
                "longest_wait_s": max(one["longest_peer_wait_s"] for one in ends),
            })  # fmt: skip
    for _ in range(options.rounds):
        rates = {
            share: min(one["per_s"] for one in run(folder, 4, {**setup, "share": share}))
            for share in ("exact", "augmented")
        }
        found["rates"].append(rates)
    for _ in range(options.rounds):
        ends = run(folder, 4, setup, disturb=True)
        undisturbed = ends[1:]  # without the one that was stopped, which counts its own stops
        found["waits"].append({
            "equal": sums_of(ends) == alone,
            "longest_wait_s": max(one["longest_peer_wait_s"] for one in undisturbed),
        })  # fmt: skip
    return found


def show(found: dict[str, Any], options: argparse.Namespace) -> None:
    """Print what was measured."""
    lines = [
        [
            f"{row['jobs']}, within {100 * row['apart']:g} % of an epoch"
            if row["apart"]
            else f"{row['jobs']}, together",
            f"{row['per_sample']:.3f}",
            f"{row['in_vain']:,}",
            f"{1e3 * row['longest_wait_s']:.0f}",
            "yes" if row["equal"] else "NO",
        ]
        for row in found["preparations"]
    ]
    head = ["jobs", "preparations a sample and epoch", "in vain", "longest wait, ms", "as alone"]
    report.print_table(
        f"share='exact', a stage of {100 * options.stage:g} % where they are apart", head, lines
    )
    if not found["rates"]:
        return
    ratios = [round_["exact"] / round_["augmented"] for round_ in found["rates"]]
    rates = [
        f"{statistics.median(one[share] for one in found['rates']):,.0f}" for share in ("exact", "augmented")
    ]
    spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
    head = ["samples/s of each of four", "exact", "augmented", "ratio", "of the rounds"]
    report.print_table("rate", head, [["", *rates, f"{statistics.median(ratios):.2f}", spread]])
    longest = max(row["longest_wait_s"] for row in found["waits"])
    equal = all(row["equal"] for row in found["waits"])
    print(
        f"one of four jobs stopped again and again, one killed: longest extra wait of the others "
        f"{1e3 * longest:.0f} ms; batches as alone: {'yes' if equal else 'NO'}"
    )


def main(arguments: list[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="class folders of pictures")
    parser.add_argument("--jobs", type=int, nargs="*", default=[2, 4, 8], help="none: only rate and waits")
    parser.add_argument(
        "--samples", type=int, default=20_000, help="of an epoch, which are links to the pictures"
    )
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--size", type=int, default=64, help="of a picture, in pixels a side")
    parser.add_argument("--threads", type=int, default=1, help="of each job")
    parser.add_argument(
        "--apart", type=float, default=0.1, help="of an epoch, from the first job to the last"
    )
    parser.add_argument("--stage", type=float, default=0.02, help="of the dataset, where jobs are apart")
    parser.add_argument("--cache-mib", type=int, default=256, help="where they start together")
    parser.add_argument(
        "--after", choices=["previous", "first"], default="previous", help="which job lets the next one go"
    )
    parser.add_argument("--rounds", type=int, default=3, help="of rate and waits; 0: only preparations")
    parser.add_argument("--json", type=Path, help="also write what was found to this file")
    options = parser.parse_args(arguments)
    print(report.machine(("torch",)))
    with linked(options.data, options.samples) as (folder, samples):
        found = measure(folder, samples, options)
    show(found, options)
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
