"""Iterating with torch's worker processes over a :class:`seneca.SharedDataset`.

Torch's own iterators do the work; here is what they are shown instead of the loader, and what
torch leaves out: a worker that dies says why, and what cannot be pickled is an error.
"""

from __future__ import annotations

import contextlib
import multiprocessing.queues
import numbers
import os
import pickle
import signal
from collections.abc import Callable, Collection, Iterator
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch._utils import ExceptionWrapper
from torch.utils.data import BatchSampler, RandomSampler, SequentialSampler, get_worker_info
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter, _SingleProcessDataLoaderIter

from seneca.audit import Header, Log, audit_folder, next_turn
from seneca.cache import job_key
from seneca.samplers import OpportunisticBatchSampler
from seneca.shared import SharedDataset
from seneca.terms import PlannedBatch

__all__ = ["iterate"]


def iterate(loader: Any, shared: SharedDataset, index_sampler: Any) -> Any:
    """An iterator over ``shared``, in the order of ``index_sampler``, and in all else as the loader says."""
    single: Any = _SingleProcessDataLoaderIter
    several: Any = Workers
    if (folder := audit_folder()) is not None:
        index_sampler = _Watch(loader, shared, index_sampler, folder)
        single, several = _WatchedSingle, _WatchedWorkers
    if loader.num_workers == 0:
        return single(
            _View(
                loader,
                dataset=shared,
                _index_sampler=index_sampler,
                pin_memory=loader.pin_memory or loader._pins,
            )
        )
    loader.check_worker_number_rationality()
    return several(
        _View(
            loader,
            dataset=shared,
            _index_sampler=index_sampler,
            pin_memory=loader.pin_memory or loader._pins,
            worker_init_fn=_WorkerInit(loader.worker_init_fn),
            multiprocessing_context=_Context(loader.multiprocessing_context or torch.multiprocessing),
        )
    )


class _View:
    """A loader with other attributes."""

    def __init__(self, loader: Any, **instead: Any) -> None:
        self._loader = loader
        vars(self).update(instead)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


