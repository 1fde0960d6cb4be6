"""What a test may not leave to the next: processes, their signals, handlers of signals, levels of loggers.

A process that makes a loader with workers gets torch's handler of SIGCHLD for good: once one of its workers
has died, it raises RuntimeError wherever the main thread happens to be. In a test that is what torch does.
After it, it would hit the next test, or pytest itself, which then dies of an INTERNALERROR. So the handler is
in place only while a test's own code runs, and the processes that the test has begun are waited for before
the next one begins.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import multiprocessing
import signal
import threading
import time
from collections.abc import Iterator

import pytest

GRACE_S = 20.0  # torch's workers look every five seconds whether anybody still wants them
KEPT = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGUSR1, signal.SIGUSR2)

_of_tests = signal.SIG_DFL  # the handler of SIGCHLD as the last test has left it
_before = pytest.StashKey[set[int]]()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Only a test's own code gets the signal that a worker has died."""
    item.stash[_before] = {child.pid for child in multiprocessing.active_children()}
    with _handlers_restored(), _levels_restored(), _signal_of_workers():
        return (yield)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Once the fixtures are gone, so are the processes that the test itself has begun."""
    done = yield
    if _before in item.stash:
        left = end_children(item.stash[_before])
        assert not left, f"processes were left behind, and have been killed: {left}"
    return done


def end_children(spared: set[int], grace_s: float | None = None) -> list[str]:
    """Wait for the ends of all children but ``spared``; kill those that do not end, and name them."""

    def alive() -> list[multiprocessing.Process]:
        return [child for child in multiprocessing.active_children() if child.pid not in spared]

    if not alive():
        return []
    gc.collect()  # an exception's traceback holds the iterator, and that its workers
    deadline = time.monotonic() + (GRACE_S if grace_s is None else grace_s)
    while (left := alive()) and time.monotonic() < deadline:
        time.sleep(0.01)
    for child in left:
        child.kill()
        child.join()
    return [f"{child.name} (pid {child.pid})" for child in left]


@contextlib.contextmanager
def _signal_of_workers() -> Iterator[None]:
    global _of_tests
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    if callable(installed := signal.getsignal(signal.SIGCHLD)):  # by a loader that a fixture has made
        _of_tests = installed
    signal.signal(signal.SIGCHLD, _of_tests)
    try:
        yield
    finally:
        _of_tests = signal.signal(signal.SIGCHLD, signal.SIG_DFL) or signal.SIG_DFL  # None: not Python's


@contextlib.contextmanager
def _levels_restored() -> Iterator[None]:
    """A page of the docs shows how to hear Seneca's loggers. The next test expects that nobody asked."""
    levels = {name: logging.getLogger(name).level for name in _loggers()}
    try:
        yield
    finally:
        for name in _loggers():
            # To set a level, even the same one, empties the caches of all loggers that there are.
            if logging.getLogger(name).level != (level := levels.get(name, logging.NOTSET)):
                logging.getLogger(name).setLevel(level)


def _loggers() -> list[str]:
    return [name for name in logging.root.manager.loggerDict if name.partition(".")[0] == "seneca"]


@contextlib.contextmanager
def _handlers_restored() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # A shell begins a command in the background so that it ignores both. No job of a test would hear them.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGQUIT) == signal.SIG_IGN:
        signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    handlers = {number: signal.getsignal(number) for number in KEPT}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            if handler is not None and signal.getsignal(number) is not handler:  # None: not Python's
                signal.signal(number, handler)
