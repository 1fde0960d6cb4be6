"""A training script for ``bench_what_if.py``: it trains for ever, or until it is told to stop.

It prints the samples a second that it got from one time to another. Its steps sleep, as if a GPU computed.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch
from job_loaders import MEAN, SIZE, STD, import_torchvision
from planted_stalls import Planted

EPOCH = 100_000  # planted samples: what begins with an epoch is not measured


def loader_of(options: argparse.Namespace) -> Any:
    """The loader that the options name."""
    data: Any
    if options.dataset == "planted":
        data = Planted(EPOCH, sorted(options.folder.glob("*")), 0.0, options.cpu / 1e3)
    else:
        torchvision = import_torchvision()
        T = torchvision.transforms
        steps = [T.RandomResizedCrop(SIZE), T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize(MEAN, STD)]
        data = torchvision.datasets.ImageFolder(str(options.folder), T.Compose(steps))
    common = {"batch_size": options.batch, "shuffle": True, "num_workers": options.workers}
    if options.loader == "torch":
        return torch.utils.data.DataLoader(data, **common, persistent_workers=options.workers > 0)
    import seneca

    return seneca.DataLoader(data, **common, **json.loads(options.seneca))


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", choices=("planted", "pictures"), required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--loader", choices=("torch", "seneca"), default="torch")
    parser.add_argument("--seneca", default="{}", help="more arguments of Seneca's loader, as JSON")
    parser.add_argument("--cpu", type=float, default=0.0, help="milliseconds of a planted sample")
    parser.add_argument("--step", type=float, default=0.0, help="milliseconds of a step")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--begin", type=float, default=0.0, help="time.monotonic() from which it counts")
    parser.add_argument("--end", type=float, default=float("inf"), help="time.monotonic() at which it ends")
    options = parser.parse_args()
    torch.set_num_threads(1)
    loader = loader_of(options)
    first = last = counted = None
    while True:
        for batch in loader:
            now = time.monotonic()
            if now >= options.begin:
                if first is None or counted is None:
                    first, counted = now, 0
                else:
                    counted += len(batch if isinstance(batch, torch.Tensor) else batch[0])
                last = now
            if now >= options.end and counted:
                print(counted / (last - first))
                return
            time.sleep(options.step / 1e3)


if __name__ == "__main__":
    main()
