"""Iterating with torch's worker processes over a :class:`seneca.SharedDataset`.

Torch's own iterators do the work; here is what they are shown instead of the loader, and what
torch leaves out: a worker that dies says why, and what cannot be pickled is an error.
"""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any, NoReturn

import numpy as np
import torch
from torch.utils.data import get_worker_info
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter, _SingleProcessDataLoaderIter

from seneca.shared import SharedDataset

__all__ = ["iterate"]


def iterate(loader: Any, shared: SharedDataset, index_sampler: Any) -> Any:
    """An iterator over ``shared``, in the order of ``index_sampler``, and in all else as the loader says."""
    if loader.num_workers == 0:
        return _SingleProcessDataLoaderIter(_View(loader, dataset=shared, _index_sampler=index_sampler))
    loader.check_worker_number_rationality()
    return Workers(
        _View(
            loader,
            dataset=shared,
            _index_sampler=index_sampler,
            collate_fn=_Collate(loader.collate_fn),
            worker_init_fn=_WorkerInit(loader.worker_init_fn),
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
        except RuntimeError as error:
            self._say_why(error)

    def _say_why(self, error: RuntimeError) -> NoReturn:
        ends = [
            f"worker {i} (pid {w.pid}) {_end_of(w.exitcode)}"
            for i, w in enumerate(self._workers)
            if w.exitcode
        ]
        if ends:
            raise RuntimeError(f"{error}: {'; '.join(ends)}") from error
        raise error


def _end_of(exitcode: int) -> str:
    if exitcode > 0:
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


class _Collate:
    """The user's ``collate_fn``; what it makes can be sent, or is an error, where torch's run would hang."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function

    def __call__(self, samples: Any) -> Any:
        batch = self.function(samples)
        _check_can_be_sent(batch)
        return batch


_SENT = frozenset({int, float, bool, complex, str, bytes, type(None)})


def _check_can_be_sent(value: Any) -> None:
    """Tensors and arrays are not copied to find out."""
    kind = type(value)
    if kind in _SENT:
        return
    if kind is torch.Tensor:
        if value.requires_grad and not value.is_leaf:
            raise TypeError("no worker can pickle a tensor that a gradient goes through: detach() it")
    elif kind in (list, tuple):
        for part in value:
            _check_can_be_sent(part)
    elif kind is dict:
        for key, part in value.items():
            _check_can_be_sent(key)
            _check_can_be_sent(part)
    elif kind is not np.ndarray or value.dtype.hasobject:
        try:
            ForkingPickler.dumps(value)
        except (pickle.PicklingError, TypeError, AttributeError, RuntimeError) as error:
            raise TypeError(
                f"no worker can pickle {kind.__qualname__}, so it cannot be sent: {error}"
            ) from None
