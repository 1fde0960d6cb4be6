"""The border to csrc/shm and csrc/store: a process's hold on a segment. Owns the handle, drops the GIL, translates."""

import os

from libc.errno cimport EINTR, ENOMEM, ENOSPC
from libc.string cimport memset

from seneca import errors
from seneca.forms import Form
from seneca._core.codes import segment_error
from seneca._core.codes cimport SN_BUSY, SN_E_CLOSED, SN_E_CORRUPT, SN_MISS, check

__all__ = ["GRANULE", "KEEP_FOREVER", "KEPT", "LAYOUT_VERSION", "NONE", "Segment", "segment_bytes", "sweep"]

GRANULE, LAYOUT_VERSION = SN_GRANULE, SN_LAYOUT_VERSION
KEPT = {form.name.lower(): form for form in Form if form != Form.STORAGE}  # those that a segment holds
KEEP_FOREVER, NONE = <uint32_t>SN_KEEP_FOREVER, <uint32_t>SN_NONE


cdef int set_geometry(sn_geometry *geometry, bytes fingerprint, object n_samples, object payload_bytes,
                      uint32_t keep) except -1:
    memset(geometry, 0, sizeof(sn_geometry))
    if len(fingerprint) != 16:
        raise ValueError("a fingerprint has 16 bytes")
    for i in range(2):
        geometry.fingerprint[i] = int.from_bytes(fingerprint[8 * i : 8 * i + 8], "little")
    geometry.n_samples, geometry.payload_bytes, geometry.keep = n_samples, payload_bytes, keep
    return 0


cdef int set_split(uint32_t *shares, object split) except -1:
    if len(split) != SN_FORMS:
        raise ValueError(f"a split has a share for each of {SN_FORMS} forms, but got {split!r}")
    for form in range(SN_FORMS):
        shares[form] = split[form]
    return 0


def segment_bytes(n_samples, payload_bytes):
    """The bytes of a segment for one job, records included. Raises ValueError if none can be made."""
    cdef sn_geometry geometry
    cdef sn_header layout
    set_geometry(&geometry, b"\0" * 16, n_samples, payload_bytes, False)
    if sn_layout_compute(&geometry, &layout) != 0:
        raise ValueError(f"no cache can be made for {n_samples} samples in {payload_bytes} bytes")
    area = (layout.timetable_in + SN_GRANULE - 1) // SN_GRANULE * SN_GRANULE
    return layout.areas_at + 2 * area  # of its process and its iterator; what digests take is small beside payloads


cdef class Reporter:
    """Reports the progress of a creation. What the callback raises, a Ctrl-C say, ends the creation."""
    cdef object progress, raised

    def __cinit__(self, progress):
        self.progress = progress


cdef int report(void *context, uint64_t done, uint64_t total) noexcept with gil:
    cdef Reporter reporter = <Reporter>context
    try:
        reporter.progress(done, total)
    except BaseException as error:
        reporter.raised = error
        return -EINTR
    return 0


def sweep(int fd, str name):
    """Remove the shared memory object ``name``, open as ``fd``, where no living process uses it.

    Closes ``fd``. A segment that is in use is left in peace: its lock is not even tried.
    """
    cdef bytes name_bytes = os.fsencode(name)
    cdef const char *c_name = name_bytes
    with nogil:
        sn_sweep(fd, c_name)


