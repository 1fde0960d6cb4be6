"""Does a model that is trained with shared samples become as good as one that is trained without?

Question. Jobs that share take many of each other's augmented copies, in an order that is not quite their
own. Is the accuracy on held-out pictures the same as with torch's DataLoader?

Method. Two jobs train at once, each a process with one thread and one worker, the same small CNN (three
convolutions, SGD, one cycle of the learning rate) on pictures of 32 x 32 with random crops and flips: once
with torch's DataLoader, once with Seneca's and one cache of ``--copies`` augmented copies and nothing kept.
Only the class of the loader differs, and that torch's keeps its workers as Seneca's cache keeps what it
has; the same job of the same seed begins with the same weights. After
each epoch the accuracy on all pictures of ``test/`` is taken. What is compared is the mean of a pair of jobs
after the last epoch: over the seeds its mean and standard error, and those of the difference, seed by seed.

Jobs that begin apart share in another way: what one is given early in its epochs the other is given late
in its own, epoch after epoch, so consecutive epochs of a job are not independent (csrc/README.md, "What
sharing costs in randomness"). ``--apart 0.5`` adds pairs whose second job begins half an epoch after the
first, where that is strongest.

``--data`` is a folder with ``train/`` and ``test/``, each with a folder a class: the split is the
folder's own. Without it pictures are made up. ``--quick`` takes two
seeds and two epochs, on a tenth of the pictures.

    python bench/bench_accuracy.py --data cifar10/ --json accuracy.json --plot accuracy.png
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import report
from bench_jobs import left_behind
from job_loaders import import_torchvision
from jobs import JobFailed, Voice, started, together

SIDE = 32
JOBS = 2
ARMS = ("torch", "seneca", "seneca apart")  # the last with --apart
MEAN, STD = (0.49, 0.48, 0.45), (0.25, 0.24, 0.26)
GRANULE = 4096  # a copy of 32 x 32 takes one


@dataclass(frozen=True)
class Setup:
    """What every job of one run has in common."""

    folder: Path
    loader: str  # torch or seneca
    apart: float  # of an epoch, that a job begins after the one before
    seed: int
    epochs: int
    batch: int
    cache: str
    copies: int
    every: int  # of the training pictures one in so many


def train(voice: Voice, number: int, setup: Setup) -> dict[str, Any]:
    """One job: the accuracy after each epoch, the seconds until then, those of training, and the part of
    its samples that the other had prepared."""
    import torch
    from torch import nn

    torch.set_num_threads(1)
    torch.manual_seed(1000 * setup.seed + number)
    model = small_cnn(classes=len(list((setup.folder / "test").iterdir())))
    loader = loader_of(setup)
    test_images, test_labels = held_out(setup.folder / "test")
    optimizer = torch.optim.SGD(model.parameters(), momentum=0.9, weight_decay=5e-4, lr=0.1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=0.1, total_steps=setup.epochs * len(loader), pct_start=0.25
    )
    loss_of = nn.CrossEntropyLoss()
    voice.say("ready")
    voice.wait()
    curve, ended_s, trained_s, began = [], [], 0.0, time.monotonic()
    under_way = min(round(setup.apart * len(loader)), len(loader) - 1)
    for epoch in range(setup.epochs):
        model.train()
        since = time.monotonic()
        for step, (images, labels) in enumerate(loader):
            if setup.apart and (epoch, step) == (0, under_way):
                voice.say("under way")
            optimizer.zero_grad()
            loss_of(model(images), labels).backward()
            optimizer.step()
            schedule.step()
        trained_s += time.monotonic() - since
        model.eval()
        with torch.no_grad():
            right = sum(
                int((model(images).argmax(1) == labels).sum())
                for images, labels in zip(test_images.split(500), test_labels.split(500), strict=True)
            )
        curve.append(right / len(test_labels))
        ended_s.append(time.monotonic() - began)
        voice.alive()
    counted = loader.stats() if setup.loader == "seneca" else {"served": {"augmented": 0}}
    samples = setup.epochs * len(loader.dataset)
    shared = counted["served"]["augmented"] / samples
    return {
        "accuracy": curve[-1],
        "curve": curve,
        "ended_s": ended_s,
        "trained_s": trained_s,
        "shared": shared,
    }


def pair(setup: Setup) -> list[dict[str, Any]]:
    """Train the jobs, at once or one a while after the other; their results in order."""
    if not setup.apart:
        return together(JOBS, train, setup)
    with started([(train, (setup,))] * JOBS) as jobs:
        for job in jobs:
            job.hear("ready")
        for job in jobs:
            job.go()
            job.hear("under way")
        return [job.hear("done") for job in jobs]


def small_cnn(classes: int) -> Any:
    """Three convolutions with batch normalisation, the mean over the picture, one linear layer."""
    from torch import nn

    layers: list[Any] = []
    for before, after in ((3, 16), (16, 32), (32, 64)):
        layers += [nn.Conv2d(before, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU()]
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, classes))


def loader_of(setup: Setup) -> Any:
    """The training pictures; the two loaders differ in their class, and in Seneca's own arguments."""
    import torch

    import seneca

    T = import_torchvision().transforms
    transform = T.Compose(
        [T.RandomCrop(SIDE, padding=4), T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize(MEAN, STD)]
    )
    dataset = import_torchvision().datasets.ImageFolder(str(setup.folder / "train"), transform)
    if setup.every > 1:
        dataset = torch.utils.data.Subset(dataset, range(0, len(dataset), setup.every))
    options: dict[str, Any] = {
        "batch_size": setup.batch, "shuffle": True, "num_workers": 1, "drop_last": True,
        "multiprocessing_context": "fork",  # as scripts have it on Linux, whatever began this process
    }  # fmt: skip
    if setup.loader == "torch":
        return torch.utils.data.DataLoader(dataset, persistent_workers=True, **options)
    room = setup.copies * GRANULE
    return seneca.DataLoader(dataset, cache=setup.cache, cache_bytes=room, split="0-0-100", **options)


