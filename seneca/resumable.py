"""What can be resumed: loaders and batch samplers, with Seneca's core or without it."""

from __future__ import annotations

import copy
import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from torch.utils.data import BatchSampler, IterableDataset, RandomSampler, SequentialSampler

from seneca.errors import StateError
from seneca.lengths import length_of
from seneca.merging import merge_states
from seneca.portions import each_of, portion_of
from seneca.resume import (
    ORDERS,
    VERSION,
    Epoch,
    flags,
    named,
    unchanged_global_generator,
    unnamed,
)
from seneca.stateful import OwnState, Standing
from seneca.walks import Stream, Walk, Walks, generators_of, ranks_of, sampled, samples_of

__all__ = ["Resumable", "ResumableBatchSampler", "ResumableLoader"]

REMEMBERED = 256  # batches that a batch sampler's state can leave out
BATCHES_AHEAD = 8  # that a stock DataLoader may have under way, where nothing is said


class Resumable(ABC):
    """What a loader and a batch sampler have in common that can be resumed.

    Attributes:
        _epochs: The number of the epoch that begins next.
        _under_way: The epoch that was begun last.
        _resumed: A state that the next iterator goes on with.
    """

    _epochs: int
    _under_way: Epoch | None
    _resumed: dict[str, Any] | None

    def _never_begun(self) -> None:
        self._epochs = 0
        self._under_way = self._resumed = None

    def _state(self, handed_out: int | None = None) -> dict[str, Any]:
        if self._resumed is not None:
            return copy.deepcopy(self._resumed)
        epoch = self._under_way
        state = {"seneca_state": VERSION, "n_samples": self._count(), "epoch": self._epochs}
        if epoch is None or (epoch.ended and handed_out is None):
            generators = [named(one.get_state()) for one in self._generators()]
            return {**state, "generators": generators, **self._dataset_state(epoch)}
        return {**state, **epoch.state(handed_out)}

    def load_state_dict(self, state: dict[str, Any] | Sequence[dict[str, Any]]) -> None:
        """Go on, with the next ``iter()``, where the loader stood whose :meth:`state_dict` this is.

        An iterator that is in use is left alone. An empty dict changes nothing.

        Args:
            state: The state; where several ranks train together, this rank's, or a list of all ranks'.
                With another number of ranks than saved them it has to be the list, or
                :func:`seneca.merge_states` of it.

        Raises:
            StateError: It is no such state, is of a newer version, or of another dataset, order or rank; or
                the dataset's own was saved with another number of workers.
        """
        if state == {}:
            return
        if isinstance(state, (list, tuple)):
            state = self._own_of(state)
        self._resumed = self._checked(state)

    def _own_of(self, states: Sequence[Any]) -> Any:
        """This rank's state, where there are as many ranks as saved them; else what all have delivered."""
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
            raise StateError(f"the state is of {state['n_samples']} samples, but the dataset has {count}")
        if state.get("dataset") is not None:
            identity = self._identity()
            if identity is not None and identity != state["dataset"]:
                raise StateError(
                    f"the state is of the dataset {state['dataset']}, but this is {identity}: its samples "
                    "have changed; if they have not, say so with state['dataset'] = None"
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
        if state.get("order") == "seneca" and ranks:  # what is left is dealt anew
            state |= {"order": "samples", "sampler": type(sampler).__name__}
            state |= {"ranks": ranks, "before": state["done"], "done": 0}
        elif "ranks" in state and tuple(state["ranks"]) != ranks:
            rank, of = state["ranks"]
            as_many = ranks[-1:] == (of,)
            if ranks and state["done"] == 0:
                return state | {"ranks": ranks}  # no rank has delivered any since it was dealt
            if as_many and state.get("in_turn") and isinstance(state["done"], int):
                return state | {"ranks": ranks}  # all ranks have delivered so many, in their order
            if ranks and _left_of(state) <= (self._too_few() if as_many else 0):
                return state | {"ranks": ranks, "before": state["n_samples"], "done": 0, "yielded": 0}
            here = " of ".join(map(str, ranks))
            raise StateError(
                f"the state is of rank {rank} of {of}, and this is rank {here}: "
                f"give load_state_dict a list of the states of all {of} ranks; one alone does for the others "
                "only at an epoch's end, and for as many ranks where each keeps its order for certain: "
                'with share="decoded" or "none", on_error="raise" and in_order=True'
            )
        return state

    def _epoch_to_begin(self, remember: int = 0) -> Epoch:
        """For an iterator that comes to be now, and may begin later."""
        resumed, before = self._resumed, self._under_way
        self._resumed = None
        restores = None if resumed is None else resumed.get("dataset_state")
        if resumed is None and before is not None and not before.begun:
            resumed, restores = before.resumed, before.restores  # nobody has gone on with it yet
        if resumed is not None and "order" not in resumed:
            self._restore(resumed)
            resumed = None
        epoch = self._under_way = Epoch(resumed, remember, restores)
        epoch.generators = [generator.get_state() for generator in self._generators()]
        return epoch

    def _epoch_of_iterator(self) -> Epoch:
        """For an iterator, which may have been made past ``iter()``."""
        epoch = self._under_way
        return self._epoch_to_begin() if epoch is None or epoch.begun else epoch

    def _begin_epoch(self, epoch: Epoch) -> None:
        """Its sampler draws next."""
        if epoch.resumed is not None:
            self._restore(epoch.resumed)
        epoch.in_turn &= getattr(self, "in_order", True)  # torch's workers may be told not to
        epoch.generators = [generator.get_state() for generator in self._generators()]
        epoch.number = self._epochs
        self._epochs = epoch.number + 1

    def _restore(self, state: dict[str, Any]) -> None:
        self._epochs = state["epoch"]
        for generator, name in zip(self._generators(), state["generators"], strict=False):
            generator.set_state(unnamed(name))

    def _open_log(self, batches: Any, epoch: Epoch) -> Any:
        """Where it is written down what an epoch of these batches delivers; None: nowhere."""
        return None

    def _dataset_state(self, epoch: Epoch | None) -> dict[str, Any]:
        """What a state between two epochs says of the dataset itself; ``epoch`` is the one that has ended."""
        return {}

    # What each has of its own.

    @abstractmethod
    def _orders(self) -> tuple[tuple[str, ...], Any]:
        """The orders in which an epoch can go on, see :data:`ORDERS`; and whose they are."""

    @abstractmethod
    def _ranks(self) -> tuple[()] | tuple[int, int]:
        """``(rank, ranks)`` among which its sampler deals an epoch out; empty: it does not."""

    @abstractmethod
    def _count(self) -> int | None:
        """Samples of the dataset; None: it has no length."""

    @abstractmethod
    def _identity(self) -> str | None:
        """Names the dataset's samples as they are now; None: that is not known."""

    @abstractmethod
    def _generators(self) -> list[torch.Generator]:
        """Of the loader and its sampler, each once."""

    @abstractmethod
    def _too_few(self) -> int:
        """Samples that make no batch, at the most."""


class ResumableLoader(Resumable):
    """A loader of torch's arguments."""

    dataset: Any
    batch_sampler: Any
    batch_size: int | None
    sampler: Any
    num_workers: int
    _index_sampler: Any
    _iterator: Any

    def _settled(self, epoch: Epoch) -> Any:
        """A context in which an iterator of this epoch is made.

        What an epoch that goes on has drawn was drawn before: torch's seed of the workers is one too many.
        Persistent workers are ended where the dataset is to be restored or read again: only new ones do that.
        """
        if epoch.restores is not None or (epoch.resumed is not None and self._is_stream()):
            self._iterator = None
        return nullcontext() if epoch.resumed is None else unchanged_global_generator()

    def _is_stream(self) -> bool:
        return isinstance(self.dataset, IterableDataset)

    def _users_dataset(self) -> Any:
        """The dataset that is asked for its state."""
        return self.dataset

    def _dataset_state(self, epoch: Epoch | None) -> dict[str, Any]:
        if epoch is not None:
            return epoch.dataset_state()
        if self.num_workers > 0:
            return {}  # workers that come to be begin with the dataset as it is made
        state = Standing(0, ask=OwnState(self._users_dataset()).tell).state(between=True)
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

        Legal at any time, by torchdata's protocol: in the loop it is the state after the batch that was
        yielded last, however many are prepared ahead; after a ``break`` it stays that until the next
        ``iter()``; at an epoch's end, and before the first, it is the beginning of the next epoch. Of
        several iterators it is the one that was made last.

        The run that goes on delivers what this one would have delivered: the same samples, and where no
        other job's copy can take a sample's place (``share="none"``, ``cache=None``) in the same order with
        the same pixels. It may have another number of workers and another batch size: what is left is
        delivered in batches of that, with ``drop_last`` in as many as what was not delivered fills. Of
        ranks each has a state of its own, see :meth:`load_state_dict`.

        A dataset with ``state_dict`` and ``load_state_dict`` is asked for its state, as are the iterators
        that an ``IterableDataset`` makes: in this process without workers, else in each worker. They are
        given it back before their next sample, in as many processes. An ``IterableDataset`` without a state
        is read again, and the batches that were delivered are passed over: these have to be of the same
        size, from the same number of workers.

        Returns:
            A dict of plain values, pickled at most a bit a sample and 1 KB. More only with a dataset or
            sampler that keeps a state (that of a dataset once for each worker), a sampler that draws from
            torch's global generator, a generator that has given millions of numbers (3 KB each), and ranks
            whose epoch was dealt anew (another bit a sample).

        Raises:
            StateError: The state that the dataset keeps cannot be pickled, or a worker could not tell it.

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
        return self._state()

    def _orders(self) -> tuple[tuple[str, ...], Any]:
        if self._is_stream():
            return ("stream",), self._index_sampler
        batches: Any = self._index_sampler
        if isinstance(batches, ResumableBatchSampler):
            return batches._orders()
        if type(batches) is not BatchSampler:
            return ("samples",) if batches is self.sampler else ("batches",), batches
        whole = self._walks_the_dataset()
        return ("samples", "seneca") if whole else ("samples",), batches.sampler

    def _ranks(self) -> tuple[()] | tuple[int, int]:
        return ranks_of(getattr(self._index_sampler, "sampler", None), self._count())

    def _count(self) -> int | None:
        return None if self._is_stream() else length_of(self.dataset)

    def _generators(self) -> list[torch.Generator]:
        return generators_of(self, self._index_sampler)

    def _too_few(self) -> int:
        return _too_few(self._index_sampler)

    def _identify(self) -> Callable[[], str | None]:
        """What names the samples of the epoch that begins, whatever becomes of the dataset."""
        return lambda: None

    def _stream(self) -> Walks:
        """Of an ``IterableDataset``."""
        sampler, cut = self._index_sampler, self._cut()
        return Walks(sampler, lambda loader: Stream(sampler, loader._epoch_of_iterator(), loader, cut), self)

    def _cut(self) -> tuple[int, int]:
        """How many processes cut an ``IterableDataset`` into batches of which size."""
        return max(1, self.num_workers), self.batch_size or 1

    def _walks(self, mark: Callable[[list[int]], list[int]] | None = None) -> Walks:
        """What torch's samplers yield, or the user's. For ``mark`` see :class:`Walk`."""
        batches = self._index_sampler
        if isinstance(batches, ResumableBatchSampler):
            return Walks(batches, lambda loader: batches.walk(loader._epoch_of_iterator(), loader), self)
        return Walks(batches, functools.partial(ResumableLoader._walk, mark=mark), self)

    def _walk(self, mark: Callable[[list[int]], list[int]] | None = None) -> Walk:
        epoch = self._epoch_of_iterator()
        open_log = functools.partial(self._open_log, self._index_sampler, epoch)
        walk = Walk(lambda: self._begin_walk(epoch), epoch, open_log=open_log)
        walk.mark = mark
        return walk

    def _begin_walk(self, epoch: Epoch) -> Iterator[tuple[Any, Any]]:
        self._begin_epoch(epoch)
        identify = self._identify()
        batches: Any = self._index_sampler
        orders, sampler = self._orders()
        if type(batches) is not BatchSampler:
            return sampled(sampler, epoch, identify, order=orders[0])
        size, drop_last = batches.batch_size, batches.drop_last
        return samples_of(sampler, epoch, identify, batch_size=size, drop_last=drop_last)

    def _walks_the_dataset(self) -> bool:
        """Whether torch's own batch sampler goes over every sample once, in a random order or in theirs,
        or over what is a rank's.
        """
        batches: Any = self._index_sampler
        count = length_of(self.dataset)
        if type(batches) is not BatchSampler or count is None:
            return False
        sampler: Any = batches.sampler
        if type(sampler) not in (RandomSampler, SequentialSampler):
            return portion_of(sampler, count) is not None
        if len(sampler.data_source) != count or len(sampler) != count:
            return False
        return type(sampler) is SequentialSampler or not sampler.replacement


class ResumableBatchSampler(BatchSampler, Resumable):
    """Torch's ``BatchSampler``, of which a loader's own state is not needed to resume it.

    Args:
        sampler: As torch's, as the next two.
        batch_size: Likewise.
        drop_last: Likewise.
        seed: Of an order that is not the sampler's.
        batches_ahead: Batches that will be under way, at most.
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
        open_log = functools.partial(owner._open_log, self, epoch)
        return Walk(lambda: self._begin(epoch, owner), epoch, drawn_is_delivered, open_log)

    def _begin(self, epoch: Epoch, owner: Resumable) -> Iterator[tuple[list[int], Any]]:
        self._begin_number(epoch, owner)
        return self._torchs(epoch)

    def _begin_number(self, epoch: Epoch, owner: Resumable) -> None:
        # The sampler alone is told the epoch where accelerate deals out the batches of a resumed run.
        owner._epochs = max(owner._epochs, self.epoch, getattr(self.sampler, "epoch", 0))
        owner._begin_epoch(epoch)
        self.epoch = epoch.number + 1

    def _torchs(self, epoch: Epoch) -> Iterator[tuple[list[int], Any]]:
        """The sampler's order."""
        size, drop_last = self.batch_size, self.drop_last
        return samples_of(self.sampler, epoch, self._identity, batch_size=size, drop_last=drop_last)

    def _walks_it_all(self) -> bool:
        """Whether the sampler goes over every sample of its dataset once."""
        sampler: Any = self.sampler
        if type(sampler) is SequentialSampler:
            return True
        count = len(sampler.data_source) if isinstance(sampler, RandomSampler) else None
        return count is not None and not sampler.replacement and len(sampler) == count

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
        whole = self._walks_it_all() or bool(self._ranks())
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
    """Samples that a rank has yet to yield of its portion, and so everybody of theirs."""
    left = state["n_samples"] - int(np.count_nonzero(flags(state["before"], state["n_samples"])))
    ranks, drop_last = state["ranks"][1], state["dealt"][2]
    return each_of(left, ranks, drop_last) - int(state["yielded"])
