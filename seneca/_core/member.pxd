"""What sn_member.h declares, and the class that owns its handle."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from seneca._core.participant cimport Participant, sn_client, sn_item, sn_offer
from seneca._core.segment cimport sn_segment


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


cdef extern from "member/sn_member.h" nogil:
    ctypedef struct sn_member:
        pass

    ctypedef struct atomic_uint32 "_Atomic uint32_t":
        pass

    ctypedef struct sn_member_options:
        sn_epoch epoch
        uint64_t job_key
        sn_client client
        uint32_t process_row
        uint32_t in_flight
        uint32_t wanted_alone
        uint8_t substitutes, hands_over
        uint64_t family

    ctypedef struct sn_claim:
        uint32_t sample, slot, generation, entry, awaited

    int sn_member_open(sn_segment *segment, const sn_member_options *options, sn_member **out, int *joined)
    int sn_member_draw(sn_member *member, uint32_t wanted, sn_item *items, uint32_t *drawn,
                       sn_offer *offers, uint32_t n_offers)
    int sn_member_check_awaited(sn_member *member, sn_item **items, uint32_t n_items, int takes_over,
                                const uint64_t *blamed)
    uint32_t sn_member_claims(const sn_member *member, const sn_item *items, uint32_t n_items, sn_claim *claims)
    uint32_t sn_member_row(const sn_member *member, uint32_t *generation)
    uint32_t sn_member_copy_bytes(const sn_member *member)
    void sn_member_done(sn_member *member, const sn_item *items, uint32_t n_items)
    void sn_member_offer_done(sn_member *member, const sn_offer *offer)
    uint32_t sn_member_left(const sn_member *member)
    uint32_t sn_member_coming(const sn_member *member, uint32_t *samples, uint32_t n)
    atomic_uint32 *sn_member_progress(const sn_member *member)
    int sn_member_expects(const sn_member *member)
    uint32_t sn_member_out_of_turn(const sn_member *member)
    int sn_member_retire(sn_member *member)
    void sn_member_close(sn_member *member)


cdef class Member(Participant):
    cdef sn_member *handle     # owned; NULL once closed
    cdef readonly bint shared
    cdef readonly bint exact
    cdef readonly object why_private
    cdef bint retired
    cdef sn_member *open(self) except NULL
    cdef uint32_t wanted_alone, files_seen
