"""What csrc/store declares of served samples, and the classes that members and workers are made of."""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

from seneca._core.segment cimport Segment, sn_holder, sn_slot


cdef extern from "store/sn_serve.h" nogil:
    ctypedef struct sn_item:
        uint32_t sample
        uint8_t source, keep, awaited, peer
        uint32_t source_slot, source_entry, target_slot, target_entry

    ctypedef struct sn_offer:
        uint32_t sample, length
        uint16_t height, width
        uint8_t form
        uint32_t slot, entry

    ctypedef struct sn_client:
        sn_holder *holder
        uint64_t decoded_pipeline, augmented_pipeline
        uint16_t height, width
        uint32_t copy_bytes, files_name
        uint8_t shares, keeps, recodes, exact


cdef class Participant:
    cdef Segment segment       # None for a private one; kept alive while it takes part
    cdef sn_slot *slot(self, uint32_t slot) except NULL


cdef class Answers:
    cdef sn_offer *array       # owned
    cdef uint32_t count


cdef sn_item *items_of(items) except NULL
