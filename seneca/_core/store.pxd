"""What csrc/shm and csrc/store declare, and the classes that own their handles."""

from libc.stddef cimport size_t
from libc.stdint cimport int32_t, uint8_t, uint16_t, uint32_t, uint64_t


cdef extern from "base/sn_status.h" nogil:
    enum:
        SN_OK
        SN_MISS
        SN_BUSY
        SN_E_MAGIC
        SN_E_VERSION
        SN_E_CORRUPT
        SN_E_ABANDONED
        SN_E_GONE
        SN_E_ROWS_FULL
        SN_E_JOBS_FULL
        SN_E_FORKED
        SN_E_MISMATCH
        SN_E_CLOSED
        SN_E_OWNER


cdef extern from "shm/sn_layout.h" nogil:
    enum:
        SN_GRANULE
        SN_LAYOUT_VERSION
        SN_NONE
        SN_FORMS
        SN_ENCODED
        SN_DECODED
        SN_AUGMENTED

    ctypedef struct sn_geometry:
        uint64_t fingerprint[2]
        uint64_t payload_bytes
        uint32_t n_samples
        uint32_t keep
        uint32_t split[4]
        uint32_t adapts

    ctypedef struct sn_change:
        uint64_t when
        uint32_t split[4]
        char why[232]

    ctypedef struct sn_header:
        uint32_t layout_version
        sn_geometry geometry
        uint64_t segment_bytes, rooms_at, room_bytes
        uint32_t n_changes
        sn_change changes[8]

    ctypedef struct sn_examples:
        uint64_t kind
        uint64_t job_key, when
        int32_t pid
        uint32_t n
        uint64_t digests[4]
        char shape[64]

    ctypedef struct sn_distrust:
        uint32_t sample, form
        int32_t pid
        uint64_t job_key, when

    const uint32_t *sn_split(const sn_header *head)

    enum:
        SN_CHANGES
        SN_EXAMPLE_SAMPLES
        SN_MAX_ROWS
        SN_ROW_LIVE
        SN_ROW_HOLDER

    ctypedef struct sn_row:
        uint32_t state, generation
        uint16_t kind
        uint64_t job_key
        uint32_t told_at, pace

    ctypedef struct sn_slot:
        uint32_t generation
        uint32_t length
        uint16_t height, width

    int sn_layout_plan(const sn_geometry *geometry, sn_header *layout)


cdef extern from "shm/sn_segment.h" nogil:
    ctypedef struct sn_segment:
        int fd
        int forked
        sn_header *head
        sn_row *rows
        sn_slot *slots
        uint32_t n_slots

    ctypedef int (*sn_progress)(void *context, uint64_t done_bytes, uint64_t total_bytes) noexcept nogil

    enum:
        SN_ATTACH_CREATED
        SN_ATTACH_JOINED

    int sn_segment_attach(int fd, const char *name, const sn_geometry *geometry, int wait_ms,
                          sn_progress progress, void *context, sn_segment **out)
    void sn_segment_close(sn_segment *segment)
    int sn_anyone_alive(int fd)
    int sn_segment_linked(const sn_segment *segment)
    void sn_segment_unlink(sn_segment *segment)
    void sn_lock_leave(sn_segment *segment)


cdef extern from "slots/sn_slots.h" nogil:
    void sn_slot_commit(sn_segment *segment, uint32_t slot)
    void sn_slot_abort(sn_slot *slot)
    uint8_t *sn_slot_payload(const sn_segment *segment, const sn_slot *slot)


cdef extern from "store/sn_trust.h" nogil:
    int sn_examples_compare(sn_segment *segment, const sn_examples *mine, sn_examples *theirs)
    void sn_distrust_tell(sn_segment *segment, uint64_t job_key, uint32_t sample, int form)
    int sn_is_distrusted(const sn_segment *segment)
    int sn_distrust_read(const sn_segment *segment, sn_distrust *why)


cdef extern from "store/sn_store.h" nogil:
    ctypedef struct sn_store_stats:
        uint64_t payload_bytes, free_bytes
        uint64_t bytes_of[4]
        uint64_t budget_of[4]
        uint32_t slots_of[4]
        uint32_t writing, members, processes, jobs

    int sn_store_enter(sn_segment *segment, int deadline_ms)
    int sn_store_entered(sn_segment *segment)
    void sn_store_leave(sn_segment *segment)
    void sn_store_fold(sn_segment *segment)
    uint32_t sn_store_reap(sn_segment *segment, int all)
    int sn_store_check(sn_segment *segment, char *why, size_t size)
    int sn_store_change_split(sn_segment *segment, const uint32_t *split, uint32_t after, const char *why)
    void sn_store_read_stats(const sn_segment *segment, sn_store_stats *stats)


