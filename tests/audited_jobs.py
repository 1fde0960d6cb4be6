"""Jobs that write down what they deliver."""

from __future__ import annotations

import numpy as np
import simplejpeg
import torch
from torch.utils.data import Subset

import seneca
from seneca import transforms as T
from seneca.audit.log import SUFFIX, read, read_header

MiB = 1 << 20


class Squares(torch.utils.data.Dataset):
    """Items that jobs share whole."""

    def __init__(self, count=240):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return torch.full((64,), index * index), index


def small_pictures(folder, count):
    """Fill a folder with small pictures of noise, in two classes."""
    pixels = np.random.default_rng(7).integers(0, 256, (count, 24, 30, 3), np.uint8)
    for k in range(count):
        path = folder / f"class{k % 2}" / f"{k:03}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(simplejpeg.encode_jpeg(pixels[k], 80))
    return folder


def native(pictures, cache, part=None, **options):
    dataset = seneca.ImageFolder(
        pictures, transform=T.Compose([T.RandomResizedCrop(16), T.RandomHorizontalFlip()])
    )
    return loader_of(dataset if part is None else Subset(dataset, part), cache, **options)


def loader_of(dataset, cache, **options):
    defaults = {"batch_size": 16, "shuffle": True, "num_workers": 1, "cache": cache, "cache_bytes": 4 * MiB}
    return seneca.DataLoader(dataset, **(defaults | options))


def logs(folder, kind="delivered"):
    """Header and content of each, the first begun first."""
    paths = folder.glob(f"*{SUFFIX}") if folder.exists() else ()
    found = [(read_header(path), read(path)) for path in paths]
    return sorted((log for log in found if log[0].kind == kind), key=lambda log: log[0].began)
