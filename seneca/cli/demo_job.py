"""One training job of the demo: it trains a small network on one folder, as a user's script would.

It is started as ``python -m seneca.cli.demo_job OPTIONS``. OPTIONS is a JSON object with the fields of
:class:`JobOptions`. On standard output it writes a line of JSON for each event. It says that it is
``ready``, and waits for a line on standard input. Then it reports its ``progress``, and at last that it is
``done``. It writes the ids that it gets to a file.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from dataclasses import dataclass
from typing import Any

from seneca.cli.verdict import write_ids

__all__ = ["JobOptions", "train"]

SIZE = 64
REPORT_EVERY_S = 0.25


@dataclass(frozen=True)
class JobOptions:
    """The options of one job. Every field can be written as JSON."""

    number: int
    data: str
    ids: str
    epochs: int
    batch: int
    workers: int
    seed: int
    cache: str
    cache_bytes: str


def train(options: JobOptions) -> None:
    """Train by these options, and report on standard output."""
    import torch
    from torch import nn

    from seneca import transforms as T
    from seneca.data import ImageFolder
    from seneca.loader import DataLoader

    torch.set_num_threads(1)  # jobs share few cores: one thread in each is fastest for all
    torch.manual_seed(options.seed)
    if torch.cuda.is_available():
        device = torch.device("cuda", options.number % torch.cuda.device_count())
    else:
        device = torch.device("cpu")
    dataset = ImageFolder(
        options.data,
        transform=T.Compose(
            [
                T.RandomResizedCrop(SIZE),
                T.RandomHorizontalFlip(),
                T.Normalize(T.IMAGENET_MEAN, T.IMAGENET_STD),
            ]
        ),
    )
    loader: DataLoader[Any] = DataLoader(
        dataset,
        batch_size=options.batch,
        shuffle=True,
        num_workers=options.workers,
        cache=options.cache,
        cache_bytes=options.cache_bytes,
        job=f"job {options.number}",  # as `seneca top` and `seneca report` name it
    )
    network = _network(len(dataset.classes)).to(device)
    # Stochastic gradient descent with momentum. That of torch.optim imports a compiler, which takes seconds.
    velocities = [(weight, torch.zeros_like(weight)) for weight in network.parameters()]
    loss_of = nn.CrossEntropyLoss()

    _say("ready")
    sys.stdin.readline()

    began = reported = time.monotonic()
    delivered = delivered_then = 0
    with open(options.ids, "wb") as ids:
        for epoch in range(options.epochs):
            losses: list[float] = []
            for images, labels in loader:
                assert loader.last_indices is not None
                write_ids(ids, epoch, loader.last_indices)
                network.zero_grad()
                loss = loss_of(network(images.to(device)), labels.to(device))
                loss.backward()
                with torch.no_grad():
                    for weight, velocity in velocities:
                        velocity.mul_(0.9).add_(weight.grad)
                        weight.sub_(velocity, alpha=0.05)
                losses.append(loss.item())
                delivered += len(images)
                now = time.monotonic()
                if now - reported >= REPORT_EVERY_S or delivered == options.epochs * len(dataset):
                    _say(
                        "progress",
                        epoch=epoch + 1,
                        delivered=delivered,
                        per_s=(delivered - delivered_then) / (now - reported),
                        loss=sum(losses) / len(losses),
                        stats=_plain(loader.stats()),
                    )
                    reported, delivered_then = now, delivered
            ids.flush()
            _say("epoch", epoch=epoch + 1, loss=sum(losses) / len(losses))
    _say("done", began=began, ended=time.monotonic(), delivered=delivered, stats=_plain(loader.stats()))


def main() -> None:
    """Read the options and train. End quietly on request, or if the parent has gone."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    options = JobOptions(**json.loads(sys.argv[1]))
    try:
        train(options)
    except BrokenPipeError:
        # The parent does not listen any more. At exit Python would try again to write what is left.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def _network(classes: int) -> Any:
    from torch import nn

    layers: list[nn.Module] = []
    for wide_in, wide_out in ((3, 16), (16, 32), (32, 64)):
        layers += [
            nn.Conv2d(wide_in, wide_out, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(wide_out),
            nn.ReLU(),
        ]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, classes))


def _plain(stats: dict[str, Any]) -> dict[str, Any]:
    """The counters that the demo shows. The others may not fit into JSON."""
    served = {str(form): int(count) for form, count in stats["served"].items()}
    return {"served": served, "prepared": int(stats["prepared"])}


def _say(event: str, **what: Any) -> None:
    print(json.dumps({"event": event, **what}), flush=True)


if __name__ == "__main__":
    main()
