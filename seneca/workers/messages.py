"""What torch's worker processes and the loader's process send each other, besides torch's own messages.

::

    worker: WorkerInit, MessageQueue.put ----> loader's process: MessageQueue.get
      that the worker has begun; with each batch, the dataset's state; an error for what cannot be pickled

    any of them writes, all read: shared_zeros()
"""

from __future__ import annotations

import mmap
import multiprocessing
import multiprocessing.queues
import pickle
import queue
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any, NamedTuple

import torch
from torch._utils import ExceptionWrapper
from torch.utils.data import get_worker_info

from seneca._runtime.regular_files import standard_streams_taken
from seneca.epochs.dataset_state import OwnState, Told, has_state

__all__ = ["BEGUN", "Context", "MessageQueue", "WorkerInit", "shared_zeros"]

BEGUN = -1  # stands in the place of a batch's number: the worker has called the user's worker_init_fn
LOCKED_S = 5.0  # that a lock may be held which is held for microseconds: longer, and nobody holds it any more

_inherited: list[
    mmap.mmap
] = []  # stays mapped: arrays may lie in it after torch has moved the tensor's bytes


def shared_zeros(words: int) -> torch.Tensor:
    """Zeros, int64, in memory that this process and its workers all see.

    torch's shared memory lies in /dev/shm. Where that is missing or full, memory that forked processes
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
        self.results: MessageQueue | None = None

    def __call__(self, worker_id: int) -> None:
        assert self.results is not None
        info: Any = get_worker_info()
        if info.dataset is not self.own.dataset:
            object.__setattr__(info, "dataset", self.own.dataset)  # info refuses a plain assignment
        self.results.own = self.own
        try:
            self.own.begin(worker_id)
            if self.function is not None:
                self.function(worker_id)
            self.own.restore()
        finally:
            if has_state(self.own.dataset):
                self.results.put((BEGUN, None))


class Context:
    """A context of multiprocessing whose queues are :class:`MessageQueue`."""

    def __init__(self, context: Any, init: WorkerInit) -> None:
        self._context = context.get_context()
        self._init = init

    def Queue(self) -> MessageQueue:
        queue = MessageQueue(ctx=self._context)
        if self._init.results is None:  # torch makes the queue of results first
            self._init.results = queue
        return queue

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


class _Sent(NamedTuple):
    """What a worker sends: torch's own message, and what the worker tells of the dataset."""

    number: Any
    data: Any
    worker: int
    told: Told | None


class MessageQueue(multiprocessing.queues.Queue):  # type: ignore[type-arg]
    """Carries what torch sends, and with each batch what the worker tells of a dataset that keeps a state.

    If a worker cannot pickle a batch, it sends an error instead. torch's loader would wait forever for it.

    Attributes:
        own: In a worker process, the dataset whose state is told.
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

    def mend(self) -> None:
        """Release the lock of ``put()`` if an exception has left it taken: a later one would wait for ever.

        If a worker dies, torch's signal handler raises in the main thread. If ``put()`` has just taken the
        lock, and has not yet entered its ``with``, nothing releases it. Otherwise the queue's own thread may
        hold the lock, but for a moment only.
        """
        lock = self._notempty  # type: ignore[attr-defined]
        lock.acquire(timeout=LOCKED_S)
        lock.release()

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        try:
            sent = super().get(block, timeout)
        except queue.Empty:
            # torch's watchdog takes what getppid() tells when the worker begins for the parent. If the
            # parent was killed before that, it waits forever.
            parent = multiprocessing.parent_process()
            if get_worker_info() is not None and parent is not None and not parent.is_alive():
                raise SystemExit from None
            raise
        if type(sent) is not _Sent:
            return sent
        if _is_batch(sent.number):
            self.told[sent.number] = sent.worker, sent.told
        else:  # its earlier messages are of the last epoch, in which torch used the same numbers
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
    """Whether this is the number of a batch, not a message that a worker begins or begins an epoch."""
    return isinstance(number, int) and number != BEGUN


def _can_be_named(kind: type) -> bool:
    """Whether pickle finds a class by its name."""
    try:
        ForkingPickler.dumps(kind)
    except (pickle.PicklingError, AttributeError):
        return False
    return True
