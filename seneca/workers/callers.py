"""Finds out what torch's own loader does while it asks a dataset for items.

torch informs a dataset neither of epochs nor of a ``worker_init_fn``. Both can be found on the stack:

* Every iterator has a fetcher of its own in each process. Persistent worker processes make another fetcher
  for each epoch.
* A worker's main loop holds the ``worker_init_fn``.

In another version of torch, or if items are asked for by hand, they are not found. The answer is then None,
and nothing is shared.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from torch.utils.data._utils import fetch, worker

__all__ = ["asking_fetcher", "init_of_worker"]

_FETCH = fetch._MapDatasetFetcher.fetch.__code__
_WORKER_LOOP = worker._worker_loop.__code__


def asking_fetcher() -> Any:
    """The fetcher that asks for items; None: there is none. It is one object for an epoch in this process."""
    frame = _frame_of(_FETCH)
    return None if frame is None else frame.f_locals.get("self")


def init_of_worker() -> Callable[[int], None] | None:
    """The ``worker_init_fn`` that this worker process has run; None: there is none, or it is not found."""
    frame = _frame_of(_WORKER_LOOP)
    return None if frame is None else frame.f_locals.get("init_fn")


def _frame_of(code: CodeType) -> FrameType | None:
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return frame
