"""What torch's own loader is doing around a dataset that it asks for items.

Torch tells a dataset neither of epochs nor of a ``worker_init_fn``. Both are on the stack: every iterator has
a fetcher of its own in each process, worker processes that stay make another for each epoch, and a worker's
main loop holds the function. Where they are not found (another version of torch, items asked for by hand) the
answer is None, and nothing is shared.
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
    """The fetcher for which items are asked: the same for all of an epoch, in this process."""
    frame = _frame_of(_FETCH)
    return None if frame is None else frame.f_locals.get("self")


def init_of_worker() -> Callable[[int], None] | None:
    """The ``worker_init_fn`` that this worker process has run."""
    frame = _frame_of(_WORKER_LOOP)
    return None if frame is None else frame.f_locals.get("init_fn")


def _frame_of(code: CodeType) -> FrameType | None:
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return frame
