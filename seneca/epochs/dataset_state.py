"""The state that a user's dataset keeps: Seneca asks each process that loads for it, and restores it there.

A dataset keeps a state if it has ``state_dict`` and ``load_state_dict``, the methods that torchdata's
``StatefulDataLoader`` searches for. The iterators that an ``IterableDataset`` makes may keep one too.

::

    a process that loads                          the loader's process
      OwnState  -- report(): with each batch ----->  Standing  --> "dataset_state" of the loader's state
      OwnState  <- restore(): before its first sample ------------ load_state_dict()

A ``dataset_state`` is a dict:

* ``workers``: the number of worker processes that load; 0: the loader's own process loads.
* ``turn``: the worker whose batch comes next.
* ``states``: a dict for each process that loads; None: the process begins with the dataset as it is made.

The dict of a process has ``dataset`` and ``iterator``, what their ``state_dict`` returned, and ``at``:

* ``"begin"``: the next epoch begins.
* ``"amid"``: an epoch is under way.
* ``"end"``: an epoch is under way, and this process has no more samples for it.

A dataset that is its own iterator is asked once, as the iterator.
"""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch.utils.data import IterableDataset

from seneca.errors import StateError

__all__ = ["FollowedStream", "OwnState", "PickledState", "Standing", "alike", "has_state", "pickled"]

PARTS = ("dataset", "iterator")
# The dict of a process, with its parts pickled. Or "error" alone, which says why there is no such dict.
PickledState = dict[str, Any]


def has_state(thing: Any) -> bool:
    """Whether a dataset, sampler or iterator has the two methods.

    A user's ``__getattr__`` is not called: it may answer anything, or fail.
    """
    methods = (inspect.getattr_static(thing, name, None) for name in ("state_dict", "load_state_dict"))
    return all(method is not None for method in methods)


def alike(one: Any, other: Any) -> bool:
    """Whether two states are equal, tensors and arrays in them included."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    return bool(np.array_equal(one, other) if isinstance(one, np.ndarray) else one == other)


def pickled(state: dict[str, Any]) -> PickledState:
    """The dict of a process with its parts pickled. It is sent and kept like this."""
    return {name: pickle.dumps(part) if name in PARTS else part for name, part in state.items()}


class OwnState:
    """The state of the dataset in one process that loads.

    Args:
        dataset: The user's dataset.
        states: The ``states`` of a ``dataset_state``, which the processes restore; None: nothing is restored.

    Attributes:
        pending: What this process has yet to restore; None: nothing.
        asked: The objects that keep a state, by the names of their parts: ``dataset``, ``iterator``.
    """

    def __init__(self, dataset: Any, states: list[Any] | None = None) -> None:
        self.dataset = dataset
        self.states = states
        self.pending: dict[str, Any] | None = None
        self.asked = _keepers(dataset=dataset)

    def begin(self, process: int) -> None:
        """Set the number of this process among the processes that load."""
        self.pending = None if self.states is None else self.states[process]

    @property
    def is_between(self) -> bool:
        """Whether this process has to restore a state from between two epochs."""
        return self.pending is not None and self.pending["at"] == "begin"

    def restore(self) -> None:
        """Restore the dataset's state, if there is one to restore."""
        if self.pending is not None:
            _load("dataset", self.dataset, self.pending)
            self.pending = None

    def report(self) -> PickledState | None:
        """The state as it is now.

        It is pickled at once, because the next sample may change the objects in it.

        Returns:
            The dict of this process; None: nothing here keeps a state.

        Raises:
            StateError: A state cannot be pickled.
        """
        if self.pending is not None:
            return pickled(self.pending)
        parts = {}
        for name, thing in self.asked.items():
            state = thing.state_dict()
            if state is None:
                continue
            try:
                parts[name] = pickle.dumps(state)
            except Exception as error:
                raise StateError(
                    f"what {type(thing).__name__}.state_dict() returned cannot be pickled: {error}; "
                    "return plain values, tensors or arrays, which can be saved and sent between processes"
                ) from error
        return {"at": self._at(), **parts} if parts else None

    def report_or_error(self) -> PickledState | None:
        """As :meth:`report`, but report an error too. It is raised when somebody wants the loader's state."""
        try:
            return self.report()
        except StateError as error:
            return {"error": str(error)}
        except Exception as error:
            return {
                "error": f"{type(self.dataset).__name__} raised {error!r} when it was asked for its state"
            }

    def _at(self) -> str:
        return "amid"


