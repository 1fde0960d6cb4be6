"""What a sampler yields in one epoch, batch by batch, each with its places; begun anew or gone on with."""

from __future__ import annotations

import functools
import itertools
import logging
import numbers
import secrets
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch.utils.data import RandomSampler, SequentialSampler

from seneca.lengths import length_of
from seneca.portions import Portion, portion_of
from seneca.resume import Epoch, flags, of_length, unchanged_global_generator, unnamed
from seneca.sampler_states import drawn_from
from seneca.stateful import has_state

if TYPE_CHECKING:
    from seneca.cache import SampleCache
    from seneca.resumable import Resumable

__all__ = [
    "Drawn",
    "Stream",
    "Walk",
    "Walks",
    "dealt_by",
    "drawn_seed",
    "generators_of",
    "own_seed",
    "ranks_of",
    "sampled",
    "samples_of",
    "seeded",
]

logger = logging.getLogger(__name__)

Batches = Iterator[tuple[Any, Any]]  # each with its places


class Drawn(NamedTuple):
    """A batch that was drawn.

    Attributes:
        places: Those of its samples; None: nothing was drawn.
        indices: Its samples, where they are written down.
        sampler_now: The state that its sampler keeps, see :mod:`seneca.sampler_states`.
    """

    places: Any = None
    indices: list[int] | None = None
    sampler_now: dict[str, Any] | None = None


class Walk:
    """One epoch of a batch sampler. As torch's, it draws nothing before it is asked for the first batch.

    Args:
        batches: Yields batches with their places.
        epoch: What is under way.
        drawn_is_delivered: Whether nobody else says what is delivered.
        open_log: Opens a log of the epoch's; None where nobody wants it. See :mod:`seneca.witness`.

    Attributes:
        drawn: The batch drawn last.
        mark: What makes of a list of indices one that says more of them; None: lists stay as they are.
    """

    is_stream = False

    def __init__(
        self,
        batches: Callable[[], Batches],
        epoch: Epoch,
        drawn_is_delivered: bool = False,
        open_log: Callable[[], Any] = lambda: None,
    ) -> None:
        self._begin: Callable[[], Batches] | None = batches
        self._batches: Batches | None = None
        self._drawn_is_delivered = drawn_is_delivered
        self._open_log = open_log
        self.epoch = epoch
        self.drawn = Drawn()
        self.mark: Callable[[list[int]], list[int]] | None = None

    def __iter__(self) -> Walk:
        return self

    def __next__(self) -> Any:
        self.begin()
        assert self._batches is not None
        try:
            batch, places = next(self._batches)
        except StopIteration:
            if self._drawn_is_delivered:
                self.epoch.end()
            raise
        if self.mark is not None and type(batch) is list:
            batch = self.mark(batch)
        indices = sampler_now = None
        if self.epoch.draws is not None:
            sampler_now = self.epoch.draws.now()
        if self.epoch.log is not None:
            indices = _indices(batch)
            if hasattr(batch, "log"):  # one that workers are told of
                batch.log = self.epoch.log.id
        self.drawn = Drawn(places, indices, sampler_now)
        if self._drawn_is_delivered:
            self.made(self.drawn)
        return batch

    def made(self, drawn: Drawn, *, failed: bool = False) -> None:
        """What was once drawn is delivered, or has failed in its place."""
        log, write = self.epoch.log, None
        if log is not None:
            write = functools.partial(log.failed if failed else log.gave, drawn.indices)
        self.epoch.made(drawn.places, write=write, sampler_now=drawn.sampler_now)

    def begin(self) -> None:
        """Join the epoch, as the first batch does: from now on other jobs make copies for it."""
        if self._batches is None:
            assert self._begin is not None
            self._batches = self._begin()
            self.epoch.log = self._open_log()
            # Nothing leads from a walk to the loader, which may hold the iterator whose walk it is: worker
            # processes are ended as soon as their loader is let go of.
            self._begin, self._open_log = None, _nowhere


def _nowhere() -> None:
    """No log."""


def _indices(batch: Any) -> list[int]:
    """Of its samples. A sampler of the user's may yield what is no index."""
    batch = batch if isinstance(batch, (list, tuple)) else [batch]
    return [int(index) for index in batch if isinstance(index, numbers.Integral) and int(index) >= 0]


