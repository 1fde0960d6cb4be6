"""Messages between torch's worker processes and the loader's process, besides torch's own.

::

    loader's process: Indices.put ----> worker: Indices.get
    worker: WorkerInit, Results.put ----> loader's process: Results.get
      that the worker has begun; with each batch, the dataset's state; an error for what cannot be pickled

    any of them writes, all read: shared_zeros()
"""

from __future__ import annotations

import math
import mmap
import multiprocessing
import os
import pickle
import queue
import select
import time
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any, NamedTuple

import torch
from torch._utils import ExceptionWrapper
from torch.utils.data import get_worker_info
from torch.utils.data._utils.worker import _ResumeIteration

from seneca._runtime.regular_files import standard_streams_taken
from seneca.epochs.dataset_state import OwnState, PickledState
from seneca.workers.channel import Channel

__all__ = ["BEGUN", "Context", "Results", "WorkerInit", "shared_zeros"]

BEGUN = -1  # stands in the place of a batch's number: the worker has begun the epoch, and makes no batch yet

_inherited: list[mmap.mmap] = []  # stays mapped: arrays may be in it after torch has moved the tensor's bytes


def shared_zeros(words: int) -> torch.Tensor:
    """Zeros, int64, in memory that this process and its workers all see.

    torch's shared memory is in /dev/shm. Where that is missing or full, memory that forked processes
    inherit takes its place. A process without workers therefore needs no /dev/shm.

    Nothing is copied: torch copies more than 32 KiB with threads, for which a forked process would wait
    forever.
    """
    try:
        with standard_streams_taken():
            storage = torch.UntypedStorage._new_shared(8 * words)
    except RuntimeError:
        pages = mmap.mmap(-1, 8 * words)
        _inherited.append(pages)
        return torch.frombuffer(pages, dtype=torch.int64)
    return torch.empty(0, dtype=torch.int64).set_(storage)  # type: ignore[call-overload]


class WorkerInit:
    """Calls the user's ``worker_init_fn`` in a worker, with the user's dataset, and restores its state."""

    def __init__(self, function: Callable[[int], None] | None, own: OwnState) -> None:
        self.function = function
        self.own = own
        self.results: Results | None = None

    def __call__(self, worker_id: int) -> None:
        assert self.results is not None
        self.results.begin(worker_id, self.own)
        info: Any = get_worker_info()
        if info.dataset is not self.own.dataset:
            object.__setattr__(info, "dataset", self.own.dataset)  # info refuses a plain assignment
        self.own.begin(worker_id)
        if self.function is not None:
            self.function(worker_id)
        self.own.restore()


class Context:
    """A context of multiprocessing whose queues are those of this module.

    torch makes the queue of results first, and then each worker's queue of indices right before the worker.
    """

    def __init__(self, context: Any, init: WorkerInit) -> None:
        self._context = context.get_context()
        self._init = init

    def Queue(self) -> Results | Indices:
        results = self._init.results
        if results is None:
            self._init.results = results = Results()
            return results
        results.add_worker(reports_begun=bool(self._init.own.asked))
        return Indices(results)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


class Indices:
    """Carries the indices of batches to one worker, in place of a queue of multiprocessing.

    Args:
        results: What the workers of the loader send.
    """

    def __init__(self, results: Results) -> None:
        self._results = results
        self._channel, self._made_in = Channel(), os.getpid()
        self._channel.cancel_join()

    def put(self, sent: Any) -> None:
        self._channel.close_reader()  # the worker has it by now: if it ends, nothing waits for it
        self._channel.send(sent)

    def get(self, timeout: float | None = None) -> Any:
        if os.getpid() != self._made_in:
            self._channel.close_writer()  # or the worker would not see that the loader's process was killed
            self._results.report_begun()
        if self._channel.is_readable(timeout):
            return self._channel.receive()
        # torch's watchdog takes what getppid() says when the worker begins for the parent. If the parent was
        # killed before that, it waits forever.
        parent = multiprocessing.parent_process()
        if parent is not None and not parent.is_alive():
            raise SystemExit
        raise queue.Empty

    def cancel_join_thread(self) -> None:
        self._channel.cancel_join()

    def close(self) -> None:
        self._channel.close()


class _Sent(NamedTuple):
    """What a worker sends: torch's own message, and what the worker reports of the dataset."""

    number: Any
    data: Any
    worker: int
    state: PickledState | None


