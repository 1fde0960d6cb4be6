"""The batch sampler that plans for a :class:`seneca.SharedDataset`: it draws, and workers make."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import torch
from torch.utils.data import RandomSampler

from seneca._core import store
from seneca.cache import SampleCache
from seneca.ending import FIRST, finalize
from seneca.ranks import world
from seneca.resumable import Resumable, ResumableBatchSampler
from seneca.resume import Epoch
from seneca.shared import SharedDataset
from seneca.terms import PlannedBatch, Terms
from seneca.walks import Walk, dealt_by, drawn_seed, own_seed, sampled
from seneca.witness import open_log_of

__all__ = ["OpportunisticBatchSampler"]

BATCHES_ALONE = 4  # that are drawn at once while no other job is there: it takes less time


class OpportunisticBatchSampler(ResumableBatchSampler):
    """Batches of a :class:`SharedDataset`, each sample once an epoch, what others have made first.

    Takes the place of ``torch.utils.data.BatchSampler`` and has its signature. The order is
    Seneca's where ``sampler`` is a ``RandomSampler`` of the whole shared dataset without
    replacement: as random, and another with every epoch. With a ``DistributedSampler`` each rank has the
    samples that it deals out; where no other job shares, in its order. Any other sampler's order is kept.
    Where several processes train together (``WORLD_SIZE``) and the sampler is no distributed one,
    each sees the same permutation of (seed, epoch), for what shards it from outside.

    Args:
        sampler: Of a :class:`SharedDataset`.
        batch_size: Samples of a batch.
        drop_last: Whether the last batch, where it is shorter, is left out.
        seed: Of the order where no other job shares; None draws one from the sampler's generator, or else
            torch's, for every epoch.
        batches_ahead: Batches that will be under way, at most: ``num_workers * prefetch_factor + 1``.

    Raises:
        ValueError: As ``BatchSampler``'s.

    Example: see :class:`SharedDataset`.
    """

    shared: SharedDataset | None = None  # whose batches these are, where the sampler does not say
    looked = False  # whether somebody has looked at the dataset for the epoch that is to begin
    threads: int | None = None  # that prepare, where it is known

    def walk(self, epoch: Epoch, owner: Resumable, *, drawn_is_delivered: bool = False) -> Walk:
        shared = self._shared_dataset()
        if shared is not None and not self.looked:
            shared.look()  # before workers begin, so that they need not
        self.looked = True
        walk = super().walk(epoch, owner, drawn_is_delivered=drawn_is_delivered)
        if shared is not None:
            walk.mark = shared.batch
        return walk

    def _open_log(self, batches: Any, epoch: Epoch) -> Any:
        return open_log_of(self, batches, self._shared_dataset(), epoch)

    def _shared_dataset(self) -> SharedDataset | None:
        sampler: Any = self.sampler
        shared = self.shared or getattr(sampler, "data_source", getattr(sampler, "dataset", None))
        return shared if isinstance(shared, SharedDataset) else None

    def _begin(self, epoch: Epoch, owner: Resumable) -> Iterator[tuple[list[int], Any]]:
        self._begin_number(epoch, owner)
        self.looked = False
        shared = self._shared_dataset()
        if shared is None:
            return self._torchs(epoch)
        # For the workers: what they leave there stays when they end with the epoch.
        shared.join(batch_size=self.batch_size, batches_ahead=self.batches_ahead, threads=self.threads)
        plans = shared.terms is not None and shared.terms.shares
        if plans and (portion := dealt_by(self.sampler, len(shared), epoch)) is not None:
            epoch.in_turn &= not portion.portion.shuffle  # else another's copy may take a sample's place
            return _Plan(self, shared, epoch, portion.portion.shuffle, portion.indices)
        if not self._walks_it_all():
            return self._torchs(epoch)
        shuffles = isinstance(self.sampler, RandomSampler)
        is_dealt_out = self.shared is None and world()[1] > 1
        resumed = None if epoch.resumed is None else epoch.resumed["order"]
        if shuffles and is_dealt_out and resumed != "seneca":
            seed = epoch.name("order_seed", lambda: (self.seed or 0) + epoch.number)
            generator = torch.Generator().manual_seed(seed)
            order = torch.randperm(len(shared), generator=generator).tolist()
            each: dict[str, Any] = {"batch_size": self.batch_size, "drop_last": self.drop_last}
            return sampled(order, epoch, self._identity, order="samples", of=self.sampler, **each)
        if plans and not is_dealt_out and not (shuffles and resumed == "samples"):
            return _Plan(self, shared, epoch, shuffles)
        return self._torchs(epoch)  # nothing will take another's place

    def _identity(self) -> str | None:
        shared = self._shared_dataset()
        return None if shared is None else shared._identity()

    def _checked(self, state: Any) -> dict[str, Any]:
        if (shared := self._shared_dataset()) is not None:
            shared.look()
        return super()._checked(state)


class _Plan:
    """The batches of one epoch, drawn by a member that workers prepare for."""

    def __init__(
        self,
        sampler: OpportunisticBatchSampler,
        shared: SharedDataset,
        epoch: Epoch,
        shuffles: bool,
        indices: np.ndarray | None = None,
    ) -> None:
        seed, generator = sampler.seed, getattr(sampler.sampler, "generator", None)
        if indices is None and shuffles and seed is None and (generator is not None or epoch.resumed is None):
            seed = drawn_seed(generator)
        seed = epoch.name("seed", lambda: seed or 0)
        self._shared = shared
        self._look, self._found = shared.looks, shared.found
        self._batch_size = sampler.batch_size
        self.terms = terms = cast(Terms, shared.terms)
        cache = shared.join()
        samples = terms.own
        if indices is not None:  # a rank's
            samples = indices.astype(np.uint32) if samples is None else samples[indices]
        # Of what was not delivered yet: with drop_last as much as fills batches.
        places = terms.n_samples if samples is None else len(samples)
        places -= int(np.count_nonzero(epoch.before[:places]))
        if sampler.drop_last:
            places -= places % sampler.batch_size
        self._index_of = None
        if terms.own is not None:
            self._index_of = np.zeros(terms.n_samples, np.uint32)
            self._index_of[terms.own] = np.arange(len(terms.own), dtype=np.uint32)
        self._member = store.Member(
            None if cache is None else cache.segment,
            n_samples=terms.n_samples,
            samples=samples,
            places=places,
            taken=epoch.taken(terms.n_samples, samples),
            seed=seed,
            epoch=epoch.number,
            fixed=indices is not None or not shuffles,
            own_seed=own_seed(cache if shuffles else None, terms.stages.augmented),
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
        order = "seneca" if shuffles and indices is None else "samples"
        epoch.begin(order, sampler.sampler, shared._identity, indices)
        # Open until the loader has let go of this: what it holds is claimed by and by.
        self._close = finalize(self, _close, self._member, cache, order=FIRST)
        self._drawn: deque[tuple[PlannedBatch, np.ndarray]] = deque()  # each with its indices

    def __iter__(self) -> _Plan:
        return self

    def __next__(self) -> tuple[PlannedBatch, np.ndarray]:
        if not self._drawn:
            self._shared.adapt()
            self._shared.tell_of_proof()
            self._draw()
        return self._drawn.popleft()

    def _draw(self) -> None:
        """The next batch, or a few."""
        size = self._batch_size
        places = self._member.draw(size)[0]
        if len(places) == 0:
            self._shared.adapt(ended=True)
            raise StopIteration
        self._shared.copy_bytes = self._member.copy_bytes
        samples = places["sample"]
        indices = samples if self._index_of is None else self._index_of[samples]
        row, generation, claims = self._member.claims(places)
        for start in range(0, len(indices), size):
            drawn = indices[start : start + size]
            batch = PlannedBatch.of(drawn.tolist(), self._look, self._found)
            batch.names = self.terms.names
            batch.row, batch.generation = row, generation
            batch.claims = None if claims is None else claims[start : start + size]
            self._drawn.append((batch, drawn))


def _close(member: store.Member, cache: SampleCache | None) -> None:
    """Holding the cache, it comes before the cache's own end."""
    member.close()
