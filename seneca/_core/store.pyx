"""The border to csrc/shm and csrc/store: owns handles, drops the GIL, translates errors."""

import os

import numpy as np

cimport cython
from libc.errno cimport EINTR, ENOMEM, ENOSPC
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from seneca import errors

__all__ = [
    "CLAIM", "GRANULE", "ITEM", "NONE", "LAYOUT_VERSION", "Member", "Segment", "Unlinked", "Worker",
    "segment_bytes", "sweep",
]

GRANULE = SN_GRANULE
NONE = <uint32_t>SN_NONE

ITEM = np.dtype([
    ("sample", np.uint32), ("source", np.uint8), ("keep", np.uint8), ("", np.uint16),
    ("source_slot", np.uint32), ("source_entry", np.uint32),
    ("target_slot", np.uint32), ("target_entry", np.uint32),
])
"""One place of a batch, as ``sn_item``: slots are :data:`NONE` where there is none."""
assert ITEM.itemsize == sizeof(sn_item)

CLAIM = np.dtype([("sample", np.uint32), ("slot", np.uint32), ("generation", np.uint32), ("entry", np.uint32)])
"""What a worker takes over of a draw, as ``sn_claim``; ``slot`` :data:`NONE`: only the sample."""
assert CLAIM.itemsize == sizeof(sn_claim)

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


_NO_ROOM = (
    "/dev/shm has no memory left for the records of one more of its users; free some of it, or make it larger: "
    "mount -o remount,size=... /dev/shm; in Docker --shm-size=..."
)


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


def why_private(rc):
    """Why a member was given no row, in words."""
    if rc == SN_BUSY:
        return "another process held the cache's lock for too long; it is stopped, or the host is overloaded"
    if rc == -ENOSPC or rc == -ENOMEM:
        return _NO_ROOM
    if rc == SN_E_ROWS_FULL:
        return ("all rows of the cache are taken; use fewer loaders and workers, or put some jobs under another "
                "cache name")
    if rc == SN_E_ABANDONED:
        return "the cache was given up, because three processes died while they repaired it; jobs that start now make another"
    return str(error_for(rc))


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
    """What a segment takes for one job, records included; raises ValueError where none can be made."""
    cdef sn_geometry geometry
    cdef sn_header layout
    set_geometry(&geometry, b"\0" * 16, n_samples, payload_bytes, False)
    if sn_layout_plan(&geometry, &layout) != 0:
        raise ValueError(f"no cache can be made for {n_samples} samples in {payload_bytes} bytes")
    return layout.rooms_at + 2 * layout.room_bytes  # of its process and its iterator


cdef class Reporter:
    """Tells of a creation. What the one who is told raises, a Ctrl-C say, ends it."""
    cdef object tell, raised

    def __cinit__(self, tell):
        self.tell = tell


