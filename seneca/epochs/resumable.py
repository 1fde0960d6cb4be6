"""Loaders and batch samplers that can be resumed, with Seneca's core or without it."""

from __future__ import annotations

import copy
import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from torch.utils.data import BatchSampler, IterableDataset

from seneca.epochs.batches import Batches, EpochBatches, Mark, StreamBatches, TrackedBatches
from seneca.epochs.dataset_state import OwnState, Standing
from seneca.epochs.lengths import length_of
from seneca.epochs.merge import merge_states
from seneca.epochs.plan import EpochPlan, plan_epoch, ranks_of
from seneca.epochs.progress import EpochProgress
from seneca.epochs.samplers import Kind, generators_of, kind_of, subset_named
from seneca.epochs.shard import each_of
from seneca.epochs.state import ORDERS, VERSION, flags, named, unchanged_global_generator, unnamed
from seneca.errors import StateError

__all__ = ["Resumable", "ResumableBatchSampler", "ResumableLoader", "kept_in_order"]

REMEMBERED = 256  # batches that a batch sampler's state can take back
FINISHED = "_iterator_finished"  # torchdata's key
BATCHES_AHEAD = 8  # batches that a stock DataLoader may have under way, if the user gives no number


class Resumable(ABC):
    """The common part of loaders and batch samplers that can be resumed.

    Attributes:
        _epochs: The number of the epoch that begins next.
        _under_way: The epoch that was begun last.
        _resumed: A state from which the next iterator continues.
    """

    _epochs: int
    _under_way: EpochProgress | None
    _resumed: dict[str, Any] | None

    def _never_begun(self) -> None:
        self._epochs = 0
        self._under_way = self._resumed = None

    def _state(self, handed_out: int | None = None) -> dict[str, Any]:
        if self._resumed is not None:
            return copy.deepcopy(self._resumed)
        progress = self._under_way
        state = {"seneca_state": VERSION, "n_samples": self._count(), "epoch": self._epochs}
        if progress is None or (progress.ended and handed_out is None):
            generators = [named(one.get_state()) for one in self._generators()]
            return {**state, "generators": generators, **self._dataset_state(progress)}
        return {**state, **progress.state(handed_out)}

    def load_state_dict(self, state: dict[str, Any] | Sequence[dict[str, Any]]) -> None:
        """Make the next ``iter()`` continue from a state that :meth:`state_dict` returned.

        An iterator that is in use is left alone. An empty dict changes nothing.

        Args:
            state: The state. If several ranks train together: this rank's state, or a list of all ranks'
                states. If the number of ranks has changed: that list, or :func:`seneca.merge_states` of it.

        Raises:
            StateError: This is no such state, or one of a newer version, or of another dataset, order or
                rank. Or the dataset's own state was saved with another number of workers.
        """
        if state == {}:
            return
        if isinstance(state, (list, tuple)):
            state = self._own_of(state)
        self._resumed = self._checked(state)

    def _own_of(self, states: Sequence[Any]) -> Any:
        """This rank's state, if as many ranks saved these states; else all of them merged."""
        ranks = self._ranks()
        own = [one for one in states if isinstance(one, dict) and tuple(one.get("ranks", ())) == ranks]
        if len(own) == 1 and len(states) == (ranks[1] if ranks else 1):
            return own[0]
        return merge_states(states)

    def _checked(self, state: Any) -> dict[str, Any]:
        if not isinstance(state, dict) or not isinstance(state.get("seneca_state"), int):
            raise StateError(
                f"this is no state that Seneca has saved, but {type(state).__name__} of another kind"
            )
        if state["seneca_state"] > VERSION:
            raise StateError(
                f"the state was saved by a newer Seneca: its version is {state['seneca_state']}, "
                f"and this one reads up to {VERSION}; upgrade seneca-loader"
            )
        count = self._count()
        if state["n_samples"] != count:
            raise StateError(
                f"the state is of {state['n_samples']} samples, but the dataset has {count}; give the loader "
                "the dataset of the run that saved it"
            )
        if state.get("dataset") is not None:
            identity = self._identity()
            if identity is not None and identity != state["dataset"]:
                raise StateError(
                    f"the state is of the dataset {state['dataset']}, but this is {identity}: its samples "
                    "have changed; if they have not, say so with state['dataset'] = None"
                )
        if state.get("subset") is not None and subset_named(*self._chosen()) not in (None, state["subset"]):
            raise StateError(
                "the state is of a Subset or SubsetRandomSampler with other indices; if they choose the same "
                "samples, say so with state['subset'] = None"
            )
        is_a_samplers = state.get("order") in ("samples", "batches")
        if is_a_samplers and len(state["generators"]) > len(self._generators()):
            raise StateError("the state's order is that of a generator; give the loader one, in any state")
        orders, sampler = self._orders()
        same = state.get("order") == "seneca" or state.get("sampler") == type(sampler).__name__
        if "order" in state and (state["order"] not in orders or not same):
            raise StateError(
                f"the state is in the midst of {ORDERS.get(state['order'])}, {state['sampler']}, "
                f"but this goes by {' or '.join(ORDERS[order] for order in orders)}, {type(sampler).__name__}"
            )
        state, ranks = copy.deepcopy(state), self._ranks()
        if state.get("order") == "seneca" and ranks:  # the rest is sharded anew
            state |= {"order": "samples", "sampler": type(sampler).__name__}
            state |= {"ranks": ranks, "before": state["done"], "done": 0}
        elif "ranks" in state and tuple(state["ranks"]) != ranks:
            rank, of = state["ranks"]
            as_many = ranks[-1:] == (of,)
            if ranks and state["done"] == 0:
                return state | {"ranks": ranks}  # no rank has delivered any since the epoch was sharded
            if as_many and state.get("in_turn") and isinstance(state["done"], int):
                return state | {"ranks": ranks}  # each rank has delivered as many, in the order of its shard
            if ranks and _left_of(state) <= (self._too_few() if as_many else 0):
                return state | {"ranks": ranks, "before": state["n_samples"], "done": 0, "yielded": 0}
            here = " of ".join(map(str, ranks))
            raise StateError(
                f"the state is of rank {rank} of {of}, and this is rank {here}: "
                f"give load_state_dict a list of the states of all {of} ranks. One state is enough for all "
                "ranks only at the beginning or the end of an epoch. In between, the number of ranks must be "
                "the same, and nothing may change their orders: "
                'share="decoded", "none" or "exact", on_error="raise" and in_order=True'
            )
        return state

    def _epoch_to_begin(self, remember: int = 0) -> EpochProgress:
        """The progress of the epoch of an iterator that is made now, and may begin later."""
        resumed, before = self._resumed, self._under_way
        self._resumed = None
        restores = None if resumed is None else resumed.get("dataset_state")
        if resumed is None and before is not None and not before.begun:
            resumed, restores = before.resumed, before.restores  # no iterator has used them yet
        if resumed is not None and "order" not in resumed:
            self._restore(resumed)
            resumed = None
        progress = self._under_way = EpochProgress(resumed, remember, restores)
        progress.generators = [generator.get_state() for generator in self._generators()]
        return progress

    def _epoch_of_iterator(self) -> EpochProgress:
        """The progress of the epoch of an iterator. The iterator may have been made without ``iter()``."""
        progress = self._under_way
        return self._epoch_to_begin() if progress is None or progress.begun else progress

    def _begin_epoch(self, progress: EpochProgress) -> None:
        """Begin an epoch, before its sampler draws."""
        if progress.resumed is not None:
            self._restore(progress.resumed)
        progress.in_turn &= getattr(self, "in_order", True)  # the user may allow torch's workers to overtake
        progress.generators = [generator.get_state() for generator in self._generators()]
        progress.chosen = self._chosen()
        progress.number = self._epochs
        self._epochs = progress.number + 1

    def _restore(self, state: dict[str, Any]) -> None:
        self._epochs = state["epoch"]
        for generator, name in zip(self._generators(), state["generators"], strict=False):
            generator.set_state(unnamed(name))

    def _record(self, plan: EpochPlan, progress: EpochProgress) -> Any:
        """A recorder that writes down what an epoch of this plan delivers; None: it is not recorded."""
        return None

    def _dataset_state(self, progress: EpochProgress | None) -> dict[str, Any]:
        """The dataset's part of a state between two epochs. ``progress`` is that of the ended epoch."""
        return {}

    # Each class has its own of these.

    @abstractmethod
    def _orders(self) -> tuple[tuple[str, ...], Any]:
        """The orders in which an epoch can be resumed, see :data:`ORDERS`; and the sampler that has them."""

    @abstractmethod
    def _ranks(self) -> tuple[()] | tuple[int, int]:
        """``(rank, ranks)``, if the sampler shards an epoch; else empty."""

    @abstractmethod
    def _count(self) -> int | None:
        """Samples of the dataset; None: it has no length."""

    @abstractmethod
    def _identity(self) -> str | None:
        """The fingerprint of the dataset's samples as they are now; None: it is not known."""

    @abstractmethod
    def _chosen(self) -> tuple[Any, Any]:
        """The user's dataset and the sampler, which may be of a subset."""

    @abstractmethod
    def _generators(self) -> list[torch.Generator]:
        """The generators of the loader and its sampler, each once."""

    @abstractmethod
    def _too_few(self) -> int:
        """The largest number of samples that still makes no batch."""


