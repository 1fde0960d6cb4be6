"""The border to sn_worker.h: prepares samples that it is given. Owns the handle, drops the GIL, translates errors."""

import numpy as np

cimport cython
from libc.string cimport memset

from seneca._core.codes import segment_error
from seneca._core.member import CLAIM
from seneca._core.participant import ITEM
from seneca._core.codes cimport SN_BUSY, SN_E_CLOSED, check
from seneca._core.participant cimport Answers, items_of, sn_client, sn_offer
from seneca._core.segment cimport SN_NONE, Segment

__all__ = ["Worker"]


@cython.no_gc
cdef class Worker(Participant):
    """Prepares samples that it is given, over what a segment holds. One thread at a time uses it.

    Args:
        segment: Where it shares, or None. Its process's row holds what this worker holds.
        decoded, augmented: Fingerprints of the pipeline's head and of the whole.
        height, width, copy_bytes: As a member's.
        shares, keeps: What it takes part in.
        exact: Whether copies are the same whoever makes them, as a member's with an ``exact_family``.
    """

    def __cinit__(self, Segment segment, *, decoded, augmented, height=0, width=0, copy_bytes=0, bint shares,
                  bint keeps, bint exact=False):
        cdef sn_client client
        memset(&client, 0, sizeof(client))
        client.decoded_pipeline = decoded
        client.augmented_pipeline = augmented
        client.height = height
        client.width = width
        client.copy_bytes = copy_bytes
        client.shares = shares
        client.keeps = keeps
        client.exact = exact
        if segment is not None:
            client.holder = segment.row_holder()
        check(sn_worker_open(&client, &self.handle))
        self.segment = segment
        if segment is not None:
            segment.drawing += 1

    def begin(self, claims, uint32_t row=SN_NONE, uint32_t row_generation=0, offers=()):
        """Hold what serves these samples, in one critical section.

        Args:
            claims: An array of :data:`CLAIM`; of those that nobody drew only ``sample`` counts.
            row, row_generation: Of the member that drew them, as its ``claims`` says.
            offers: As :meth:`Member.draw`'s.

        Returns:
            As :meth:`Member.draw`: ``(items, slots, private)``.
        """
        cdef uint32_t n = len(claims)
        cdef const uint8_t[::1] flat
        cdef Answers answers = Answers(offers)
        cdef sn_worker *handle = self.open()
        cdef int rc
        cdef sn_claim nothing
        cdef const sn_claim *first = &nothing
        items = np.zeros(max(n, 1), ITEM)
        cdef sn_item *out = items_of(items)
        claims = np.ascontiguousarray(claims, CLAIM)
        if n:
            flat = claims.view(np.uint8)
            first = <const sn_claim *>&flat[0]
        with nogil:
            rc = sn_worker_begin(handle, row, row_generation, first, n, out, answers.array, answers.count)
        return items[:n], answers.slots(), rc == SN_BUSY

    def name_copies(self, uint64_t augmented):
        """The copies that come next have this fingerprint: they are of another seed or epoch."""
        sn_worker_name_copies(self.open(), augmented)

    def name_files(self, uint32_t files_name):
        """The job has asked for the dataset's files again, and this names them as they are now."""
        sn_worker_name_files(self.open(), files_name)

    def check_awaited(self, items, uint32_t row, uint32_t row_generation, *, bint takes_over=False, blamed=()):
        """As :meth:`Member.check_awaited`, of a contiguous array of :data:`ITEM` that :meth:`begin` returned."""
        cdef uint64_t rows[2]
        cdef sn_worker *handle = self.open()
        cdef uint32_t n = <uint32_t>len(items)
        cdef sn_item *first
        cdef int rc
        memset(rows, 0, sizeof(rows))
        for peer in blamed:
            rows[peer // 64] |= <uint64_t>1 << (peer % 64)
        if n == 0:
            return True
        first = items_of(items)
        with nogil:
            rc = sn_worker_check_awaited(handle, row, row_generation, first, n, takes_over, rows)
        return rc == 0

    def done(self, items):
        """Let go of what these items hold, in the next :meth:`begin` or :meth:`close`."""
        items = np.ascontiguousarray(items, ITEM)
        if len(items):
            check(sn_worker_done(self.open(), items_of(items), <uint32_t>len(items)))

    def offer_done(self, uint32_t slot, uint32_t entry):
        """Likewise of a slot that an offer was written to."""
        cdef sn_offer offer
        memset(&offer, 0, sizeof(offer))
        offer.slot = slot
        offer.entry = entry
        check(sn_worker_offer_done(self.open(), &offer))

    def learn(self, uint32_t copy_bytes):
        """A copy of this pipeline took this much room."""
        sn_worker_learn(self.open(), copy_bytes)

    cdef sn_worker *open(self) except NULL:
        if self.handle == NULL:
            raise segment_error(SN_E_CLOSED)
        return self.handle

    def close(self):
        """Let go of everything that is done with."""
        if self.handle != NULL:
            with nogil:
                sn_worker_close(self.handle)
            self.handle = NULL
            if self.segment is not None:
                self.segment.drawing -= 1

    def __dealloc__(self):
        self.close()
