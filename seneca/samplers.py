"""The batch sampler that plans for a :class:`seneca.SharedDataset`: it draws, and workers make."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import torch
from torch.utils.data import BatchSampler, RandomSampler, SequentialSampler

from seneca._core import store
from seneca.cache import SampleCache
from seneca.ending import FIRST, finalize
from seneca.ranks import world
from seneca.resume import Epoch, Resumable
from seneca.shared import SharedDataset
from seneca.terms import PlannedBatch, Terms
from seneca.walks import Walk, dealt_by, drawn, generators_of, ranks_of, rest_of_senecas, sampled
from seneca.witness import open_log_of

__all__ = ["OpportunisticBatchSampler"]

BATCHES_ALONE = 4  # that are drawn at once while no other job is there: it takes less time
BATCHES_AHEAD = 8  # that a stock DataLoader may have under way, where nothing is said
REMEMBERED = 256  # batches that a state can leave out


class OpportunisticBatchSampler(BatchSampler, Resumable):
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
        self._never_begun()
        self.shared: SharedDataset | None = None  # whose batches these are, where the sampler does not say
        self.looked = False  # whether somebody has looked at the dataset for the epoch that is to begin

        self.epoch: int

    def set_epoch(self, epoch: int) -> None:
        """Name the next epoch, as ``DistributedSampler`` does; the sampler's own is set too."""
        self.epoch = epoch
        if hasattr(self.sampler, "set_epoch"):
            self.sampler.set_epoch(epoch)

    def __iter__(self) -> Walk:
        epoch = self._epoch_to_begin(max(REMEMBERED, self.batches_ahead))
        return self.walk(epoch, self, drawn_is_delivered=True)

    def walk(self, epoch: Epoch, owner: Resumable, *, drawn_is_delivered: bool = False) -> Walk:
        """One epoch of it, as a loader has it which knows itself what of it is delivered.

        Args:
            epoch: To begin, or to go on with.
            owner: Whose epoch it is.
            drawn_is_delivered: See :class:`Walk`.
        """
        shared = self._shared_dataset()
        if shared is not None and not self.looked:
            shared.look()  # before workers begin, so that they need not
        self.looked = True
        open_log = functools.partial(open_log_of, owner, self, shared, epoch)
        return Walk(lambda: self._begin(shared, epoch, owner), epoch, drawn_is_delivered, open_log)

    def _shared_dataset(self) -> SharedDataset | None:
        sampler: Any = self.sampler
        shared = self.shared or getattr(sampler, "data_source", getattr(sampler, "dataset", None))
        return shared if isinstance(shared, SharedDataset) else None

    def _walks_it_all(self) -> bool:
        """Whether the sampler goes over every sample of the shared dataset once."""
        sampler: Any = self.sampler
        if type(sampler) is SequentialSampler:
            return True
        count = len(sampler.data_source) if isinstance(sampler, RandomSampler) else None
        return count is not None and not sampler.replacement and len(sampler) == count

    def _begin(
        self, shared: SharedDataset | None, epoch: Epoch, owner: Resumable
    ) -> Iterator[tuple[list[int], Any]]:
        # The sampler alone is told the epoch where accelerate deals out the batches of a resumed run.
        owner._epochs = max(owner._epochs, self.epoch, getattr(self.sampler, "epoch", 0))
        owner._begin_epoch(epoch)
        self.epoch = epoch.number + 1
        self.looked = False
        batches: dict[str, Any] = {"batch_size": self.batch_size, "drop_last": self.drop_last}
        if shared is None:
            return sampled(self.sampler, epoch, lambda: None, order="samples", **batches)
        shared.join()  # for the workers: what they leave there stays when they end with the epoch
        plans = shared.terms is not None and shared.terms.shares
        if plans and (portion := dealt_by(self.sampler, len(shared), epoch)) is not None:
            return _Plan(self, shared, epoch, portion.portion.shuffle, portion.indices)
        if not self._walks_it_all():
            return sampled(self.sampler, epoch, shared._identity, order="samples", **batches)
        shuffles = isinstance(self.sampler, RandomSampler)
        is_dealt_out = self.shared is None and world()[1] > 1
        if shuffles and is_dealt_out:
            generator = torch.Generator().manual_seed((self.seed or 0) + epoch.number)
            order = torch.randperm(len(shared), generator=generator).tolist()
            return sampled(order, epoch, shared._identity, order="samples", **batches)
        plans = plans and not is_dealt_out
        resumed = None if epoch.resumed is None else epoch.resumed["order"]
        if resumed == "seneca" and shuffles and not plans:
            return rest_of_senecas(self.sampler, epoch, shared._identity, count=len(shared), **batches)
        if plans and not (resumed == "samples" and shuffles):
            return _Plan(self, shared, epoch, shuffles)
        # Nothing will take another's place.
        return sampled(self.sampler, epoch, shared._identity, order="samples", **batches)

    def state_dict(self, yielded: int | None = None) -> dict[str, Any]:
        """Where it stands, for :meth:`load_state_dict` of another run: at most a bit a sample and 1 KB.

        Whoever draws batches ahead has drawn more than it has delivered. A batch sampler cannot see
        that, and counts what was drawn; in mid-epoch, say how much of it was delivered.

        Args:
            yielded: Batches that the loader has yielded in this epoch, since it was resumed if it was.

        Raises:
            ValueError: So many were not drawn; or it is too long ago to tell, more than 256 batches.

        Example:
            >>> import torch, seneca
            >>> data = torch.utils.data.TensorDataset(torch.arange(6))
            >>> def batches():
            ...     shared = seneca.SharedDataset(data, cache_bytes="4MiB")
            ...     sampler = torch.utils.data.RandomSampler(shared)
            ...     return seneca.OpportunisticBatchSampler(sampler, batch_size=2)
            >>> first, second = batches(), batches()
            >>> drawn = iter(first)
            >>> seen = next(drawn) + next(drawn)
            >>> second.load_state_dict(first.state_dict())
            >>> sorted(seen + [index for batch in second for index in batch])
            [0, 1, 2, 3, 4, 5]
        """
        return self._state(yielded)

    # As the common part asks.

    @property
    def _epochs(self) -> int:  # type: ignore[override]  # is an attribute elsewhere
        return self.epoch

    @_epochs.setter
    def _epochs(self, epoch: int) -> None:
        self.epoch = epoch

    def _orders(self) -> tuple[tuple[str, ...], Any]:
        whole = self._shared_dataset() is not None and self._walks_it_all()
        whole = whole or bool(self._ranks())
        return ("samples", "seneca") if whole else ("samples",), self.sampler

    def _ranks(self) -> tuple[()] | tuple[int, int]:
        return ranks_of(self.sampler, self._count())

    def _count(self) -> int | None:
        source: Any = getattr(self.sampler, "data_source", getattr(self.sampler, "dataset", None))
        return len(source) if hasattr(source, "__len__") else None

    def _identity(self) -> str | None:
        shared = self._shared_dataset()
        if shared is None:
            return None
        shared.look()
        return shared._identity()

    def _generators(self) -> list[torch.Generator]:
        return generators_of(self.sampler)


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
            seed = drawn(generator)
        seed = epoch.name("seed", lambda: seed or 0)
        self._shared = shared
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
            self._index_of = np.zeros(terms.n_samples, np.int64)
            self._index_of[terms.own] = np.arange(len(terms.own))
        self._member = store.Member(
            None if cache is None else cache.segment,
            n_samples=terms.n_samples,
            samples=samples,
            places=places,
            taken=epoch.taken(terms.n_samples, samples),
            seed=seed,
            epoch=epoch.number,
            fixed=indices is not None or not shuffles,
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
        indices = samples if self._index_of is None else self._index_of[samples]
        row, generation, claims = self._member.claims(places)
        for start in range(0, len(indices), size):
            drawn = indices[start : start + size]
            batch = PlannedBatch(drawn.tolist())
            batch.source, batch.augmented = self.terms.source, self.terms.stages.augmented
            batch.row, batch.generation = row, generation
            batch.claims = None if claims is None else claims[start : start + size]
            self._drawn.append((batch, drawn))


def _close(member: store.Member, cache: SampleCache | None) -> None:
    """Holding the cache, it comes before the cache's own end."""
    member.close()
