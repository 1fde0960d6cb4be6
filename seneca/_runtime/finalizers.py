"""Actions for when an object is collected or the process ends, also in processes of multiprocessing.

Daemon threads run on while the process ends. :data:`shielded` keeps what they do apart from these actions:
what a thread has begun it completes first, and then it begins nothing more.

``weakref.finalize`` alone does not run if multiprocessing ends a process, as it ends torch's workers. A row
in shared memory would then be left for others to reap. A process that has workers must leave a cache after
them. Workers are ended by multiprocessing without leaving the cache first. Therefore the process is its
last user.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
from collections.abc import Callable
from multiprocessing.util import Finalize
from typing import Any

__all__ = ["FIRST", "LAST", "PATIENCE_S", "finalize", "shielded"]

# The order of actions at a process's end, the highest first. Of equal ones the last made runs first. Those
# below 0 run after multiprocessing has ended the processes that this one has started.
FIRST, LAST = 1, -1
PATIENCE_S = 1.0  # the longest that the end of the process waits for all daemon threads together


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
    of_process: list[Finalize] = []
    finalizer = weakref.finalize(thing, _call, function, args, of_process)
    finalizer.atexit = False
    of_process.append(Finalize(thing, _end, (finalizer,), exitpriority=order))
    return finalizer


def _call(function: Callable[..., Any], args: tuple[Any, ...], of_process: list[Finalize]) -> None:
    """Call the function. The end of the process then knows no more of it: an object may have many in turn."""
    for one in of_process:
        one.cancel()
    function(*args)


class _Shield:
    """A context that the end of the process does not cut off.

    The end waits, before the first action, until no other thread is in the context, at most ``PATIENCE_S``.
    Once the process is ending, a daemon thread that enters or leaves the context is held for ever. If it ran
    on, it would meet closed caches. If it ended, it would drop its references, and their finalizers would
    race with the end of the process.

    The end first sets ``_ends`` and then examines ``_inside``. A thread first enters ``_inside`` and then
    examines ``_ends``. Therefore at least one of the two sees the other.
    """

    def __init__(self) -> None:
        self._ends = threading.Event()
        self._until = 0.0  # when the end stops waiting
        self._never = threading.Event()
        self._inside: dict[int, int] = {}  # how many contexts each thread is in, by its number
        os.register_at_fork(after_in_child=self._inside.clear)

    def __enter__(self) -> None:
        thread = threading.get_ident()
        self._inside[thread] = self._inside.get(thread, 0) + 1
        if self._inside[thread] == 1 and self._must_hold():
            del self._inside[thread]
            self._never.wait()

    def __exit__(self, *_: object) -> None:
        thread = threading.get_ident()
        within = self._inside.get(thread, 1) - 1  # after a fork in the context, it is 0
        if within:
            self._inside[thread] = within
            return
        self._inside.pop(thread, None)
        if self._must_hold():
            self._never.wait()

    def _must_hold(self) -> bool:
        thread = threading.current_thread()
        is_main = thread is threading.main_thread()  # which a daemon thread becomes in a child that it forks
        return self._ends.is_set() and thread.daemon and not is_main

    def end(self) -> None:
        """Wait for those in the context. Let no daemon thread in from now on.

        A second call waits only for what the first has left of ``PATIENCE_S``: a process may have two ends.
        """
        if not self._ends.is_set():
            self._until = time.monotonic() + PATIENCE_S
            self._ends.set()
        own = {threading.get_ident()}
        while self._inside.keys() - own and time.monotonic() < self._until:
            time.sleep(0.001)


shielded = _Shield()
# Of all actions at the end of a process this is the first. ``weakref`` sets up its own with the first
# finalizer, and must not find daemon threads that still make some. A process of multiprocessing runs only
# the actions of multiprocessing.
weakref.finalize(shielded, id, 0).detach()
atexit.register(shielded.end)
Finalize(None, shielded.end, exitpriority=FIRST + 1)


def _end(finalizer: weakref.finalize[..., Any]) -> None:
    """Call the finalizer, even if the process is so near its end that it would not run by itself."""
    undone = finalizer.detach()
    if undone is not None:
        _, function, args, _ = undone
        function(*args)
