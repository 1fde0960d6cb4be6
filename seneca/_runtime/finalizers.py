"""Actions for when an object is collected or the process ends, also in processes of multiprocessing.

Daemon threads run on while the process ends. They must not begin work that nobody would end.

``weakref.finalize`` alone does not run if multiprocessing ends a process, as it ends torch's workers. A row
in shared memory would then be left for others to reap. A process that has workers must leave a cache after
them. Workers are ended by multiprocessing without leaving the cache first. Therefore the process is its
last user.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from multiprocessing.util import Finalize
from typing import Any

__all__ = ["FIRST", "LAST", "PATIENCE_S", "finalize", "park_if_ending", "wait_at_end"]

# The order of actions at a process's end, the highest first. Of equal ones the last made runs first. Those
# below 0 run after multiprocessing has ended the processes that this one has started.
FIRST, LAST = 1, -1
PATIENCE_S = 1.0  # the longest that the end of the process waits for all daemon threads together

_ends = threading.Event()
_never = threading.Event()


def finalize(
    thing: object, function: Callable[..., Any], *args: Any, order: int
) -> weakref.finalize[..., Any]:
    """Call ``function(*args)`` once ``thing`` is gone or the process ends, as ``weakref.finalize`` does.

    Args:
        thing: The object. No reference in ``args`` may lead to it.
        function: The function. It is called once.
        *args: Its arguments.
        order: When it runs at a process's end. ``FIRST`` is for iterators that draw from a cache, ``LAST``
            for the cache.

    Returns:
        A finalizer. Call it to call the function at once.
    """
    finalizer = weakref.finalize(thing, function, *args)
    finalizer.atexit = False
    Finalize(thing, _end, (finalizer,), exitpriority=order)
    return finalizer


def park_if_ending() -> None:
    """Hold the calling thread for ever if it is a daemon thread and the process is ending.

    If the thread ran on, it would meet closed caches. If it ended, it would drop its references, and their
    finalizers would race with the end of the process.
    """
    if _ends.is_set() and threading.current_thread().daemon:
        _never.wait()


def wait_at_end(lock: Any, owner: object = None) -> None:
    """At the end of the process, first wait until no other thread holds ``lock``, which belongs to
    ``owner``."""
    Finalize(owner, _wait_for, (lock,), exitpriority=FIRST + 1)


def _wait_for(lock: Any) -> None:
    if lock.acquire(timeout=max(0.0, _patient_until - time.monotonic())):
        lock.release()


def _begin_to_end() -> None:
    global _patient_until
    _patient_until = time.monotonic() + PATIENCE_S
    _ends.set()


_patient_until = 0.0
Finalize(None, _begin_to_end, exitpriority=FIRST + 2)


def _end(finalizer: weakref.finalize[..., Any]) -> None:
    """Call the finalizer, even if the process is so near its end that it would not run by itself."""
    undone = finalizer.detach()
    if undone is not None:
        _, function, args, _ = undone
        function(*args)
