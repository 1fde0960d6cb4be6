"""What is done when an object is collected, or the process ends: in processes of multiprocessing's too.

``weakref.finalize`` alone does not run where multiprocessing ends a process, as it ends torch's
workers: a row in shared memory would be left to others to reap. And where a process has workers, it is
to leave a cache behind them: they are ended and do not leave, so it is the last.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from multiprocessing.util import Finalize
from typing import Any

__all__ = ["FIRST", "LAST", "finalize"]

# The order among what ends with a process; within one, last made first ended. What is below 0 comes when
# multiprocessing has ended the processes that this one has begun.
FIRST, LAST = 1, -1


def finalize(
    thing: object, function: Callable[..., Any], *args: Any, order: int
) -> weakref.finalize[..., Any]:
    """As ``weakref.finalize``: call ``function(*args)`` once ``thing`` is gone, or the process ends.

    Args:
        thing: Whose end it is; ``args`` must not lead to it.
        function: What is called, once.
        *args: With what.
        order: ``FIRST`` or ``LAST``, at a process's end: who draws from a cache, then the cache.

    Returns:
        What calls it at once.
    """
    finalizer = weakref.finalize(thing, function, *args)
    finalizer.atexit = False
    Finalize(thing, _end, (finalizer,), exitpriority=order)
    return finalizer


def _end(finalizer: weakref.finalize[..., Any]) -> None:
    """Call it, even where the end of the process is so near that it would not do so by itself."""
    undone = finalizer.detach()
    if undone is not None:
        _, function, args, _ = undone
        function(*args)
