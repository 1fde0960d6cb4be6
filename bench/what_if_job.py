"""A training script for ``bench_what_if.py``: it trains for ever, or until somebody stops it.

It prints the samples a second that it got from one time to another. Its steps sleep, as if a GPU computed.
The time in which an epoch ends and the next begins does not count: epochs are short here, so that caches are
soon full, and the predictions are for what goes on within one.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from pathlib import Path
from typing import Any

import torch
from job_loaders import MEAN, SIZE, STD, import_torchvision
from planted_stalls import Planted

EPOCH = 100_000  # planted samples
BEGIN = 4  # batches of an epoch, until as many are under way as ever


def loader_of(options: argparse.Namespace) -> Any:
    """The loader that the options name."""
    data: Any
    if options.dataset == "planted":
        files = sorted(options.folder.glob("*")) if options.folder else []
        data = Planted(EPOCH, files, options.sleep / 1e3, options.cpu / 1e3)
    else:
        torchvision = import_torchvision()
        T = torchvision.transforms
        steps = [T.RandomResizedCrop(SIZE), T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize(MEAN, STD)]
        data = torchvision.datasets.ImageFolder(str(options.folder), T.Compose(steps))
    workers = options.workers if options.workers == "auto" else int(options.workers)
    common = {"batch_size": options.batch, "shuffle": True, "num_workers": workers}
    if options.loader == "torch":
        return torch.utils.data.DataLoader(data, **common, persistent_workers=workers > 0)
    import seneca

    return seneca.DataLoader(data, **common, **json.loads(options.seneca))


class Log:
    """Lines ``time workers longest``: when the number of workers changed, and each second.

    ``longest`` is the longest time between two batches since the line before.
    """

    def __init__(self, path: Path | None) -> None:
        self._file = None if path is None else path.open("w", buffering=1)
        self._before, self._noted, self._workers, self._longest = None, 0.0, None, 0.0

    def note(self, now: float, loader: Any) -> None:
        """A batch has come."""
        if self._file is None:
            return
        self._longest = max(self._longest, now - (self._before or now))
        self._before = now
        workers = loader.stats()["workers"]
        if workers != self._workers or now > self._noted + 1:
            self._file.write(f"{now} {workers} {self._longest}\n")
            self._noted, self._workers, self._longest = now, workers, 0.0


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", choices=("planted", "pictures"), required=True)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--loader", choices=("torch", "seneca"), default="torch")
    parser.add_argument("--seneca", default="{}", help="more arguments of Seneca's loader, as JSON")
    parser.add_argument("--cpu", type=float, default=0.0, help="milliseconds of a planted sample")
    parser.add_argument("--sleep", type=float, default=0.0, help="milliseconds that a planted sample sleeps")
    parser.add_argument("--step", type=float, default=0.0, help="milliseconds of a step")
    parser.add_argument("--jitter", type=float, default=0.0, help="the part of a step by which steps differ")
    parser.add_argument("--workers", default="1", help='a number, or "auto"')
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--begin", type=float, default=0.0, help="time.monotonic() from which it counts")
    parser.add_argument("--end", type=float, default=float("inf"), help="time.monotonic() at which it ends")
    parser.add_argument("--log", type=Path, help="write here when batches came, and when workers changed")
    options = parser.parse_args()
    torch.set_num_threads(1)
    loader, log = loader_of(options), Log(options.log)
    counted, seconds = 0, 0.0
    while True:
        last = None
        for number, batch in enumerate(loader, 1):
            now = time.monotonic()
            log.note(now, loader)
            if now >= options.begin and number >= BEGIN:
                if last is not None:
                    counted += len(batch if isinstance(batch, torch.Tensor) else batch[0])
                    seconds += now - last
                last = now
            if now >= options.end and counted:
                print(counted / seconds)
                return
            time.sleep(options.step / 1e3 * (1 + options.jitter * random.uniform(-1, 1)))


if __name__ == "__main__":
    main()
