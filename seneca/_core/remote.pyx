"""The border to csrc/remote: owns the handle of a set of servers, drops the GIL, decides nothing."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

__all__ = ["Hosts", "Remote"]

NAMES = ("hits", "misses", "skipped", "stored", "short_lived", "refused", "failures", "wrong", "bytes")


cdef const uint8_t *name_of(bytes dataset) except NULL:
    if len(dataset) != SN_REMOTE_DATASET:
        raise ValueError(f"a dataset's fingerprint has {SN_REMOTE_DATASET} bytes, but this has {len(dataset)}")
    return <const uint8_t *><const char *>dataset


cdef const char *text_of(bytes text):
    """The characters of a text, which the caller keeps alive; NULL for None."""
    return NULL if text is None else <const char *>text


cdef class Remote:
    """Samples' files in the memory of Redis or Valkey servers. Any number of threads may use it at a time.

    Args:
        servers: Of each server: its name, which is the same on all hosts; the path of its Unix socket, or None;
            its numeric address, or None; its port; user and password, or None; the number of its database.
            With TLS, besides: the host that its certificate must name; the files of the CAs, of this client's
            certificate and of its key, or None.

    Raises:
        ValueError: An address is invalid.
    """

    def __cinit__(self, servers):
        cdef sn_remote_server *all
        cdef sn_tls_settings *tls
        cdef Py_ssize_t i
        kept = [
            [
                None if text is None else text.encode()
                for text in (name, path, address, user, password, *(secure or [None] * 4))
            ]
            for name, path, address, _, user, password, _, *secure in servers
        ]
        self.names = tuple(server[0] for server in servers)
        all = <sn_remote_server *>calloc(len(kept) or 1, sizeof(sn_remote_server))
        tls = <sn_tls_settings *>calloc(len(kept) or 1, sizeof(sn_tls_settings))
        try:
            if all == NULL or tls == NULL:
                raise MemoryError()
            for i, (name, path, address, user, password, host, ca_file, cert_file, key_file) in enumerate(kept):
                all[i].name = name
                all[i].path = text_of(path)
                all[i].address = text_of(address)
                all[i].user = text_of(user)
                all[i].password = text_of(password)
                all[i].port = servers[i][3]
                all[i].database = servers[i][6]
                all[i].tls = NULL if host is None else &tls[i]
                tls[i].host = text_of(host)
                tls[i].ca_file = text_of(ca_file)
                tls[i].cert_file = text_of(cert_file)
                tls[i].key_file = text_of(key_file)
            self.handle = sn_remote_new(all, len(kept))
        finally:
            free(all)
            free(tls)
        if self.handle == NULL:
            raise ValueError(f"no address of a server: {[server[1] or server[2] for server in servers]}")

    def __dealloc__(self):
        sn_remote_free(self.handle)

    cdef int lend(self, sn_remote **handle, uint8_t *to, bytes dataset) except -1:
        """Give the handle, and a dataset's fingerprint, to whoever keeps this object alive."""
        memcpy(to, name_of(dataset), SN_REMOTE_DATASET)
        handle[0] = self.handle
        return 0

    def get(self, bytes dataset, uint32_t sample, size_t most=0):
        """The file of a sample, of up to ``most`` bytes (0: its length is not known); None: it is not there."""
        cdef const uint8_t *name = name_of(dataset)
        cdef sn_wish wish = sn_wish(sample, 0, NULL, 0, 0, most)
        with nogil:
            sn_remote_get(self.handle, name, &wish, 1)
        try:
            return PyBytes_FromStringAndSize(<char *>wish.bytes, wish.length) if wish.is_found else None
        finally:
            free(wish.bytes)

    def put(self, bytes dataset, uint32_t sample, bytes file, *, bint replaces=False):
        """Leave the file of a sample there. No answer is waited for. What is there stays, unless this replaces it."""
        cdef const uint8_t *name = name_of(dataset)
        cdef const uint8_t *bytes_ = <const uint8_t *><const char *>file
        cdef size_t length = len(file)
        cdef sn_terms terms = sn_terms(0, replaces)
        with nogil:
            sn_remote_put(self.handle, name, sample, bytes_, length, terms)

    def ping(self, uint32_t server):
        """Whether a server serves this client. If not, its message in :meth:`counts` says why."""
        cdef int rc
        self.check(server)
        with nogil:
            rc = sn_remote_ping(self.handle, server)
        return rc == 0

    def move(self, uint32_t server, address):
        """A server has another numeric address now."""
        self.check(server)
        if sn_remote_move(self.handle, server, address.encode()) != 0:
            raise ValueError(f"{address!r} is no address for {self.names[server]}")

    def server_of(self, bytes dataset, uint32_t sample):
        """The number of the server that has a sample."""
        return sn_remote_server_of(self.handle, name_of(dataset), sample)

    def counts(self, uint32_t server):
        """Requests to a server, and its answers: a dict of counts, ``get_s``, ``left_alone`` and ``message``."""
        cdef sn_remote_counts counts
        self.check(server)
        with nogil:
            sn_remote_read_counts(self.handle, server, &counts)
        values = (counts.hits, counts.misses, counts.skipped, counts.stored, counts.short_lived, counts.refused, counts.failures,
                  counts.wrong, counts.bytes)
        return {
            **dict(zip(NAMES, values, strict=True)),
            "get_s": counts.get_ns * 1e-9,
            "left_alone": counts.is_left_alone != 0,
            "message": counts.message.decode(errors="replace"),
        }

    cdef int check(self, uint32_t server) except -1:
        if server >= len(self.names):
            raise IndexError(server)
        return 0


cdef class Hosts:
    """The hosts that share exact copies on these servers, for all epochs of one loader.

    Args:
        remote: The servers.
        sequence: 16 bytes that name the copies of all epochs, and the order in which hosts come to them.
        host: 64 bits that name this host.
    """

    def __cinit__(self, Remote remote not None, bytes sequence, uint64_t host):
        self.remote = remote
        self.handle = sn_hosts_new(remote.handle, name_of(sequence), host)
        if self.handle == NULL:
            raise MemoryError()

    def __dealloc__(self):
        sn_hosts_free(self.handle)

    cdef int lend(self, sn_hosts **handle, uint8_t *to, bytes copies) except -1:
        """Begin an epoch whose copies have this name. Give the handle and the name to whoever keeps this object alive."""
        memcpy(to, name_of(copies), SN_REMOTE_DATASET)
        sn_hosts_begin(self.handle, to)
        handle[0] = self.handle
        return 0
