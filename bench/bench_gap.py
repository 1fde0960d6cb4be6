"""What is the gap between two epochs worth on slow storage, in which a training loop validates?

The question
    While the loop validates, storage is idle. How long do the first batches of the next epoch wait, and how
    long does a whole run take, if the gap is used?

The method
    The same run twice. ``stays`` has one loader for all epochs, which prepares in the gap. ``fresh`` makes a
    loader for each epoch, which cannot. Each batch takes ``--step`` seconds of training, and each validation
    takes ``--validate`` seconds; both only sleep. Once a batch was used, the page cache gives up its files
    (``posix_fadvise``), as with a dataset that is larger than memory. The folder has to be on slow storage.

    No gap comes before the first epoch. Therefore the waits are means of the others.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

import torch
from papers.slow_storage import forget

import seneca
from seneca import transforms as T

FIRST = 20  # batches


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", required=True, help="a folder of class folders, on slow storage")
    parser.add_argument("--pictures", type=int, default=3600, help="of an epoch")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--step", type=float, default=0.05, help="seconds that a batch is trained on")
    parser.add_argument("--validate", type=float, default=5.0, help="seconds after each epoch")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--size", type=int, default=224, help="of the crops, in pixels")
    parser.add_argument("--only", choices=("stays", "fresh"), help="one of the two runs")
    parser.add_argument("--json", action="store_true", help="one line of JSON for each run")
    options = parser.parse_args()
    folder = seneca.ImageFolder(options.data)
    every = max(1, len(folder.samples) // options.pictures)
    samples = folder.samples[::every][: options.pictures]
    for run in (options.only,) if options.only else ("fresh", "stays"):
        print_run(run, train(samples, options, fresh=run == "fresh"), as_json=options.json)
    return 0


def train(samples: Any, options: argparse.Namespace, *, fresh: bool) -> dict[str, Any]:
    """Train and validate. Returns seconds: of the run, and that the batches of a later epoch waited."""
    torch.manual_seed(0)
    forget(path for path, _ in samples)
    loader = None
    waits, began = [], time.perf_counter()
    for _ in range(options.epochs):
        if loader is None or fresh:
            loader = loader_of(samples, options)
        waits.append(epoch(loader, samples, options))
        validate(options)
    took = time.perf_counter() - began
    assert loader is not None
    later = waits[1:]
    return {
        "run_s": took,
        "first_20_wait_s": sum(sum(one[:FIRST]) for one in later) / max(1, len(later)),
        "first_wait_s": sum(one[0] for one in later) / max(1, len(later)),
        "wait_s": sum(map(sum, later)) / max(1, len(later)),
        "early": loader.stats().get("early", 0),
    }


def loader_of(samples: Any, options: argparse.Namespace) -> Any:
    transform = T.Compose([T.RandomResizedCrop(options.size), T.RandomHorizontalFlip()])
    data = seneca.PictureList(samples, transform=transform)
    return seneca.DataLoader(
        data, batch_size=options.batch, shuffle=True, num_workers=options.threads, cache=None
    )


def epoch(loader: Any, samples: Any, options: argparse.Namespace) -> list[float]:
    """One epoch; the seconds that each batch was waited for."""
    waits = []
    before = time.perf_counter()
    for _ in loader:
        waits.append(time.perf_counter() - before)
        time.sleep(options.step)
        forget(samples[index][0] for index in loader.last_indices.tolist())
        before = time.perf_counter()
    return waits


def validate(options: argparse.Namespace) -> None:
    """Draw the number that a validation loader draws, and leave storage alone."""
    torch.empty((), dtype=torch.int64).random_()
    time.sleep(options.validate)


def print_run(name: str, found: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"loader": name, **found}))
        return
    print(
        f"{name:6}  run {found['run_s']:6.1f} s   waits: first batch {found['first_wait_s']:5.2f} s, first "
        f"{FIRST} {found['first_20_wait_s']:5.2f} s, all {found['wait_s']:5.2f} s   early {found['early']}"
    )


if __name__ == "__main__":
    sys.exit(main())
