"""The plan of an epoch: which samples, in which order, in how many batches, and for which rank.

:func:`plan_epoch` decides this once for each epoch.

::

    sampler, batch size --+
    state that is resumed +--> plan_epoch() --> EpochPlan --> native: draws by it, threads prepare
    what the back end may +                               +-> workers: draws by it, or asks the sampler
                                                          +-> audit: writes down what it promises
                                                          +-> progress: what a place of the state is
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.utils.data import DistributedSampler, SequentialSampler

from seneca.epochs.dataset_state import has_state
from seneca.epochs.progress import EpochProgress
from seneca.epochs.sampler_state import drawn_from
from seneca.epochs.samplers import Kind, draw_seed, generators_of, kind_of, permutation, with_seed
from seneca.epochs.shard import Shard
from seneca.epochs.state import flags, of_length, unchanged_global_generator, unnamed

__all__ = ["EpochPlan", "plan_epoch", "ranks_of", "shard_of"]

PART = 65_536  # indices that are turned into Python's numbers at once


@dataclass(frozen=True, eq=False)
class EpochPlan:
    """The plan of the deliveries of one epoch in one process.

    Attributes:
        number: The epoch's number, from 0.
        order: What a place of the epoch is, see :mod:`seneca.epochs.state`.
        sampler: The sampler of samples or of batches.
        count: Places of the whole epoch; None: only the sampler knows.
        indices: The dataset's index at each place, int64; None: the index is the place itself, or only the
            sampler knows it.
        yields: What the sampler yields after ``indices``.
        shuffled: Whether the order is random.
        exchanges: Whether a copy that another job made may take the place of a sample.
        seed: Names Seneca's order, and the random numbers of samples.
        before: Whether each place was delivered before the epoch was resumed, a bool each.
        yielded: Samples that were delivered before, repeated ones included.
        batch_size: Samples of a batch; None: whatever the sampler yields is a batch. If a batch may be larger
            than the epoch: one more than that.
        drop_last: Whether the last batch is left out if it is shorter.
        repeats: Whether the back end repeats good samples, in order that all ranks yield equally many.
        shard: The shard of this rank; None: the sampler shards nothing.
    """

    number: int
    order: str
    sampler: Any
    count: int | None
    indices: np.ndarray | None
    yields: Iterator[Any] = field(repr=False)
    shuffled: bool
    exchanges: bool
    seed: int
    before: np.ndarray = field(repr=False)
    yielded: int
    batch_size: int | None
    drop_last: bool
    repeats: bool
    shard: Shard | None

    @property
    def fixed(self) -> bool:
        """Whether places come in the order of the sampler, except where copies take the places of samples."""
        return self.order != "seneca"

    @property
    def rank(self) -> int:
        """The rank of this process in the epoch."""
        return 0 if self.shard is None else self.shard.rank

    @property
    def ranks(self) -> int:
        """The number of ranks that divide the epoch."""
        return 1 if self.shard is None else self.shard.ranks

    @property
    def left(self) -> int:
        """Places that were not delivered before. Needs ``count``."""
        assert self.count is not None
        return self.count - int(np.count_nonzero(self.before[: self.count]))

    @property
    def to_yield(self) -> int:
        """Samples that are yet to come, including a last batch that may be dropped. Needs ``count``.

        A rank that has skipped bad samples yields others twice, if the back end can. Then this is more than
        ``left``.
        """
        assert self.count is not None
        return self.count - self.yielded if self.repeats and self.shard is not None else self.left

    @property
    def batches(self) -> int:
        """Batches that are yet to come. Needs ``count`` and ``batch_size``."""
        assert self.batch_size is not None
        return self.to_yield // self.batch_size if self.drop_last else -(-self.to_yield // self.batch_size)

    @property
    def delivers(self) -> int | None:
        """Samples that are yet to come; None: only the sampler knows."""
        if self.count is None:
            return None
        return (
            self.to_yield if self.batch_size is None else min(self.to_yield, self.batches * self.batch_size)
        )

    def taken(self, samples: np.ndarray | None, n_samples: int) -> np.ndarray | None:
        """The samples that were delivered before, a bit each; None: the epoch was not resumed.

        Args:
            samples: The sample at each place; None: it is the place itself.
            n_samples: The number of samples that there are.
        """
        if len(self.before) == 0:
            return None
        taken = of_length(self.before, n_samples)
        if samples is not None:
            taken = np.zeros(n_samples, bool)
            taken[samples[: len(self.before)][self.before[: len(samples)]]] = True
        return np.packbits(taken, bitorder="little")

    def batches_in_order(self) -> Iterator[tuple[Any, Any]]:
        """The batches that are left, in the order of the plan, each with its places.

        They are put together as torch's ``BatchSampler`` does it. Nothing is shared here. Therefore Seneca's
        order is the permutation that torch draws from ``seed + number``.
        """
        if not self.fixed:
            return self._rest_of_permutation()
        if self.count is None:
            yields = self.yields
        elif self.indices is None:
            yields = iter(range(self.count))
        else:
            yields = itertools.chain(_numbers(self.indices), self.yields)
        return self._put_together(yields)

    def _rest_of_permutation(self) -> Iterator[tuple[Any, Any]]:
        assert self.count is not None and self.batch_size is not None
        generator = torch.Generator().manual_seed(self.seed + self.number)
        order = torch.randperm(self.count, generator=generator).numpy()
        left = order[~of_length(self.before, self.count)[order]]
        for at in range(0, len(left), self.batch_size):
            batch = left[at : at + self.batch_size]
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch.tolist(), batch

    def _put_together(self, yields: Iterator[Any]) -> Iterator[tuple[Any, Any]]:
        before, size = self.before, self.batch_size
        if size is not None and len(before) == 0:  # the same as below, in a fifth of the time
            place = 0
            while batch := list(itertools.islice(yields, size)):
                if self.drop_last and len(batch) < size:
                    return
                yield batch, range(place, place + len(batch))
                place += len(batch)
            return
        left = ((place, one) for place, one in enumerate(yields) if place >= len(before) or not before[place])
        if size is None:
            for place, one in left:
                yield one, (place,)
            return
        while pairs := list(itertools.islice(left, size)):
            if self.drop_last and len(pairs) < size:
                return
            yield [one for _, one in pairs], [place for place, _ in pairs]


def _numbers(indices: np.ndarray) -> Iterator[int]:
    """The elements, as Python's numbers. A list of them all would take five times the memory of the array."""
    parts = (indices[at : at + PART].tolist() for at in range(0, len(indices), PART))
    return itertools.chain.from_iterable(parts)


