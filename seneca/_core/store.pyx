"""The border to csrc/shm and csrc/store: owns handles, drops the GIL, translates errors."""

import os

import numpy as np

cimport cython
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from seneca import errors

__all__ = ["GRANULE", "ITEM", "NONE", "LAYOUT_VERSION", "Member", "Segment", "Unlinked", "segment_bytes", "sweep"]

GRANULE = SN_GRANULE
NONE = <uint32_t>SN_NONE

ITEM = np.dtype([
    ("sample", np.uint32), ("source", np.uint8), ("keep", np.uint8), ("", np.uint16),
    ("source_slot", np.uint32), ("source_entry", np.uint32),
    ("target_slot", np.uint32), ("target_entry", np.uint32),
])
"""One place of a batch, as ``sn_item``: slots are :data:`NONE` where there is none."""
assert ITEM.itemsize == sizeof(sn_item)

LAYOUT_VERSION = SN_LAYOUT_VERSION

cdef enum:
    LOCK_DEADLINE_MS = 100  # as a draw's: nobody waits longer for a stopped peer
    ATTACH_WAIT_MS = 200    # one try; the caller tries again and tells the user why it waits

_CLASSES = {
    SN_E_MAGIC: (errors.NotASegmentError, "it was not made by Seneca"),
    SN_E_VERSION: (errors.SegmentVersionError, "it has another layout version"),
    SN_E_CORRUPT: (errors.SegmentCorruptError, "its header contradicts itself"),
    SN_E_ROWS_FULL: (errors.TooManyMembersError, "every row of the segment has a living owner"),
    SN_E_JOBS_FULL: (errors.TooManyJobsError, "64 jobs are attached already"),
    SN_E_MISMATCH: (errors.SegmentMismatchError, "it holds another dataset"),
    SN_E_OWNER: (errors.SegmentOwnerError, "it belongs to another user, or others may open it"),
    SN_E_FORKED: (errors.SegmentError, "this handle belongs to the parent process; attach again"),
    SN_E_CLOSED: (errors.SegmentError, "it was closed"),
}


class Unlinked(Exception):
    """The object behind the descriptor is not, or no longer, what the name stands for."""


def error_for(rc):
    """The exception that says what the code ``rc`` means."""
    if rc in (SN_MISS, SN_E_GONE, SN_E_ABANDONED):
        return Unlinked()
    if rc == SN_BUSY:
        return BlockingIOError("another process holds the lock")
    if rc in _CLASSES:
        kind, message = _CLASSES[rc]
        return kind(message)
    if rc == -12:  # ENOMEM
        return MemoryError("no memory for the cache's mapping")
    return OSError(-rc, os.strerror(-rc))


cdef int check(int rc) except -1:
    if rc < 0:
        raise error_for(rc)
    return rc


cdef int set_geometry(sn_geometry *geometry, bytes fingerprint, object n_samples, object payload_bytes,
                      bint keep) except -1:
    memset(geometry, 0, sizeof(sn_geometry))
    if len(fingerprint) != 16:
        raise ValueError("a fingerprint has 16 bytes")
    geometry.fingerprint[0] = int.from_bytes(fingerprint[:8], "little")
    geometry.fingerprint[1] = int.from_bytes(fingerprint[8:], "little")
    geometry.n_samples = n_samples
    geometry.payload_bytes = payload_bytes
    geometry.keep = keep
    return 0


def segment_bytes(n_samples, payload_bytes):
    """What a segment takes in all, records included; raises ValueError where none can be made."""
    cdef sn_geometry geometry
    cdef sn_header layout
    set_geometry(&geometry, b"\0" * 16, n_samples, payload_bytes, False)
    if sn_layout_plan(&geometry, &layout) != 0:
        raise ValueError(f"no cache can be made for {n_samples} samples in {payload_bytes} bytes")
    return layout.segment_bytes


cdef void report(void *context, uint64_t done, uint64_t total) noexcept with gil:
    (<object>context)(done, total)


