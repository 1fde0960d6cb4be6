"""What is done when an object is collected, or the process ends: in processes of multiprocessing's too.

``weakref.finalize`` alone does not run where multiprocessing ends a process, as it ends torch's
workers: a row in shared memory would be left to others to reap.
"""

from __future__ import annotations

import multiprocessing
import weakref
from collections.abc import Callable
from multiprocessing.util import Finalize
from typing import Any

__all__ = ["FIRST", "LAST", "finalize"]

FIRST, LAST = 2, 1  # order among what ends with a process; within one, last made first ended


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
    if multiprocessing.parent_process() is not None:
        Finalize(thing, finalizer, exitpriority=order)
    return finalizer