class Results:
    """Carries what workers have made, and with each batch what the worker reports of a dataset's state.

    It takes the place of a queue of multiprocessing. Each worker has a channel of its own. Therefore one that
    is killed leaves no lock taken, and breaks off no message but its own.

    If a worker cannot pickle a batch, it sends an error instead. torch's loader would wait forever for it.

    Attributes:
        own: In a worker process, the dataset whose state is reported.
        reported: In the loader's process, ``(worker, state)`` with each batch, by torch's numbers.
        begun: In the loader's process, what each worker reported before its first batch of the epoch.
        beginning: In the loader's process, the workers that have yet to report that they have begun.
        ended: In the loader's process, the workers that can send nothing any more.
    """

    own: OwnState | None = None
    _reports_begun = False
    _here: Channel | None = None  # a worker that was spawned has none

    def __init__(self) -> None:
        self.reported: dict[int, tuple[int, PickledState | None]] = {}
        self.begun: dict[int, PickledState | None] = {}
        self.beginning: set[int] = set()
        self.ended: set[int] = set()
        self._workers: dict[int, Channel] = {}
        here = self._here = Channel()  # this process wakes its thread that pins memory
        self._poll = select.poll()
        self._poll.register(here.reader, select.POLLIN)
        self._by_number = {here.reader.fileno(): here}
        self._ready: list[Channel] = []
        self._has_begun = False

    def add_worker(self, *, reports_begun: bool = False) -> None:
        """Make the channel of a worker, which is started next."""
        if reports_begun:
            self.beginning.add(len(self._workers))
        channel = self._workers[len(self._workers)] = Channel()
        self._poll.register(channel.reader, select.POLLIN)
        self._by_number[channel.reader.fileno()] = channel

    # In a worker.

    def put(self, sent: Any) -> None:
        worker = get_worker_info()
        if worker is None:
            assert self._here is not None
            self._here.send(sent)
            return
        number, data = sent
        if self.own is not None and isinstance(number, _ResumeIteration):
            self._reports_begun = bool(self.own.asked)
            if self._reports_begun:
                sent = _Sent(number, data, worker.id, None)
        elif self.own is not None:
            state = self.own.report_or_error()
            if state is not None or number == BEGUN:
                sent = _Sent(number, data, worker.id, state)
        self._workers[worker.id].send(sent, lambda error: _instead(sent, error, worker.id))

    def report_begun(self) -> None:
        """Report the state with which this worker begins the epoch, if it has yet to do so.

        A worker asks for its first indices right after torch has called ``iter(dataset)``. Before that, a
        dataset that makes its counters in ``__iter__`` has no state.
        """
        if self._reports_begun:
            self._reports_begun = False
            self.put((BEGUN, None))

    def begin(self, worker: int, own: OwnState) -> None:
        """Begin to report the state of ``own``.

        Close what this worker has of the other workers' channels, so that their ends are seen.
        """
        self.own, self._reports_begun = own, bool(own.asked)
        for other, channel in self._workers.items():
            channel.close_reader()
            if other != worker:
                channel.close_writer()

    # In the loader's process.

    def get(self, timeout: float | None = None) -> Any:
        if not self._has_begun:
            self._has_begun = True
            for channel in self._workers.values():
                channel.close_writer()
        sent = self._next(timeout)
        if type(sent) is not _Sent:
            return sent
        if _is_batch(sent.number):
            self.reported[sent.number] = sent.worker, sent.state
        elif sent.number == BEGUN:
            self.begun[sent.worker] = sent.state
            self.beginning.discard(sent.worker)
        else:  # its earlier messages are of the last epoch, in which torch used the same numbers
            self.beginning.add(sent.worker)
            self.reported = {number: one for number, one in self.reported.items() if one[0] != sent.worker}
        return sent.number, sent.data

    def _next(self, timeout: float | None) -> Any:
        """The next message of any worker. Each that has sent something has its turn."""
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            if not self._ready:
                left = None if until is None else max(0.0, until - time.monotonic())
                readable = self._poll.poll(None if left is None else math.ceil(1000 * left))
                self._ready = [self._by_number[number] for number, _ in readable]
            if not self._ready:
                raise queue.Empty
            channel = self._ready.pop()
            try:
                return channel.receive()
            except EOFError:
                self._poll.unregister(channel.reader)
                if channel.is_within:
                    raise
                self.ended |= {number for number, one in self._workers.items() if one is channel}

    @property
    def _channels(self) -> list[Channel]:
        return [*self._workers.values(), *([] if self._here is None else [self._here])]

    def cancel_join_thread(self) -> None:
        for channel in self._channels:
            channel.cancel_join()

    def close(self) -> None:
        for channel in self._channels:
            channel.close()

    def __getstate__(self) -> dict[str, Any]:
        """For the worker that is started: the channel that was made last."""
        worker = max(self._workers)
        return {"own": self.own, "worker": worker, "channel": self._workers[worker]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.own = state["own"]
        self._workers = {state["worker"]: state["channel"]}


def _instead(sent: Any, error: Exception, worker: int) -> Any:
    """The message that takes the place of one that cannot be sent."""
    number, data, *rest = sent
    if isinstance(data, ExceptionWrapper):
        data.exc_type = next(kind for kind in data.exc_type.__mro__ if _can_be_named(kind))
    else:
        kind: type[Exception] = TypeError
        why = f"pickle refuses it: {error}"
        if isinstance(error, (OSError, RuntimeError)):  # the kernel refuses what pickle asks for
            kind, why = RuntimeError, str(error)
            if "No space left" in why:
                why += "; give /dev/shm more room (docker run --shm-size), or load with num_workers=0"
        unsent = kind(f"what collate_fn made cannot be sent by a worker, for {why}")
        data = ExceptionWrapper((kind, unsent, None), f"in DataLoader worker process {worker}")
    return _Sent(number, data, *rest) if rest else (number, data)


def _is_batch(number: Any) -> bool:
    """Whether this is the number of a batch, not a message that a worker begins an epoch or has begun it."""
    return isinstance(number, int) and number != BEGUN


def _can_be_named(kind: type) -> bool:
    """Whether pickle finds a class by its name."""
    try:
        ForkingPickler.dumps(kind)
    except (pickle.PicklingError, AttributeError):
        return False
    return True
