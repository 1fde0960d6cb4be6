"""One training job of the demo: it trains a small network on one folder, as a user's script would.

It is started as ``python -m seneca.cli.demo_job OPTIONS``. OPTIONS is a JSON object with the arguments of
:func:`train`. The job prints ``ready``, waits for a line on standard input, trains, and prints a report as
JSON. It ends when its standard input is closed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from typing import Any

__all__ = ["train"]


def train(
    *, number: int, data: str, epochs: int, batch: int, workers: int, seed: int, cache: str, cache_bytes: str
) -> None:
    """Train, and report on standard output."""
    import torch
    from torch import nn

    from seneca import transforms as T
    from seneca.data import ImageFolder
    from seneca.loader import DataLoader

    torch.set_num_threads(1)  # jobs share few cores: one thread in each is fastest for all
    torch.manual_seed(seed)
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", number % torch.cuda.device_count())
    augment = [
        T.RandomResizedCrop(64),
        T.RandomHorizontalFlip(),
        T.Normalize(T.IMAGENET_MEAN, T.IMAGENET_STD),
    ]
    dataset = ImageFolder(data, transform=T.Compose(augment))
    loader: DataLoader[Any] = DataLoader(
        dataset,
        batch_size=batch,
        shuffle=True,
        num_workers=workers,
        cache=cache,
        cache_bytes=cache_bytes,
        job=f"job {number}",  # as `seneca top` and `seneca report` name it
    )
    layers: list[nn.Module] = []
    for wide_in, wide_out in ((3, 16), (16, 32), (32, 64)):
        layers += [nn.Conv2d(wide_in, wide_out, 3, stride=2, padding=1), nn.BatchNorm2d(wide_out), nn.ReLU()]
    network = nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, len(dataset.classes))
    )
    network.to(device)

    print("ready", flush=True)
    os.read(0, 1)
    threading.Thread(target=_end_with_the_demo, daemon=True).start()

    began, losses = time.monotonic(), []
    for _ in range(epochs):
        losses.append(0.0)
        for images, labels in loader:
            loss = nn.functional.cross_entropy(network(images.to(device)), labels.to(device))
            network.zero_grad()
            loss.backward()
            with torch.no_grad():
                for weight in network.parameters():  # torch.optim imports a compiler, which takes seconds
                    assert weight.grad is not None
                    weight.sub_(weight.grad, alpha=0.2)
            losses[-1] += loss.item() * len(images) / len(dataset)
    print(json.dumps({"began": began, "ended": time.monotonic(), "losses": losses}))


def _end_with_the_demo() -> None:
    while os.read(0, 1):  # until the demo closes the pipe, or dies
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    train(**json.loads(sys.argv[1]))
