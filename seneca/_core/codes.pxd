"""The codes that csrc answers with."""


cdef extern from "base/sn_status.h" nogil:
    enum:
        SN_OK
        SN_MISS
        SN_FULL
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
        SN_E_RECORDS
        SN_E_MAPPING
        SN_E_FOR_PILLOW
        SN_E_DECODE
        SN_E_TOO_LARGE
        SN_E_PLAN


cdef int check(int rc) except -1  # raises what a failure of csrc/shm, csrc/store or csrc/member means
