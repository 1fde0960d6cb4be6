"""Datasets whose items say which they are, and a model that writes down what it was trained on.

Used by the tests and by the programs that they start in several processes.
"""

from __future__ import annotations

import numpy as np
import torch
from torch.utils.data import DataLoader as StockLoader
from torch.utils.data import Dataset, RandomSampler

import seneca

COUNT = 50  # not a multiple of any batch size below times two processes
CACHE_BYTES = "4MiB"


class Points(Dataset):
    """Points of the line y = 2 x; an item is a dict, as those of tokenized texts are."""

    def __init__(self, count: int = COUNT) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        x = torch.tensor([index / self.count])
        return {"x": x, "y": 2 * x, "index": torch.tensor(index)}


class Readings(Dataset):
    """The same by stages."""

    def __init__(self, count: int = COUNT) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def read(self, index: int) -> bytes:
        return np.int64(index).tobytes()

    def decode(self, data: bytes) -> np.ndarray:
        return np.frombuffer(data, np.int64)

    def augment(self, array: np.ndarray, rng: np.random.Generator) -> dict[str, torch.Tensor]:
        x = torch.from_numpy(array / self.count).float()
        return {"x": x, "y": 2 * x, "index": torch.tensor(int(array[0]))}


class Line(torch.nn.Module):
    """y = w x + b; gives the loss, as models of transformers do, and notes which samples it saw."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.seen: list[int] = []

    def forward(self, x: torch.Tensor, y: torch.Tensor, index: torch.Tensor) -> dict[str, torch.Tensor]:
        if self.training:
            self.seen += index.tolist()
        return {"loss": torch.nn.functional.mse_loss(self.layer(x), y)}

    @torch.no_grad()
    def error(self) -> float:
        """Mean square over the line, whatever the batches were."""
        x = torch.linspace(0, 1, COUNT)[:, None]
        return torch.nn.functional.mse_loss(self.layer(x), 2 * x).item()


def untrained_line() -> Line:
    """Begins the same each time, with an error of 0.57."""
    torch.manual_seed(0)
    return Line()


def planned(dataset: Dataset, batch_size: int = 4, **more) -> StockLoader:
    """torch's own loader of a shared dataset, with batches that are planned."""
    shared = seneca.SharedDataset(dataset, cache_bytes=CACHE_BYTES)
    batches = seneca.OpportunisticBatchSampler(RandomSampler(shared), batch_size, seed=7)
    return StockLoader(shared, batch_sampler=batches, **more)


def ours(dataset: Dataset, batch_size: int = 4, **more) -> seneca.DataLoader:
    return seneca.DataLoader(dataset, batch_size, shuffle=True, cache_bytes=CACHE_BYTES, **more)