class Workers(_MultiProcessingDataLoaderIter):
    """Torch's worker processes."""

    def _try_get_data(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super()._try_get_data(*args, **kwargs)
        except (RuntimeError, OSError, EOFError) as error:
            self._say_why(error)

    def _say_why(self, error: Exception) -> NoReturn:
        ends = {
            w.pid: f"worker {i} (pid {w.pid}) {_end_of(w.exitcode)}"
            for i, w in enumerate(self._workers)
            if w.exitcode or (w.exitcode == 0 and str(w.pid) in str(error))
        }
        if not ends:
            raise error
        what = str(error)
        if not isinstance(error, RuntimeError):  # what it had begun to send has broken off
            what = f"DataLoader worker (pid(s) {', '.join(map(str, ends))}) exited unexpectedly"
        raise RuntimeError(f"{what}: {'; '.join(ends.values())}") from error


class _Watch:
    """An index sampler that remembers what it was asked for, until it is delivered and written down.

    Once torch's iterator begins an epoch, each batch that it takes has the next number, from 0.
    """

    def __init__(self, loader: Any, shared: SharedDataset, batches: Any, folder: Path) -> None:
        self._loader, self._shared, self._batches, self._folder = loader, shared, batches, folder
        self._log: Log | None = None
        self.waited_for: dict[int, list[int]] = {}

    def __iter__(self) -> Iterator[Any]:
        if not isinstance(self._batches, OpportunisticBatchSampler):
            return self._watch(iter(self._batches))
        self._batches.watched = True
        try:
            return self._watch(iter(self._batches))
        finally:
            self._batches.watched = False

    def _watch(self, batches: Iterator[Any]) -> Iterator[Any]:
        log = self._log = Log(self._folder, self._header())
        waited_for: dict[int, list[int]] = {}
        self.waited_for = waited_for
        for number, batch in enumerate(batches):
            indices = batch if isinstance(batch, (list, tuple)) else [batch]
            # A sampler of the user's may yield what is no index.
            waited_for[number] = [int(i) for i in indices if isinstance(i, numbers.Integral) and int(i) >= 0]
            if isinstance(batch, PlannedBatch):
                batch.log = log.id
            yield batch

    def _header(self) -> Header:
        batches, samples = self._batches, len(self._shared)
        if type(batches) in (BatchSampler, OpportunisticBatchSampler):
            sampler, batch_size, drop_last = batches.sampler, batches.batch_size, batches.drop_last
        else:
            sampler, batch_size, drop_last = batches, 1, False  # one by one, or the user's
        shuffled = type(sampler) is RandomSampler
        whole = len(sampler) == samples and (
            (shuffled and not sampler.replacement) or type(sampler) is SequentialSampler
        )
        number, turn = next_turn(self._loader)
        return Header(
            kind="delivered",
            job=f"{job_key():016x}",
            dataset="" if self._shared.terms is None else self._shared.terms.source.hex(),
            samples=samples,
            loader=number,
            turn=turn,
            epoch=turn,
            count=samples - (samples % batch_size if drop_last else 0) if whole else None,
            batch_size=batch_size if whole else None,
            drop_last=drop_last,
            shuffled=shuffled,
            in_order=getattr(self._loader, "in_order", True),
        )

    @contextlib.contextmanager
    def delivery(self, taken: Callable[[], Collection[int]]) -> Iterator[None]:
        """Around the wait for a batch; ``taken`` tells the numbers of those that have left torch's hands."""
        try:
            yield
        except StopIteration:
            if self._log is not None:
                self._log.done()
            raise
        except Exception:
            self._write(taken(), failed=True)
            raise
        self._write(taken(), failed=False)

    def _write(self, taken: Collection[int], *, failed: bool) -> None:
        for number in taken:
            indices = self.waited_for.pop(number)
            assert self._log is not None
            (self._log.failed if failed else self._log.gave)(indices)


class _WatchedSingle(_SingleProcessDataLoaderIter):
    def _next_data(self) -> Any:
        watch = self._index_sampler
        with watch.delivery(lambda: list(watch.waited_for)):
            return super()._next_data()


class _WatchedWorkers(Workers):
    def _next_data(self) -> Any:
        watch = self._index_sampler
        before = set(self._task_info)
        with watch.delivery(lambda: before - set(self._task_info)):
            return super()._next_data()


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
    """The user's ``worker_init_fn``, in a worker that knows the user's dataset."""

    def __init__(self, function: Callable[[int], None] | None) -> None:
        self.function = function

    def __call__(self, worker_id: int) -> None:
        info: Any = get_worker_info()
        object.__setattr__(info, "dataset", info.dataset.dataset)  # which refuses to be changed
        if self.function is not None:
            self.function(worker_id)


class _Context:
    """A context of multiprocessing, but for its queues."""

    def __init__(self, context: Any) -> None:
        self._context = context.get_context()

    def Queue(self) -> _Queue:
        return _Queue(ctx=self._context)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


class _Queue(multiprocessing.queues.Queue):  # type: ignore[type-arg]
    """What a worker cannot pickle is an error in its place: torch's loader would wait for it for ever."""

    def _on_queue_feeder_error(self, error: Exception, sent: Any) -> None:  # type: ignore[override]
        worker = get_worker_info()
        if worker is None or type(sent) is not tuple:
            super()._on_queue_feeder_error(error, sent)  # type: ignore[misc]
            return
        number, data = sent
        if isinstance(data, ExceptionWrapper):
            data.exc_type = next(kind for kind in data.exc_type.__mro__ if _can_be_named(kind))
        else:
            unsent = TypeError(
                f"what collate_fn made cannot be sent by a worker, for pickle refuses it: {error}"
            )
            data = ExceptionWrapper((TypeError, unsent, None), f"in DataLoader worker process {worker.id}")
        self.put((number, data))


def _can_be_named(kind: type) -> bool:
    """Whether pickle finds a class by its name."""
    try:
        ForkingPickler.dumps(kind)
    except (pickle.PicklingError, AttributeError):
        return False
    return True
