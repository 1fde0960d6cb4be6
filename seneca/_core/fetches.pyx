"""The border to csrc/pool for threads that fetch: what is wanted, and its bytes. Decides nothing.

All enter the pool while they hold the GIL. A stream is closed under the GIL too, before its pool is ended.
Therefore nobody enters a pool that ends, and a pool is not freed while somebody is in it.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from posix.unistd cimport getpid

from seneca._core.pool import StreamClosed
from seneca._core.codes cimport SN_E_CLOSED
from seneca._core.pool cimport (
    Stream,
    sn_pool,
    sn_pool_enter,
    sn_pool_fetched,
    sn_pool_leave,
    sn_pool_next_fetch,
    sn_wanted,
)

__all__ = ["HttpFetcher", "fetched", "next_fetch", "not_fetched"]


cdef extern from "http/sn_http.h" nogil:
    enum:
        SN_HTTP_TEXT

    ctypedef struct sn_http:
        pass

    ctypedef struct sn_http_request:
        const char *url
        const char *etag
        uint64_t offset, length
        int is_part
        long connect_ms, silent_s, whole_ms

    sn_http *sn_http_new(char *why)
    void sn_http_free(sn_http *self)
    void sn_http_give_up(sn_http *self)


cdef extern from "pool/sn_http_fetcher.h" nogil:
    ctypedef struct sn_missed:
        sn_wanted wanted
        long status

    ctypedef struct sn_http_fetcher:
        sn_http *http
        sn_wanted *wanted
        uint32_t n_wanted
        sn_missed *missed
        uint32_t n_missed

    int sn_http_fetcher_run(sn_http_fetcher *self, sn_pool *pool)
    void sn_http_fetcher_add(sn_http_fetcher *self, uint32_t which, sn_http_request request)


cdef sn_pool *enter(Stream stream) except NULL:
    if stream.closed or stream.pool == NULL or stream.owner != getpid():
        raise StreamClosed()
    sn_pool_enter(stream.pool)
    return stream.pool


def next_fetch(Stream stream not None, int timeout_ms):
    """Wait for a range whose bytes are to be fetched: of a sample, or of several that are neighbours.

    Returns:
        ``(ticket, samples, container, offset, length)``; None: there is none within the time.

    Raises:
        StreamClosed: The stream is closed.
    """
    cdef sn_wanted wanted
    cdef int rc
    cdef sn_pool *pool = enter(stream)
    with nogil:
        rc = sn_pool_next_fetch(pool, &wanted, timeout_ms)
        sn_pool_leave(pool)
    if rc == SN_E_CLOSED:
        raise StreamClosed()
    if rc != 0:
        return None
    return as_tuple(&wanted)


cdef tuple as_tuple(const sn_wanted *wanted):
    samples = tuple([wanted.samples[i] for i in range(wanted.n)])
    return wanted.ticket, samples, wanted.container, wanted.offset, wanted.length


def fetched(Stream stream not None, uint64_t ticket, const uint8_t[::1] data not None):
    """Bring the bytes of a ticket's range, which are copied.

    Returns:
        Whether they were wanted. If their batches were dropped, they are not.

    Raises:
        StreamClosed: The stream is closed.
    """
    cdef const uint8_t *bytes_ = &data[0] if data.shape[0] else NULL
    cdef size_t length = data.shape[0]
    cdef int rc
    cdef sn_pool *pool = enter(stream)
    with nogil:
        rc = sn_pool_fetched(pool, ticket, bytes_, length, 0, NULL)
        sn_pool_leave(pool)
    return rc == 0


def not_fetched(Stream stream not None, uint64_t ticket, int number, str why not None):
    """Say why the bytes of a ticket's range cannot be fetched: an ``errno`` and a text.

    If it is of several samples, each is then fetched for itself.

    Returns, Raises: As :func:`fetched`.
    """
    cdef bytes text = why.encode(errors="replace")
    cdef const char *message = text
    cdef int rc
    if number <= 0:
        raise ValueError(f"{number} is no number of an error")
    cdef sn_pool *pool = enter(stream)
    with nogil:
        rc = sn_pool_fetched(pool, ticket, NULL, 0, -number, message)
        sn_pool_leave(pool)
    return rc == 0


_idle = []  # Connections: those of an epoch serve the next


cdef class Connections:
    """Open connections to web servers. One thread uses them at a time.

    Raises:
        OSError: There is no libcurl here.
    """

    cdef sn_http *handle
    cdef int owner

    def __cinit__(self):
        cdef char[SN_HTTP_TEXT] why
        self.owner = getpid()
        self.handle = sn_http_new(why)  # with the GIL, therefore one at a time
        if self.handle == NULL:
            raise OSError(why.decode(errors="replace"))

    def __dealloc__(self):
        if self.owner == getpid():  # in a forked child they are the parent's
            sn_http_free(self.handle)


cdef Connections connections():
    cdef Connections found
    while _idle:
        found = _idle.pop()
        if found.owner == getpid():
            return found
    return Connections()


cdef class HttpFetcher:
    """Fetches for a stream by HTTP, many requests at a time. One thread uses it.

    Args:
        stream: What wants bytes.

    Raises:
        OSError: There is no libcurl here.
    """

    cdef Stream stream
    cdef Connections connections
    cdef sn_http_fetcher *own

    def __cinit__(self, Stream stream not None):
        self.stream = stream
        self.connections = connections()
        self.own = <sn_http_fetcher *>calloc(1, sizeof(sn_http_fetcher))
        if self.own == NULL:
            raise MemoryError()
        self.own.http = self.connections.handle

    def __dealloc__(self):
        free(self.own)

    def close(self):
        """Give up what is under way. The connections are then another stream's."""
        cdef sn_http *http = self.own.http
        if self.connections.owner == getpid():
            with nogil:  # a connection that is begun may have to be waited for
                sn_http_give_up(http)
            _idle.append(self.connections)
        self.connections, self.own.http = None, NULL

    def run(self):
        """Bring what comes to the stream, until it wants more or something is missed.

        Returns:
            What is wanted, as :func:`next_fetch` has it: up to 16 of these, and there is room to :meth:`add` them.
            And what is missed: ``(wanted, status of HTTP)``. Status 0: no server has answered.

        Raises:
            StreamClosed: The stream is closed.
        """
        cdef int rc
        cdef uint32_t i
        cdef sn_pool *pool = enter(self.stream)
        with nogil:
            rc = sn_http_fetcher_run(self.own, pool)
            sn_pool_leave(pool)
        if rc == SN_E_CLOSED:
            raise StreamClosed()
        missed = [
            (as_tuple(&self.own.missed[i].wanted), self.own.missed[i].status) for i in range(self.own.n_missed)
        ]
        self.own.n_missed = 0
        return [as_tuple(&self.own.wanted[i]) for i in range(self.own.n_wanted)], missed

    def add(self, uint32_t which, str url not None, str etag not None, bint is_part, long connect_ms, long silent_s,
            long whole_ms):
        """Begin to fetch what the last :meth:`run` has said is wanted. If that fails, it is missed.

        Args:
            which: Its index there.
            url: Of the object.
            etag: If the object has another one, it is missed.
            is_part: Not all of the object is wanted.
            connect_ms: The most time to connect.
            silent_s: The most time without a byte.
            whole_ms: The most time for all of it.
        """
        cdef bytes url_bytes = url.encode(errors="replace"), etag_bytes = etag.encode("latin-1", errors="replace")
        cdef sn_http_request request
        if which >= self.own.n_wanted:
            raise IndexError(which)
        request.url, request.etag, request.is_part = url_bytes, etag_bytes, is_part
        request.connect_ms, request.silent_s, request.whole_ms = connect_ms, silent_s, whole_ms
        request.offset = request.length = 0
        sn_http_fetcher_add(self.own, which, request)
