"""The batch sampler that plans for a :class:`seneca.SharedDataset`: it draws, and workers make."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as np
import torch
from torch.utils.data import BatchSampler, RandomSampler, SequentialSampler

from seneca._core import store
from seneca.cache import SampleCache
from seneca.ending import FIRST, finalize
from seneca.portions import Portion, portion_of
from seneca.ranks import world
from seneca.shared import SharedDataset
from seneca.terms import PlannedBatch, Terms

__all__ = ["OpportunisticBatchSampler"]

BATCHES_ALONE = 4  # that are drawn at once while no other job is there: it takes less time
BATCHES_AHEAD = 8  # that a stock DataLoader may have under way, where nothing is said


class OpportunisticBatchSampler(BatchSampler):
    """Batches of a :class:`SharedDataset`, each sample once an epoch, what others have made first.

    Takes the place of ``torch.utils.data.BatchSampler`` and has its signature. The order is
    Seneca's where ``sampler`` is a ``RandomSampler`` of the whole shared dataset without
    replacement: as random, and another with every epoch. With a ``DistributedSampler`` each rank has the
    samples that it deals out, in its order but for what others have made first. Any other sampler's order
    is kept. Where several processes train together (``WORLD_SIZE``) and the sampler is no distributed one,
    each sees the same permutation of (seed, epoch), for what shards it from outside.

    Args:
        sampler: Of a :class:`SharedDataset`.
        batch_size: Samples of a batch.
        drop_last: Whether the last batch, where it is shorter, is left out.
        seed: Of the order; None draws one from the sampler's generator, or else torch's, for every epoch.
        batches_ahead: Batches that will be under way, at most: ``num_workers * prefetch_factor + 1``.

    Raises:
        ValueError: As ``BatchSampler``'s.

    Example: see :class:`SharedDataset`.
    """

    def __init__(
        self,
        sampler: Any,
        batch_size: int,
        drop_last: bool = False,
        *,
        seed: int | None = None,
        batches_ahead: int = BATCHES_AHEAD,
    ) -> None:
        super().__init__(sampler, batch_size, drop_last)
        self.seed = seed
        self.batches_ahead = batches_ahead
        self.epoch = 0
        self.shared: SharedDataset | None = None  # whose batches these are, where the sampler does not say
        self.looked = False  # whether somebody has looked at the dataset for the epoch that is to begin

    def set_epoch(self, epoch: int) -> None:
        """Name the next epoch, as ``DistributedSampler`` does; the sampler's own is set too."""
        self.epoch = epoch
        if hasattr(self.sampler, "set_epoch"):
            self.sampler.set_epoch(epoch)

    def __iter__(self) -> Iterator[list[int]]:
        sampler: Any = self.sampler
        shared = self.shared
        if shared is None:
            shared = getattr(sampler, "data_source", getattr(sampler, "dataset", None))
        if not isinstance(shared, SharedDataset):
            return super().__iter__()
        if not self.looked:
            shared.look()  # before workers begin, so that they need not
        self.looked = True
        return _Batches(lambda: self._begin(shared))

    def _begin(self, shared: SharedDataset) -> Iterator[list[int]]:
        sampler: Any = self.sampler
        self.looked = False
        shared.join()  # for the workers: what they leave there stays when they end with the epoch
        plans = shared.terms is not None and shared.terms.shares
        portion = portion_of(sampler, len(shared))
        if portion is not None:
            if plans:
                return _Plan(self, shared, portion.epoch, portion.shuffle, portion)
            return super().__iter__()
        # The sampler alone is told the epoch where accelerate deals out the batches of a resumed run.
        epoch = max(self.epoch, getattr(sampler, "epoch", 0))
        self.epoch = epoch + 1
        shuffles = isinstance(sampler, RandomSampler)
        whole = type(sampler) is SequentialSampler or (
            shuffles and not sampler.replacement and len(sampler) == len(shared)
        )
        is_dealt_out = self.shared is None and world()[1] > 1
        if whole and shuffles and is_dealt_out:
            generator = torch.Generator().manual_seed((self.seed or 0) + epoch)
            order = torch.randperm(len(shared), generator=generator).tolist()
            return iter(BatchSampler(order, self.batch_size, self.drop_last))
        if whole and plans and not is_dealt_out:
            return _Plan(self, shared, epoch, shuffles)
        return super().__iter__()  # nothing will take another's place


