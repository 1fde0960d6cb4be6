"""Iterating with torch's worker processes.

Torch's own iterators do the work; here is what they are shown instead of the loader, and what
torch leaves out: a worker that dies says why, what cannot be pickled is an error, what of an
epoch is used up is told, and so is the state that the dataset keeps in each worker.
"""

from __future__ import annotations

import copy
import multiprocessing.connection
import multiprocessing.queues
import os
import pickle
import queue
import signal
from collections import deque
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any, NamedTuple, NoReturn, cast

import torch
from torch._utils import ExceptionWrapper
from torch.utils.data import IterableDataset, IterDataPipe, get_worker_info
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter, _SingleProcessDataLoaderIter

from seneca.stateful import FollowedStream, OwnState, Standing, Told, has_state, pickled
from seneca.turns import InTurn
from seneca.walks import Drawn, Walks

__all__ = ["iterate"]


BROKE_OFF_S = 5.0  # how long the end of a worker is waited for whose sending has broken off
BEGUN = -1  # stands where a batch has its number: the worker has called the user's worker_init_fn


def iterate(loader: Any, index_sampler: Walks, dataset: Any = None, *, pins: bool = False) -> Any:
    """An iterator in the order of ``index_sampler``, and in all else as the loader says.

    Args:
        loader: Whose.
        index_sampler: Of which it knows how far the epoch has come.
        dataset: A :class:`seneca.SharedDataset` instead of the loader's.
        pins: Whether batches lie in page-locked memory even if the loader does not ask for it.
    """
    shown: dict[str, Any] = {"_index_sampler": index_sampler, "pin_memory": loader.pin_memory or pins}
    own = _own_state(loader)
    if isinstance(own, FollowedStream):
        dataset = own
    if dataset is not None:
        shown["dataset"] = dataset
    if loader.num_workers == 0:
        return Alone(_View(loader, **shown), own)
    loader.check_worker_number_rationality()
    init = shown["worker_init_fn"] = _WorkerInit(loader.worker_init_fn, own)
    shown["multiprocessing_context"] = _Context(loader.multiprocessing_context or torch.multiprocessing, init)
    return Workers(_View(loader, **shown), own)


def _own_state(loader: Any) -> OwnState:
    """Of the loader's dataset, with what it is given back for the epoch that begins now."""
    dataset, restores = loader._users_dataset(), loader._epoch_of_iterator().restores
    states = None if restores is None else copy.deepcopy(restores["states"])
    # Torch knows its data pipes by their class, so nothing may stand in for one.
    follows = isinstance(dataset, IterableDataset) and not isinstance(dataset, IterDataPipe)
    return FollowedStream(dataset, states) if follows else OwnState(dataset, states)


class _View:
    """A loader with other attributes."""

    def __init__(self, loader: Any, **instead: Any) -> None:
        self.whole = loader
        vars(self).update(instead)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.whole, name)


class Alone(InTurn, _SingleProcessDataLoaderIter):
    """Torch's iterator without workers, which tells what of the epoch is used up."""

    def __init__(self, loader: Any, own: OwnState) -> None:
        self._own = own
        own.begin(0)
        super().__init__(loader)
        self._dataset = loader.whole.dataset  # the user's, of which torch speaks in a warning
        self._sampler_iter.epoch.standing = Standing(0, ask=own.tell)

    def _next_data(self) -> Any:
        walk = self._sampler_iter
        if walk.is_stream:
            return walk.pass_on(self._made)
        self._own.restore()
        walk.drawn = Drawn()
        try:
            data = self._made()
        except StopIteration:
            walk.epoch.end()
            raise
        except Exception:
            if walk.drawn.places is not None:
                walk.made(walk.drawn, failed=True)
            raise
        walk.made(walk.drawn)
        return data

    def _made(self) -> Any:
        """The next batch. If it is handed out later, the dataset tells its state now."""
        try:
            return super()._next_data()
        finally:
            epoch = self._sampler_iter.epoch
            if epoch.watched:
                epoch.tell(0, self._own.tell_or_say_why())