class ResumableLoader(Resumable):
    """A loader with torch's arguments that can be resumed."""

    dataset: Any
    batch_sampler: Any
    batch_size: int | None
    sampler: Any
    num_workers: int
    _index_sampler: Any
    _iterator: Any

    def _settled(self, progress: EpochProgress) -> Any:
        """A context in which an iterator of this epoch is made.

        A resumed epoch drew its random numbers in the earlier run. torch now draws a seed for the workers
        once more, which must not count. Persistent workers are ended if the dataset is to be restored or read
        again, because only new workers do that.
        """
        if progress.restores is not None or (progress.resumed is not None and self._is_stream()):
            self._iterator = None
        return nullcontext() if progress.resumed is None else unchanged_global_generator()

    def _is_stream(self) -> bool:
        return isinstance(self.dataset, IterableDataset)

    def _users_dataset(self) -> Any:
        """The dataset that is asked for its state."""
        return self.dataset

    def _dataset_state(self, progress: EpochProgress | None) -> dict[str, Any]:
        if progress is not None:
            return progress.dataset_state()
        if self.num_workers > 0:
            return {}  # new workers begin with the dataset as it was made
        try:
            state = Standing(0, ask=OwnState(self._users_dataset()).report).state(between=True)
        except StateError:
            raise
        except Exception:
            if not self._is_stream():
                raise
            return {}  # the dataset makes its counters in __iter__, and begins as it is made
        return {} if state is None else {"dataset_state": state}

    def _checked(self, state: Any) -> dict[str, Any]:
        state = super()._checked(state)
        of_dataset, cut = state.get("dataset_state"), tuple(state.get("cut", self._cut()))
        if of_dataset is not None and of_dataset["workers"] != self.num_workers:
            raise StateError(
                f"the dataset's state was saved with num_workers={of_dataset['workers']}, but this loader "
                f"has num_workers={self.num_workers}: give it as many; or, if the dataset can do without its "
                "state, delete 'dataset_state' from the loader's"
            )
        if of_dataset is None and cut != self._cut():
            raise StateError(
                f"the state counts {_batches(*cut)}, but this loader has {_batches(*self._cut())}: give it "
                "the same batch_size and num_workers, or the IterableDataset state_dict and load_state_dict"
            )
        return state

    def state_dict(self) -> dict[str, Any]:
        """Where this loader stands in its epochs, for :meth:`load_state_dict` of another run.

        This is torchdata's protocol. It may be called at any time:

        * In the loop, the state is that after the batch yielded last, however many are prepared ahead.
        * In a signal handler it is the same. While the loop waits for a batch, that batch does not count. A
          dataset that keeps a state, without workers, is asked for it as it stands then.
        * After a ``break``, the state stays the same until the next ``iter()``.
        * Before the first epoch, and after the end of one, the state is the beginning of the next epoch.
        * If there are several iterators, the state is that of the one made last.

        The resumed run delivers the samples that this run would still have delivered. If no other job's copy
        can take a sample's place (``share="none"``, ``cache=None``), order and pixels are the same too. The
        resumed run may have another number of workers and another batch size. With ``drop_last``, the rest of
        the epoch is as many whole batches as the undelivered samples fill. Each rank has its own state, see
        :meth:`load_state_dict`.

        A dataset with ``state_dict`` and ``load_state_dict`` is asked for its state, and so are the iterators
        that an ``IterableDataset`` makes. This happens in each worker, or without workers in this process.
        The states are restored before the next sample, in as many processes. An ``IterableDataset`` without a
        state is read again, and the delivered batches are passed over. Batch size and number of workers must
        then be the same.

        Returns:
            A dict of plain values. Pickled, it has at most one bit for each sample and 1 KB. It has more in
            these cases:

            * The dataset or the sampler keeps a state. A dataset's state is there once for each worker.
            * The sampler draws from torch's global generator.
            * A generator has given millions of numbers: 3 KB for each such generator.
            * The epoch of ranks was sharded anew: one more bit for each sample.

            ``_iterator_finished`` is for code that reads states of torchdata's ``StatefulDataLoader``. It is
            True after the end of an epoch, until the next one begins. States without it can be loaded too.

        Raises:
            StateError: The state that the dataset keeps cannot be pickled, or a worker could not report it.

        Example:
            >>> import torch, seneca
            >>> data = torch.arange(6)
            >>> first = seneca.DataLoader(data, batch_size=2, shuffle=True, cache=None)
            >>> batches = iter(first)
            >>> seen = next(batches).tolist()
            >>> state = first.state_dict()
            >>> second = seneca.DataLoader(data, batch_size=2, shuffle=True, cache=None, num_workers=1)
            >>> second.load_state_dict(state)
            >>> [batch.tolist() for batch in second] == [batch.tolist() for batch in batches]
            True
        """
        progress, resumed = self._under_way, self._resumed
        finished = resumed.get(FINISHED, False) if resumed else progress is not None and progress.ended
        return {**self._state(), FINISHED: finished}

    def _orders(self) -> tuple[tuple[str, ...], Any]:
        if self._is_stream():
            return ("stream",), self._index_sampler
        batches: Any = self._index_sampler
        if isinstance(batches, ResumableBatchSampler):
            return batches._orders()
        if type(batches) is not BatchSampler:
            return ("samples",) if batches is self.sampler else ("batches",), batches
        whole = self._goes_over_dataset()
        return ("samples", "seneca") if whole else ("samples",), batches.sampler

    def _ranks(self) -> tuple[()] | tuple[int, int]:
        return ranks_of(getattr(self._index_sampler, "sampler", None), self._count())

    def _count(self) -> int | None:
        return None if self._is_stream() else length_of(self.dataset)

    def _chosen(self) -> tuple[Any, Any]:
        return self._users_dataset(), getattr(self._index_sampler, "sampler", self._index_sampler)

    def _generators(self) -> list[torch.Generator]:
        return generators_of(self, self._index_sampler)

    def _too_few(self) -> int:
        return _too_few(self._index_sampler)

    def _identify(self) -> Callable[[], str | None]:
        """A function that returns the fingerprint of the samples of the epoch that begins."""
        return lambda: None

    def _stream(self) -> TrackedBatches:
        """The batches of an ``IterableDataset``."""
        sampler, cut = self._index_sampler, self._cut()
        return TrackedBatches(
            sampler,
            lambda loader: StreamBatches(sampler, loader._epoch_of_iterator(), loader._begin_epoch, cut),
            self,
        )

    def _cut(self) -> tuple[int, int]:
        """How many processes make batches of an ``IterableDataset``, and how many samples a batch has."""
        return max(1, self.num_workers), self.batch_size or 1

    def _tracked(self, mark: Mark | None = None) -> TrackedBatches:
        """The batches of torch's samplers or of the user's. For ``mark`` see :class:`EpochBatches`."""
        batches = self._index_sampler
        if isinstance(batches, ResumableBatchSampler):
            return TrackedBatches(
                batches, lambda loader: batches.epoch_batches(loader._epoch_of_iterator(), loader), self
            )
        return TrackedBatches(batches, functools.partial(ResumableLoader._epoch_batches, mark=mark), self)

    def _epoch_batches(self, mark: Mark | None = None) -> EpochBatches:
        progress = self._epoch_of_iterator()
        record = functools.partial(self._record, progress=progress)
        batches = EpochBatches(lambda: self._begin_batches(progress), progress, record=record)
        batches.mark = mark
        return batches

    def _begin_batches(
        self, progress: EpochProgress, identify: Callable[[], str | None] | None = None
    ) -> tuple[EpochPlan, Batches]:
        """The plan and the batches of an epoch that begins. ``identify`` names the samples; None: ask."""
        self._begin_epoch(progress)
        identify = identify or self._identify()
        batches: Any = self._index_sampler
        orders, sampler = self._orders()
        size, drop_last = None, False
        if type(batches) is BatchSampler:
            size, drop_last = batches.batch_size, batches.drop_last
        plan = plan_epoch(
            progress,
            sampler,
            self._count(),
            batch_size=size,
            drop_last=drop_last,
            order=orders[0],
            fixed_seed=self._sample_seed(progress),
        )
        return plan, kept_in_order(plan, progress, identify)

    def _sample_seed(self, progress: EpochProgress) -> int | None:
        """The seed that names, with the epoch's number, the random numbers of samples; None: none does."""
        return None

    def _goes_over_dataset(self) -> bool:
        """Whether torch's own batch sampler goes over every sample once, or over a rank's shard."""
        return self._kind(subsets=False) in (Kind.SEQUENTIAL, Kind.SHUFFLED, Kind.SHARDED)

    def _kind(self, *, subsets: bool) -> Kind:
        """How torch's own batch sampler goes over the dataset. For ``subsets`` see :func:`kind_of`."""
        batches: Any = self._index_sampler
        if type(batches) is not BatchSampler:
            return Kind.OTHER
        return kind_of(batches.sampler, length_of(self.dataset), subsets=subsets)


