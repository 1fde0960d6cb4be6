"""Is what seneca.partition predicts what the clock says?

Question. For splits of the cache, ratios of dataset to memory and numbers of jobs: how far are the models'
samples a second from those measured, and how much is lost by taking the split that the default model
chooses instead of the best that was measured?

Method. The host is profiled as `seneca profile` does. Then each setting runs in processes of its own: every
job goes through ``--warm`` epochs, in which the cache fills; before the last of them this process takes what
memory is free beyond ``--free``, as other programs would, so that not all files lie in the page cache. When
all have, they are counted for ``--seconds``. The models get the profile, the setting, and the memory that
the kernel says is free for files at that moment; nothing that was measured of the loader.

The best of several noisy measurements is too good, and regret would never be 0. So where a split measured
better than the chosen one, both are measured ``--again`` times more, in turn, and what counts is each one's
run in the middle; and so on, until none is better that was measured once.

Storage must be slow, or nothing but the CPU is compared. With root, a control group holds back the device
that the files lie on and limits memory. This whole program, with ``--free 60MB``, runs in it:

    systemd-run --scope -p "IOReadBandwidthMax=/dev/sdb 40M" -p MemoryMax=4G COMMAND

Without root ``--throttle 40MB`` lets every read of the files wait for a token bucket in the program itself
(slow_reads.py), which output and JSON say. Such storage has no page cache: each read is paid for, and the
models assume that no memory is free for files. What a disk does besides, it does not do: it answers at
once, and gives one reader as much as many.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib.util
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
for place in (str(ROOT / "bench"), str(ROOT)):
    if place not in sys.path:
        sys.path.insert(0, place)

import report  # noqa: E402
import slow_reads  # noqa: E402
from compiled import CompileError  # noqa: E402
from jobs import Voice, started  # noqa: E402

from seneca._core.pool import READS_AHEAD  # noqa: E402
from seneca._runtime.memory import free_memory  # noqa: E402
from seneca.options import parse_bytes  # noqa: E402
from seneca.partition import Jobs, Profile, Split, bottleneck, paper, solve  # noqa: E402

# Those of the paper's Figure 8, and some with RECODED, which the paper does not have.
SPLITS = (
    "100-0-0",
    "0-100-0",
    "0-0-100",
    "50-50-0",
    "50-0-50",
    "0-50-50",
    "0-100-0-0",
    "50-50-0-0",
    "0-50-50-0",
)
MODELS = {"bottleneck": bottleneck, "paper": paper}
PAPER_PEARSON = 0.90  # at least, over the splits of Figure 8


@dataclass(frozen=True)
class Setting:
    """What is measured once.

    Args:
        ratio: The files' bytes by those of the cache.
        jobs: That run at once.
        split: As it is written.
    """

    ratio: float
    jobs: int
    split: str


def with_cache(profile: Profile, ratio: float, free_bytes: int) -> Profile:
    """The profile with a cache of this ratio, and so much memory beside it that is free for files."""
    cache_bytes = int(profile.samples * profile.encoded.mean_bytes / ratio)
    return dataclasses.replace(profile, cache_bytes=cache_bytes, free_memory_bytes=cache_bytes + free_bytes)


def jobs_of(count: int, options: Any) -> Jobs:
    """The jobs of a setting as the models take them."""
    return Jobs(count, batch_size=options.batch, threads=options.threads, reads_ahead=READS_AHEAD)


def pictures(data: Path) -> Any:
    """The dataset; the folder lost+found of a mounted image is no class with pictures."""
    import seneca
    from seneca.tuning.profile import default_transform

    found = seneca.ImageFolder(data, default_transform(), allow_empty=True)
    if len(found) == 0:
        raise FileNotFoundError(f"no pictures in the class folders of {data}")
    return found


def train(voice: Voice, number: int, data: str, cache: dict[str, Any], options: Any) -> dict[str, Any]:
    """One job: fill the cache, wait for the others, and count for so many seconds."""
    import seneca

    loader = seneca.DataLoader(
        pictures(Path(data)),
        batch_size=options.batch,
        shuffle=True,
        num_workers=options.threads,
        persistent_workers=True,
        **cache,
    )
    for epoch in range(options.warm):
        if epoch == options.warm - 1:
            voice.say("filled")
            voice.wait()
        for _ in loader:
            pass
    before = loader.stats()
    voice.say("ready", free_memory())
    voice.wait()
    began, delivered = time.perf_counter(), 0
    while time.perf_counter() - began < options.seconds:
        for images, _ in loader:
            delivered += len(images)
            if time.perf_counter() - began >= options.seconds:
                break
    took = time.perf_counter() - began
    after = loader.stats()
    served = {form: after["served"][form] - before["served"][form] for form in after["served"]}
    return {"per_s": delivered / took, "served": served}


def measure(setting: Setting, profile: Profile, options: Any) -> dict[str, Any]:
    """Run one setting: what was measured, and what each model says."""
    cache = {
        "cache": f"bench-model-{os.getpid()}",
        "cache_bytes": with_cache(profile, setting.ratio, 0).cache_bytes,
        "split": setting.split,
    }
    with started([(train, (str(options.data), cache, options))] * setting.jobs) as jobs:
        for job in jobs:
            job.hear("filled")
        others = None if options.free is None else np.ones(max(0, free_memory() - options.free), np.uint8)
        for job in jobs:
            job.go()
        free = min(job.hear("ready") for job in jobs)
        if options.throttle is not None:
            free = 0  # for files: the bucket wants to be paid all the same
        for job in jobs:
            job.go()
        results = [job.hear("done") for job in jobs]
        del others
    there = with_cache(profile, setting.ratio, free)
    jobs_wanted, split = jobs_of(setting.jobs, options), Split.parse(setting.split)
    models = {name: model for name, model in MODELS.items() if name != "paper" or split.recoded == 0}
    predictions = {name: model(there, split, jobs_wanted) for name, model in models.items()}
    row = {
        **dataclasses.asdict(setting),
        "cache_bytes": there.cache_bytes,
        "free_bytes": free,
        "measured": sum(result["per_s"] for result in results),
        "served": {form: sum(result["served"][form] for result in results) for form in results[0]["served"]},
        "limited_by": predictions["bottleneck"].limited_by,
        **dict.fromkeys(MODELS),
        **{name: prediction.samples_per_s for name, prediction in predictions.items()},
    }
    print(
        f"ratio {setting.ratio:g}, {setting.jobs} jobs, {setting.split}:"
        f" {row['measured']:,.0f} measured, {row['bottleneck']:,.0f} predicted",
        flush=True,
    )
    return row


def group_of(
    ratio: float, jobs: int, splits: Sequence[str], profile: Profile, options: Any
) -> list[dict[str, Any]]:
    """All splits of one ratio and number of jobs, and the one that the default model chooses for them.

    As a loader would, it chooses in the memory that is there when the jobs run, which take of it themselves.
    What was measured more than once is given by the run in the middle, and ``runs`` has all.
    """

    def once(split: str) -> dict[str, Any]:
        return measure(Setting(ratio, jobs, split), profile, options)

    runs = {split: [once(split)] for split in splits}
    free = min(row["free_bytes"] for (row,) in runs.values())
    chosen = str(solve(with_cache(profile, ratio, free), jobs_of(jobs, options)).split)
    if chosen not in runs:
        runs[chosen] = [once(chosen)]
    while options.again > 0:
        best = max(runs, key=lambda split: middle(runs[split])["measured"])
        if best == chosen or len(runs[best]) > 1:
            break
        for _ in range(options.again):
            for split in (chosen, best):
                runs[split].append(once(split))
    return [
        {**middle(rows), "runs": [row["measured"] for row in rows], "chosen": split == chosen}
        for split, rows in runs.items()
    ]


def middle(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The one whose measurement is the median; of an even number the lower of both in the middle."""
    return sorted(rows, key=lambda row: row["measured"])[(len(rows) - 1) // 2]


def storage_of(options: Any) -> str:
    """Where the files come from, in a word or two."""
    return "disk" if options.throttle is None else f"token bucket, {options.throttle / 1e6:g} MB/s"


def summary_of(rows: Sequence[dict[str, Any]], storage: str) -> dict[str, Any]:
    """Correlation and error of each model over all settings, and the regret of each chosen split.

    Regret is the share of the best measured throughput of a ratio and number of jobs that the chosen
    split does not reach, by the medians; 0 where the chosen one is the best.
    """
    summary: dict[str, Any] = {"storage": storage, "settings": list(rows)}
    for name in MODELS:
        said = [(row[name], row["measured"]) for row in rows if row[name] is not None]
        predicted, measured = np.array(said).reshape(-1, 2).T
        flat = len(said) < 2 or predicted.std() == 0 or measured.std() == 0
        summary[name] = {
            "pearson": None if flat else float(np.corrcoef(predicted, measured)[0, 1]),
            "mape": float(np.mean(np.abs(predicted - measured) / measured)) if said else None,
        }
    groups: dict[tuple[float, int], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["ratio"], row["jobs"]), []).append(row)
    summary["regret"] = []
    for (ratio, jobs), group in groups.items():
        best = max(row["measured"] for row in group)
        (chosen,) = (row["measured"] for row in group if row["chosen"])
        summary["regret"].append({"ratio": ratio, "jobs": jobs, "regret": (best - chosen) / best})
    return summary