cdef int report(void *context, uint64_t done, uint64_t total) noexcept with gil:
    cdef Reporter reporter = <Reporter>context
    try:
        reporter.tell(done, total)
    except BaseException as error:
        reporter.raised = error
        return -EINTR
    return 0


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
        adapts: Whether nobody has asked for these, and they may be changed, likewise.
        progress: Called with the bytes that are reserved and those that will be: before any is, if it has to be
            made, and as that goes on. What it raises ends that, and is raised here.

    Raises:
        Unlinked: There is nothing to join, or it was stale and is gone: open the name again.
        BlockingIOError: Its lock was not to be had just now.
        seneca.errors.SegmentError: As its subclasses say, or the memory for this process's records is missing.
        OSError: ENOSPC, where it had to be made, and others.
    """

    def __cinit__(self, int fd, str name, bytes fingerprint, n_samples, payload_bytes, *, bint keep, job_key,
                  split, bint adapts=False, progress=None):
        cdef sn_geometry wanted
        cdef sn_geometry *geometry = NULL
        cdef sn_participant who
        cdef Reporter reporter = Reporter(progress)
        cdef sn_progress told = NULL
        cdef void *context = <void *>reporter
        cdef bytes name_bytes
        cdef const char *c_name
        cdef int rc
        cdef bint joined
        try:
            name_bytes = os.fsencode(name)
            c_name = name_bytes
            if fingerprint is not None:
                set_geometry(&wanted, fingerprint, n_samples, payload_bytes, keep)
                for form in range(4):
                    wanted.split[form] = split[form]
                wanted.adapts = adapts
                geometry = &wanted
            self.job_key = job_key
        except BaseException:
            os.close(fd)
            raise
        if progress is not None:
            told = report
        memset(&who, 0, sizeof(who))
        who.kind = SN_ROW_HOLDER
        who.job_key = self.job_key
        with nogil:
            rc = sn_segment_attach(fd, c_name, geometry, ATTACH_WAIT_MS, told, context, &self.handle)
            self.created = rc == SN_ATTACH_CREATED
            joined = rc == SN_ATTACH_JOINED
            if self.created or joined:  # and the lock is held
                rc = sn_store_entered(self.handle)
                if rc == 0:
                    sn_store_reap(self.handle, 1)
                    rc = sn_row_claim(self.handle, &who, &self.row)
                    if rc != 0 and self.created:
                        sn_segment_unlink(self.handle)  # nobody has a row in it
                    sn_store_leave(self.handle)
        if rc != 0:
            self.let_go()
            if reporter.raised is not None:
                raise reporter.raised
            if joined and (rc == -ENOSPC or rc == -ENOMEM):  # which no other size of the cache would mend
                raise errors.SegmentError(_NO_ROOM)
            raise error_for(rc)

    cdef object let_go(self):
        sn_segment_close(self.handle)
        self.handle = NULL
        self.left = True
        sn_holder_free(&self.holder)

    cdef sn_holder *row_holder(self) except NULL:
        if self.holder.row != self.row or self.holder.segment == NULL:
            check(sn_holder_init(&self.holder, self.open()))
            self.holder.row = self.row
        return &self.holder

    cdef int enter(self) except -1:
        cdef int rc
        self.open()
        with nogil:
            rc = sn_store_enter(self.handle, LOCK_DEADLINE_MS)
        if rc != 0:
            raise error_for(rc)
        return 0

    cdef sn_segment *open(self) except NULL:
        if self.handle == NULL or self.left:
            raise error_for(SN_E_CLOSED)
        return self.handle

    def close(self):
        """Leave. The last to leave removes the segment unless it is to be kept.

        As long as a thread hangs that may still write to it, the rows stay this living process's: no one may be
        given what they hold. They go when that thread has come back, or with the process.

        Returns:
            Whether the lock was had. Without it the row looks dead, and somebody reaps it.
        """
        cdef int rc
        if self.left:
            return True
        if self.drawing and self.handle.forked:
            return True  # a child's copy, which goes with the iterators' own
        if self.drawing:
            raise errors.SegmentError(f"{self.drawing} iterators still draw from it; end them first")
        with nogil:
            rc = sn_store_enter(self.handle, LOCK_DEADLINE_MS)
            if rc == 0:
                if self.lingering == 0:
                    sn_row_leave(self.handle, self.row)
                if (not self.handle.head.geometry.keep and not sn_anyone_alive(self.handle.fd)
                        and sn_segment_linked(self.handle)):
                    sn_segment_unlink(self.handle)
                sn_store_leave(self.handle)
        self.left = True
        if self.lingering == 0:
            self.let_go()
        return rc != SN_BUSY

    cdef object forget_lingering(self):
        self.lingering -= 1
        if self.lingering == 0 and self.left:
            self.left = False
            self.close()

    def __dealloc__(self):
        sn_segment_close(self.handle)
        sn_holder_free(&self.holder)

    @property
    def closed(self):
        """Whether :meth:`close` was called."""
        return self.left

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

    def attachments(self):
        """By which its copies are told from another segment's, and this job's uses of them from earlier ones.

        Returns:
            ``(segment, rows)``: a number that no other segment has since the host was started; row and
            generation, in one number, of each process that the job has here, this one's first. A job
            whose processes have all left is another to the copies when it comes again.
        """
        cdef sn_segment *handle = self.open()
        cdef uint32_t row
        rows = [(<uint64_t>self.row << 32) | handle.rows[self.row].generation]
        for row in range(<uint32_t>SN_MAX_ROWS):
            if (row != self.row and handle.rows[row].state == SN_ROW_LIVE and handle.rows[row].kind == SN_ROW_HOLDER
                    and handle.rows[row].job_key == self.job_key):
                rows.append((<uint64_t>row << 32) | handle.rows[row].generation)
        return os.fstat(handle.fd).st_ino, rows

    def others_exchange(self, uint64_t augmented):
        """Whether another job is attached that has begun an epoch with substitutes of this pipeline; a hint."""
        return sn_rows_others_exchange(self.open(), self.job_key, augmented)

    @property
    def total_bytes(self):
        """The whole segment, records included; the rooms of rows that nobody has had take no memory."""
        return self.open().head.segment_bytes

    @property
    def adapts(self):
        """Whether nobody has asked for its split, and it may be changed."""
        return bool(self.open().head.geometry.adapts)

    def split(self):
        """``(changes, split)``: how often its split was changed, and the shares; without the lock, a hint."""
        cdef sn_header *head = self.open().head
        return head.n_changes, tuple(<object>share for share in sn_split(head)[:4])

    def change_split(self, split, uint32_t after, str why):
        """Shares by form in 1/10,000, which change at once; if it was changed ``after`` times so far, else False."""
        cdef uint32_t shares[4]
        cdef bytes text = why.encode(errors="backslashreplace")  # it may name a file in no encoding
        cdef int rc
        for form in range(4):
            shares[form] = split[form]
        self.enter()
        rc = sn_store_change_split(self.handle, shares, after, text)
        sn_store_leave(self.handle)
        return rc == 0

    def tell(self, uint32_t second, uint32_t pace):
        """Tell the other processes samples a second that this one's training step takes, and when."""
        cdef sn_row *row = &self.open().rows[self.row]
        if self.handle.forked:
            return  # the row is the parent's
        row.pace = pace
        row.told_at = second

    def told(self):
        """``(mine, job_key, second, pace)`` of each process that has told something, in the order of rows."""
        cdef sn_segment *handle = self.open()
        cdef sn_row *row
        cdef uint32_t i
        found = []
        for i in range(<uint32_t>SN_MAX_ROWS):
            row = &handle.rows[i]
            if row.state == SN_ROW_LIVE and row.kind == SN_ROW_HOLDER and row.told_at != 0:
                found.append((i == self.row, row.job_key, row.told_at, row.pace))
        return found

    def compare_examples(self, uint64_t kind, digests, str shape):
        """Compare what some samples come to with what the first job found that made them; or be the first.

        Args:
            kind: Names what payloads hold; not 0.
            digests: 64 bits of each sample, four at the most.
            shape: Types and sizes, for people.

        Returns:
            None: there were none, and these are left for others. Else theirs: ``(digests, shape, job_key, pid)``.

        Raises:
            BlockingIOError: The lock was not to be had in 100 ms.
            SegmentError: The segment was given up.
        """
        cdef sn_examples mine, theirs
        cdef bytes text = shape.encode(errors="replace")[:sizeof(mine.shape) - 1]
        cdef int rc
        memset(&mine, 0, sizeof(mine))
        mine.kind = kind
        mine.job_key = self.job_key
        mine.n = min(<uint32_t>len(digests), <uint32_t>SN_EXAMPLE_SAMPLES)
        for i in range(mine.n):
            mine.digests[i] = digests[i]
        memcpy(mine.shape, <const char *>text, len(text))
        self.enter()
        rc = sn_examples_compare(self.handle, &mine, &theirs)
        sn_store_leave(self.handle)
        if rc == SN_MISS:
            return None
        found = [theirs.digests[i] for i in range(min(theirs.n, <uint32_t>SN_EXAMPLE_SAMPLES))]
        told = theirs.shape[:sizeof(theirs.shape)].partition(b"\0")[0].decode(errors="replace")
        return found, told, theirs.job_key, theirs.pid

    def distrust(self, uint32_t sample, int form):
        """A sample that was served from this form is not what its dataset makes: nobody is served from here any more."""
        sn_distrust_tell(self.open(), self.job_key, sample, form)

    @property
    def distrusted(self):
        """Whether somebody has found that."""
        return sn_is_distrusted(self.open()) != 0

    def why_distrusted(self):
        """``(job_key, pid, sample, form)`` of who has found it first; None: nobody has, or has come to say so."""
        cdef sn_distrust why
        if not sn_distrust_read(self.open(), &why):
            return None
        return why.job_key, why.pid, why.sample, why.form

    def stats(self):
        """What the segment holds: a dict of bytes, budgets and counts."""
        cdef sn_store_stats stats
        cdef sn_change *change
        cdef uint32_t i, n_changes
        self.enter()
        sn_store_reap(self.handle, 1)
        sn_store_fold(self.handle)
        sn_store_read_stats(self.handle, &stats)
        n_changes, split = self.split()
        changes = []
        for i in range(n_changes - min(n_changes, <uint32_t>SN_CHANGES), n_changes):
            change = &self.handle.head.changes[i % SN_CHANGES]
            changes.append((change.when, tuple(<object>share for share in change.split[:4]),
                            change.why[:sizeof(change.why)].partition(b"\0")[0].decode(errors="replace")))
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
            "split": split,
            "changes": changes,
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


