r"""Brings the bytes of pictures in buckets to a stream.

::

    Stream --run()---------> HttpFetcher, one thread with many requests --------------> Stream
                                \--missed--> queue --\
    Stream --next_fetch()----------------------------> threads with a request each ---> Stream

Objects that a plain request for a URL brings are fetched by :class:`HttpFetcher`, without Python. This halves
the CPU time of fetching. For what it misses, and for all other objects, threads ask by the package of the
scheme, which tries again and says what is wrong.

The stream says what is wanted next, and how many requests are under way. One request brings samples
that are beside each other in an archive, if several batches ahead want them. If it fails, the stream asks
for each of them again. A fetcher holds a ticket, and no memory of the stream's. If a server answers after the
stream is closed, the ticket is void. Therefore closing waits for no server. A thread whose server hangs ends
when its request is given up, or is late.
"""

from __future__ import annotations

import contextlib
import errno
import os
import queue
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from seneca._core.fetches import HttpFetcher, fetched, next_fetch, not_fetched
from seneca._core.pool import READS_AHEAD, Stream, StreamClosed
from seneca.data.sources.buckets import Objects
from seneca.data.sources.waiting import CONNECT_S, SILENT_S, GivenUp, Waiting

if TYPE_CHECKING:
    from seneca._core.fetches import Wanted

__all__ = ["Fetchers"]

LONGEST_WAIT_MS = 60_000  # the stream wakes its threads when it is closed
FOR_THE_MOMENT = (408, 425, 429)  # statuses of HTTP, besides those from 500 on
ENDS_S = 1.0  # that threads are waited for, which need no time unless a server hangs


class Fetchers:
    """The threads that fetch for a stream: one more than there are requests, up to the most that it allows.

    Args:
        stream: What wants bytes. Its maker closes it, and then calls :meth:`end`.
        objects: Where they are.
        asks_hosts: The stream asks other hosts first. Then each thread does so for one request, and
            there is no :class:`HttpFetcher`, because the hosts' answers would hold up all its requests.
    """

    def __init__(self, stream: Stream, objects: Objects, asks_hosts: bool) -> None:
        self._stream, self._objects = stream, objects
        self._may_be_direct = not asks_hosts and objects.are_direct()
        self._missed: queue.SimpleQueue[tuple[Wanted, bool] | None] | None = None  # by HttpFetcher
        self._waiting = Waiting()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._owner = os.getpid()

    def start(self) -> None:
        """Begin to fetch."""
        if self._may_be_direct:
            with contextlib.suppress(OSError):  # there is no libcurl
                http = HttpFetcher(self._stream)
                self._missed = queue.SimpleQueue()
        with self._lock:
            self._start_one()
        if self._missed is not None:
            self._start_thread(self._run_http, http)

    def end(self) -> None:
        """The stream is closed: give up what is under way. In a forked child there is nothing of it."""
        if self._owner != os.getpid():
            return
        self._waiting.give_up()
        if self._missed is not None:
            self._missed.put(None)
        until = time.monotonic() + ENDS_S
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, until - time.monotonic()))

    def _start_thread(self, run: Callable[..., None], *arguments: Any) -> None:
        thread = threading.Thread(target=run, args=arguments, name="seneca-fetch", daemon=True)
        thread.start()
        self._threads.append(thread)

    def _start_one(self) -> None:
        self._start_thread(self._run)
        self._idle += 1

    def _use_one(self) -> None:
        """A thread has something to fetch: one more is begun if all have. Below 0 that many have to wait."""
        with self._lock:
            self._idle -= 1
            if self._idle <= 0 and len(self._threads) < READS_AHEAD:
                with contextlib.suppress(RuntimeError):  # no more can be begun here: there is one at least
                    self._start_one()

    def _run_http(self, http: HttpFetcher) -> None:
        with contextlib.suppress(StreamClosed), contextlib.closing(http):
            while True:
                wanted, missed = http.run()
                for one, status in missed:
                    self._ask_package(one, counts_against_http=status not in FOR_THE_MOMENT and status < 500)
                requests = self._objects.requests_for([one[2:] for one in wanted])
                for which, request in enumerate(requests):
                    if request is None:
                        self._ask_package(wanted[which], counts_against_http=False)
                    else:
                        url, etag, is_part, most_ms = request
                        http.add(which, url, etag, is_part, 1000 * CONNECT_S, SILENT_S, most_ms)

    def _ask_package(self, wanted: Wanted, counts_against_http: bool) -> None:
        assert self._missed is not None
        self._missed.put((wanted, counts_against_http))
        self._use_one()

    def _next(self) -> tuple[Wanted, bool] | None:
        """What is wanted, and whether success counts against :class:`HttpFetcher`; None: nothing yet.

        Raises:
            StreamClosed: The stream is closed.
        """
        if self._missed is None:
            wanted = next_fetch(self._stream, LONGEST_WAIT_MS)
            if wanted is None:
                return None
            self._use_one()
            return wanted, False
        missed = self._missed.get()
        if missed is None:
            self._missed.put(None)  # for the next thread
            raise StreamClosed()
        return missed

    def _run(self) -> None:
        with contextlib.suppress(StreamClosed, GivenUp):
            while True:
                found = self._next()
                if found is None:
                    continue
                wanted, counts_against_http = found
                if self._fetch(*wanted) and counts_against_http:
                    self._objects.was_in_vain(wanted[2])
                with self._lock:
                    self._idle += 1

    def _fetch(self, ticket: int, _: tuple[int, ...], container: int, offset: int, length: int) -> bool:
        """Whether the package has brought it."""
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
            return True
        return False
