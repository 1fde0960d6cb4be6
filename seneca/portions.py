"""What each rank of a job has of an epoch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils.data import DistributedSampler

__all__ = ["Portion", "portion_of"]


@dataclass(frozen=True)
class Portion:
    """What ``torch.utils.data.DistributedSampler`` deals to one rank in one epoch.

    Every ``ranks``-th place of the epoch's order is this rank's, from place ``rank`` on. Where that does
    not come out even, the order is continued from its beginning, or with ``drop_last`` cut, so that each
    rank has as many. No rank has a sample twice.

    Attributes:
        count: Samples of the dataset.
        rank, ranks: Which of how many.
        shuffle, seed, epoch: The order: as it is, or the permutation that these two name.
        drop_last: Whether it is cut.
    """

    count: int
    rank: int
    ranks: int
    shuffle: bool
    seed: int
    epoch: int
    drop_last: bool

    def __len__(self) -> int:
        return self.count // self.ranks if self.drop_last else -(-self.count // self.ranks)

    def order(self) -> np.ndarray:
        """All samples as this epoch has them, int64: the same in all ranks."""
        if not self.shuffle:
            return np.arange(self.count)
        generator = torch.Generator().manual_seed(self.seed + self.epoch)
        return torch.randperm(self.count, generator=generator).numpy()

    def indices(self, delivered: np.ndarray | None = None) -> np.ndarray:
        """This rank's samples in their order, int64: to the index what the sampler yields.

        Args:
            delivered: A bool for each sample of the dataset: those that are left are dealt, likewise.
        """
        order = self.order()
        if delivered is not None:
            order = order[~delivered[order]]
        count = len(order)
        each = count // self.ranks if self.drop_last else -(-count // self.ranks)
        end = each * self.ranks
        own = order[self.rank : end : self.ranks]
        if len(own) == each:
            return own
        over = np.arange(self.rank + len(own) * self.ranks, end, self.ranks)
        return np.concatenate([own, order[over % count]])


def portion_of(sampler: Any, count: int) -> Portion | None:
    """What this sampler deals out in the epoch that was set.

    Args:
        sampler: Any.
        count: Samples of the dataset.

    Returns:
        The portion; None: it is not torch's ``DistributedSampler``, or is of another number of samples.
    """
    if type(sampler) is not DistributedSampler:
        return None
    portion = Portion(
        count=count,
        rank=sampler.rank,
        ranks=sampler.num_replicas,
        shuffle=sampler.shuffle,
        seed=sampler.seed,
        epoch=sampler.epoch,
        drop_last=sampler.drop_last,
    )
    fits = len(sampler.dataset) == count and len(sampler) == len(portion)  # type: ignore[arg-type]  # is sized
    return portion if fits and sampler.total_size == len(portion) * portion.ranks else None
