"""What sn_worker.h declares, and the class that owns its handle."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from seneca._core.member cimport sn_claim
from seneca._core.participant cimport Participant, sn_client, sn_item, sn_offer


cdef extern from "member/sn_worker.h" nogil:
    ctypedef struct sn_worker:
        pass

    int sn_worker_open(const sn_client *client, sn_worker **out)
    int sn_worker_begin(sn_worker *worker, uint32_t row, uint32_t row_generation, const sn_claim *claims,
                        uint32_t n_claims, sn_item *items, sn_offer *offers, uint32_t n_offers)
    void sn_worker_name_copies(sn_worker *worker, uint64_t pipeline)
    void sn_worker_name_files(sn_worker *worker, uint32_t files_name)
    int sn_worker_check_awaited(sn_worker *worker, uint32_t row, uint32_t row_generation, sn_item *items, uint32_t n_items,
                                int takes_over, const uint64_t *blamed)
    int sn_worker_done(sn_worker *worker, const sn_item *items, uint32_t n_items)
    int sn_worker_offer_done(sn_worker *worker, const sn_offer *offer)
    void sn_worker_learn(sn_worker *worker, uint32_t copy_bytes)
    void sn_worker_close(sn_worker *worker)


cdef class Worker(Participant):
    cdef sn_worker *handle     # owned; NULL once closed
    cdef sn_worker *open(self) except NULL
