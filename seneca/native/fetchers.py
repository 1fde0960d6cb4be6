"""Brings the bytes of pictures in buckets to a stream.

::

    Stream --next_fetch()--> threads, each with a request of its own --fetched()--> Stream

The stream says what its threads want next, and how many requests are under way. One request brings samples
that lie beside each other in an archive, if several batches ahead want them. If it fails, the stream asks
for each of them again. A fetcher holds a ticket, and
no memory of the stream's. If a server answers after the stream is closed, the ticket is void. Therefore
closing waits for no server. A thread whose server hangs ends when its request is given up, or is late.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import time

from seneca._core.fetches import fetched, next_fetch, not_fetched
from seneca._core.pool import READS_AHEAD, Stream, StreamClosed
from seneca.data.sources.buckets import Objects
from seneca.data.sources.stores import GivenUp, Waiting

__all__ = ["Fetchers"]

LOOK_UP_MS = 60_000  # the stream wakes its threads when it is closed
ENDS_S = 1.0  # that threads are waited for, which need no time unless a server hangs


class Fetchers:
    """The threads that fetch for a stream: one more than there are requests, up to the most that it allows.

    Args:
        stream: What wants bytes. Its maker closes it, and then calls :meth:`end`.
        objects: Where they are.
    """

    def __init__(self, stream: Stream, objects: Objects) -> None:
        self._stream, self._objects = stream, objects
        self._waiting = Waiting()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._owner = os.getpid()

    def start(self) -> None:
        """Begin to fetch."""
        with self._lock:
            self._start_one()

    def end(self) -> None:
        """The stream is closed: give up what is under way. In a forked child there is nothing of it."""
        if self._owner != os.getpid():
            return
        self._waiting.give_up()
        until = time.monotonic() + ENDS_S
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, until - time.monotonic()))

    def _start_one(self) -> None:
        thread = threading.Thread(target=self._run, name="seneca-fetch", daemon=True)
        thread.start()
        self._idle += 1
        self._threads.append(thread)

    def _run(self) -> None:
        with contextlib.suppress(StreamClosed, GivenUp):
            while True:
                wanted = next_fetch(self._stream, LOOK_UP_MS)
                if wanted is None:
                    continue
                with self._lock:
                    self._idle -= 1
                    if self._idle == 0 and len(self._threads) < READS_AHEAD:
                        self._start_one()
                self._fetch(*wanted)
                with self._lock:
                    self._idle += 1

    def _fetch(self, ticket: int, _: tuple[int, ...], container: int, offset: int, length: int) -> None:
        try:
            data = self._objects.fetch(container, offset, length, self._waiting)
        except GivenUp:
            raise
        except OSError as error:
            not_fetched(self._stream, ticket, error.errno or errno.EIO, error.strerror or str(error))
        except Exception as error:  # else the batch would wait for ever
            not_fetched(self._stream, ticket, errno.EIO, f"{type(error).__name__}: {error}")
        else:
            fetched(self._stream, ticket, data)
