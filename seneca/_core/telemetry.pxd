"""What csrc/shm/sn_layout.h declares of what a process publishes of its work and its dataset."""

from libc.stdint cimport uint64_t


cdef extern from "shm/sn_layout.h" nogil:
    enum:
        SN_CAUSE_STORAGE, SN_CAUSE_DECODE, SN_CAUSE_AUGMENT, SN_CAUSE_ITEM, SN_CAUSE_BATCH, SN_CAUSE_CORES
        SN_CAUSE_PEERS, SN_CAUSE_OTHER

    ctypedef struct sn_work:
        uint64_t since_ms, published_ms
        uint64_t delivered
        uint64_t served[5]
        uint64_t unrecoded[3]
        uint64_t prepared, staged
        uint64_t skipped, damaged
        uint64_t read_bytes
        uint64_t stall_ns[8]
        uint64_t spent_ns[8]
        uint64_t epoch, place, places
        uint64_t threads, batch_size
        uint64_t rank, ranks
        char name[96]
        char dataset[64]

    ctypedef struct sn_trait:
        uint64_t name, digest

    ctypedef struct sn_dataset:
        uint64_t like, source, kind, n
        sn_trait traits[64]
        char apart[232]

    enum:
        SN_MOST_TRAITS

cdef dict as_dict(const sn_work *work)
