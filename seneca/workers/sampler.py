"""The batch sampler of a :class:`seneca.SharedDataset`: it draws batches, and workers make their items."""

from __future__ import annotations

from collections import deque
from typing import Any, cast

import numpy as np

from seneca._core.member import Member
from seneca._runtime.distributed import world
from seneca._runtime.finalizers import FIRST, finalize
from seneca.cache import SampleCache, seed_beside_others
from seneca.epochs.batches import Batches, EpochBatches
from seneca.epochs.lengths import length_of
from seneca.epochs.plan import EpochPlan
from seneca.epochs.progress import EpochProgress
from seneca.epochs.resumable import Resumable, ResumableBatchSampler, kept_in_order
from seneca.epochs.samplers import seed_of
from seneca.workers.dataset import SharedDataset
from seneca.workers.terms import PlannedBatch, Terms

__all__ = ["OpportunisticBatchSampler"]

BATCHES_ALONE = 4  # batches drawn at once while no other job is there, which takes less time


class OpportunisticBatchSampler(ResumableBatchSampler):
    """Draws the batches of a :class:`SharedDataset`: first the samples of which other jobs have made copies.

    It has the signature of ``torch.utils.data.BatchSampler`` and takes its place. Each sample comes once an
    epoch. The sampler decides the order:

    * A ``RandomSampler`` of the whole shared dataset without replacement may be replaced. If copies may be
      shared, Seneca draws a random order of its own, another one in every epoch. Else the order is torch's.
    * If several processes train together (``WORLD_SIZE`` above 1), such a ``RandomSampler`` gives all of them
      the same permutation of (seed, epoch). Something outside Seneca has to shard it.
    * With a ``DistributedSampler``, each rank delivers the shard that the sampler assigns to it. It keeps the
      sampler's order if no other job shares.
    * In a :class:`seneca.DataLoader`, copies may also take the places of samples of a
      ``SubsetRandomSampler``, whose samples are each once. (It names no dataset, so that no other loader
      knows which one it is of.)
    * The order of any other sampler is kept.

    Args:
        sampler: A sampler of a :class:`SharedDataset`.
        batch_size: Samples of a batch.
        drop_last: Whether the last batch is left out if it is shorter.
        seed: The seed of Seneca's order while no other job shares. None: for every epoch one is drawn from
            the sampler's generator, or else from torch's global generator.
        batches_ahead: The most batches that will be under way: ``num_workers * prefetch_factor + 1``.

    Raises:
        ValueError: ``BatchSampler`` refuses an argument.

    Example: see :class:`SharedDataset`.
    """

    shared: SharedDataset | None = None  # the dataset, if the sampler does not name it
    looked = False  # whether the dataset was inspected for the epoch that begins next
    threads: int | None = None  # the number of processes that prepare, if known
    is_subset = False  # whether the sampler is known to be of the kind SUBSET

    def epoch_batches(
        self, progress: EpochProgress, owner: Resumable, *, drawn_is_delivered: bool = False
    ) -> EpochBatches:
        shared = self._shared_dataset()
        if shared is not None and not self.looked:
            shared.look()  # before workers begin, so that they need not inspect it
        self.looked = True
        batches = super().epoch_batches(progress, owner, drawn_is_delivered=drawn_is_delivered)
        if shared is not None:
            batches.mark = shared.batch
        return batches

    def _record(self, plan: EpochPlan, progress: EpochProgress) -> Any:
        shared = self._shared_dataset()
        return None if shared is None else shared.record(self, plan, progress)

    def _shared_dataset(self) -> SharedDataset | None:
        sampler: Any = self.sampler
        shared = self.shared or getattr(sampler, "data_source", getattr(sampler, "dataset", None))
        return shared if isinstance(shared, SharedDataset) else None

    def _begin(self, progress: EpochProgress, owner: Resumable) -> tuple[EpochPlan, Batches]:
        shared = self._shared_dataset()
        if shared is None:
            return super()._begin(progress, owner)
        self._begin_number(progress, owner)
        self.looked = False
        # This process joins for the workers: what they leave in the cache stays when they end.
        shared.join(batch_size=self.batch_size, batches_ahead=self.batches_ahead, threads=self.threads)
        sharded = bool(self._ranks())
        sharded_outside = self.shared is None and world()[1] > 1 and not sharded
        draws = shared.terms is not None and shared.terms.shares and not sharded_outside
        is_exact = shared.terms is not None and shared.terms.exact
        fixed_seed = self.seed or 0
        if is_exact and self.seed is None:
            fixed_seed = seed_of(progress.generators)
        plan = self._plan(
            progress,
            exchanges=draws and not is_exact,
            seed=self.seed,
            fixed_seed=fixed_seed if draws or is_exact else None,
            alike_in_ranks=sharded_outside,
            subset=self.is_subset and draws and not is_exact,
        )
        if draws and plan.count is not None and (plan.exchanges or is_exact or not plan.shuffled):
            return plan, _DrawnBatches(self, shared, progress, plan)
        return plan, kept_in_order(plan, progress, self._identity)  # no copy will take a sample's place

    def _count(self) -> int | None:
        shared = self._shared_dataset()
        return super()._count() if shared is None else length_of(shared)

    def _identity(self) -> str | None:
        shared = self._shared_dataset()
        return None if shared is None else shared._identity()

    def _chosen(self) -> tuple[Any, Any]:
        shared = self._shared_dataset()
        return super()._chosen() if shared is None else (shared.dataset, self.sampler)

    def _checked(self, state: Any) -> dict[str, Any]:
        if (shared := self._shared_dataset()) is not None:
            shared.look()
        return super()._checked(state)


