"""The border to csrc/pool: owns batches and threads, drops the GIL, translates, decides nothing."""

import secrets
import threading

import numpy as np

cimport cython
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.string cimport memset
from posix.unistd cimport getpid

from seneca._core.codes import picture_error
from seneca.errors import SegmentError
from seneca._core.codes cimport SN_E_CLOSED, SN_E_FOR_PILLOW
from seneca._core.member cimport sn_member_copy_bytes, sn_member_expects, sn_member_progress
from seneca._core.plan cimport sn_plan_item_bytes
from seneca._core.segment cimport SN_FORMS

__all__ = ["READS_AHEAD", "Batch", "Stream", "StreamClosed"]

READS_AHEAD = SN_MOST_READERS  # files that a stream with threads reads at a time beside them, at most

cdef enum:
    FLUSH_MS = 1000     # a check now and then; the copies take a fraction of it
    PATIENCE_MS = 1000  # a thread that has been at its place for so long is not waited for


cdef sn_pools pools  # of this process
cdef list left_behind = []  # streams with a thread that hangs; no module's end takes it away


cdef int give_back() except -1:
    """Give back what was left behind for threads that hung, as far as these have come back."""
    cdef Stream stream
    for stream in list(left_behind):
        with stream.lock:
            if stream.owner != getpid() or stream.pool == NULL:
                continue  # the parent's; or another thread was faster
            if not stream.end(0):
                stream.member.retire()  # again: it may have lacked the lock
                continue
            left_behind.remove(stream)
        Py_DECREF(stream)
    return 0


class StreamClosed(Exception):
    """The stream was closed, by another thread or at the end of the process."""