def held_out(folder: Path) -> tuple[Any, Any]:
    """All test pictures, decoded once, the same for both loaders."""
    import torch

    T = import_torchvision().transforms
    dataset = import_torchvision().datasets.ImageFolder(
        str(folder), T.Compose([T.CenterCrop(SIDE), T.ToTensor(), T.Normalize(MEAN, STD)])
    )
    images, labels = zip(*dataset, strict=True)
    return torch.stack(images), torch.tensor(labels)


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """The mean, and its standard error (not a number for a single value)."""
    if len(values) < 2:
        return values[0], math.nan
    return statistics.mean(values), statistics.stdev(values) / math.sqrt(len(values))


def summary_of(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Means over the seeds, a seed's value the mean of its jobs; a difference is an arm's less torch's."""
    of_seed = {
        arm: {
            row["seed"]: statistics.mean(
                other["accuracy"] for other in rows if (other["loader"], other["seed"]) == (arm, row["seed"])
            )
            for row in rows
            if row["loader"] == arm
        }
        for arm in ARMS
    }
    result: dict[str, Any] = {}
    for arm, values in of_seed.items():
        if not values:
            continue
        mean, error = mean_and_error(list(values.values()))
        result[arm] = {"accuracy": mean, "error": error, "seeds": len(values)}
        mean, error = mean_and_error([value - of_seed["torch"][seed] for seed, value in values.items()])
        result[arm] |= {"difference": mean, "difference_error": error}
    return result


@contextmanager
def pictures(data: Path | None, train: int, test: int) -> Iterator[Path]:
    """``data``, or a temporary folder of made-up pictures where there is none."""
    if data is not None:
        for part in ("train", "test"):
            if not (data / part).is_dir():
                raise SystemExit(
                    f"{data} has no folder {part}/; --data is a folder with train/ and test/ in it"
                )
        yield data
        return
    from seneca.testing import make_pictures

    with tempfile.TemporaryDirectory(prefix="seneca-bench-pictures-") as folder:
        for seed, (part, count) in enumerate((("train", train), ("test", test))):
            make_pictures(Path(folder) / part, count=count, seed=seed, sides=(SIDE, SIDE))
        yield Path(folder)


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line, checked; a mistake in it ends the process with status 2."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--data", type=Path, help="folder with train/ and test/; pictures are made up if not given"
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument(
        "--copies", type=int, default=1000, help="augmented copies that the cache has room for"
    )
    parser.add_argument(
        "--apart",
        type=float,
        default=0.0,
        help="share of an epoch by which one more pair of jobs begins apart",
    )
    parser.add_argument("--quick", action="store_true", help="two seeds, two epochs, a tenth of the pictures")
    parser.add_argument("--json", type=Path, help="also write everything to this file")
    parser.add_argument("--plot", type=Path, help="draw the curves into this PNG; needs matplotlib")
    options = parser.parse_args(arguments)
    if options.quick:
        options.seeds, options.epochs = min(options.seeds, 2), min(options.epochs, 2)
    if min(options.seeds, options.epochs, options.batch, options.copies) < 1:
        parser.error("--seeds, --epochs, --batch and --copies must be at least 1")
    if not 0 <= options.apart < 1:
        parser.error("--apart is a share of an epoch, from 0 up to 1")
    return options


def main(arguments: list[str] | None = None) -> int:
    """Train, print, and return the exit status: 1 when a job failed or something was left behind."""
    options = parse(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that all is cleaned up
    print(report.machine(["seneca-loader", "torch", "torchvision", "pillow-simd"]))
    cache = f"bench-accuracy-{os.getpid()}"
    rows: list[dict[str, Any]] = []
    try:
        every = 10 if options.quick else 1
        with pictures(options.data, 10_000, 2_000) as folder:
            for seed in range(options.seeds):
                for arm in ARMS if options.apart else ARMS[:2]:
                    setup = Setup(
                        folder=folder,
                        loader=arm.split()[0],
                        apart=options.apart if arm == ARMS[2] else 0.0,
                        seed=seed,
                        epochs=options.epochs,
                        batch=options.batch,
                        cache=cache,
                        copies=options.copies,
                        every=every,
                    )
                    for job, result in enumerate(pair(setup)):
                        rows.append({"loader": arm, "seed": seed, "job": job, **result})
                    both = ", ".join(f"{row['accuracy']:.2%}" for row in rows[-JOBS:])
                    print(f"  seed {seed}, {arm}: {both}", flush=True)
    except JobFailed as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        left = left_behind(cache)
    summary = summary_of(rows)
    show(rows, summary, options.epochs)
    if options.json:
        options.json.write_text(json.dumps({"rows": rows, "summary": summary}, indent=1) + "\n")
    if options.plot:
        from plot_accuracy import plot

        plot(rows, options.plot)
    if left:
        print(f"the jobs left this behind: {', '.join(left)}", file=sys.stderr)
    return 1 if left else 0


def show(rows: Sequence[dict[str, Any]], summary: dict[str, Any], epochs: int) -> None:
    """Print the table and the difference."""
    lines = []
    for arm, found in summary.items():
        mine = [row for row in rows if row["loader"] == arm]
        shared = statistics.mean(row["shared"] for row in mine)
        line = [arm, str(len(mine)), f"{found['accuracy']:.2%}", f"{found['error']:.2%}"]
        line += (
            [f"{found['difference']:+.2%}", f"{found['difference_error']:.2%}"]
            if arm != ARMS[0]
            else ["", ""]
        )
        lines.append((*line, f"{shared:.0%}"))
    head = [
        "loader",
        "jobs",
        "test accuracy",
        "std. error",
        "less torch's",
        "std. error",
        "prepared by the other",
    ]
    report.print_table(f"Accuracy after {epochs} epochs, {JOBS} jobs at once", head, lines)


if __name__ == "__main__":
    sys.exit(main())
