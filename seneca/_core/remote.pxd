"""What csrc/remote declares, and the class that owns its handle."""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t


cdef extern from "remote/sn_tls.h" nogil:
    enum:
        SN_TLS_WHY

    ctypedef struct sn_tls_settings:
        const char *host
        const char *ca_file
        const char *cert_file
        const char *key_file


cdef extern from "remote/sn_remote.h" nogil:
    enum:
        SN_REMOTE_DATASET

    ctypedef struct sn_remote:
        pass

    ctypedef struct sn_remote_server:
        const char *name
        const char *path
        const char *address
        uint16_t port
        const char *user
        const char *password
        uint32_t database
        const sn_tls_settings *tls

    ctypedef struct sn_remote_counts:
        uint64_t hits, misses, skipped, stored, short_lived, refused, failures, wrong, bytes, get_ns
        int is_left_alone
        char message[SN_TLS_WHY]

    ctypedef struct sn_wish:
        uint32_t sample
        int is_found
        uint8_t *bytes
        size_t capacity, length, most

    ctypedef struct sn_terms:
        uint32_t lives_ms
        int replaces

    sn_remote *sn_remote_new(const sn_remote_server *servers, uint32_t n)
    void sn_remote_free(sn_remote *remote)
    int sn_remote_move(sn_remote *remote, uint32_t server, const char *address)
    void sn_remote_get(sn_remote *remote, const uint8_t *dataset, sn_wish *wishes, uint32_t n)
    void sn_remote_put(sn_remote *remote, const uint8_t *dataset, uint32_t sample, const uint8_t *bytes, size_t length,
                       sn_terms terms)
    int sn_remote_ping(sn_remote *remote, uint32_t server)
    uint32_t sn_remote_server_of(const sn_remote *remote, const uint8_t *dataset, uint32_t sample)
    void sn_remote_read_counts(sn_remote *remote, uint32_t server, sn_remote_counts *counts)


cdef extern from "remote/sn_hosts.h" nogil:
    ctypedef struct sn_hosts:
        pass

    sn_hosts *sn_hosts_new(sn_remote *remote, const uint8_t *sequence, uint64_t self)
    void sn_hosts_free(sn_hosts *hosts)
    void sn_hosts_begin(sn_hosts *hosts, const uint8_t *copies)


cdef class Remote:
    cdef sn_remote *handle  # owned
    cdef readonly tuple names
    cdef int lend(self, sn_remote **handle, uint8_t *to, bytes dataset) except -1
    cdef int check(self, uint32_t server) except -1


cdef class Hosts:
    cdef sn_hosts *handle  # owned
    cdef Remote remote     # which it uses
    cdef int lend(self, sn_hosts **handle, uint8_t *to, bytes copies) except -1
