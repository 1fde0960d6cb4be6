"""What csrc/pool declares, and the classes that own its handles."""

from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t

from seneca._core.codec cimport Plan, sn_plan, sn_view
from seneca._core.store cimport Member, sn_item, sn_member, sn_offer, sn_segment


cdef extern from "pool/sn_batch.h" nogil:
    ctypedef struct sn_trip:
        const sn_plan *plan
        uint32_t height, width
        uint64_t item_bytes
        sn_segment *segment
        const char *paths
        const uint64_t *path_at
        uint64_t seed, nonce, job_key
        uint32_t epoch

    ctypedef struct sn_spent:
        uint64_t read, prepare, decode, augment

    ctypedef struct sn_place:
        sn_item item
        int32_t status
        uint32_t read_bytes, damaged
        uint8_t check, different
        sn_spent spent
        char *message
        uint8_t *kept
        sn_offer offer

    ctypedef struct sn_copy:
        uint8_t *payload
        sn_offer offer

    ctypedef struct sn_batch:
        const sn_trip *trip
        sn_place *places
        uint32_t n_places
        uint8_t *out
        sn_copy *copies
        uint32_t n_copies

    void sn_batch_settle(sn_batch *batch, sn_member *member)
    void sn_batch_choose_checks(sn_batch *batch, uint32_t n_places, uint32_t every, uint32_t *left)
    sn_batch *sn_batch_new(const sn_trip *trip, uint32_t n_places, uint32_t n_copies)
    void sn_batch_free(sn_batch *batch)


cdef extern from "pool/sn_prepare.h" nogil:
    ctypedef struct sn_bench:
        pass

    void sn_finish(sn_bench *bench, const sn_trip *trip, sn_place *place, const sn_view *picture, uint8_t *out)
    void sn_place_from_storage(sn_place *place)
    void sn_abandon(const sn_trip *trip, sn_place *place, int status, const char *message)


cdef extern from "pool/sn_pool.h" nogil:
    ctypedef struct sn_pool:
        pass

    sn_pool *sn_pool_new(uint32_t threads, uint64_t max_pixels)
    int sn_pool_end(sn_pool *pool, int patience_ms)
    void sn_pool_free(sn_pool *pool)
    void sn_pool_submit(sn_pool *pool, sn_batch *batch)
    int sn_pool_wait(sn_pool *pool, sn_batch *batch, int timeout_ms)
    void sn_pool_drop(sn_pool *pool, sn_batch *batch)
    sn_bench *sn_pool_bench(sn_pool *pool)


cdef class Batch


cdef class Stream:
    cdef sn_pool *pool         # owned; NULL once all of it is given back
    cdef bint closed           # nothing may be drawn any more
    cdef sn_trip trip          # points into what the next three keep alive
    cdef readonly Member member
    cdef Plan plan
    cdef object paths, path_at, copies
    cdef uint32_t *note        # into copies; NULL: nobody wants to know
    cdef sn_copy *offers       # owned: private payloads to offer in the next draw
    cdef uint32_t n_offers, offers_capacity
    cdef uint32_t check_every, until_check  # 0: nothing is checked
    cdef set under_way         # batches submitted and not yet done
    cdef object lock           # around every method
    cdef int owner             # the process that has the threads
    cdef sn_pool *open(self) except NULL
    cdef Batch draw_with_offers(self, out)
    cdef bint end(self, int patience_ms)
    cdef object leave_behind(self)
    cdef int collect_offer(self, sn_place *place) except -1


cdef class Batch:
    cdef sn_batch *handle      # owned
    cdef Stream stream
    cdef object out            # the array that the pool writes into
    cdef readonly object indices
    cdef sn_place *place(self, uint32_t position) except NULL