# Threads read what it keeps alive until its batches, which keep it alive, are done: no garbage collection takes that.
@cython.no_gc_clear
cdef class Stream:
    """The batches of one iterator: drawn from its member, prepared by its threads.

    One thread at a time is in any of its methods; the others wait. A forked child can only close its copy.

    Args:
        member: What draws; closed with the stream.
        plan: The pipeline.
        paths, path_at: Every sample's file, as ``ImageFolder.path_table`` gives them; or every container's. With a
            plan of pairs: of each sample the picture's file and then the mask's.
        pieces, stated: Where every sample is in a container, and what the containers were, as
            ``seneca.data.sources.Listing`` has them; None: each sample has a file of its own.
        external: Nobody here opens the containers: ``seneca._core.fetches`` brings their pieces.
        seed, epoch, nonce: Name the random numbers. The last is mixed into what is staged for other jobs.
        threads, most: How many prepare, and the most that :meth:`limit` may ask for. With 0 the waiting thread does.
        max_pixels: Of one picture; None: there is no limit.
        copies: Where each draw notes which copy serves a sample, or None: uint32 ``(samples, 3)``: slot (``NONE``: it
            is this iterator's alone) and generation of the staged copy, and the form that it is served from.
        check_every, checked: Of so many samples that are served from a kept form one is compared with its file; so is each
            whose bit is not set, uint64, kept by the caller (None: none is). 0: none of both.
        unrecoded: A bit for each file that has no RECODED payload, likewise. Files that are found to have none are added.
        changes: Of each sample's file since the segment was made, uint8, as ``enum sn_change_of_file`` has them. Kept by
            the caller, and updated here; None: none has changed.
        remote, dataset: Servers that other hosts use too, and the dataset's fingerprint there; None: there are none.
            largest: the most bytes that a file has which is no piece; 0: that is not known.
        boxes: Of the samples, for a plan that reads them: float32 ``(n, 4)`` with left, top, right and bottom of each, one
            sample's after another's; where each sample's begin, uint64, with the end of the last; and whether they are shares
            of the picture's sides, and not pixels. None: it reads none.
        hosts, exact_copies: With which exact copies are shared there, and how this epoch's are called; None: with none.
    """

    def __cinit__(self, Member member not None, Plan plan not None, paths, path_at, pieces=None, stated=None,
                  external=False, *, seed, epoch, nonce, threads, most=None, max_pixels=None, copies=None, check_every=0,
                  checked=None, unrecoded=None, changes=None, largest=0, Remote remote=None, bytes dataset=b"",
                  Hosts hosts=None, bytes exact_copies=b"", boxes=None):
        cdef const uint64_t[::1] offsets = path_at, places, containers
        cdef const unsigned char[::1] text = paths
        cdef const float[:, ::1] sides
        cdef uint32_t[:, ::1] notes
        cdef uint32_t n_threads = threads, most_threads = threads if most is None else most
        cdef uint64_t limit = max_pixels or 0
        give_back()
        self.n_samples = len(pieces) if pieces is not None else (len(path_at) - 1) // (2 if plan.value.is_pair else 1)
        self.owner, self.lock = getpid(), threading.RLock()
        self.member, self.plan, self.paths = member, plan, paths
        self.path_at = path_at, pieces, stated, checked, unrecoded, changes
        memset(&self.context, 0, sizeof(self.context))
        if copies is not None:
            if copies.shape != (self.n_samples, 3):
                raise ValueError(f"copies has a row of 3 for each sample, but its shape is {copies.shape}")
            self.copies = notes = copies
            self.context.notes = <sn_note *>&notes[0, 0]
        self.under_way = set()
        self.context.plan = &plan.value
        self.context.height, self.context.width = plan.height, plan.width
        self.context.item_bytes = sn_plan_item_bytes(&plan.value, plan.height, plan.width)
        self.context.beside_bytes = plan.beside_bytes
        if sn_member_copy_bytes(member.handle) < plan.copy_bytes:
            raise ValueError(f"a copy has {plan.copy_bytes} bytes, but the member makes room for {member.copy_bytes}")
        if member.segment is not None:
            self.context.segment = member.segment.handle
            self.context.job_key = member.segment.job_key
        self.context.paths = <const char *>(&text[0] if len(text) else NULL)
        self.context.path_at = &offsets[0]
        if pieces is not None:
            places, containers = pieces.view(np.uint64), stated.view(np.uint64)
            self.context.pieces = <const sn_piece *>&places[0]
            self.context.containers = <const sn_container *>&containers[0]
            self.context.is_external = bool(external)
        if boxes is not None:
            sides, box_at, are_shares = self.boxes = boxes
            if len(box_at) != self.n_samples + 1 or box_at[self.n_samples] != len(sides):
                raise ValueError(f"{len(box_at)} places of {len(sides)} boxes, but there are {self.n_samples} samples")
            self.context.boxes = <const float (*)[4]>(&sides[0, 0] if len(sides) else NULL)
            self.context.box_at = <const uint64_t *><size_t>box_at.ctypes.data
            self.context.boxes_are_shares = are_shares
        self.remote, self.hosts, self.context.largest = remote, hosts, largest
        if remote is not None:
            remote.lend(&self.context.remote, self.context.dataset, dataset)
        if hosts is not None:
            hosts.lend(&self.context.hosts, self.context.copies, exact_copies)
        self.context.seed, self.context.nonce = seed, nonce
        self.context.progress = sn_member_progress(member.handle)
        self.context.epoch, self.context.check_every = epoch, check_every
        self.context.unrecoded = NULL if unrecoded is None else <uint64_t *><size_t>unrecoded.ctypes.data
        self.context.checked = NULL if checked is None else <uint64_t *><size_t>checked.ctypes.data
        self.context.changes = NULL if changes is None else <atomic_uint8 *><size_t>changes.ctypes.data
        self.context.files_name = member.files_seen
        self.until_check = 1 + secrets.randbelow(check_every) if check_every else 0  # at other times, and in short epochs
        with nogil:
            self.pool = sn_pool_new(n_threads, most_threads, limit, &pools)
        if self.pool == NULL:
            raise MemoryError(f"{n_threads} threads could not be started")

    cdef sn_pool *open(self) except NULL:
        if self.owner != getpid():
            raise SegmentError("this iterator belongs to the parent process; begin one here")
        if self.closed:
            raise StreamClosed()
        return self.pool

    def thread_numbers(self):
        """The kernel's numbers of the threads that prepare, 256 at the most, without those that have not begun yet."""
        cdef int32_t numbers[256]
        cdef uint32_t i, n = sn_pool_threads(self.open(), numbers, 256)
        return tuple(<object>numbers[i] for i in range(n))

    def limit(self, uint32_t threads):
        """From now on so many threads prepare, from 1 to ``most``. Without any, the waiting thread still does.

        Nothing happens to a stream that is closed.
        """
        with self.lock:
            if not self.closed and self.owner == getpid():
                with nogil:
                    sn_pool_limit(self.pool, threads)

    def may_draw(self, int timeout_ms):
        """Whether to draw, within the time: else jobs of the same order that are far behind are to come near first."""
        cdef int rc = 0
        with self.lock:
            self.open()
            with nogil:
                rc = sn_copy_wait_turn(&self.awaited, self.pool, self.member.handle, timeout_ms)
        return rc == 0

    def draw(self, out, *others):
        """Draw a batch and have it prepared into ``out``, C-contiguous, one item a sample in order.

        Into ``others`` goes likewise what the plan makes besides, in this order: masks of pairs, or how pictures were
        moved; then erasures. What earlier batches left to be kept is offered on the way. Either the batch is under way
        when this returns, or nothing was drawn.

        Returns:
            The batch, as long as ``out`` or, where the epoch has no more, shorter; None where it is drawn through.
        """
        with self.lock:
            self.open()
            return self.draw_with_offers(out, others, None, None) if self.member.left else None

    def draw_given(self, out, samples, turns, *others):
        """The same of these samples, uint32, for a member that is given them. No ``copies`` are noted.

        Args:
            turns: uint64 for each: its random numbers are those of this draw of the sample; 0: those of the sample.
        """
        if len(samples) and int(samples.max()) >= self.n_samples:
            raise IndexError(int(samples.max()))
        with self.lock:
            self.open()
            return self.draw_with_offers(out, others, samples, turns)

    def flush(self):
        """Offer what the last batches left to be kept; no draw follows that would."""
        cdef Batch batch
        with self.lock:
            self.open()
            if self.offers.n:
                batch = self.draw_with_offers(np.empty(0, np.uint8), (), None, None)
                while not batch.wait(FLUSH_MS):
                    pass
                batch.done()

    cdef Batch draw_with_offers(self, out, others, given, turns):
        cdef uint8_t[::1] flat = out.reshape(-1).view(np.uint8)
        cdef uint64_t room = <uint64_t>flat.shape[0] // self.context.item_bytes
        cdef uint32_t wanted = <uint32_t>min(room, <uint64_t>(self.member.left if given is None else len(given)))
        cdef uint32_t[::1] samples
        cdef const uint64_t[::1] of_draws
        cdef const uint64_t *first_turn = NULL
        cdef uint32_t nothing, *indices = &nothing
        cdef Batch batch, other
        cdef int rc
        # All that may fail comes first: what is drawn is submitted.
        batch = Batch.__new__(Batch, self, wanted, self.offers.n)
        batch.out = out, others
        batch.indices = np.empty(wanted, np.uint32) if given is None else np.array(given, np.uint32)
        if wanted:
            samples = batch.indices
            indices = &samples[0]
            batch.handle.out = &flat[0]
            self.plan.lend(others, wanted, &batch.handle.beside, &batch.handle.erasures)
            if given is not None:
                of_draws = turns
                first_turn = &of_draws[0]
        self.under_way.add(batch)
        if not sn_member_expects(self.member.handle):  # else what it has made is held for those that come
            for other in self.under_way:
                sn_batch_settle(other.handle, self.member.handle)
        with nogil:
            sn_copy_wait_poll(&self.awaited, self.pool, self.member.handle)
            sn_copy_wait_begin(&self.awaited, self.member.handle, batch.handle)
            if first_turn != NULL:
                rc = sn_batch_draw_given(batch.handle, self.member.handle, &self.offers, &self.until_check, indices,
                                         first_turn)
            else:
                rc = sn_batch_draw(batch.handle, self.member.handle, &self.offers, &self.until_check, indices)
            if rc == 0:
                sn_copy_wait_add(&self.awaited, batch.handle)
                sn_pool_submit(self.pool, batch.handle)
        if rc != 0:
            self.under_way.discard(batch)
            raise MemoryError()
        return batch

    def close(self):
        """Stop all work and leave the segment; nothing can be drawn any more.

        Waits for the places that threads have in hand, but not for a thread that hangs. See :meth:`leave_behind`.
        """
        cdef Batch batch
        with self.lock:
            if self.closed:
                return
            self.closed = True
            if self.owner == getpid():
                for batch in self.under_way:
                    sn_copy_wait_forget(&self.awaited, batch.handle)
                    sn_pool_drop(self.pool, batch.handle)
                if not self.end(PATIENCE_MS):
                    self.leave_behind()
            else:
                self.pool = NULL
                self.member.close()
        give_back()

    cdef bint end(self, int patience_ms):
        """Give all of it back if the threads have ended, or do within the time; whether they have."""
        cdef Batch batch
        cdef int rc
        with nogil:
            rc = sn_pool_end(self.pool, patience_ms)
        if rc != 0:
            return False
        for batch in self.under_way:
            sn_abandon_unfinished(batch.handle)
        self.under_way.clear()
        with nogil:
            sn_pool_free(self.pool)
        self.pool = NULL
        self.member.close()
        return True

    cdef object leave_behind(self):
        """Keep everything for a thread that hangs, until it comes back or the process ends.

        What it may write to: the batch's array and its own scratch memory, which are this object's, and the slots
        that its place holds in the segment, which stay the member's. What it may read: the context and all that
        this points to. One more reference keeps this object, through garbage collections and the interpreter's
        end; the threads themselves end with the process, which waits for none of them.
        """
        cdef Batch batch
        for batch in self.under_way:
            sn_batch_settle(batch.handle, self.member.handle)
        self.member.retire()
        if self not in left_behind:
            left_behind.append(self)
            Py_INCREF(self)

    def __del__(self):
        if self.pool != NULL:
            self.close()
        if self.pool != NULL and self.owner == getpid():
            self.leave_behind()  # also where closing was broken off

    def __dealloc__(self):
        sn_offers_free(&self.offers)