class Stream(Walk):
    """One epoch of an ``IterableDataset``, whose batches can only be counted.

    An epoch that goes on passes over the batches that were delivered before, unless the dataset or its
    iterators were given their states back.

    Args:
        index_sampler: Torch's, which yields for as long as it is asked.
        epoch: What is under way.
        owner: The loader.
        cut: How many processes make batches, and of how many samples. Others make other batches.
    """

    is_stream = True

    def __init__(self, index_sampler: Any, epoch: Epoch, owner: Resumable, cut: tuple[int, int]) -> None:
        super().__init__(functools.partial(self._endless, index_sampler, epoch, owner), epoch)
        epoch.note(cut=cut)
        self._place = 0 if epoch.restores is None else len(epoch.before)

    @staticmethod
    def _endless(index_sampler: Any, epoch: Epoch, owner: Resumable) -> Batches:
        owner._begin_epoch(epoch)
        epoch.begin("stream", index_sampler, lambda: None)
        return ((index, None) for index in index_sampler)

    def pass_on(self, next_batch: Callable[[], Any]) -> Any:
        """The next batch that was not delivered before."""
        if self._place < len(self.epoch.before):
            logger.warning(
                "reading %s batches again to pass over them, because the loader's state has none of the "
                "dataset's; give the IterableDataset or its iterators state_dict and load_state_dict",
                f"{len(self.epoch.before):,}",
            )
        while True:
            place, self._place = self._place, self._place + 1
            passed_over = place < len(self.epoch.before)
            try:
                batch = next_batch()
            except StopIteration:
                self.epoch.end()
                raise
            except Exception:
                if passed_over:
                    continue  # as it failed before
                self.epoch.made((place,))
                raise
            if not passed_over:
                self.epoch.made((place,))
                return batch


class Walks:
    """A batch sampler of which a loader knows how far each epoch has come.

    Args:
        batch_sampler: Any; what has a length has it here.
        walk: Makes the walk of an epoch of the loader's.
        loader: Whose. Not held: torch's iterators hold this, and the loader may hold the iterator.
    """

    def __init__(self, batch_sampler: Any, walk: Callable[[Any], Walk], loader: Any) -> None:
        self._batch_sampler = batch_sampler
        self._walk = walk
        self._loader = weakref.ref(loader)

    def __iter__(self) -> Walk:
        loader = self._loader()
        assert loader is not None, "only the loader makes and resets its iterators"
        return self._walk(loader)

    def __len__(self) -> int:
        return len(self._batch_sampler)


def sampled(
    sampler: Any,
    epoch: Epoch,
    identify: Callable[[], str | None],
    *,
    order: str,
    batch_size: int | None = None,
    drop_last: bool = False,
    of: Any = None,
) -> Batches:
    """What a sampler yields, as torch's ``BatchSampler`` puts it together.

    Where the epoch goes on, the batches are made of what was not delivered: with ``drop_last`` of as
    much of that as fills them.

    Args:
        sampler: Of samples, or of batches.
        epoch: What is under way.
        identify: See :meth:`Epoch.begin`.
        order: See :data:`seneca.resume.ORDERS`.
        batch_size: Samples of a batch; None: each that it yields is a batch.
        drop_last: Whether the last batch, where it is shorter, is left out.
        of: The sampler as a state names it, where this one stands for it.
    """
    yields = _from_the_beginning(sampler, epoch)
    epoch.begin(order, sampler if of is None else of, identify)
    before = epoch.before
    if batch_size is not None and len(before) == 0:  # as below, in a fifth of the time
        place = 0
        while one := list(itertools.islice(yields, batch_size)):
            if drop_last and len(one) < batch_size:
                return
            yield one, range(place, place + len(one))
            place += len(one)
        return
    rest = ((place, one) for place, one in enumerate(yields) if place >= len(before) or not before[place])
    if batch_size is None:
        for place, one in rest:
            yield one, (place,)
        return
    while batch := list(itertools.islice(rest, batch_size)):
        if drop_last and len(batch) < batch_size:
            return
        yield [one for _, one in batch], [place for place, _ in batch]


def samples_of(
    sampler: Any, epoch: Epoch, identify: Callable[[], str | None], *, batch_size: int, drop_last: bool
) -> Batches:
    """Batches of a sampler of samples where it has nothing to share; arguments as :func:`sampled`'s."""
    resumed = None if epoch.resumed is None else epoch.resumed["order"]
    if resumed == "seneca" and isinstance(sampler, RandomSampler):
        return _rest_of_senecas(sampler, epoch, identify, batch_size=batch_size, drop_last=drop_last)
    return sampled(sampler, epoch, identify, order="samples", batch_size=batch_size, drop_last=drop_last)


def _rest_of_senecas(
    sampler: RandomSampler,
    epoch: Epoch,
    identify: Callable[[], str | None],
    *,
    batch_size: int,
    drop_last: bool,
) -> Batches:
    """The rest of an epoch that was begun in Seneca's order, where nothing is shared now: in a random one."""
    count = len(sampler.data_source)
    seed = epoch.name("seed", lambda: drawn_seed(None))
    if sampler.generator is not None:
        drawn_seed(sampler.generator)  # as the epoch did
    if epoch.resumed is not None and "nonce" in epoch.resumed:
        epoch.note(nonce=epoch.resumed["nonce"])
    epoch.begin("seneca", sampler, identify)
    generator = torch.Generator().manual_seed(seed + epoch.number)
    order = torch.randperm(count, generator=generator).numpy()
    left = order[~of_length(epoch.before, count)[order]]
    for at in range(0, len(left), batch_size):
        batch = left[at : at + batch_size]
        if len(batch) == batch_size or not drop_last:
            yield batch.tolist(), batch