cdef class Segment:
    """This process's hold on a segment. Takes over the descriptor ``fd``.

    Args:
        fd: Of the shared memory object; closed with this handle.
        name: Of that object.
        fingerprint: 16 bytes that name the dataset; None to join whatever is there.
        n_samples: Of the dataset.
        payload_bytes: Space for payloads if it has to be made; 0: it is not to be made.
        keep: For how many seconds it outlives the last who leaves, at least; KEEP_FOREVER: until it is removed.
        job_key: 64 bits that name the training run.
        split: Shares by the number of the form, in 1/10,000, likewise.
        adapts: Whether the user has not asked for these, and they may be changed, likewise.
        first_bytes: So much of the space for payloads gets memory at once if it has to be made, and the rest by
            :meth:`grow`; 0: all.
        newest_ctime: The newest ctime of the dataset's files, in ns, as they were seen before, if it has to be made; 0: it
            has none, or it is not known.
        progress: Called with the bytes that are reserved and those that will be: before any is, if it has to be
            made, and as that goes on. What it raises ends that, and is raised here.

    Raises:
        Unlinked: There is nothing to join, or it was stale and is gone: open the name again.
        BlockingIOError: Its lock was not to be had just now.
        seneca.errors.SegmentError: As its subclasses say, or the memory for this process's records is missing.
        OSError: ENOSPC, where it had to be made, and others.
    """

    def __cinit__(self, int fd, str name, bytes fingerprint, n_samples, payload_bytes, *, uint32_t keep, job_key,
                  split, bint adapts=False, first_bytes=0, int64_t newest_ctime=0, progress=None):
        cdef sn_geometry wanted
        cdef sn_geometry *geometry = NULL
        cdef Reporter reporter = Reporter(progress)
        cdef sn_progress callback = NULL
        cdef void *context = <void *>reporter
        cdef bytes name_bytes
        cdef const char *c_name
        cdef int rc
        try:
            name_bytes = os.fsencode(name)
            c_name = name_bytes
            if fingerprint is not None:
                set_geometry(&wanted, fingerprint, n_samples, payload_bytes, keep)
                set_split(wanted.split, split)
                wanted.adapts = adapts
                wanted.first_granules = min(-(-first_bytes // SN_GRANULE), <uint32_t>SN_NONE)
                geometry = &wanted
            self.job_key = job_key
        except BaseException:
            os.close(fd)
            raise
        if progress is not None:
            callback = report
        with nogil:
            rc = sn_join(fd, c_name, geometry, newest_ctime, self.job_key, callback, context, &self.handle, &self.row)
        if self.handle == NULL:
            raise segment_error(rc) if reporter.raised is None else reporter.raised
        self.created = rc == SN_ATTACH_CREATED

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
            rc = sn_store_enter(self.handle, SN_LOCK_DEADLINE_MS)
        if rc != 0:
            raise segment_error(rc)
        return 0

    cdef sn_segment *open(self) except NULL:
        if self.handle == NULL or self.left:
            raise segment_error(SN_E_CLOSED)
        return self.handle

    def close(self, bint at_end=False):
        """Leave. The last to leave removes the segment unless it is to be kept.

        As long as a thread hangs that may still write to it, the rows stay this living process's: no one may be
        given what they hold. They go when that thread has come back, or with the process.

        Args:
            at_end: The process ends. Daemon threads may still iterate: their rows too go with the process.

        Returns:
            Whether the lock was had. Without it the row counts as dead, and somebody reaps it.
        """
        cdef int rc
        cdef bint stays
        if self.left:
            return True
        if self.drawing and self.handle.forked:
            return True  # a child's copy, which goes with the iterators' own
        if self.drawing and not at_end:
            raise errors.SegmentError(f"{self.drawing} iterators still draw from it; end them first")
        stays = self.lingering or self.drawing
        with nogil:
            rc = sn_leave(self.handle, <uint32_t>SN_NONE if stays else self.row)
        self.left = True
        if not stays:
            self.let_go()
        elif not (self.lingering or self.drawing):  # the last thread came back while the GIL was released
            self.left = False
            return self.close()
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
    def newest_ctime(self):
        """The newest ctime of all files of the dataset, in ns, before anything of them was read for it; 0: not known."""
        return self.open().head.newest_ctime

    @property
    def payload_bytes(self):
        """Space for payloads, whether or not it has memory yet."""
        cdef sn_header *head = self.open().head
        return min(head.geometry.payload_bytes, <uint64_t>head.limit * SN_GRANULE)

    @property
    def reserved_bytes(self):
        """The bytes for payloads that have memory so far; without the lock, a hint."""
        cdef sn_header *head = self.open().head
        return min(head.geometry.payload_bytes, <uint64_t>sn_usable_granules(head) * SN_GRANULE)

    @property
    def unused_bytes(self):
        """The reserved bytes that hold nothing; without the lock, a hint."""
        cdef sn_header *head = self.open().head
        return <uint64_t>head.granules_free * SN_GRANULE

    def grow(self, uint32_t granules):
        """Give memory to the next granules of the space for payloads, at the most so many.

        Returns:
            Whether this call has. If not, all has memory, another process was faster, or the lock was not to be had.

        Raises:
            OSError: ENOSPC: there is no memory.
            Unlinked: The segment was given up.
        """
        cdef int rc
        self.open()
        with nogil:
            rc = sn_backing_grow(self.handle, granules)
        if rc in (-ENOSPC, -ENOMEM):
            raise OSError(ENOSPC, os.strerror(ENOSPC))
        if rc not in (0, SN_BUSY, SN_MISS):
            raise segment_error(rc)
        return rc == 0

    def stop_growing(self):
        """Leave the space for payloads at what has memory, for good. Returns whether this call made it so.

        Raises:
            BlockingIOError: The lock was not to be had in 100 ms.
            Unlinked: The segment was given up.
        """
        cdef int rc
        self.open()
        with nogil:
            rc = sn_backing_stop(self.handle)
        if rc not in (0, SN_MISS):
            raise segment_error(rc)
        return rc == 0

    def attachments(self):
        """Identify this segment and this job's attachments to it, for the audit's log.

        Returns:
            ``(segment, rows)``: a number that no other segment has since the host was started; row and
            generation, in one number, of each process that the job has here, this one's first. A job
            whose processes have all left counts as a new job when it comes again.
        """
        cdef uint64_t rows[SN_MAX_ROWS]
        cdef uint32_t i, n = sn_hints_attachments(self.open(), self.row, rows)
        return os.fstat(self.handle.fd).st_ino, [rows[i] for i in range(n)]

    def others_exchange(self, uint64_t augmented):
        """Whether another job is attached that has begun an epoch with substitutes of this pipeline; a hint."""
        return sn_hints_others_exchange(self.open(), self.job_key, augmented)

    @property
    def total_bytes(self):
        """The whole segment, records included; the areas of rows that were never used take no memory."""
        return self.open().head.segment_bytes

    @property
    def adapts(self):
        """Whether the user has not asked for its split, and it may be changed."""
        return bool(self.open().head.geometry.adapts)

    def split(self):
        """``(changes, split)``: how often its split was changed, and the shares; without the lock, a hint."""
        cdef sn_header *head = self.open().head
        return head.n_changes, tuple(<object>share for share in sn_split(head)[:SN_FORMS])

    def change_split(self, split, uint32_t after, str why):
        """Shares by the number of the form, in 1/10,000, which change at once; if it was changed ``after`` times so far, else False."""
        cdef uint32_t shares[SN_FORMS]
        cdef bytes text = why.encode(errors="backslashreplace")  # it may name a file in no encoding
        cdef int rc
        set_split(shares, split)
        self.enter()
        rc = sn_store_change_split(self.handle, shares, after, text)
        sn_store_leave(self.handle)
        return rc == 0

    def publish_pace(self, uint32_t second, uint32_t pace):
        """Publish how many samples a second the training step of this process takes, and when."""
        sn_hint_pace(self.open(), self.row, second, pace)

    def published_paces(self):
        """``(mine, job_key, second, pace)`` of each process that has published its pace, in the order of rows."""
        cdef sn_pace paces[SN_MAX_ROWS]
        cdef uint32_t i, n = sn_hints_paces(self.open(), paces)
        return [(paces[i].row == self.row, paces[i].job_key, paces[i].second, paces[i].pace) for i in range(n)]

    def distrust(self, uint32_t sample, int form):
        """A sample of this form is not the same for all jobs: nothing is served from here any more."""
        sn_distrust_report(self.open(), self.job_key, sample, form)

    @property
    def distrusted(self):
        """Whether somebody has found that."""
        return sn_is_distrusted(self.open()) != 0

    def why_distrusted(self):
        """``(job_key, pid, sample, form)`` of who has found it first; None: no job has, or it is not written yet."""
        cdef sn_distrust why
        if not sn_distrust_read(self.open(), &why):
            return None
        return why.job_key, why.pid, why.sample, why.form

    def stats(self):
        """The content of the segment: a dict of bytes, budgets and counts."""
        cdef sn_store_stats stats
        cdef sn_change *change
        cdef uint32_t i
        self.enter()
        sn_store_read_stats(self.handle, &stats)
        sn_store_leave(self.handle)
        changes = []
        for i in range(stats.n_changes):
            change = &stats.changes[i]
            changes.append((change.when, tuple(<object>share for share in change.split[:SN_FORMS]),
                            change.why[:sizeof(change.why)].partition(b"\0")[0].decode(errors="replace")))
        return {
            "payload_bytes": stats.payload_bytes,
            "reserved_bytes": stats.reserved_bytes,
            "free_bytes": stats.free_bytes,
            "bytes": {name: stats.bytes_of[form] for name, form in KEPT.items()},
            "budget_bytes": {name: stats.budget_of[form] for name, form in KEPT.items()},
            "payloads": {name: stats.slots_of[form] for name, form in KEPT.items()},
            "writing": stats.writing,
            "members": stats.members,
            "processes": stats.processes,
            "jobs": stats.jobs,
            "split": tuple(<object>share for share in stats.split[:SN_FORMS]),
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
