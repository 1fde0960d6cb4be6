"""Waits for a server's answer: how long, and who ends it."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["CONNECT_S", "SILENT_S", "STARTS_S", "GivenUp", "Waiting", "seconds_for"]

CONNECT_S, SILENT_S = 10, 30  # to connect; without a byte
STARTS_S, SLOWEST = 40, 2**20  # an answer is given up after so many seconds, and one more for so many bytes

T = TypeVar("T")


def seconds_for(length: int) -> float:
    """How long an answer of so many bytes may take."""
    return STARTS_S + length / SLOWEST


class GivenUp(Exception):
    """The wait for this was given up."""


class Waiting:
    """The wait of a thread, until another gives it up."""

    def __init__(self) -> None:
        self._over = threading.Event()
        self._futures: set[concurrent.futures.Future[Any]] = set()
        self._lock = threading.Lock()

    def give_up(self) -> None:
        """End what is waited for, and all that would be."""
        self._over.set()
        with self._lock:
            under_way = list(self._futures)
        for future in under_way:
            future.cancel()

    def pause(self, seconds: float) -> None:
        """Wait for nothing."""
        if self._over.wait(seconds):
            raise GivenUp()

    def run(self, work: Coroutine[Any, Any, T], seconds: float = STARTS_S) -> T:
        """Wait for a coroutine in the loop of ``fsspec``.

        Raises:
            TimeoutError: It has not ended in time, and was cancelled.
            GivenUp: Another thread has ended the wait.
        """
        from fsspec.asyn import get_loop

        async def ended() -> tuple[T | None, Exception | None]:
            try:
                return await asyncio.wait_for(work, seconds), None
            except Exception as error:  # as a result: asyncio makes a TimeoutError anew, without its file
                return None, error

        future = asyncio.run_coroutine_threadsafe(ended(), get_loop())
        with self._lock:
            self._futures.add(future)
        if self._over.is_set():
            future.cancel()  # give_up() may have checked before
        try:
            result, error = future.result()
        except concurrent.futures.CancelledError:
            raise GivenUp() from None
        finally:
            future.cancel()  # nothing, where it has ended; else a Ctrl-C has ended the wait
            with self._lock:
                self._futures.discard(future)
        if error is not None:
            raise error
        return result  # type: ignore[return-value]
