"""Brings the bytes of pictures in buckets to a stream: what its threads want next, as many at a time as it allows.

::

    Stream --next_fetch()--> a thread that waits --> coroutines, one for each object --fetched()--> Stream

The stream decides how many are under way. Its places are taken by ticket: when the stream is closed, whatever a server
answers later finds nothing to be written to. Therefore closing cancels the coroutines and waits for no server.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import threading

from seneca._core.fetches import fetched, next_fetch, not_fetched
from seneca._core.pool import Stream, StreamClosed
from seneca.data.sources.buckets import Objects

__all__ = ["Fetcher"]

LOOK_UP_MS = 60_000  # the stream wakes the thread when it is closed
ENDS_S = 5.0  # that a thread needs to end, of which nothing is left but Python


class Fetcher:
    """The thread of a stream that has requests made, and the requests under way.

    Args:
        stream: What wants bytes. Its maker closes it, and then calls :meth:`end`.
        objects: Where they are.
        blocks: Whether to bring bytes to the stream may take longer than to copy them: they go to another host too.
    """

    def __init__(self, stream: Stream, objects: Objects, *, blocks: bool = False) -> None:
        self._stream, self._objects, self._blocks = stream, objects, blocks
        self._owner = os.getpid()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._under_way: set[asyncio.Task[None]] = set()  # the loop's thread has it
        self._thread = threading.Thread(target=self._run, name="seneca-fetch", daemon=True)

    def start(self) -> None:
        """Begin to fetch."""
        from fsspec.asyn import get_loop

        self._loop = get_loop()
        self._thread.start()

    def end(self) -> None:
        """The stream is closed: give up what is under way. In a forked child there is nothing of it."""
        if self._loop is None or self._owner != os.getpid():
            return
        self._loop.call_soon_threadsafe(self._cancel)
        if threading.current_thread() is not self._thread:
            self._thread.join(ENDS_S)

    def _run(self) -> None:
        assert self._loop is not None
        with contextlib.suppress(StreamClosed):
            while True:
                wanted = next_fetch(self._stream, LOOK_UP_MS)
                if wanted is not None:
                    ticket, _, container, offset, length = wanted
                    self._loop.call_soon_threadsafe(self._begin, ticket, container, offset, length)

    def _begin(self, *wanted: int) -> None:
        task = asyncio.ensure_future(self._fetch(*wanted))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    def _cancel(self) -> None:
        for task in self._under_way:
            task.cancel()

    async def _fetch(self, ticket: int, container: int, offset: int, length: int) -> None:
        with contextlib.suppress(StreamClosed):
            try:
                data = await self._objects.fetch(container, offset, length)
            except OSError as error:
                not_fetched(self._stream, ticket, error.errno or errno.EIO, error.strerror or str(error))
            except Exception as error:  # else the batch would wait for ever
                not_fetched(self._stream, ticket, errno.EIO, f"{type(error).__name__}: {error}")
            else:
                if self._blocks:
                    await asyncio.to_thread(fetched, self._stream, ticket, data)
                else:
                    fetched(self._stream, ticket, data)