class Workers(InTurn, _MultiProcessingDataLoaderIter):
    """Torch's worker processes, and what of the epoch is used up by what they have made."""

    def __init__(self, loader: Any, own: OwnState) -> None:
        self._own = own
        self._drawn: dict[int, Any] = {}  # of the batches under way, by torch's numbers
        self._workers_status = [True] * loader.num_workers  # torch sets it last, and asks for it to end them
        self._early: deque[Any] = deque()  # what workers had sent before all of them had begun
        self._skips = 0  # the workers before the one whose turn is next, where the epoch goes on
        super().__init__(loader)
        self._dataset = loader.whole.dataset

    @property
    def _base_seed(self) -> int:
        return self._seed

    @_base_seed.setter
    def _base_seed(self, drawn: int) -> None:
        """Torch draws it for new workers. An epoch that goes on keeps its own: ``base_seed`` of a state."""
        self._seed = drawn
        if self._sampler_iter.is_stream or has_state(self._own.dataset):
            self._seed = self._sampler_iter.epoch.name("base_seed", lambda: drawn)

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        with self._turn:
            self._reset_in_turn(loader, first_iter)

    def _reset_in_turn(self, loader: Any, first_iter: bool) -> None:
        self._drawn = {}
        restores = self._sampler_iter.epoch.restores if first_iter else None
        self._skips = 0 if restores is None else restores["turn"]
        super()._reset(loader, first_iter)
        if first_iter and has_state(self._own.dataset):
            self._await_begun()
        told = dict(self._results.begun)
        if restores is not None:
            told |= {
                number: pickled(state) for number, state in enumerate(restores["states"]) if state is not None
            }
        standing = Standing(self._num_workers, told, stays=self._persistent_workers)
        self._sampler_iter.epoch.standing = standing

    @property
    def _results(self) -> _Queue:
        return cast(_Queue, self._worker_result_queue)  # made by our context

    def _await_begun(self) -> None:
        """Wait until each worker has told with which state of the dataset it begins."""
        begun, early = 0, []
        while begun < self._num_workers:
            success, sent = self._try_get_data()
            if success and sent[0] == BEGUN:
                begun += 1
            elif success:
                early.append(sent)
        self._early.extend(early)

    def _shutdown_workers(self) -> None:
        # Torch's __del__ comes here too, also where a Ctrl-C has ended __init__ before there was any worker.
        if hasattr(self, "_workers"):
            super()._shutdown_workers()

    def _next_index(self) -> Any:
        index = super()._next_index()
        while self._skips:
            next(self._worker_queue_idx_cycle)
            self._skips -= 1
        self._drawn[self._send_idx] = self._sampler_iter.drawn
        return index

    def _next_data(self) -> Any:
        walk = self._sampler_iter
        if walk.is_stream:
            return walk.pass_on(self._received)
        failed = True
        try:
            data = super()._next_data()
            failed = False
        except StopIteration:
            walk.epoch.end()
            raise
        finally:
            for drawn in self._taken_out():
                walk.made(drawn, failed=failed)
        return data

    def _received(self) -> Any:
        """The next batch of a stream."""
        try:
            return super()._next_data()
        finally:
            self._taken_out()

    def _taken_out(self) -> list[Any]:
        """What was drawn of the batches, or errors, that torch has taken out: it forgets these.

        Where the workers that made them stand with the dataset is told of the epoch's next batch.
        """
        numbers = [number for number in self._drawn if number not in self._task_info]
        for number in numbers:
            if number in self._results.told:
                self._sampler_iter.epoch.tell(*self._results.told.pop(number))
        return [self._drawn.pop(number) for number in numbers]

    def _try_get_data(self, *args: Any, **kwargs: Any) -> Any:
        if self._early:
            return True, self._early.popleft()
        try:
            return super()._try_get_data(*args, **kwargs)
        except (RuntimeError, OSError, EOFError) as error:
            self._say_why(error)

    def _say_why(self, error: Exception) -> NoReturn:
        # What a worker had begun to send has broken off, which may be seen before its end is.
        broke_off = not isinstance(error, RuntimeError) or "ancdata" in str(error)
        if broke_off:
            multiprocessing.connection.wait([w.sentinel for w in self._workers], BROKE_OFF_S)
        ends = {
            w.pid: f"worker {i} (pid {w.pid}) {_end_of(w.exitcode)}"
            for i, w in enumerate(self._workers)
            if w.exitcode or (w.exitcode == 0 and str(w.pid) in str(error))
        }
        if not ends:
            raise error
        what = str(error)
        if broke_off:
            what = f"DataLoader worker (pid(s) {', '.join(map(str, ends))}) exited unexpectedly"
        raise RuntimeError(f"{what}: {'; '.join(ends.values())}") from error


def _end_of(exitcode: int) -> str:
    if exitcode >= 0:
        return f"exited with status {exitcode}"
    name = signal.Signals(-exitcode).name if -exitcode in signal.valid_signals() else f"signal {-exitcode}"
    kills = _oom_kills()
    if exitcode == -signal.SIGKILL and kills:
        return f"was ended by {name}; the kernel has ended {kills} processes of this group for lack of memory"
    return f"was ended by {name}"


