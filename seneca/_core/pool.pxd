"""What csrc/pool declares, and the classes that own its handles."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from seneca._core.codec cimport sn_view
from seneca._core.member cimport Member, atomic_uint32, sn_member
from seneca._core.participant cimport sn_item, sn_offer
from seneca._core.plan cimport Plan, sn_erasure, sn_plan
from seneca._core.remote cimport Hosts, Remote, sn_hosts, sn_remote
from seneca._core.segment cimport sn_segment


cdef extern from "pool/sn_batch.h" nogil:
    ctypedef struct atomic_uint8 "_Atomic uint8_t":
        pass

    ctypedef struct sn_note:
        uint32_t slot, generation, form

    ctypedef struct sn_piece:
        pass

    ctypedef struct sn_container:
        pass

    ctypedef struct sn_context:
        const sn_plan *plan
        uint32_t height, width
        uint64_t item_bytes, beside_bytes
        sn_segment *segment
        const char *paths
        const uint64_t *path_at
        const sn_piece *pieces
        const sn_container *containers
        uint8_t is_external
        const float (*boxes)[4]
        const uint64_t *box_at
        uint8_t boxes_are_shares
        uint64_t largest
        sn_remote *remote
        uint8_t dataset[16]
        sn_hosts *hosts
        uint8_t copies[16]
        uint64_t seed, nonce, job_key
        uint32_t epoch, check_every
        uint64_t *checked
        uint64_t *unrecoded
        atomic_uint8 *changes
        uint32_t files_name
        sn_note *notes
        atomic_uint32 *progress

    enum:
        SN_UNRECODED_WHYS

    ctypedef struct sn_spent:
        uint64_t read, blocked, prepare, decode, augment, recode, redraw

    ctypedef struct sn_file:
        uint8_t *bytes
        size_t length

    ctypedef struct sn_batch_item:
        sn_item item
        int32_t status
        uint8_t different, is_remote, is_of_mask
        int64_t ctime_ns
        char *message
        uint8_t *kept
        sn_offer offer
        sn_file file

    ctypedef struct sn_offers:
        uint32_t n

    ctypedef struct sn_batch:
        const sn_context *context
        sn_batch_item *places
        uint32_t n_places
        uint8_t *out
        uint8_t *beside
        sn_erasure *erasures

    ctypedef struct sn_batch_sums:
        uint32_t served[5]
        uint32_t prepared, staged, damaged, checked, different, in_vain
        uint32_t n_read, n_prepare, n_decode, n_augment, n_recode, n_redraw, n_remote, n_copies
        uint32_t unrecoded[3]
        uint64_t remote_ns, read_bytes, decoded_bytes, peer_wait_ns
        sn_spent spent

    int sn_offers_collect(sn_offers *offers, sn_batch *batch)
    void sn_offers_free(sn_offers *offers)
    int sn_batch_draw(sn_batch *batch, sn_member *member, sn_offers *offers, uint32_t *until_check, uint32_t *indices)
    int sn_batch_draw_given(sn_batch *batch, sn_member *member, sn_offers *offers, uint32_t *until_check,
                            const uint32_t *samples, const uint64_t *turns)
    void sn_batch_settle(sn_batch *batch, sn_member *member)
    sn_note sn_batch_note_of(const sn_context *context, const sn_item *item)
    void sn_batch_done(sn_batch *batch, sn_member *member)
    void sn_batch_sum(const sn_batch *batch, sn_batch_sums *sums)
    sn_batch *sn_batch_new(const sn_context *context, uint32_t n_places, uint32_t n_copies)
    void sn_batch_free(sn_batch *batch)


cdef extern from "pool/sn_prepare.h" nogil:
    ctypedef struct sn_scratch:
        pass

    void sn_finish(sn_scratch *scratch, const sn_context *context, sn_batch_item *place, const sn_view *picture,
                   uint8_t *out)
    void sn_batch_item_from_storage(sn_batch_item *place)
    int sn_batch_item_was_fetched(const sn_context *context, const sn_batch_item *place)
    void sn_abandon(const sn_context *context, sn_batch_item *place, int status, const char *message)
    void sn_abandon_unfinished(sn_batch *batch)


cdef extern from "pool/sn_pool.h" nogil:
    enum:
        SN_MOST_READERS

    ctypedef struct sn_pools:
        pass

    ctypedef struct sn_pool:
        pass

    sn_pool *sn_pool_new(uint32_t threads, uint32_t most, uint64_t max_pixels, sn_pools *pools)
    void sn_pool_limit(sn_pool *pool, uint32_t threads)
    int sn_pool_end(sn_pool *pool, int patience_ms)
    void sn_pool_free(sn_pool *pool)
    uint32_t sn_pool_threads(const sn_pool *pool, int32_t *numbers, uint32_t most)
    void sn_pool_submit(sn_pool *pool, sn_batch *batch)
    int sn_pool_wait(sn_pool *pool, sn_batch *batch, int timeout_ms)
    void sn_pool_drop(sn_pool *pool, sn_batch *batch)
    sn_scratch *sn_pool_scratch(sn_pool *pool)

    ctypedef struct sn_wanted:
        uint64_t ticket, offset
        uint32_t container, length, n
        uint32_t *samples

    void sn_pool_enter(sn_pool *pool)
    void sn_pool_leave(sn_pool *pool)
    int sn_pool_next_fetch(sn_pool *pool, sn_wanted *wanted, int timeout_ms)
    int sn_pool_fetched(sn_pool *pool, uint64_t ticket, const uint8_t *bytes, size_t length, int rc, const char *why)


cdef extern from "pool/sn_copy_wait.h" nogil:
    ctypedef struct sn_copy_wait:
        pass

    int sn_copy_wait_turn(sn_copy_wait *await_, sn_pool *pool, sn_member *member, int timeout_ms)
    void sn_copy_wait_begin(sn_copy_wait *await_, sn_member *member, sn_batch *batch)
    void sn_copy_wait_add(sn_copy_wait *await_, sn_batch *batch)
    void sn_copy_wait_forget(sn_copy_wait *await_, sn_batch *batch)
    void sn_copy_wait_poll(sn_copy_wait *await_, sn_pool *pool, sn_member *member)
    int sn_copy_wait_batch(sn_copy_wait *await_, sn_pool *pool, sn_member *member, sn_batch *batch, int timeout_ms)


cdef class Batch


cdef class Stream:
    cdef sn_pool *pool         # owned; NULL once all of it is given back
    cdef bint closed           # nothing may be drawn any more
    cdef sn_context context          # points into what the next seven keep alive
    cdef readonly Member member
    cdef Plan plan
    cdef object paths, path_at, copies, boxes
    cdef Remote remote
    cdef Hosts hosts
    cdef sn_copy_wait awaited      # batches of which other jobs make some copies
    cdef sn_offers offers      # owned: private payloads to offer in the next draw
    cdef uint32_t until_check  # places until the next that is checked
    cdef set under_way         # batches submitted and not yet done
    cdef object lock           # around every method
    cdef uint64_t n_samples    # that have files
    cdef int owner             # the process that has the threads
    cdef sn_pool *open(self) except NULL
    cdef Batch draw_with_offers(self, out, others, given, turns)
    cdef bint end(self, int patience_ms)
    cdef object leave_behind(self)


cdef class Batch:
    cdef sn_batch *handle      # owned
    cdef Stream stream
    cdef object out            # the arrays that the pool writes into
    cdef readonly object indices
