"""The border to sn_member.h: one iterator that draws batches. Owns the handle, drops the GIL, translates errors."""

import numpy as np

cimport cython
from libc.errno cimport EINVAL
from libc.stdint cimport UINT32_MAX
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from seneca._core.codes import segment_error, why_private
from seneca._core.participant import ITEM
from seneca._core.codes cimport SN_BUSY, SN_E_CLOSED, check
from seneca._core.participant cimport Answers, items_of, sn_offer
from seneca._core.segment cimport Segment, sn_segment

__all__ = ["CLAIM", "Member"]

CLAIM = np.dtype([(name, np.uint32) for name in ("sample", "slot", "generation", "entry", "awaited")])
"""The part of a draw that a worker takes over, as ``sn_claim``; ``slot`` :data:`NONE`: only the sample. ``awaited``:
another job makes the copy."""
assert CLAIM.itemsize == sizeof(sn_claim)


# It holds no reference that could lead back to it, so no garbage collection has to examine it;
# one that did would take its segment away before it has left.
@cython.no_gc
cdef class Member(Participant):
    """One iterator's place in a segment, or a private one (``segment`` None).

    Args:
        segment: Where it shares, or None.
        n_samples: Of the dataset.
        samples: uint32 array of the samples that are this member's, each once; None for all. Empty: it is given the
            samples of each draw.
        places: How many of them are delivered from here; samples behind them in the order are dropped.
        seed, epoch: Name the order.
        fixed: The samples as they are, not permuted.
        own_seed: Not 0: names, with the epoch, the order of what is not dropped, also where that was fixed.
        taken: In an epoch that goes on, which samples of the dataset were delivered before: a bit
            each, uint8 array, the lowest bit first; None: none.
        decoded, augmented: Fingerprints of the pipeline's head and of the whole.
        height, width: Of an AUGMENTED copy of pixels; 0 for one that says itself what it holds.
        copy_bytes: Room for an AUGMENTED copy; with no height and width 0 learns it.
        in_flight: Samples drawn and not yet delivered, at most.
        shares, keeps, substitutes: What it takes part in.
        recodes: Whether its payloads may be RECODED: pictures, without masks.
        exact_family: Not 0: its copies are the same whoever makes them, and it divides the making with other
            members. Names such copies of all seeds and epochs, as ``augmented`` names those of this one.
        hands_over: Whether workers prepare what it draws, see :meth:`claims`.
        wanted_alone: Places that a draw takes while no other job draws; 0: as many as it is asked.
        files_name: Names the dataset's files as its job last saw them; 0: it has seen none.

    Attributes:
        shared: Whether it has a row in the segment.
        why_private: The reason why it has none although there is a segment; else None.
    """

    def __cinit__(self, Segment segment, *, n_samples, samples, places, seed, epoch, bint fixed, decoded, augmented,
                  height, width, in_flight, bint shares, bint keeps, bint substitutes, copy_bytes=0,
                  bint hands_over=False, uint32_t wanted_alone=0, taken=None, uint64_t own_seed=0, uint64_t exact_family=0,
                  uint32_t files_name=0, bint recodes=False):
        cdef sn_member_options options
        cdef const uint32_t[::1] own
        cdef const uint64_t[::1] words
        cdef sn_segment *handle = NULL
        cdef int joined, rc
        memset(&options, 0, sizeof(options))
        options.epoch.n_samples = n_samples
        if samples is not None:
            own = samples if len(samples) else np.zeros(1, np.uint32)  # memory that is not NULL
            options.epoch.samples = &own[0]
            options.epoch.count = <uint32_t>len(samples)
        options.epoch.places = places
        options.epoch.seed = seed
        options.epoch.own_seed = own_seed
        options.epoch.epoch = epoch
        options.epoch.fixed = fixed
        if taken is not None:
            whole = np.zeros((n_samples + 63) // 64 * 8 or 8, np.uint8)
            whole[: len(taken)] = taken
            words = whole.view(np.uint64)
            options.epoch.taken = &words[0]
        options.client.decoded_pipeline = decoded
        options.client.augmented_pipeline = augmented
        options.client.height = height
        options.client.width = width
        options.client.copy_bytes = copy_bytes
        options.client.files_name = self.files_seen = files_name
        options.client.shares = shares
        options.client.keeps = keeps
        options.client.recodes = recodes
        options.client.exact = self.exact = exact_family != 0 and shares
        options.family = exact_family
        options.hands_over = hands_over
        options.wanted_alone = self.wanted_alone = wanted_alone
        options.in_flight = min(in_flight, UINT32_MAX)  # the core takes no more than the epoch has
        options.substitutes = substitutes
        self.segment = segment
        if segment is not None:
            handle = segment.open()
            options.job_key = segment.job_key
            options.process_row = segment.row
        with nogil:
            rc = sn_member_open(handle, &options, &self.handle, &joined)
        if rc == -EINVAL:
            raise ValueError(
                "a member's samples exist in the dataset, each at most once, and the dataset is the segment's"
            )
        check(rc)
        self.shared = joined == 0
        if segment is not None:
            self.why_private = None if self.shared else why_private(joined)
            segment.drawing += 1

    @property
    def left(self):
        """Samples of the epoch that are not yet drawn."""
        return sn_member_left(self.handle) if self.handle != NULL else 0

    @property
    def out_of_turn(self):
        """Samples that were drawn at another place than the order of a job alone would give them."""
        return sn_member_out_of_turn(self.open())

    def draw(self, wanted, offers=()):
        """Draw without a pool: for tests and simulation, where nothing is decoded.

        Args:
            wanted: Places at the most, or ``wanted_alone`` where that is more.
            offers: ``(sample, form, length, height, width)`` of payloads that might be kept.

        Returns:
            ``(items, slots, private)``: an array of :data:`ITEM`; for each offer the slot to
            write it to and its ledger entry, or None; whether the lock was not to be had.
        """
        cdef uint32_t n = min(wanted, self.left), room = min(max(wanted, self.wanted_alone), self.left), drawn = 0
        cdef Answers answers = Answers(offers)
        items = np.zeros(max(room, 1), ITEM)
        rc = sn_member_draw(self.open(), n, items_of(items), &drawn, answers.array, answers.count)
        return items[:drawn], answers.slots(), rc == SN_BUSY

    def check_awaited(self, items, *, takes_over=False, blamed=()):
        """Check again what drawn items await, which are changed in place: for tests and simulation.

        Args:
            items: An array of :data:`ITEM`, as :meth:`draw` made it.
            takes_over: Whether what nobody makes yet is this member's to make.
            blamed: Rows that were waited for in vain.

        Returns:
            Whether the lock was to be had.
        """
        cdef uint64_t rows[2]
        cdef sn_item *first
        cdef sn_item **awaiting
        cdef uint32_t i, n = 0
        cdef int rc = 0
        memset(rows, 0, sizeof(rows))
        for row in blamed:
            rows[row // 64] |= <uint64_t>1 << (row % 64)
        self.open()
        if len(items) == 0:
            return True
        first = items_of(items)
        awaiting = <sn_item **>malloc(len(items) * sizeof(sn_item *))
        if awaiting == NULL:
            raise MemoryError()
        for i in range(<uint32_t>len(items)):
            if first[i].awaited:
                awaiting[n] = &first[i]
                n += 1
        rc = sn_member_check_awaited(self.handle, awaiting, n, takes_over, rows)
        free(awaiting)
        return rc == 0

    def claims(self, items):
        """The claims with which workers take over the slots of a draw.

        Returns:
            ``(row, generation, claims)``: the member's row (:data:`NONE` for a private one), and
            an array of :data:`CLAIM` in the order of ``items``; None where nothing is held.
        """
        cdef uint32_t generation = 0, row = sn_member_row(self.open(), &generation), held = 0
        cdef uint32_t count = <uint32_t>len(items)
        cdef uint8_t[::1] flat
        items = np.ascontiguousarray(items, ITEM)
        claims = np.zeros(count, CLAIM)
        if count:
            flat = claims.view(np.uint8)
            held = sn_member_claims(self.handle, items_of(items), count, <sn_claim *>&flat[0])
        return row, generation, claims if held else None

    @property
    def copy_bytes(self):
        """Room that its AUGMENTED copies take as far as is known; 0: not known."""
        return sn_member_copy_bytes(self.handle) if self.handle != NULL else 0

    def done(self, items):
        """Let go of what these items hold, in the next draw."""
        items = np.ascontiguousarray(items, ITEM)
        if len(items):
            sn_member_done(self.open(), items_of(items), <uint32_t>len(items))

    def offer_done(self, uint32_t slot, uint32_t entry):
        """Let go of a slot that an offer was written to, in the next draw."""
        cdef sn_offer offer
        memset(&offer, 0, sizeof(offer))
        offer.slot = slot
        offer.entry = entry
        sn_member_offer_done(self.open(), &offer)

    cdef sn_member *open(self) except NULL:
        if self.handle == NULL:
            raise segment_error(SN_E_CLOSED)
        return self.handle

    def retire(self):
        """Draw no more, but hold what is not done: a thread hangs that may write to it. May be asked again."""
        with nogil:
            sn_member_retire(self.handle)
        if self.segment is not None and not self.retired:
            self.segment.drawing -= 1
            self.segment.lingering += 1
        self.retired = True

    def close(self):
        """Leave the segment. Nothing may be at work on its slots any more."""
        cdef sn_member *handle = self.handle
        if handle != NULL:
            self.handle = NULL  # before another thread may run
            with nogil:
                sn_member_close(handle)
            if self.segment is not None and self.retired:
                self.segment.forget_lingering()
            elif self.segment is not None:
                self.segment.drawing -= 1

    def __dealloc__(self):
        self.close()