def plan_epoch(
    progress: EpochProgress,
    sampler: Any,
    count: int | None,
    *,
    batch_size: int | None,
    drop_last: bool = False,
    order: str = "samples",
    exchanges: bool = False,
    has_cache: bool = True,
    seed: int | None = None,
    fixed_seed: int | None = None,
    alike_in_ranks: bool = False,
    subset: bool = False,
    repeats: bool = False,
) -> EpochPlan:
    """Decide which samples an epoch delivers, in which order, in how many batches, and for which rank.

    Seeds are drawn from the generators that torch's samplers would use. A resumed epoch takes its seeds from
    its state. ``progress`` notes what the order depends on, for the next state.

    Args:
        progress: The progress of the epoch, which has its number already.
        sampler: The sampler of samples or of batches.
        count: Samples of the dataset; None: it has no length.
        batch_size: Samples of a batch; None: whatever the sampler yields is a batch.
        drop_last: Whether the last batch is left out if it is shorter.
        order: What a place is if the sampler's order is kept: ``"samples"`` or ``"batches"``.
        exchanges: Whether copies of other jobs may take the places of samples, in any rank, if the order is
            random.
        has_cache: Whether this process has a cache for such copies.
        seed: Names Seneca's order; None: it is drawn from the sampler's generator, or else from torch's
            global one.
        fixed_seed: The seed of an epoch whose order is not Seneca's; None: it needs none.
        alike_in_ranks: Whether all ranks have to draw the same random order, because something outside
            Seneca shards it.
        subset: Whether the sampler is known to be of the kind SUBSET, and its samples are to be known
            beforehand. If not, a ``SubsetRandomSampler`` is asked as torch asks it.
        repeats: Whether the back end repeats good samples where a rank has skipped bad ones.
    """
    kind = Kind.SUBSET if subset else kind_of(sampler, count, subsets=False)
    resumed = None if progress.resumed is None else progress.resumed["order"]
    generator = getattr(sampler, "generator", None)
    plan: dict[str, Any] = {
        "count": count,
        "indices": None,
        "yields": iter(()),
        "shuffled": False,
        "shard": None,
    }
    senecas = kind.permutes and (exchanges if resumed is None else resumed == "seneca")
    if resumed is None and not has_cache:
        senecas = False
    if kind is Kind.SHARDED:
        assert count is not None
        shard = _note_shard(sampler, count, progress)
        before = progress.name("before", lambda: 0)
        indices = shard.indices(flags(before, count) if before else None)
        plan |= {"shard": shard, "indices": indices, "count": len(indices), "shuffled": shard.shuffle}
    elif senecas:
        plan |= {"shuffled": True}
        order = "seneca"
        if progress.resumed is not None and "nonce" in progress.resumed:
            progress.note(nonce=progress.resumed["nonce"])
        if seed is None and (generator is not None or resumed is None):
            seed = draw_seed(generator)
    elif kind is Kind.SHUFFLED or (kind is Kind.RESEEDED and alike_in_ranks):
        plan |= {"shuffled": True}
        progress.note(draws=(count, count, False))
        assert count is not None
        if alike_in_ranks:
            order_seed = progress.name("order_seed", lambda: (seed or 0) + progress.number)
            plan |= {"indices": permutation(count, order_seed)}
        elif generator is None:
            plan |= {"indices": permutation(count, progress.name("order_seed", lambda: draw_seed(None)))}
        else:
            yields = iter(sampler)
            indices = np.fromiter(itertools.islice(yields, count), np.int64, count)
            plan |= {"yields": yields, "indices": indices}
    elif kind is Kind.SUBSET:
        indices = np.fromiter(map(int, _from_the_beginning(sampler, kind, progress)), np.int64, len(sampler))
        plan |= {"shuffled": True, "indices": indices, "count": len(indices)}
    elif kind is not Kind.SEQUENTIAL:
        plan |= {"count": None, "shuffled": kind in (Kind.RANDOM, Kind.RESEEDED)}
        plan |= {"yields": _from_the_beginning(sampler, kind, progress)}
    names = seed or 0 if senecas else fixed_seed
    if exchanges and plan["shuffled"]:
        progress.in_turn = False  # even without a cache here, because other ranks may have one
    return EpochPlan(
        number=progress.number,
        order=order,
        sampler=sampler,
        exchanges=exchanges
        and has_cache
        and plan["shuffled"]
        and (senecas or kind in (Kind.SHARDED, Kind.SUBSET)),
        seed=0 if names is None else progress.name("seed", lambda: names),
        before=progress.before,
        yielded=progress.yielded,
        batch_size=None if batch_size is None else min(batch_size, _more_than(plan["count"])),
        drop_last=drop_last,
        repeats=repeats,
        **plan,
    )


