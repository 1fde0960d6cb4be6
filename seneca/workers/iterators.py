"""Iterating with torch's worker processes.

torch's own iterators do the work. This module shows them a view of the loader, and adds four things:

* The error for a worker that died says why it died.
* A batch that cannot be pickled is an error.
* They report to the epoch's progress which batches are made.
* Each worker reports the state that the dataset keeps there.
"""

from __future__ import annotations

import contextlib
import copy
import math
import multiprocessing.connection
import os
import signal
import threading
import time
import types
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, cast

import torch
from torch.utils.data import IterableDataset, IterDataPipe
from torch.utils.data._utils import MP_STATUS_CHECK_INTERVAL, signal_handling
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter, _SingleProcessDataLoaderIter

from seneca._runtime.cgroups import oom_kills
from seneca._runtime.turns import InTurn
from seneca.epochs.batches import Drawn, TrackedBatches
from seneca.epochs.dataset_state import FollowedStream, OwnState, Standing, has_state, pickled
from seneca.epochs.progress import EpochProgress
from seneca.tuning.cores import CoreShare
from seneca.workers.messages import BEGUN, Context, Results, WorkerInit

__all__ = ["iterate"]


Waited = Callable[[float, tuple[int, ...], bool], None]
"""Takes how many seconds the training loop has waited for a batch, the worker processes' ids, and whether the
epoch has ended."""

MANY_AHEAD = 1000  # batches for each worker
BROKE_OFF_S = 5.0  # the longest wait for the end of a worker whose message has broken off


def iterate(
    loader: Any,
    index_sampler: TrackedBatches,
    dataset: Any = None,
    *,
    pins: bool = False,
    waited: Waited = lambda seconds, workers, ended: None,
    cores: CoreShare | None = None,
) -> Any:
    """Make an iterator in the order of ``index_sampler``, in all else as the loader's arguments say.

    Args:
        loader: The loader.
        index_sampler: The batches of the epoch.
        dataset: A :class:`seneca.SharedDataset` that takes the place of the loader's dataset; None: the
            loader's.
        pins: Whether batches are in page-locked memory even if the loader does not ask for it.
        waited: Called when a batch has come, or none will.
        cores: How many of the workers are fed; None: all.
    """
    shown: dict[str, Any] = {"_index_sampler": index_sampler, "pin_memory": loader.pin_memory or pins}
    own = _own_state(loader)
    if isinstance(own, FollowedStream):
        dataset = own
    if dataset is not None:
        shown["dataset"] = dataset
    if loader.num_workers == 0:
        return SingleProcessIterator(_View(loader, **shown), own, waited)
    loader.check_worker_number_rationality()
    init = shown["worker_init_fn"] = WorkerInit(loader.worker_init_fn, own)
    shown["multiprocessing_context"] = Context(loader.multiprocessing_context or torch.multiprocessing, init)
    return Workers(_View(loader, **shown), own, waited, cores)


def _own_state(loader: Any) -> OwnState:
    """The state of the loader's dataset, with what is restored for the epoch that begins now."""
    dataset, restores = loader._users_dataset(), loader._epoch_of_iterator().restores
    states = None if restores is None else copy.deepcopy(restores["states"])
    # torch knows its data pipes by their class. Therefore nothing may stand in for one.
    follows = isinstance(dataset, IterableDataset) and not isinstance(dataset, IterDataPipe)
    return FollowedStream(dataset, states) if follows else OwnState(dataset, states)


class _View:
    """A loader with some attributes replaced."""

    def __init__(self, loader: Any, **instead: Any) -> None:
        self.whole = loader
        vars(self).update(instead)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.whole, name)