def _oom_kills() -> int:
    """How often the kernel has killed in this control group for want of memory; 0 where it does not tell."""
    try:
        with open("/proc/self/cgroup") as file:
            group = next(line.strip().split(":", 2)[2] for line in file if line.startswith("0::"))
        with open(os.path.join("/sys/fs/cgroup", group.lstrip("/"), "memory.events")) as file:
            return next(int(line.split()[1]) for line in file if line.startswith("oom_kill "))
    except (OSError, StopIteration):
        return 0


class _WorkerInit:
    """The user's ``worker_init_fn``, in a worker that knows the user's dataset and restores its state."""

    def __init__(self, function: Callable[[int], None] | None, own: OwnState) -> None:
        self.function = function
        self.own = own
        self.results: _Queue | None = None

    def __call__(self, worker_id: int) -> None:
        assert self.results is not None
        info: Any = get_worker_info()
        if info.dataset is not self.own.dataset:
            object.__setattr__(info, "dataset", self.own.dataset)  # which refuses to be changed
        self.results.own = self.own
        try:
            self.own.begin(worker_id)
            if self.function is not None:
                self.function(worker_id)
            self.own.restore()
        finally:
            if has_state(self.own.dataset):
                self.results.put((BEGUN, None))


class _Context:
    """A context of multiprocessing, but for its queues."""

    def __init__(self, context: Any, init: _WorkerInit) -> None:
        self._context = context.get_context()
        self._init = init

    def Queue(self) -> _Queue:
        queue = _Queue(ctx=self._context)
        if self._init.results is None:  # torch makes the one for results first
            self._init.results = queue
        return queue

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


class _Sent(NamedTuple):
    """What a worker sends: what torch has it send, and what it tells of the dataset."""

    number: Any
    data: Any
    worker: int
    told: Told | None


class _Queue(multiprocessing.queues.Queue):  # type: ignore[type-arg]
    """Carries what torch sends, and with each batch what the worker tells of a dataset that keeps a state.

    What a worker cannot pickle is an error in its place: torch's loader would wait for it for ever.

    Attributes:
        own: In a worker process, the dataset that tells.
        told: In the loader's process, ``(worker, what it told)`` with each batch, by torch's numbers.
        begun: In the loader's process, what each worker told before its first batch of the epoch.
    """

    own: OwnState | None = None

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.told: dict[int, tuple[int, Told | None]] = {}
        self.begun: dict[int, Told | None] = {}

    def put(self, obj: Any, block: bool = True, timeout: float | None = None) -> None:
        worker = get_worker_info()
        if self.own is not None and worker is not None:
            number, data = obj
            told = self.own.tell_or_say_why(between=not _is_batch(number))
            if told is not None or not _is_batch(number):
                obj = _Sent(number, data, worker.id, told)
        super().put(obj, block, timeout)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        try:
            sent = super().get(block, timeout)
        except queue.Empty:
            # Torch's watchdog knows the parent by what getppid() tells when the worker begins. It waits for
            # ever where the parent was killed before that.
            parent = multiprocessing.parent_process()
            if get_worker_info() is not None and parent is not None and not parent.is_alive():
                raise SystemExit from None
            raise
        if type(sent) is not _Sent:
            return sent
        if _is_batch(sent.number):
            self.told[sent.number] = sent.worker, sent.told
        else:  # what it sent before is of the last epoch, in which torch gave out the same numbers
            self.begun[sent.worker] = sent.told
            self.told = {number: told for number, told in self.told.items() if told[0] != sent.worker}
        return sent.number, sent.data

    def _on_queue_feeder_error(self, error: Exception, sent: Any) -> None:  # type: ignore[override]
        worker = get_worker_info()
        if worker is None or not isinstance(sent, tuple):
            super()._on_queue_feeder_error(error, sent)  # type: ignore[misc]
            return
        number, data, *told = sent
        if isinstance(data, ExceptionWrapper):
            data.exc_type = next(kind for kind in data.exc_type.__mro__ if _can_be_named(kind))
        else:
            unsent = TypeError(
                f"what collate_fn made cannot be sent by a worker, for pickle refuses it: {error}"
            )
            data = ExceptionWrapper((TypeError, unsent, None), f"in DataLoader worker process {worker.id}")
        super().put(_Sent(number, data, *told) if told else (number, data))


def _is_batch(number: Any) -> bool:
    """Whether it is a batch's; not of what says that a worker begins, or begins the next epoch."""
    return isinstance(number, int) and number != BEGUN


def _can_be_named(kind: type) -> bool:
    """Whether pickle finds a class by its name."""
    try:
        ForkingPickler.dumps(kind)
    except (pickle.PicklingError, AttributeError):
        return False
    return True