def drawn_seed(generator: torch.Generator | None) -> int:
    """A seed, as torch's samplers draw theirs."""
    return int(torch.empty((), dtype=torch.int64).random_(generator=generator).item())


def own_seed(cache: SampleCache | None, augmented: int) -> int:
    """The seed of an order that is this job's alone, where others share as the epoch begins.

    Jobs of one seed, which is torch's default, have one order. The one that is an epoch behind would prepare
    in the order that the other had in the epoch before, and samples meet the same neighbours again.

    Args:
        cache: Where it exchanges samples with others; None: nowhere.
        augmented: The pipeline whose copies it exchanges.

    Returns:
        0: the order is that of the job's seed.
    """
    if cache is None or not cache.segment.others_exchange(augmented):
        return 0
    return 1 + secrets.randbelow(2**64 - 1)


def generators_of(*things: Any) -> list[torch.Generator]:
    """Those that these have, and the samplers beneath them; each once."""
    found: list[torch.Generator] = []
    for thing in things:
        for one in (thing, getattr(thing, "sampler", None)):
            generator = getattr(one, "generator", None)
            if isinstance(generator, torch.Generator) and all(generator is not other for other in found):
                found.append(generator)
    return found


class Dealt(NamedTuple):
    """What a rank has of an epoch."""

    portion: Portion
    indices: np.ndarray


def dealt_by(sampler: Any, count: int, epoch: Epoch) -> Dealt | None:
    """A rank's portion of an epoch: of all of it, or of what all ranks together had left.

    Args:
        sampler: Any; of an epoch that goes on it is told which that is.
        count: Samples of the dataset.
        epoch: Under way.

    Returns:
        None: the sampler does not deal to ranks.
    """
    if portion_of(sampler, count) is None:
        return None
    number = epoch.name("sampler_epoch", lambda: sampler.epoch)
    if number != sampler.epoch:
        sampler.set_epoch(number)
    portion = portion_of(sampler, count)
    assert portion is not None
    epoch.note(ranks=(portion.rank, portion.ranks), dealt=(portion.shuffle, portion.seed, portion.drop_last))
    before = epoch.name("before", lambda: 0)
    return Dealt(portion, portion.indices(flags(before, count) if before else None))


def ranks_of(sampler: Any, count: int | None) -> tuple[()] | tuple[int, int]:
    """``(rank, ranks)`` among which a sampler deals out so many samples; empty: it does not."""
    portion = None if count is None else portion_of(sampler, count)
    return () if portion is None else (portion.rank, portion.ranks)


def seeded(sampler: RandomSampler, seed: int) -> RandomSampler:
    """A sampler that yields what this one does when it draws this seed."""
    generator = torch.Generator().manual_seed(seed)
    return RandomSampler(sampler.data_source, sampler.replacement, sampler.num_samples, generator)


def _from_the_beginning(sampler: Any, epoch: Epoch) -> Iterator[Any]:
    """All that a sampler yields in this epoch, as far as it hangs on what can be set."""
    resumes = epoch.resumed is not None
    count = length_of(getattr(sampler, "dataset", None)) or 0
    if (dealt := dealt_by(sampler, count, epoch)) is not None:
        return iter(dealt.indices.tolist())
    if type(sampler) is RandomSampler:
        epoch.note(draws=(len(sampler.data_source), sampler.num_samples, sampler.replacement))
    if type(sampler) is RandomSampler and sampler.generator is None:
        return iter(seeded(sampler, epoch.name("order_seed", lambda: drawn_seed(None))))
    both: list[Any] = [one for one in (sampler, getattr(sampler, "sampler", None)) if one is not None]
    if (owner := next(filter(has_state, both), None)) is not None:
        return drawn_from(sampler, owner, epoch)
    by_epoch = [
        one for one in both if hasattr(one, "set_epoch") and isinstance(getattr(one, "epoch", None), int)
    ]
    if by_epoch:
        number = epoch.name("sampler_epoch", lambda: by_epoch[0].epoch)
        if resumes:
            by_epoch[0].set_epoch(number)
    if by_epoch or generators_of(sampler) or isinstance(sampler, (Sequence, SequentialSampler)):
        return drawn_from(sampler, None, epoch)
    state = epoch.name("global_generator", torch.get_rng_state)
    if not resumes:
        return drawn_from(sampler, None, epoch)
    with unchanged_global_generator():
        torch.set_rng_state(unnamed(state))
        yields = drawn_from(sampler, None, epoch)
        first = list(itertools.islice(yields, 1))  # as it is asked for this, it draws
    return itertools.chain(first, yields)