class SingleProcessIterator(InTurn, _SingleProcessDataLoaderIter):
    """torch's iterator without workers, which also reports to the epoch's progress what is made."""

    def __init__(self, loader: Any, own: OwnState, waited: Waited) -> None:
        self._own, self._waited = own, waited
        own.begin(0)
        if own.is_between:
            own.restore()  # before torch draws from its global generator, whose state may be restored too
        super().__init__(loader)
        self._dataset = loader.whole.dataset  # the user's, which torch names in a warning
        self._sampler_iter.progress.standing = Standing(0, ask=own.report)

    @property
    def _progress(self) -> EpochProgress:
        return self._sampler_iter.progress

    def _next_data(self) -> Any:
        batches = self._sampler_iter
        if batches.is_stream:
            return batches.pass_on(self._made)
        self._own.restore()
        batches.drawn = Drawn()
        began = time.perf_counter()
        try:
            data = self._made()
        except StopIteration:
            self._waited(0.0, (), True)
            batches.progress.end()
            raise
        except Exception:
            if batches.drawn.places is not None:
                batches.made(batches.drawn, failed=True)
            raise
        batches.made(batches.drawn)
        self._waited(time.perf_counter() - began, (), False)
        return data

    def _made(self) -> Any:
        """The next batch. If it is handed out later, the dataset reports its state now."""
        try:
            return super()._next_data()
        finally:
            progress = self._sampler_iter.progress
            if progress.watched:
                progress.report(0, self._own.report_or_error())


class Fed:
    """The turns of the workers that are fed: the first ``workers`` of them."""

    def __init__(self, workers: int) -> None:
        self.workers, self.last = workers, -1

    def __next__(self) -> int:
        self.last = (self.last + 1) % self.workers
        return self.last