def sweep(int fd, str name):
    """Remove the shared memory object ``name``, open as ``fd``, where no living process uses it.

    Closes ``fd``. A segment that is in use is left in peace: its lock is not even tried.
    """
    cdef sn_segment *segment = NULL
    cdef bytes name_bytes = os.fsencode(name)
    cdef const char *c_name = name_bytes
    if sn_anyone_alive(fd):
        os.close(fd)
        return
    with nogil:
        sn_segment_attach(fd, c_name, NULL, 0, NULL, NULL, &segment)  # unlinks what is left behind
        sn_segment_close(segment)


cdef class Segment:
    """This process's hold on a segment. Takes over the descriptor ``fd``.

    Args:
        fd: Of the shared memory object; closed with this handle.
        name: Of that object.
        fingerprint: 16 bytes that name the dataset; None to join whatever is there.
        n_samples: Of the dataset.
        payload_bytes: Space for payloads if it has to be made; 0: it is not to be made.
        keep: Whether it outlives the last who leaves, if it has to be made.
        job_key: 64 bits that name the training run.
        split: Shares by form in 1/10,000 (storage, encoded, decoded, augmented), likewise.
        progress: Called with bytes done and in all while space is reserved.

    Raises:
        Unlinked: There is nothing to join, or it was stale and is gone: open the name again.
        BlockingIOError: Its lock was not to be had just now.
        seneca.errors.SegmentError: As its subclasses say.
        OSError: ENOSPC and others.
    """

    def __cinit__(self, int fd, str name, bytes fingerprint, n_samples, payload_bytes, *, bint keep, job_key,
                  split, progress=None):
        cdef sn_geometry wanted
        cdef sn_geometry *geometry = NULL
        cdef sn_participant who
        cdef sn_progress reporter = NULL
        cdef void *context = <void *>progress
        cdef bytes name_bytes
        cdef const char *c_name
        cdef int rc
        try:
            name_bytes = os.fsencode(name)
            c_name = name_bytes
            if fingerprint is not None:
                set_geometry(&wanted, fingerprint, n_samples, payload_bytes, keep)
                for form in range(4):
                    wanted.split[form] = split[form]
                geometry = &wanted
            self.job_key = job_key
        except BaseException:
            os.close(fd)
            raise
        if progress is not None:
            reporter = report
        memset(&who, 0, sizeof(who))
        who.kind = SN_ROW_HOLDER
        who.job_key = self.job_key
        with nogil:
            rc = sn_segment_attach(fd, c_name, geometry, ATTACH_WAIT_MS, reporter, context, &self.handle)
            self.created = rc == SN_ATTACH_CREATED
            if rc == SN_ATTACH_CREATED or rc == SN_ATTACH_JOINED:  # and the lock is held
                rc = sn_store_entered(self.handle)
                if rc == 0:
                    sn_store_reap(self.handle, 1)
                    rc = sn_row_claim(self.handle, &who, &self.row)
                    sn_store_leave(self.handle)
        if rc != 0:
            self.let_go()
            raise error_for(rc)

    cdef object let_go(self):
        sn_segment_close(self.handle)
        self.handle = NULL

    cdef int enter(self) except -1:
        cdef int rc
        self.open()
        with nogil:
            rc = sn_store_enter(self.handle, LOCK_DEADLINE_MS)
        if rc != 0:
            raise error_for(rc)
        return 0

    cdef sn_segment *open(self) except NULL:
        if self.handle == NULL:
            raise error_for(SN_E_CLOSED)
        return self.handle

    def close(self):
        """Leave. The last to leave removes the segment unless it is to be kept.

        Returns:
            Whether the lock was had. Without it the row looks dead, and somebody reaps it.
        """
        cdef int rc
        if self.handle == NULL:
            return True
        if self.drawing and self.handle.forked:
            return True  # a child's copy, which goes with the iterators' own
        if self.drawing:
            raise errors.SegmentError(f"{self.drawing} iterators still draw from it; end them first")
        with nogil:
            rc = sn_store_enter(self.handle, LOCK_DEADLINE_MS)
            if rc == 0:
                sn_row_leave(self.handle, self.row)
                if (not self.handle.head.geometry.keep and not sn_anyone_alive(self.handle.fd)
                        and sn_segment_linked(self.handle)):
                    sn_segment_unlink(self.handle)
                sn_store_leave(self.handle)
        self.let_go()
        return rc != SN_BUSY

    def __dealloc__(self):
        sn_segment_close(self.handle)

    @property
    def closed(self):
        """Whether :meth:`close` was called."""
        return self.handle == NULL

    @property
    def linked(self):
        """Whether the name still leads here; newcomers make another segment when it does not."""
        return bool(sn_segment_linked(self.open()))

    @property
    def fingerprint(self):
        """16 bytes that name the dataset it holds."""
        fingerprint = self.open().head.geometry.fingerprint
        return b"".join(int(part).to_bytes(8, "little") for part in fingerprint[:2])

    @property
    def payload_bytes(self):
        """Space for payloads."""
        return self.open().head.geometry.payload_bytes

    @property
    def total_bytes(self):
        """The whole segment, records included."""
        return self.open().head.segment_bytes

    def set_split(self, split):
        """Shares by form in 1/10,000; they change at once."""
        cdef uint32_t shares[4]
        for form in range(4):
            shares[form] = split[form]
        self.enter()
        sn_store_set_split(self.handle, shares)
        sn_store_leave(self.handle)

    def stats(self):
        """What the segment holds: a dict of bytes, budgets and counts."""
        cdef sn_store_stats stats
        self.enter()
        sn_store_reap(self.handle, 1)
        sn_store_fold(self.handle)
        sn_store_read_stats(self.handle, &stats)
        sn_store_leave(self.handle)
        forms = {"encoded": SN_ENCODED, "decoded": SN_DECODED, "augmented": SN_AUGMENTED}
        return {
            "payload_bytes": stats.payload_bytes,
            "free_bytes": stats.free_bytes,
            "bytes": {name: stats.bytes_of[form] for name, form in forms.items()},
            "budget_bytes": {name: stats.budget_of[form] for name, form in forms.items()},
            "payloads": {name: stats.slots_of[form] for name, form in forms.items()},
            "writing": stats.writing,
            "members": stats.members,
            "processes": stats.processes,
            "jobs": stats.jobs,
        }

    def check(self):
        """Hold derived state against what a rebuild makes of the truth; None, or the difference."""
        cdef char why[256]
        cdef int rc
        why[0] = 0
        self.enter()
        rc = sn_store_check(self.handle, why, sizeof(why))
        sn_store_leave(self.handle)
        if rc == SN_E_CORRUPT:
            return why.decode()
        check(rc)
        return None