class _DrawnBatches:
    """The batches of one epoch, which a member draws and workers prepare."""

    def __init__(
        self,
        sampler: OpportunisticBatchSampler,
        shared: SharedDataset,
        progress: EpochProgress,
        plan: EpochPlan,
    ) -> None:
        self._shared, self._progress = shared, progress
        self._session = shared._session
        inspection = shared._inspection
        self._inspection, self._found = inspection.number, inspection.found
        self._files = inspection.files_name
        self._batch_size = size = plan.batch_size or 1
        self.terms = terms = cast(Terms, shared.terms)
        cache = shared.join()
        samples = terms.own
        if plan.indices is not None:  # a rank's
            samples = plan.indices.astype(np.uint32) if samples is None else samples[plan.indices]
        self._index_of = None
        if terms.own is not None:
            self._index_of = np.zeros(terms.n_samples, np.uint32)
            self._index_of[terms.own] = np.arange(len(terms.own), dtype=np.uint32)
        augmented, family, self._epoch = terms.stages.augmented, 0, None
        if terms.exact:
            self._epoch = plan.seed, plan.number
            family, augmented = terms.names_of_epoch(*self._epoch)
        shares = not self._session.makes_quicker(terms)
        self._member = Member(
            None if cache is None else cache.segment,
            n_samples=terms.n_samples,
            samples=samples,
            places=plan.delivers or 0,
            taken=plan.taken(samples, terms.n_samples),
            seed=plan.seed,
            epoch=plan.number,
            fixed=plan.fixed,
            own_seed=seed_beside_others(cache if plan.exchanges else None, terms.stages.augmented),
            decoded=terms.stages.decoded,
            augmented=augmented,
            height=0,
            width=0,
            copy_bytes=self._session.copy_bytes,
            in_flight=size * sampler.batches_ahead,
            shares=shares,
            keeps=False,
            substitutes=plan.exchanges and shares,
            hands_over=True,
            exact_family=family,
            wanted_alone=min(size * BATCHES_ALONE, terms.n_samples + 1),
            files_name=self._files,
        )
        progress.begin(plan.order, plan.sampler, shared._identity, plan.indices)
        # The member stays open until the loader lets go of this, because workers claim what it holds later.
        self._close = finalize(self, _close, self._member, cache, order=FIRST)
        self._drawn: deque[tuple[PlannedBatch, np.ndarray]] = deque()  # each with its indices

    def __iter__(self) -> _DrawnBatches:
        return self

    def __next__(self) -> tuple[PlannedBatch, np.ndarray]:
        if not self._drawn:
            self._session.tick()
            self._shared.tell_of_proof()
            self._draw()
        return self._drawn.popleft()

    def _draw(self) -> None:
        """Draw the next batch, or a few batches."""
        size = self._batch_size
        places = self._member.draw(size)[0]
        if len(places) == 0:
            self._session.tick(drawn=True)
            if self._progress.recorder is not None:
                self._progress.recorder.out_of_turn = self._member.out_of_turn
            raise StopIteration
        self._session.copy_bytes = self._member.copy_bytes
        samples = places["sample"]
        indices = samples if self._index_of is None else self._index_of[samples]
        row, generation, claims = self._member.claims(places)
        for start in range(0, len(indices), size):
            drawn = indices[start : start + size]
            batch = PlannedBatch.of(drawn.tolist(), self._inspection, self._found, self._files, self._epoch)
            batch.names = self.terms.names
            batch.row, batch.generation = row, generation
            batch.claims = None if claims is None else claims[start : start + size]
            self._drawn.append((batch, drawn))


def _close(member: Member, cache: SampleCache | None) -> None:
    """Close the member before the cache, which this reference keeps."""
    member.close()