cdef extern from "store/sn_rows.h" nogil:
    ctypedef struct sn_participant:
        int kind
        uint64_t job_key
        uint64_t pipeline
        uint32_t stage_need

    int sn_row_claim(sn_segment *segment, const sn_participant *who, uint32_t *row)
    void sn_row_leave(sn_segment *segment, uint32_t row)
    void sn_row_exchanges(sn_segment *segment, uint32_t row, uint64_t pipeline)
    bint sn_rows_others_exchange(const sn_segment *segment, uint64_t job_key, uint64_t pipeline)


cdef extern from "draw/sn_order.h" nogil:
    ctypedef struct sn_epoch:
        uint32_t n_samples
        const uint32_t *samples
        uint32_t count
        uint32_t places
        uint64_t seed, own_seed
        uint32_t epoch
        uint8_t fixed
        const uint64_t *taken


cdef extern from "store/sn_holder.h" nogil:
    ctypedef struct sn_holder:
        sn_segment *segment
        uint32_t row

    int sn_holder_init(sn_holder *holder, sn_segment *segment)
    void sn_holder_free(sn_holder *holder)


cdef extern from "store/sn_serve.h" nogil:
    ctypedef struct sn_item:
        uint32_t sample
        uint8_t source, keep
        uint32_t source_slot, source_entry, target_slot, target_entry

    ctypedef struct sn_offer:
        uint32_t sample, length
        uint16_t height, width
        uint8_t form
        uint32_t slot, entry


cdef extern from "store/sn_member.h" nogil:
    ctypedef struct sn_member:
        pass

    ctypedef struct sn_member_options:
        sn_epoch epoch
        uint64_t job_key
        uint64_t decoded_pipeline, augmented_pipeline
        uint16_t height, width
        uint32_t copy_bytes, in_flight
        uint32_t wanted_alone
        uint8_t shares, keeps, substitutes, hands_over

    ctypedef struct sn_claim:
        uint32_t sample, slot, generation, entry

    int sn_member_open(sn_segment *segment, const sn_member_options *options, sn_member **out, int *joined)
    int sn_member_draw(sn_member *member, uint32_t wanted, sn_item *items, uint32_t *drawn,
                       sn_offer *offers, uint32_t n_offers)
    void sn_member_claims(const sn_member *member, const sn_item *items, uint32_t n_items, sn_claim *claims)
    uint32_t sn_member_row(const sn_member *member, uint32_t *generation)
    uint32_t sn_member_copy_bytes(const sn_member *member)
    void sn_member_done(sn_member *member, const sn_item *items, uint32_t n_items)
    void sn_member_offer_done(sn_member *member, const sn_offer *offer)
    uint32_t sn_member_left(const sn_member *member)
    int sn_member_retire(sn_member *member)
    void sn_member_close(sn_member *member)


cdef extern from "store/sn_worker.h" nogil:
    ctypedef struct sn_worker:
        pass

    ctypedef struct sn_worker_options:
        uint64_t decoded_pipeline, augmented_pipeline
        uint16_t height, width
        uint32_t copy_bytes
        uint8_t shares, keeps

    int sn_worker_open(sn_holder *holder, const sn_worker_options *options, sn_worker **out)
    int sn_worker_begin(sn_worker *worker, uint32_t row, uint32_t row_generation, const sn_claim *claims,
                        uint32_t n_claims, sn_item *items, sn_offer *offers, uint32_t n_offers)
    int sn_worker_done(sn_worker *worker, const sn_item *items, uint32_t n_items)
    int sn_worker_offer_done(sn_worker *worker, const sn_offer *offer)
    void sn_worker_learn(sn_worker *worker, uint32_t copy_bytes)
    void sn_worker_close(sn_worker *worker)


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


cdef class Participant:
    cdef Segment segment       # None for a private one; kept alive while it takes part
    cdef sn_slot *slot(self, uint32_t slot) except NULL


cdef class Member(Participant):
    cdef sn_member *handle     # owned; NULL once closed
    cdef readonly bint shared
    cdef readonly object why_private
    cdef bint retired
    cdef uint32_t wanted_alone


cdef class Worker(Participant):
    cdef sn_worker *handle     # owned; NULL once closed
    cdef sn_worker *open(self) except NULL
