"""Iterating with torch's worker processes.

Torch's own iterators do the work; here is what they are shown instead of the loader, and what
torch leaves out: a worker that dies says why, what cannot be pickled is an error, and what of an
epoch is used up is told.
"""

from __future__ import annotations

import multiprocessing.queues
import os
import pickle
import signal
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any, NoReturn

import torch
from torch._utils import ExceptionWrapper
from torch.utils.data import get_worker_info
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter, _SingleProcessDataLoaderIter

from seneca.turns import InTurn
from seneca.walks import Walks

__all__ = ["iterate"]


def iterate(loader: Any, index_sampler: Walks, dataset: Any = None, *, pins: bool = False) -> Any:
    """An iterator in the order of ``index_sampler``, and in all else as the loader says.

    Args:
        loader: Whose.
        index_sampler: Of which it knows how far the epoch has come.
        dataset: A :class:`seneca.SharedDataset` instead of the loader's.
        pins: Whether batches lie in page-locked memory even if the loader does not ask for it.
    """
    shown: dict[str, Any] = {"_index_sampler": index_sampler, "pin_memory": loader.pin_memory or pins}
    if dataset is not None:
        shown["dataset"] = dataset
    if loader.num_workers == 0:
        return Alone(_View(loader, **shown))
    loader.check_worker_number_rationality()
    if dataset is not None:
        shown["worker_init_fn"] = _WorkerInit(loader.worker_init_fn)
    shown["multiprocessing_context"] = _Context(loader.multiprocessing_context or torch.multiprocessing)
    return Workers(_View(loader, **shown))


class _View:
    """A loader with other attributes."""

    def __init__(self, loader: Any, **instead: Any) -> None:
        self._loader = loader
        vars(self).update(instead)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


class Alone(InTurn, _SingleProcessDataLoaderIter):
    """Torch's iterator without workers, which tells what of the epoch is used up."""

    def _next_data(self) -> Any:
        walk = self._sampler_iter
        if walk.is_stream:
            return walk.pass_on(super()._next_data)
        walk.drawn = None, None
        try:
            data = super()._next_data()
        except StopIteration:
            walk.epoch.end()
            raise
        except Exception:
            if walk.places is not None:
                walk.made(walk.drawn, failed=True)
            raise
        walk.made(walk.drawn)
        return data


class Workers(InTurn, _MultiProcessingDataLoaderIter):
    """Torch's worker processes, and what of the epoch is used up by what they have made."""

    def __init__(self, loader: Any) -> None:
        self._drawn: dict[int, Any] = {}  # of the batches under way, by torch's numbers
        self._workers_status = [True] * loader.num_workers  # torch sets it last, and asks for it to end them
        super().__init__(loader)

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        with self._turn:
            self._drawn = {}
            super()._reset(loader, first_iter)

    def _shutdown_workers(self) -> None:
        # Torch's __del__ comes here too, also where a Ctrl-C has ended __init__ before there was any worker.
        if hasattr(self, "_workers"):
            super()._shutdown_workers()

    def _next_index(self) -> Any:
        index = super()._next_index()
        self._drawn[self._send_idx] = self._sampler_iter.drawn
        return index

    def _next_data(self) -> Any:
        walk = self._sampler_iter
        if walk.is_stream:
            return walk.pass_on(super()._next_data)
        failed = True
        try:
            data = super()._next_data()
            failed = False
        except StopIteration:
            walk.epoch.end()
            raise
        finally:
            # Torch forgets what it has taken out, whether that was a batch or an error.
            for number in [number for number in self._drawn if number not in self._task_info]:
                walk.made(self._drawn.pop(number), failed=failed)
        return data

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