@cython.no_gc
cdef class Participant:
    """Who holds slots: reads what is pinned, writes what is reserved."""

    def commit(self, uint32_t slot):
        """What was reserved is written: others may read it."""
        self.slot(slot)
        sn_slot_commit(self.segment.handle, slot)

    def abort(self, uint32_t slot):
        """What was reserved will not be written."""
        sn_slot_abort(self.slot(slot))

    def payload(self, uint32_t slot):
        """The bytes of a slot that is held, writable in place."""
        cdef sn_slot *record = self.slot(slot)
        return memoryview(<uint8_t[:record.length]>sn_slot_payload(self.segment.handle, record))

    def picture_size(self, uint32_t slot):
        """``(height, width)`` of the pixels in a slot that is held; 0 for what says itself what it is."""
        cdef sn_slot *record = self.slot(slot)
        return record.height, record.width

    def generation(self, uint32_t slot):
        """Which occupant a slot has that is held."""
        return self.slot(slot).generation

    cdef sn_slot *slot(self, uint32_t slot) except NULL:
        if self.segment is None or slot >= self.segment.open().n_slots:
            raise IndexError(slot)
        return &self.segment.handle.slots[slot]


cdef class Answers:
    """Offers on their way to a critical section, and what it answered."""
    cdef sn_offer *array
    cdef uint32_t count

    def __cinit__(self, offers):
        cdef uint32_t i
        self.count = len(offers)
        self.array = <sn_offer *>calloc(self.count + 1, sizeof(sn_offer))
        if self.array == NULL:
            raise MemoryError()
        for i in range(self.count):
            (self.array[i].sample, self.array[i].form, self.array[i].length, self.array[i].height,
             self.array[i].width) = offers[i]

    def slots(self):
        return [None if self.array[i].slot == SN_NONE else (self.array[i].slot, self.array[i].entry)
                for i in range(self.count)]

    def __dealloc__(self):
        free(self.array)