def _keepers(**things: Any) -> dict[str, Any]:
    """Those of ``things`` that keep a state, each once."""
    if things["dataset"] is things.get("iterator"):
        del things["dataset"]
    return {name: thing for name, thing in things.items() if has_state(thing)}


class FollowedStream(OwnState, IterableDataset[Any]):
    """Stands in for the user's ``IterableDataset``, so that its iterator is known and can be asked.

    It is an iterator itself, and passes on the samples of the user's iterator.
    """

    def __init__(self, dataset: Any, states: list[Any] | None = None) -> None:
        super().__init__(dataset, states)
        self._iterator: Any = None
        self._ended = False
        self._dataset_restored = False

    def restore(self) -> None:
        """Restore the dataset's state. In mid-epoch, its iterator comes with the first sample."""
        if self.pending is None:
            return
        if not self._dataset_restored:
            _load("dataset", self.dataset, self.pending)
            self._dataset_restored = True
        if self.is_between:
            if "iterator" in self.pending:  # the state is that of the last epoch's iterator
                _load("iterator", iter(self.dataset), self.pending)
            self.pending = None

    def __iter__(self) -> Iterator[Any]:
        self._ended = False
        if self.pending is not None:
            return self
        iterator = iter(self.dataset)
        self.asked = _keepers(dataset=self.dataset, iterator=iterator)
        if not self.asked:
            return iterator  # nothing here holds it, so it ends when torch lets go of it
        self._iterator = iterator
        return self

    def __next__(self) -> Any:
        if self.pending is not None:
            self._restore_iterator()
        if self._ended:
            raise StopIteration
        try:
            return next(self._iterator)
        except StopIteration:
            self._ended = True
            raise

    def _restore_iterator(self) -> None:
        # Only now, because the user's code may restore torch's random numbers as well, and what comes
        # before the first sample, the making of torch's iterator, sets these back.
        assert self.pending is not None
        self.restore()
        state, iterator = self.pending, iter(self.dataset)
        _load("iterator", iterator, state)
        self._iterator, self._ended = iterator, state["at"] == "end"
        self.asked = _keepers(dataset=self.dataset, iterator=iterator)
        self.pending = None

    def _at(self) -> str:
        return "end" if self._ended else "amid"


def _load(name: str, thing: Any, state: dict[str, Any]) -> None:
    if name not in state:
        return
    if not has_state(thing):
        raise StateError(
            f"the loader's state holds a state of the {name}, but {type(thing).__name__} has no "
            "load_state_dict; give the loader the dataset that it was saved with"
        )
    thing.load_state_dict(state[name])


class Standing:
    """What the processes that load have reported of the dataset, as of the batch that was delivered last.

    Args:
        workers: The number of worker processes; 0: the loader's own process loads.
        reported: What each process reported before the epoch's first batch.
        ask: Asks the loader's own process for its state when that is wanted. That process need not report it
            with each batch.
        stays: Whether the same processes load the next epoch.
    """

    def __init__(
        self,
        workers: int,
        reported: Mapping[int, PickledState | None] | None = None,
        *,
        ask: Callable[[], PickledState | None] | None = None,
        stays: bool = True,
    ) -> None:
        self._workers = workers
        self._reported = dict(reported or {})
        self._ask = ask
        self._stays = stays
        self._turn = 0

    def heard(self, process: int, state: PickledState | None) -> None:
        """Note what a process reported with the batch that is delivered now."""
        self._reported[process] = state
        self._turn = (process + 1) % max(1, self._workers)

    def state(self, *, between: bool = False) -> dict[str, Any] | None:
        """The ``dataset_state``; None: nothing keeps a state.

        Args:
            between: Whether the last epoch is over and the next has not begun.

        Raises:
            StateError: A process could not report its state.
        """
        if between and not self._stays:
            return None  # new processes begin with the dataset as it was made
        reported = {0: self._ask()} if self._ask is not None and not self._reported else self._reported
        states = [self._unpickled(reported.get(process), between) for process in range(max(1, self._workers))]
        if not any(states):
            return None
        return {"workers": self._workers, "turn": 0 if between else self._turn, "states": states}

    @staticmethod
    def _unpickled(reported: PickledState | None, between: bool) -> dict[str, Any] | None:
        if reported is None:
            return None
        if "error" in reported:
            raise StateError(reported["error"])
        state = {name: pickle.loads(reported[name]) for name in PARTS if name in reported}
        return {"at": "begin" if between else reported["at"], **state}