class _Batches:
    """One epoch of a batch sampler. As torch's, it draws nothing before it is asked for the first batch."""

    def __init__(self, begin: Callable[[], Iterator[list[int]]]) -> None:
        self._begin = begin
        self._batches: Iterator[list[int]] | None = None

    def __iter__(self) -> _Batches:
        return self

    def __next__(self) -> list[int]:
        self.begin()
        assert self._batches is not None
        return next(self._batches)

    def begin(self) -> None:
        """Join the epoch, as the first batch does: from now on other jobs make copies for it."""
        if self._batches is None:
            self._batches = self._begin()


class _Plan:
    """The batches of one epoch, drawn by a member that workers prepare for."""

    def __init__(
        self,
        sampler: OpportunisticBatchSampler,
        shared: SharedDataset,
        epoch: int,
        shuffles: bool,
        portion: Portion | None = None,
    ) -> None:
        seed = sampler.seed or 0
        if portion is None and shuffles and sampler.seed is None:
            generator = cast(RandomSampler, sampler.sampler).generator
            seed = int(torch.empty((), dtype=torch.int64).random_(generator=generator).item())
        self._shared = shared
        self._batch_size = sampler.batch_size
        self.terms = terms = cast(Terms, shared.terms)
        cache = shared.join()
        samples = terms.own
        if portion is not None:
            indices = portion.indices()
            samples = indices.astype(np.uint32) if samples is None else samples[indices]
        places = terms.n_samples if samples is None else len(samples)
        if sampler.drop_last:
            places -= places % sampler.batch_size
        self._index_of = None
        if terms.own is not None:
            self._index_of = np.zeros(terms.n_samples, np.int64)
            self._index_of[terms.own] = np.arange(len(terms.own))
        self._member = store.Member(
            None if cache is None else cache.segment,
            n_samples=terms.n_samples,
            samples=samples,
            places=places,
            seed=seed,
            epoch=epoch,
            fixed=portion is not None or not shuffles,
            decoded=terms.stages.decoded,
            augmented=terms.stages.augmented,
            height=0,
            width=0,
            copy_bytes=shared.copy_bytes,
            in_flight=sampler.batch_size * sampler.batches_ahead,
            shares=True,
            keeps=False,
            substitutes=shuffles,
            hands_over=True,
            wanted_alone=sampler.batch_size * BATCHES_ALONE,
        )
        # Open until the loader has let go of this: what it holds is claimed by and by.
        self._close = finalize(self, _close, self._member, cache, order=FIRST)
        self._drawn: deque[PlannedBatch] = deque()

    def __iter__(self) -> _Plan:
        return self

    def __next__(self) -> list[int]:
        if not self._drawn:
            self._draw()
        return self._drawn.popleft()

    def _draw(self) -> None:
        """The next batch, or a few."""
        size = self._batch_size
        places = self._member.draw(size)[0]
        if len(places) == 0:
            raise StopIteration
        self._shared.copy_bytes = self._member.copy_bytes
        samples = places["sample"]
        indices = (samples if self._index_of is None else self._index_of[samples]).tolist()
        row, generation, claims = self._member.claims(places)
        for start in range(0, len(indices), size):
            batch = PlannedBatch(indices[start : start + size])
            batch.source, batch.augmented = self.terms.source, self.terms.stages.augmented
            batch.row, batch.generation = row, generation
            batch.claims = None if claims is None else claims[start : start + size]
            self._drawn.append(batch)


def _close(member: store.Member, cache: SampleCache | None) -> None:
    """Holding the cache, it comes before the cache's own end."""
    member.close()
