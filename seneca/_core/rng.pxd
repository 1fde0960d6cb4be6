"""What sn_rng.h declares, and the class that shows it to tests."""

from libc.stdint cimport uint32_t, uint64_t


cdef extern from "base/sn_rng.h" nogil:
    ctypedef struct sn_rng:
        pass

    enum sn_stream:
        SN_STREAM_AUGMENT
        SN_STREAM_ORDER
        SN_STREAM_CHOOSE
        SN_STREAM_ERASE

    void sn_philox(const uint32_t *key, const uint32_t *counter, uint32_t *out)
    void sn_rng_start(sn_rng *rng, uint64_t seed, uint64_t nonce, uint32_t epoch, uint32_t index,
                      sn_stream stream)
    uint32_t sn_rng_u32(sn_rng *rng)
    double sn_rng_double(sn_rng *rng)
    uint32_t sn_rng_below(sn_rng *rng, uint32_t n)


cdef class Rng:
    cdef sn_rng value