def _more_than(count: int | None) -> int:
    """More samples than an epoch of ``count`` has; None: than any epoch has whose samples are counted."""
    return sys.maxsize if count is None else count + 1


def shard_of(sampler: Any, count: int | None) -> Shard | None:
    """The shard that a sampler assigns to this rank, in its present epoch; None: it shards nothing."""
    if count is None or not isinstance(sampler, DistributedSampler):
        return None
    if kind_of(sampler, count, subsets=False) is not Kind.SHARDED:
        return None
    return Shard(
        count=count,
        rank=sampler.rank,
        ranks=sampler.num_replicas,
        shuffle=sampler.shuffle,
        seed=sampler.seed,
        epoch=sampler.epoch,
        drop_last=sampler.drop_last,
    )


def ranks_of(sampler: Any, count: int | None) -> tuple[()] | tuple[int, int]:
    """``(rank, ranks)``, if the sampler shards ``count`` samples among ranks; else empty."""
    shard = shard_of(sampler, count)
    return () if shard is None else (shard.rank, shard.ranks)


def _note_shard(sampler: Any, count: int, progress: EpochProgress) -> Shard:
    """This rank's shard. If the epoch is resumed, the sampler is given its epoch number."""
    number = progress.name("sampler_epoch", lambda: sampler.epoch)
    if number != sampler.epoch:
        sampler.set_epoch(number)
    shard = shard_of(sampler, count)
    assert shard is not None
    progress.note(ranks=(shard.rank, shard.ranks), dealt=(shard.shuffle, shard.seed, shard.drop_last))
    return shard


def _from_the_beginning(sampler: Any, kind: Kind, progress: EpochProgress) -> Iterator[Any]:
    """All that a sampler yields in this epoch. Its seed, state or epoch number is set first if possible."""
    resumes = progress.resumed is not None
    if kind is Kind.RANDOM:
        progress.note(draws=(len(sampler.data_source), sampler.num_samples, sampler.replacement))
        if sampler.generator is None:
            return iter(with_seed(sampler, progress.name("order_seed", lambda: draw_seed(None))))
    both: list[Any] = [one for one in (sampler, getattr(sampler, "sampler", None)) if one is not None]
    if (owner := next(filter(has_state, both), None)) is not None:
        return drawn_from(sampler, owner, progress)
    by_epoch = [
        one for one in both if hasattr(one, "set_epoch") and isinstance(getattr(one, "epoch", None), int)
    ]
    if by_epoch:
        number = progress.name("sampler_epoch", lambda: by_epoch[0].epoch)
        if resumes:
            by_epoch[0].set_epoch(number)
    if by_epoch or generators_of(sampler) or isinstance(sampler, (Sequence, SequentialSampler)):
        return drawn_from(sampler, None, progress)
    state = progress.name("global_generator", torch.get_rng_state)
    if not resumes:
        return drawn_from(sampler, None, progress)
    with unchanged_global_generator():
        torch.set_rng_state(unnamed(state))
        yields = drawn_from(sampler, None, progress)
        first = list(itertools.islice(yields, 1))  # it draws its random numbers when asked for this
    return itertools.chain(first, yields)