# It holds no reference that could lead back to it, so no garbage collection has to look at it;
# one that did would take its segment away before it has left.
@cython.no_gc
cdef class Member:
    """One iterator's place in a segment, or a private one (``segment`` None).

    Args:
        segment: Where it shares, or None.
        n_samples: Of the dataset.
        samples: uint32 array of the samples that are this member's, each once; None for all.
        places: How many of them an epoch delivers; the rest of the permutation is dropped.
        seed, epoch: Name the order.
        fixed: The samples as they are, not permuted.
        decoded, augmented: Fingerprints of the pipeline's head and of the whole.
        height, width: Of an AUGMENTED copy.
        in_flight: Samples drawn and not yet delivered, at most.
        shares, keeps, substitutes: What it takes part in.
    """

    def __cinit__(self, Segment segment, *, n_samples, samples, places, seed, epoch, bint fixed, decoded, augmented,
                  height, width, in_flight, bint shares, bint keeps, bint substitutes):
        cdef sn_member_options options
        cdef const uint32_t[::1] own
        cdef sn_segment *handle = NULL
        cdef int shared, rc
        memset(&options, 0, sizeof(options))
        options.epoch.n_samples = n_samples
        if samples is not None and len(samples):
            own = samples
            options.epoch.samples = &own[0]
            options.epoch.count = <uint32_t>own.shape[0]
        options.epoch.places = places
        options.epoch.seed = seed
        options.epoch.epoch = epoch
        options.epoch.fixed = fixed
        options.decoded_pipeline = decoded
        options.augmented_pipeline = augmented
        options.height = height
        options.width = width
        options.in_flight = in_flight
        options.shares = shares
        options.keeps = keeps
        options.substitutes = substitutes
        self.segment = segment
        if segment is not None:
            handle = segment.open()
            options.job_key = segment.job_key
        with nogil:
            rc = sn_member_open(handle, &options, &self.handle, &shared)
        if rc == -22:
            raise ValueError(
                "a member's samples exist in the dataset, each at most once, and the dataset is the segment's"
            )
        check(rc)
        self.shared = shared
        if segment is not None:
            segment.drawing += 1

    @property
    def left(self):
        """Samples of the epoch that are not yet drawn."""
        return sn_member_left(self.handle) if self.handle != NULL else 0

    def draw(self, wanted, offers=()):
        """Draw without a pool: for tests and simulation, where nothing is decoded.

        Args:
            wanted: Places at the most.
            offers: ``(sample, form, length, height, width)`` of payloads that might be kept.

        Returns:
            ``(items, slots, private)``: an array of :data:`ITEM`; for each offer the slot to
            write it to and its ledger entry, or None; whether the lock was not to be had.
        """
        cdef uint32_t n = min(wanted, self.left), drawn = 0, n_offers = len(offers), i
        cdef sn_offer *answers = <sn_offer *>calloc(n_offers + 1, sizeof(sn_offer))
        cdef int rc
        items = np.zeros(n, ITEM)
        cdef uint8_t[::1] flat = np.zeros(1, np.uint8) if n == 0 else items.view(np.uint8)
        if answers == NULL:
            raise MemoryError()
        try:
            for i in range(n_offers):
                answers[i].sample, answers[i].form, answers[i].length, answers[i].height, answers[i].width = offers[i]
            rc = sn_member_draw(self.handle, n, <sn_item *>&flat[0], &drawn, answers, n_offers)
            slots = [None if answers[i].slot == SN_NONE else (answers[i].slot, answers[i].entry)
                     for i in range(n_offers)]
        finally:
            free(answers)
        return items[:drawn], slots, rc == SN_BUSY

    def commit(self, uint32_t slot):
        """What was reserved is written: others may read it."""
        sn_slot_commit(self.slot(slot))

    def abort(self, uint32_t slot):
        """What was reserved will not be written."""
        sn_slot_abort(self.slot(slot))

    def payload(self, uint32_t slot):
        """The bytes of a slot that this member holds, writable in place."""
        cdef sn_slot *record = self.slot(slot)
        return <uint8_t[:record.length]>sn_slot_payload(self.segment.handle, record)

    cdef sn_slot *slot(self, uint32_t slot) except NULL:
        if self.segment is None or slot >= self.segment.open().n_slots:
            raise IndexError(slot)
        return &self.segment.handle.slots[slot]

    def done(self, items):
        """Let go of what these items hold, in the next draw."""
        cdef const uint8_t[::1] flat
        items = np.ascontiguousarray(items, ITEM)
        if len(items):
            flat = items.view(np.uint8)
            sn_member_done(self.handle, <const sn_item *>&flat[0], <uint32_t>len(items))

    def offer_done(self, uint32_t slot, uint32_t entry):
        """Let go of a slot that an offer was written to, in the next draw."""
        cdef sn_offer offer
        memset(&offer, 0, sizeof(offer))
        offer.slot = slot
        offer.entry = entry
        sn_member_offer_done(self.handle, &offer)

    def close(self):
        """Leave the segment. Nothing may be at work on its slots any more."""
        if self.handle != NULL:
            with nogil:
                sn_member_close(self.handle)
            self.handle = NULL
            if self.segment is not None:
                self.segment.drawing -= 1

    def __dealloc__(self):
        self.close()