def show(summary: dict[str, Any]) -> None:
    """Tables for people."""
    report.print_table(
        "samples/s, measured and predicted; * the chosen split",
        ["ratio", "jobs", "split", "measured", "bottleneck", "paper", "limited by"],
        [
            [
                f"{row['ratio']:g}",
                str(row["jobs"]),
                row["split"] + ("*" if row["chosen"] else ""),
                *("-" if row[name] is None else f"{row[name]:,.0f}" for name in ("measured", *MODELS)),
                row["limited_by"],
            ]
            for row in summary["settings"]
        ],
    )
    print(f"storage: {summary['storage']}")
    for name in MODELS:
        pearson = summary[name]["pearson"]
        correlation = "none" if pearson is None else f"{pearson:.3f}"
        mape = summary[name]["mape"]
        error = "none" if mape is None else f"{mape:.1%}"
        print(
            f"{name}: correlation {correlation} (paper: >= {PAPER_PEARSON:.2f}), mean absolute error {error}"
        )
    for row in summary["regret"]:
        print(f"regret at ratio {row['ratio']:g} with {row['jobs']} jobs: {row['regret']:.1%}")


def plot(summary: dict[str, Any], file: Path) -> None:
    """Predicted over measured, a point a setting."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 6), layout="constrained")
    axes = figure.subplots()
    most = max(row[name] for row in summary["settings"] for name in ("measured", *MODELS))
    axes.plot([0, most], [0, most], color="grey", linewidth=1)
    for name, marker in zip(MODELS, "ox", strict=True):
        axes.scatter(
            [row["measured"] for row in summary["settings"]],
            [row[name] for row in summary["settings"]],
            marker=marker,
            label=name,
        )
    axes.set_xlabel("measured, samples/s of all jobs")
    axes.set_ylabel("predicted")
    axes.set_title(f"storage: {summary['storage']}")
    axes.legend()
    figure.savefig(file)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    numbers = {"type": lambda text: tuple(float(one) for one in text.split(","))}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of class folders, on slow storage")
    parser.add_argument("--ratios", **numbers, default=(3.0, 1.2), help="files by cache, as 3,1.2")
    parser.add_argument("--jobs", **numbers, default=(1, 2, 4), help="numbers of jobs, as 1,2,4")
    parser.add_argument("--splits", type=lambda text: tuple(text.split(",")), default=SPLITS)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="of each job")
    # A job has three batches under way, and the stage takes twice that: of the cache of a few thousand
    # pictures large ones would leave nothing to be divided.
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--warm", type=int, default=2, help="epochs in which the cache fills")
    parser.add_argument("--free", type=parse_bytes, help="memory for the page cache, as 100MB")
    parser.add_argument(
        "--throttle", type=parse_bytes, help="bytes a second of storage, as 40MB; no root needed"
    )
    parser.add_argument("--seconds", type=float, default=20.0, help="that a setting is counted for")
    parser.add_argument("--again", type=int, default=2, help="times that a pair is measured anew")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path, help="draw predicted over measured; needs matplotlib")
    options = parser.parse_args(arguments)
    if options.plot and importlib.util.find_spec("matplotlib") is None:
        parser.error("--plot needs matplotlib: pip install 'seneca-loader[plot]', not beside pillow-simd")
    if options.throttle is not None and options.free is not None:
        parser.error("--free is for a disk: storage that --throttle holds back has no page cache")
    options.jobs = tuple(int(count) for count in options.jobs)
    for split in options.splits:
        Split.parse(split)
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    options = parse(arguments)
    try:
        first, _ = pictures(options.data).samples[0]
        if options.throttle is None:
            held_back = contextlib.nullcontext()
        elif slow_reads.was_run_anew():
            held_back = slow_reads.held_back(first)
        else:
            slow_reads.run_anew(__file__, arguments, options.data, options.throttle)
        with held_back:
            run(options)
    except (FileNotFoundError, CompileError, slow_reads.NotHeldBack) as error:
        print(f"bench_model: {error}", file=sys.stderr)
        return 2
    return 0


def run(options: Any) -> None:
    """All settings, and what they come to."""
    import seneca

    print(report.machine(["torch", "numpy"]))
    profile = seneca.profile(pictures(options.data), fresh=True)
    if options.throttle is not None:
        slow = "held back by a token bucket in this program, not by a disk"
    else:
        slow = "cold" if profile.storage_cold else "NOT cold, so as fast as memory"
    print(
        f"{profile.samples} pictures of {profile.encoded.mean_bytes / 1e3:.0f} kB on {profile.cores} cores;"
        f" storage {profile.storage_bytes_per_s / 1e6:.0f} MB/s, {slow};"
        f" {options.threads} threads a job, batches of {options.batch}",
        flush=True,
    )
    rows = []
    for ratio in options.ratios:
        for jobs in options.jobs:
            rows += group_of(ratio, jobs, options.splits, profile, options)
    summary = summary_of(rows, storage_of(options))
    show(summary)
    if options.json is not None:
        options.json.write_text(json.dumps(summary, indent=1) + "\n")
    if options.plot is not None:
        plot(summary, options.plot)


if __name__ == "__main__":
    sys.exit(main())