cdef sn_item *items_of(items) except NULL:
    """The records of an array of :data:`ITEM` that is not empty."""
    cdef uint8_t[::1] flat = items.view(np.uint8)
    return <sn_item *>&flat[0]


# It holds no reference that could lead back to it, so no garbage collection has to look at it;
# one that did would take its segment away before it has left.
@cython.no_gc
cdef class Member(Participant):
    """One iterator's place in a segment, or a private one (``segment`` None).

    Args:
        segment: Where it shares, or None.
        n_samples: Of the dataset.
        samples: uint32 array of the samples that are this member's, each once; None for all.
        places: How many of them are delivered from here; what lies behind in the order is dropped.
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
        hands_over: Whether workers prepare what it draws, see :meth:`claims`.
        wanted_alone: Places that a draw takes while no other job draws; 0: as many as it is asked.

    Attributes:
        shared: Whether it has a row in the segment.
        why_private: The reason why it has none although there is a segment; else None.
    """

    def __cinit__(self, Segment segment, *, n_samples, samples, places, seed, epoch, bint fixed, decoded, augmented,
                  height, width, in_flight, bint shares, bint keeps, bint substitutes, copy_bytes=0,
                  bint hands_over=False, uint32_t wanted_alone=0, taken=None, uint64_t own_seed=0):
        cdef sn_member_options options
        cdef const uint32_t[::1] own
        cdef const uint64_t[::1] words
        cdef sn_segment *handle = NULL
        cdef int joined, rc
        memset(&options, 0, sizeof(options))
        options.epoch.n_samples = n_samples
        if samples is not None and len(samples):
            own = samples
            options.epoch.samples = &own[0]
            options.epoch.count = <uint32_t>own.shape[0]
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
        options.decoded_pipeline = decoded
        options.augmented_pipeline = augmented
        options.height = height
        options.width = width
        options.copy_bytes = copy_bytes or 3 * height * width
        options.hands_over = hands_over
        options.wanted_alone = self.wanted_alone = wanted_alone
        options.in_flight = in_flight
        options.shares = shares
        options.keeps = keeps
        options.substitutes = substitutes
        self.segment = segment
        if segment is not None:
            handle = segment.open()
            options.job_key = segment.job_key
        with nogil:
            rc = sn_member_open(handle, &options, &self.handle, &joined)
        if rc == -22:
            raise ValueError(
                "a member's samples exist in the dataset, each at most once, and the dataset is the segment's"
            )
        check(rc)
        self.shared = joined == 0
        if segment is not None:
            self.why_private = None if self.shared else why_private(joined)
            segment.drawing += 1
            if self.shared and shares and substitutes:
                sn_row_exchanges(handle, segment.row, augmented)

    @property
    def left(self):
        """Samples of the epoch that are not yet drawn."""
        return sn_member_left(self.handle) if self.handle != NULL else 0

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
        rc = sn_member_draw(self.handle, n, items_of(items), &drawn, answers.array, answers.count)
        return items[:drawn], answers.slots(), rc == SN_BUSY

    def claims(self, items):
        """What workers need to take over what a draw holds.

        Returns:
            ``(row, generation, claims)``: the member's row (:data:`NONE` for a private one), and
            an array of :data:`CLAIM` in the order of ``items``; None where nothing is held.
        """
        cdef uint32_t generation = 0, row = sn_member_row(self.handle, &generation), i
        cdef uint32_t count = <uint32_t>len(items)
        cdef uint8_t[::1] flat
        cdef sn_item *places
        items = np.ascontiguousarray(items, ITEM)
        if count == 0:
            return row, generation, None
        places = items_of(items)
        for i in range(count):
            if places[i].source_slot != SN_NONE or places[i].target_slot != SN_NONE:
                break
        else:
            return row, generation, None
        claims = np.zeros(count, CLAIM)
        flat = claims.view(np.uint8)
        sn_member_claims(self.handle, places, count, <sn_claim *>&flat[0])
        return row, generation, claims

    @property
    def copy_bytes(self):
        """Room that its AUGMENTED copies take as far as is known; 0: not known."""
        return sn_member_copy_bytes(self.handle) if self.handle != NULL else 0

    def done(self, items):
        """Let go of what these items hold, in the next draw."""
        items = np.ascontiguousarray(items, ITEM)
        if len(items):
            sn_member_done(self.handle, items_of(items), <uint32_t>len(items))

    def offer_done(self, uint32_t slot, uint32_t entry):
        """Let go of a slot that an offer was written to, in the next draw."""
        cdef sn_offer offer
        memset(&offer, 0, sizeof(offer))
        offer.slot = slot
        offer.entry = entry
        sn_member_offer_done(self.handle, &offer)

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
        if self.handle != NULL:
            with nogil:
                sn_member_close(self.handle)
            self.handle = NULL
            if self.segment is not None and self.retired:
                self.segment.forget_lingering()
            elif self.segment is not None:
                self.segment.drawing -= 1

    def __dealloc__(self):
        self.close()


