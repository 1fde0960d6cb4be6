"""The shard of each rank: what ``torch.utils.data.DistributedSampler`` assigns to it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

__all__ = ["Shard", "each_of"]


def each_of(count: int, ranks: int, drop_last: bool) -> int:
    """How many of ``count`` samples each rank has. Some are dropped or repeated to make ranks even."""
    return count // ranks if drop_last else -(-count // ranks)


@dataclass(frozen=True)
class Shard:
    """The part of an epoch that one rank has.

    The rank has every ``ranks``-th place of the epoch's order, from place ``rank`` on. If the samples do not
    divide evenly, the order is continued from its beginning; with ``drop_last`` it is cut instead. All ranks
    have equally many samples, and none has a sample twice.

    Attributes:
        count: Samples of the dataset.
        rank, ranks: This rank, and the number of ranks.
        shuffle: Whether the order is the permutation named by ``seed`` and ``epoch``; else it is the
            dataset's.
        seed, epoch: See ``shuffle``.
        drop_last: Whether the order is cut instead of continued.
    """

    count: int
    rank: int
    ranks: int
    shuffle: bool
    seed: int
    epoch: int
    drop_last: bool

    def __len__(self) -> int:
        return each_of(self.count, self.ranks, self.drop_last)

    def order(self) -> np.ndarray:
        """All samples in the order of this epoch, int64. It is the same in all ranks."""
        if not self.shuffle:
            return np.arange(self.count)
        generator = torch.Generator().manual_seed(self.seed + self.epoch)
        return torch.randperm(self.count, generator=generator).numpy()

    def indices(self, delivered: np.ndarray | None = None) -> np.ndarray:
        """This rank's samples in their order, int64: exactly what the sampler yields.

        Args:
            delivered: A bool for each sample of the dataset. Only the others are divided among the ranks.
        """
        order = self.order()
        if delivered is not None:
            order = order[~delivered[order]]
        count = len(order)
        each = each_of(count, self.ranks, self.drop_last)
        end = each * self.ranks
        mine = order[self.rank : end : self.ranks]
        if len(mine) == each:
            return mine
        over = np.arange(self.rank + len(mine) * self.ranks, end, self.ranks)
        return np.concatenate([mine, order[over % count]])