def kept_in_order(plan: EpochPlan, progress: EpochProgress, identify: Callable[[], str | None]) -> Batches:
    """The batches that are left of a plan, in its order. This is for epochs in which nothing is shared."""
    progress.begin(plan.order, plan.sampler, identify)
    return plan.batches_in_order()


class ResumableBatchSampler(BatchSampler, Resumable):
    """torch's ``BatchSampler`` with a state of its own, so that it can be resumed in any loader.

    Args:
        sampler, batch_size, drop_last: As torch's.
        seed: The seed of an order that is not the sampler's.
        batches_ahead: The most batches that will be under way.
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
        self.epoch: int

    def set_epoch(self, epoch: int) -> None:
        """Set the number of the next epoch, as with ``DistributedSampler``. The sampler's own is set too."""
        self.epoch = epoch
        if hasattr(self.sampler, "set_epoch"):
            self.sampler.set_epoch(epoch)

    def __iter__(self) -> EpochBatches:
        progress = self._epoch_to_begin(max(REMEMBERED, self.batches_ahead))
        return self.epoch_batches(progress, self, drawn_is_delivered=True)

    def epoch_batches(
        self, progress: EpochProgress, owner: Resumable, *, drawn_is_delivered: bool = False
    ) -> EpochBatches:
        """The batches of one epoch, also for a loader that knows itself what is delivered.

        Args:
            progress: The progress of the epoch, which begins or is resumed.
            owner: The loader, or this batch sampler.
            drawn_is_delivered: See :class:`EpochBatches`.
        """
        record = functools.partial(owner._record, progress=progress)
        return EpochBatches(lambda: self._begin(progress, owner), progress, drawn_is_delivered, record)

    def _begin(self, progress: EpochProgress, owner: Resumable) -> tuple[EpochPlan, Batches]:
        self._begin_number(progress, owner)
        plan = self._plan(progress)
        return plan, kept_in_order(plan, progress, self._identity)

    def _begin_number(self, progress: EpochProgress, owner: Resumable) -> None:
        # When accelerate shards the batches of a resumed run, it sets the epoch on the sampler alone.
        owner._epochs = max(owner._epochs, self.epoch, getattr(self.sampler, "epoch", 0))
        owner._begin_epoch(progress)
        self.epoch = progress.number + 1

    def _plan(self, progress: EpochProgress, **options: Any) -> EpochPlan:
        """The plan of an epoch, with ``options`` of :func:`plan_epoch`."""
        size, drop_last = self.batch_size, self.drop_last
        return plan_epoch(
            progress, self.sampler, self._count(), batch_size=size, drop_last=drop_last, **options
        )

    def state_dict(self, yielded: int | None = None) -> dict[str, Any]:
        """Where this batch sampler stands in its epochs, for :meth:`load_state_dict` of another run.

        A loader draws batches ahead, and has then drawn more than it has delivered. A batch sampler cannot
        see that, and counts what was drawn. Therefore in mid-epoch give ``yielded``.

        Args:
            yielded: How many batches the loader has yielded in this epoch. In a resumed epoch: since the
                resume. None: all that were drawn.

        Returns:
            A dict of plain values. Pickled, it has at most one bit for each sample and 1 KB.

        Raises:
            ValueError: Fewer batches than ``yielded`` were drawn. Or more batches would have to be taken back
                than are remembered, which are at least 256.

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

    # What the base class asks for.

    @property
    def _epochs(self) -> int:  # type: ignore[override]  # is an attribute elsewhere
        return self.epoch

    @_epochs.setter
    def _epochs(self, epoch: int) -> None:
        self.epoch = epoch

    def _orders(self) -> tuple[tuple[str, ...], Any]:
        kind = kind_of(self.sampler, self._count(), subsets=False)
        whole = kind not in (Kind.RANDOM, Kind.OTHER)
        return ("samples", "seneca") if whole else ("samples",), self.sampler

    def _ranks(self) -> tuple[()] | tuple[int, int]:
        return ranks_of(self.sampler, self._count())

    def _count(self) -> int | None:
        source: Any = getattr(self.sampler, "data_source", getattr(self.sampler, "dataset", None))
        return length_of(source)

    def _identity(self) -> str | None:
        return None

    def _checked(self, state: Any) -> dict[str, Any]:
        state = super()._checked(state)
        if "dataset_state" in state:
            raise StateError(
                "the state holds that of the dataset, which a batch sampler cannot give back: load it with a "
                "seneca.DataLoader; or, if the dataset can do without its state, delete 'dataset_state'"
            )
        return state

    def _chosen(self) -> tuple[Any, Any]:
        source: Any = getattr(self.sampler, "data_source", getattr(self.sampler, "dataset", None))
        return source, self.sampler

    def _generators(self) -> list[torch.Generator]:
        return generators_of(self.sampler)

    def _too_few(self) -> int:
        return _too_few(self)


def _batches(processes: int, size: int) -> str:
    return f"batches of {size} samples from {processes} process{'es' if processes > 1 else ''}"


def _too_few(batches: Any) -> int:
    drops = isinstance(batches, BatchSampler) and batches.drop_last
    return batches.batch_size - 1 if drops else 0


def _left_of(state: dict[str, Any]) -> int:
    """Samples of its shard that a rank has yet to yield. All ranks have equally many."""
    left = state["n_samples"] - int(np.count_nonzero(flags(state["before"], state["n_samples"])))
    ranks, drop_last = state["ranks"][1], state["dealt"][2]
    return each_of(left, ranks, drop_last) - int(state["yielded"])
