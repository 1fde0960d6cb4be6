"""A training job that never ends by itself: ``python job.py CLASS DATASET [OPTION=VALUE]``.

CLASS is ``torch`` or ``seneca``, DATASET ``numbers`` or a folder of pictures. Says ``ready`` once it trains.
"""

import sys

import torch
from toys import Made, slow

import seneca
from seneca import transforms as T


def main(which: str, where: str, *options: str) -> None:
    cls = {"torch": torch.utils.data.DataLoader, "seneca": seneca.DataLoader}[which]
    dataset = Made(10**6, slow) if where == "numbers" else seneca.ImageFolder(where, T.Resize((8, 12)))
    loader = cls(dataset, batch_size=4, num_workers=2, **dict(option.split("=") for option in options))
    ready = False
    while True:
        for _ in loader:
            if not ready:
                print("ready", flush=True)
                ready = True


if __name__ == "__main__":
    main(*sys.argv[1:])
