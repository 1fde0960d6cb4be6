"""The border to csrc/pool for threads that fetch: what is wanted, and its bytes. Decides nothing.

Both functions enter the pool while they hold the GIL. A stream is closed under the GIL too, before its pool is ended.
Therefore nobody enters a pool that ends, and a pool is not freed while somebody is in it.
"""

from libc.stdint cimport uint8_t, uint64_t
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

__all__ = ["fetched", "next_fetch", "not_fetched"]


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
    cdef const char *told = text
    cdef int rc
    if number <= 0:
        raise ValueError(f"{number} is no number of an error")
    cdef sn_pool *pool = enter(stream)
    with nogil:
        rc = sn_pool_fetched(pool, ticket, NULL, 0, -number, told)
        sn_pool_leave(pool)
    return rc == 0