class Workers(InTurn, _MultiProcessingDataLoaderIter):
    """torch's iterator with worker processes, which also reports to the epoch's progress what is made."""

    _pid = staticmethod(os.getpid)  # torch's __del__ may run when the interpreter has cleared this module

    def __init__(self, loader: Any, own: OwnState, waited: Waited, cores: CoreShare | None = None) -> None:
        self._own, self._waited = own, waited
        # A worker that keeps a state of its own gets its turns as in torch's loader.
        self._cores = None if cores is None or not cores.is_auto or has_state(own.dataset) else cores
        self._fed = Fed(loader.num_workers if self._cores is None else self._cores.threads)
        self._owner = self._pid()
        self._drawn: dict[int, Any] = {}  # what was drawn of the batches under way, by torch's numbers
        self._workers_status = [True] * loader.num_workers  # torch sets it last, and needs it to end workers
        self._early: deque[Any] = deque()  # what workers had sent before all of them had begun
        self._skips = 0  # in a resumed epoch: the workers before the one whose turn is next
        _open_iterators.add(self)
        _wrap_sigchld_handler()
        super().__init__(loader)
        self._dataset = loader.whole.dataset

    @property
    def _base_seed(self) -> int:
        return self._seed

    @_base_seed.setter
    def _base_seed(self, drawn: int) -> None:
        """torch draws a seed for new workers. A resumed epoch keeps its own, the state's ``base_seed``."""
        self._seed = drawn
        if self._sampler_iter.is_stream or has_state(self._own.dataset):
            self._seed = self._sampler_iter.progress.name("base_seed", lambda: drawn)

    @property
    def _progress(self) -> EpochProgress:
        return self._sampler_iter.progress

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        with self._turn:
            self._reset_in_turn(loader, first_iter)

    def _reset_in_turn(self, loader: Any, first_iter: bool) -> None:
        self._drawn = {}
        restores = self._sampler_iter.progress.restores if first_iter else None
        self._skips = 0 if restores is None else restores["turn"]
        if self._cores is not None:
            self._cores.applied_by(self._feed)
        if self._prefetch_factor > MANY_AHEAD:  # torch asks for all of them one by one, also beyond the end
            with contextlib.suppress(TypeError, NotImplementedError):  # the user's sampler has no length
                self._prefetch_factor = min(self._prefetch_factor, max(1, len(self._index_sampler)))
        super()._reset(loader, first_iter)
        self._await_begun()
        states = dict(self._results.begun)
        if restores is not None:
            states |= {
                number: pickled(state) for number, state in enumerate(restores["states"]) if state is not None
            }
        standing = Standing(self._num_workers, states, stays=self._persistent_workers)
        self._sampler_iter.progress.standing = standing

    @property
    def _results(self) -> Results:
        return cast(Results, self._worker_result_queue)  # made by our context

    def _await_begun(self) -> None:
        """Wait until each worker has reported the state of the dataset with which it begins the epoch.

        Raises:
            RuntimeError: This took longer than the loader's ``timeout``.
        """
        until = time.monotonic() + (self._timeout or math.inf)
        while self._results.beginning:
            left = until - time.monotonic()
            success, sent = self._received_from_workers(min(MP_STATUS_CHECK_INTERVAL, max(0.0, left)))
            if success and sent[0] != BEGUN:
                self._early.append(sent)
            if not success and left <= 0:
                raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds")

    def _shutdown_workers(self) -> None:
        # torch's __del__ calls this even if a Ctrl-C has ended __init__ before there was any worker. It also
        # calls this in a forked child, where it would end the workers of the parent.
        if hasattr(self, "_workers") and self._owner == self._pid():
            super()._shutdown_workers()

    @property
    def _worker_queue_idx_cycle(self) -> Any:
        return self._fed

    @_worker_queue_idx_cycle.setter
    def _worker_queue_idx_cycle(self, turns: Any) -> None:
        """torch makes the workers' turns anew as an epoch begins."""
        self._fed.last = -1

    def _feed(self, workers: int) -> None:
        """From now on so many workers are fed. The others complete what they have, and wait."""
        self._fed.workers = workers

    def _try_put_index(self) -> None:
        """torch calls this for each batch that it hands out, and at first for each that may be under way.

        A batch that waits for an earlier one counts: else fast workers would go ever farther ahead of a slow
        one.
        """
        if self._cores is None:
            super()._try_put_index()
            return
        while len(self._task_info) < self._prefetch_factor * self._fed.workers:
            sent = self._send_idx
            super()._try_put_index()
            if self._send_idx == sent:
                break  # the epoch has no more, or no worker is left

    def _next_index(self) -> Any:
        index = super()._next_index()
        while self._skips:
            next(self._worker_queue_idx_cycle)
            self._skips -= 1
        self._drawn[self._send_idx] = self._sampler_iter.drawn
        return index

    def _next_data(self) -> Any:
        batches = self._sampler_iter
        if batches.is_stream:
            return batches.pass_on(self._received)
        failed, began = True, time.perf_counter()
        try:
            data = super()._next_data()
            failed = False
        except StopIteration:
            self._waited(0.0, (), True)
            batches.progress.end()
            raise
        finally:
            for drawn in self._taken_out():
                batches.made(drawn, failed=failed)
        workers = tuple(worker.pid for worker in self._workers if worker.pid is not None)
        self._waited(time.perf_counter() - began, workers, False)
        return data

    def _received(self) -> Any:
        """The next batch of a stream."""
        try:
            return super()._next_data()
        finally:
            self._taken_out()

    def _taken_out(self) -> list[Any]:
        """The indices of the batches, or errors, that torch has taken out, and has therefore forgotten.

        The workers that made them have reported the dataset's state. It is noted for the epoch's next batch.
        """
        numbers = [number for number in self._drawn if number not in self._task_info]
        for number in numbers:
            if number in self._results.reported:
                self._sampler_iter.progress.report(*self._results.reported.pop(number))
        return [self._drawn.pop(number) for number in numbers]

    def _try_get_data(self, *args: Any, **kwargs: Any) -> Any:
        if self._early:
            return True, self._early.popleft()
        success, sent = self._received_from_workers(*args, **kwargs)
        while success and sent[0] == BEGUN:
            success, sent = self._received_from_workers(*args, **kwargs)
        return success, sent

    def _received_from_workers(self, *args: Any, **kwargs: Any) -> Any:
        try:
            success, data = super()._try_get_data(*args, **kwargs)
            if not success:
                self._check_that_workers_can_send()
            return success, data
        except (RuntimeError, OSError, EOFError) as error:
            # A worker's message has broken off. This may be seen before the worker's end is.
            broke_off = not isinstance(error, RuntimeError) or "ancdata" in str(error)
            if broke_off:
                gone = multiprocessing.connection.wait([w.sentinel for w in self._workers], BROKE_OFF_S)
                for worker in (w for w in self._workers if w.sentinel in gone):
                    worker.join(BROKE_OFF_S)  # the kernel closes its pipes before it gives its exit status
            ends = _ends(self._workers, str(error))
            if not ends or any(end in str(error) for end in ends.values()):
                raise
            what = str(error)
            if broke_off:
                what = f"DataLoader worker (pid(s) {', '.join(map(str, ends))}) exited unexpectedly"
            raise RuntimeError(f"{what}: {'; '.join(ends.values())}") from error

    def _check_that_workers_can_send(self) -> None:
        """Raise if a worker lives whose channel has ended. The loader would wait for it forever."""
        for number in self._results.ended:
            worker = self._workers[number]
            if self._workers_status[number]:
                worker.join(BROKE_OFF_S)  # the kernel closes its descriptors before it gives its exit status
                if worker.is_alive():
                    raise RuntimeError(
                        f"DataLoader worker (pid(s) {worker.pid}) lives, but can send nothing any more: the "
                        "kernel has refused a message, which the worker has printed, or its code has closed "
                        "descriptors that are not its own"
                    )


