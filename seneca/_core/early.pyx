"""The border to sn_early.h: a stream that works for an epoch which nobody has asked for yet. Decides nothing."""

import numpy as np

from libc.stdint cimport int64_t, uint32_t, uint64_t

from seneca._core.member cimport Member, sn_member_coming
from seneca._core.pool cimport Batch, Stream, sn_context, sn_pool
from seneca._core.segment cimport Segment, sn_hints_without_payload

__all__ = ["begin", "bring", "brought", "coming", "ctimes", "go_on", "stop"]


cdef extern from "pool/sn_early.h" nogil:
    void sn_early_begin(sn_pool *pool)
    int sn_early_bring(sn_pool *pool, const sn_context *context, const uint32_t *samples, uint32_t n, uint64_t bytes)
    void sn_early_go_on(sn_pool *pool)
    uint32_t sn_early_brought(sn_pool *pool)


def begin(Stream stream not None):
    """Make a stream of which nothing was drawn an early one: it gives way to the other streams of the process."""
    with stream.lock:
        sn_early_begin(stream.open())


def coming(Member member not None, uint32_t n, Segment segment=None):
    """The samples that a member comes to next if none is taken out of turn, of ``n``: uint32.

    Without those of which ``segment`` has a payload, as far as can be seen without its lock.
    """
    cdef uint32_t found, room = min(n, member.left)
    samples = np.empty(max(1, room), np.uint32)
    cdef uint32_t[::1] into = samples
    with nogil:
        found = sn_member_coming(member.handle, &into[0], room)
    if segment is not None:
        found = sn_hints_without_payload(segment.open(), &into[0], found)
    return samples[:found]


def bring(Stream stream not None, samples, uint64_t n_bytes):
    """Have an early stream bring the files of these samples into the page cache once its batches need no thread.

    Args:
        samples: uint32 array, in the order in which they are wanted.
        n_bytes: About how many bytes to bring at the most.
    """
    cdef const uint32_t[::1] wanted = samples
    cdef int rc
    if len(samples) == 0:
        return
    if int(samples.max()) >= stream.n_samples:
        raise IndexError(int(samples.max()))
    with stream.lock:
        rc = sn_early_bring(stream.open(), &stream.context, &wanted[0], <uint32_t>len(samples), n_bytes)
    if rc != 0:
        raise MemoryError()


def go_on(Stream stream not None):
    """The epoch has begun with all its batches: it gives way no more, and brings the files that are left to be brought."""
    with stream.lock:
        sn_early_go_on(stream.open())


def stop(Stream stream not None):
    """Bring no more files."""
    cdef uint32_t nothing = 0
    with stream.lock:
        if sn_early_bring(stream.open(), &stream.context, &nothing, 0, 0) != 0:
            raise MemoryError()


def brought(Stream stream not None):
    """How many files an early stream has brought into the page cache."""
    with stream.lock:
        return sn_early_brought(stream.open())


def ctimes(Batch batch not None):
    """When the file of each sample of a complete batch had last changed as it was read, int64, in ns; 0: it was not read here."""
    cdef uint32_t i
    cdef int64_t[::1] found
    times = np.zeros(batch.handle.n_places, np.int64)
    if len(times):
        found = times
        for i in range(batch.handle.n_places):
            found[i] = batch.handle.places[i].ctime_ns
    return times