# Threads write into it until it is complete: no garbage collection takes its stream from it before it is deallocated.
@cython.no_gc_clear
cdef class Batch:
    """Samples on their way into an array. ``indices`` has their places in the dataset, uint32."""

    def __cinit__(self, Stream stream, uint32_t n_places, uint32_t n_copies):
        self.stream = stream
        self.handle = sn_batch_new(&stream.context, n_places, n_copies)
        if self.handle == NULL:
            raise MemoryError()

    def __len__(self):
        return self.handle.n_places

    def wait(self, int timeout_ms):
        """Whether it is complete within the time."""
        cdef int rc = 0
        with self.stream.lock:
            self.stream.open()
            with nogil:
                rc = sn_copy_wait_batch(&self.stream.awaited, self.stream.pool, self.stream.member.handle, self.handle,
                                    timeout_ms)
        return rc == 0

    def copies(self):
        """Slot, generation and form that serve each sample, as :class:`Stream` notes them: uint32 ``(n, 3)``."""
        noted = np.empty((self.handle.n_places, 3), np.uint32)
        cdef uint32_t[:, ::1] notes = noted
        cdef uint32_t i
        for i in range(self.handle.n_places):
            (<sn_note *>&notes[i, 0])[0] = sn_batch_note_of(self.handle.context, &self.handle.places[i].item)
        return noted

    def different(self):
        """Samples that were served from the cache, compared with their files, and found to differ."""
        cdef uint32_t i
        return [int(self.indices[i]) for i in range(self.handle.n_places) if self.handle.places[i].different]

    def failures(self):
        """``(position, error)`` of every sample that could not be prepared."""
        cdef uint32_t i
        cdef sn_batch_item *place
        found = []
        for i in range(self.handle.n_places):
            place = &self.handle.places[i]
            if place.status < 0 and place.status != SN_E_FOR_PILLOW and place.status != SN_E_CLOSED:
                message = place.message.decode(errors="replace") if place.message != NULL else ""
                found.append((i, picture_error(place.status, message)))
        return found

    def is_of_mask(self, uint32_t position):
        """Whether the failure at a position is that of a pair's mask."""
        return position < self.handle.n_places and bool(self.handle.places[position].is_of_mask)

    def done(self):
        """Complete and read: let go of what it holds. Answers what it took, counts by name."""
        cdef sn_batch_sums sums
        with self.stream.lock:
            self.stream.open()
            sn_batch_sum(self.handle, &sums)
            if sn_offers_collect(&self.stream.offers, self.handle) != 0:
                raise MemoryError()
            sn_batch_done(self.handle, self.stream.member.handle)
            self.stream.under_way.discard(self)
        return {
            "served": tuple([<object>n for n in sums.served[:SN_FORMS]]),
            "prepared": sums.prepared, "staged": sums.staged, "damaged": sums.damaged, "checked": sums.checked,
            "different": sums.different, "in_vain": sums.in_vain, "peer_wait_s": sums.peer_wait_ns * 1e-9,
            "read_bytes": sums.read_bytes, "decoded_bytes": sums.decoded_bytes, "copies_from_servers": sums.n_copies,
            "from_servers": sums.n_remote, "from_servers_s": sums.remote_ns * 1e-9, "blocked_s": sums.spent.blocked * 1e-9,
            "times": (sums.n_read, sums.n_prepare, sums.n_decode, sums.n_augment, sums.n_recode, sums.n_redraw),
            "unrecoded": tuple([<object>n for n in sums.unrecoded[:SN_UNRECODED_WHYS]]),
            "spent_s": tuple([ns * 1e-9 for ns in (sums.spent.read, sums.spent.prepare, sums.spent.decode,
                                                   sums.spent.augment, sums.spent.recode, sums.spent.redraw)]),
        }

    def __dealloc__(self):
        sn_batch_free(self.handle)  # no thread has it: its stream, which it keeps, is closed before it goes