_open_iterators: weakref.WeakSet[Workers] = weakref.WeakSet()


def _wrap_sigchld_handler() -> None:
    """Let the error that torch's handler of SIGCHLD raises say how the worker has ended.

    torch's handler raises the error wherever the main thread is, also in the training loop's own code.
    """
    if threading.current_thread() is not threading.main_thread():
        return  # torch, too, sets its handler in the main thread alone
    signal_handling._set_SIGCHLD_handler()
    torchs = signal.getsignal(signal.SIGCHLD)
    if not callable(torchs) or getattr(torchs, "says_why", False):
        return

    def handler(signum: int, frame: types.FrameType | None) -> None:
        try:
            torchs(signum, frame)
        except RuntimeError as error:
            ends: dict[int | None, str] = {}
            for iterator in list(_open_iterators):
                ends |= _ends(getattr(iterator, "_workers", ()), str(error))
            named = [end for pid, end in ends.items() if f"(pid {pid})" in str(error)]
            if not named or named[0] in str(error):
                raise
            raise RuntimeError(f"{str(error).rstrip()}: {named[0]}") from None

    handler.says_why = True  # type: ignore[attr-defined]
    signal.signal(signal.SIGCHLD, handler)


def _ends(workers: Iterable[Any], error: str) -> dict[int | None, str]:
    """How the ``workers`` that failed have ended, by their ids. Status 0 failed if ``error`` names the id."""
    return {
        w.pid: f"worker {i} (pid {w.pid}) {_end_of(w.exitcode)}"
        for i, w in enumerate(workers)
        if w.exitcode or (w.exitcode == 0 and str(w.pid) in error)
    }


def _end_of(exitcode: int) -> str:
    if exitcode >= 0:
        return f"exited with status {exitcode}"
    name = signal.Signals(-exitcode).name if -exitcode in signal.valid_signals() else f"signal {-exitcode}"
    kills = oom_kills()
    if exitcode == -signal.SIGKILL and kills:
        return f"was ended by {name}; the kernel has ended {kills} processes of this group for lack of memory"
    return f"was ended by {name}"