@cython.no_gc
cdef class Worker(Participant):
    """Prepares samples that it is given, over what a segment holds. One thread at a time uses it.

    Args:
        segment: Where it shares, or None. Its process's row holds what this worker holds.
        decoded, augmented: Fingerprints of the pipeline's head and of the whole.
        height, width, copy_bytes: As a member's.
        shares, keeps: What it takes part in.
    """

    def __cinit__(self, Segment segment, *, decoded, augmented, height=0, width=0, copy_bytes=0, bint shares,
                  bint keeps):
        cdef sn_worker_options options
        cdef sn_holder *holder = NULL
        memset(&options, 0, sizeof(options))
        options.decoded_pipeline = decoded
        options.augmented_pipeline = augmented
        options.height = height
        options.width = width
        options.copy_bytes = copy_bytes or 3 * height * width
        options.shares = shares
        options.keeps = keeps
        if segment is not None:
            holder = segment.row_holder()
        check(sn_worker_open(holder, &options, &self.handle))
        self.segment = segment
        if segment is not None:
            segment.drawing += 1

    def begin(self, claims, uint32_t row=SN_NONE, uint32_t row_generation=0, offers=()):
        """Hold what serves these samples, in one critical section.

        Args:
            claims: An array of :data:`CLAIM`; of those that nobody drew only ``sample`` counts.
            row, row_generation: Of the member that drew them, as its ``claims`` tells.
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
            raise error_for(SN_E_CLOSED)
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
