"""What csrc/shm, csrc/slots and csrc/store declare of a segment, and the class that owns a handle on one."""

from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t


cdef extern from "shm/sn_layout.h" nogil:
    enum:
        SN_GRANULE
        SN_KEEP_FOREVER
        SN_LAYOUT_VERSION
        SN_NONE
        SN_FORMS
        SN_ENCODED
        SN_SLOT_WRITING
        SN_SLOT_READY

    ctypedef struct sn_geometry:
        uint64_t fingerprint[2]
        uint64_t payload_bytes
        uint32_t n_samples
        uint32_t keep
        uint32_t split[5]
        uint32_t adapts, first_granules

    ctypedef struct sn_change:
        uint64_t when
        uint32_t split[5]
        char why[228]

    ctypedef struct sn_digest_table:
        char shape[72]

    ctypedef struct sn_header:
        uint32_t layout_version
        sn_geometry geometry
        uint64_t segment_bytes, areas_at, timetable_in
        uint32_t backed, limit, granules_free
        uint32_t n_changes
        sn_change changes[8]
        sn_digest_table tables[64]
        int64_t newest_ctime

    ctypedef struct sn_distrust:
        uint32_t sample, form
        int32_t pid
        uint64_t job_key, when

    const uint32_t *sn_split(const sn_header *head)
    uint32_t sn_usable_granules(const sn_header *head)

    enum:
        SN_MAX_ROWS

    ctypedef struct sn_slot:
        uint32_t generation
        uint32_t length
        uint16_t height, width
        uint32_t files_name

    int sn_layout_compute(const sn_geometry *geometry, sn_header *layout)


cdef extern from "shm/sn_segment.h" nogil:
    ctypedef struct sn_segment:
        int fd
        int forked
        sn_header *head
        sn_slot *slots
        uint32_t n_slots, n_samples

    ctypedef int (*sn_progress)(void *context, uint64_t done_bytes, uint64_t total_bytes) noexcept nogil

    enum:
        SN_ATTACH_CREATED

    void sn_segment_close(sn_segment *segment)
    int sn_segment_linked(const sn_segment *segment)


cdef extern from "slots/sn_slots.h" nogil:
    void sn_slot_commit(sn_segment *segment, uint32_t slot)
    void sn_slot_abort(sn_slot *slot)
    uint32_t sn_slot_state(const sn_slot *slot)
    uint8_t *sn_slot_payload(const sn_segment *segment, const sn_slot *slot)
    uint32_t sn_slot_length(const sn_segment *segment, const sn_slot *slot)


cdef extern from "store/sn_distrust.h" nogil:
    void sn_distrust_report(sn_segment *segment, uint64_t job_key, uint32_t sample, int form)
    int sn_is_distrusted(const sn_segment *segment)
    int sn_distrust_read(const sn_segment *segment, sn_distrust *why)


cdef extern from "store/sn_store.h" nogil:
    ctypedef struct sn_store_stats:
        uint64_t payload_bytes, free_bytes, reserved_bytes
        uint64_t bytes_of[5]
        uint64_t budget_of[5]
        uint32_t slots_of[5]
        uint32_t writing, members, processes, jobs
        uint32_t split[5]
        uint32_t n_changes
        sn_change changes[8]

    enum:
        SN_LOCK_DEADLINE_MS

    int sn_store_enter(sn_segment *segment, int deadline_ms)
    void sn_store_leave(sn_segment *segment)
    int sn_store_change_split(sn_segment *segment, const uint32_t *split, uint32_t after, const char *why)
    void sn_store_read_stats(sn_segment *segment, sn_store_stats *stats)


cdef extern from "store/sn_backing.h" nogil:
    int sn_backing_grow(sn_segment *segment, uint32_t granules)
    int sn_backing_stop(sn_segment *segment)


cdef extern from "store/sn_check.h" nogil:
    int sn_store_check(sn_segment *segment, char *why, size_t size)


cdef extern from "store/sn_join.h" nogil:
    int sn_join(int fd, const char *name, const sn_geometry *geometry, int64_t newest_ctime, uint64_t job_key,
                sn_progress progress, void *context, sn_segment **segment, uint32_t *row)
    int sn_leave(sn_segment *segment, uint32_t row)
    void sn_sweep(int fd, const char *name)


cdef extern from "store/sn_hints.h" nogil:
    ctypedef struct sn_pace:
        uint64_t job_key
        uint32_t row, second, pace

    bint sn_hints_others_exchange(const sn_segment *segment, uint64_t job_key, uint64_t pipeline)
    void sn_hint_pace(sn_segment *segment, uint32_t row, uint32_t second, uint32_t pace)
    uint32_t sn_hints_paces(const sn_segment *segment, sn_pace *paces)
    uint32_t sn_hints_without_payload(const sn_segment *segment, uint32_t *samples, uint32_t n)
    uint32_t sn_hints_attachments(const sn_segment *segment, uint32_t row, uint64_t *attachments)


cdef extern from "store/sn_holder.h" nogil:
    ctypedef struct sn_holder:
        sn_segment *segment
        uint32_t row

    int sn_holder_init(sn_holder *holder, sn_segment *segment)
    void sn_holder_free(sn_holder *holder)


cdef class Segment:
    cdef sn_segment *handle    # owned; NULL once closed and nothing lingers
    cdef bint left             # closed
    cdef uint32_t row          # this process's own, which keeps the segment alive
    cdef readonly uint64_t job_key
    cdef readonly bint created
    cdef uint32_t drawing      # members and workers that are open on it
    cdef uint32_t lingering    # members that are retired: a thread may still write to what they hold
    cdef sn_holder holder      # of that row: for its workers, made with the first
    cdef object let_go(self)
    cdef object forget_lingering(self)
    cdef sn_holder *row_holder(self) except NULL
    cdef int enter(self) except -1
    cdef sn_segment *open(self) except NULL
