#define _GNU_SOURCE
#include "sn_tls.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../base/sn_library.h"
#include "sn_socket.h"

#define CHUNK 65536 /* bytes that are encrypted before they are sent, and received before they are decrypted */

/* -- OpenSSL's functions, of 1.1.1 and 3 -- */

#define FUNCTIONS(X)                                                                                                   \
    X(const void *, TLS_client_method, (void))                                                                         \
    X(void *, SSL_CTX_new, (const void *))                                                                             \
    X(void, SSL_CTX_free, (void *))                                                                                    \
    X(long, SSL_CTX_ctrl, (void *, int, long, void *))                                                                 \
    X(void, SSL_CTX_set_verify, (void *, int, void *))                                                                 \
    X(void, SSL_CTX_set_default_read_buffer_len, (void *, size_t))                                                     \
    X(void, SSL_CTX_set_default_passwd_cb, (void *, int (*)(char *, int, int, void *)))                                \
    X(int, SSL_CTX_set_default_verify_paths, (void *))                                                                 \
    X(int, SSL_CTX_load_verify_locations, (void *, const char *, const char *))                                        \
    X(int, SSL_CTX_use_certificate_chain_file, (void *, const char *))                                                 \
    X(int, SSL_CTX_use_PrivateKey_file, (void *, const char *, int))                                                   \
    X(void *, SSL_new, (void *))                                                                                       \
    X(void, SSL_free, (void *))                                                                                        \
    X(long, SSL_ctrl, (void *, int, long, void *))                                                                     \
    X(void *, SSL_get0_param, (void *))                                                                                \
    X(int, SSL_set1_host, (void *, const char *))                                                                      \
    X(void, SSL_set_hostflags, (void *, unsigned))                                                                     \
    X(void, SSL_set_bio, (void *, void *, void *))                                                                     \
    X(int, SSL_connect, (void *))                                                                                      \
    X(int, SSL_read, (void *, void *, int))                                                                            \
    X(int, SSL_write, (void *, const void *, int))                                                                     \
    X(int, SSL_get_error, (const void *, int))                                                                         \
    X(long, SSL_get_verify_result, (const void *))                                                                     \
    X(int, X509_VERIFY_PARAM_set1_ip_asc, (void *, const char *))                                                      \
    X(const char *, X509_verify_cert_error_string, (long))                                                             \
    X(void *, BIO_new_socket, (int, int))                                                                              \
    X(const void *, BIO_s_mem, (void))                                                                                 \
    X(void *, BIO_new, (const void *))                                                                                 \
    X(int, BIO_free, (void *))                                                                                         \
    X(long, BIO_ctrl, (void *, int, long, void *))                                                                     \
    X(unsigned long, ERR_get_error, (void))                                                                            \
    X(void, ERR_clear_error, (void))                                                                                   \
    X(const char *, ERR_reason_error_string, (unsigned long))

typedef struct {
#define MEMBER(answer, name, parameters) answer(*name) parameters;
    FUNCTIONS(MEMBER)
#undef MEMBER
} openssl;

static const struct {
    const char *name;
    size_t at; /* of `openssl` */
} MEMBERS[] = {
#define ROW(answer, name, parameters) {#name, offsetof(openssl, name)},
    FUNCTIONS(ROW)
#undef ROW
};

/* OpenSSL's macros and numbers, which are the same in both. */
enum {
    CTRL_READ_AHEAD = 41,
    CTRL_HOST_NAME = 55,
    CTRL_LEAST_VERSION = 123,
    TLS_1_2 = 0x0303,
    VERIFY_PEER = 1,
    FILE_PEM = 1,
    NO_PARTIAL_WILDCARDS = 4, /* as Python: *.host matches, and node*.host is refused */
    ERROR_WANT_READ = 2,
    ERROR_SYSCALL = 5,
    ERROR_ZERO_RETURN = 6,
    MEMORY_RESET = 1,
    MEMORY_INFO = 3,
    NOT_YET_VALID = 9,
    EXPIRED = 10,
    OTHER_HOST = 62,
    OTHER_ADDRESS = 64,
    UNEXPECTED_EOF = 294,
    ALERTS = 1000, /* reasons from here on are the server's */
};

static const char *const LIBRARIES[] = {"libssl.so.3", "libssl.so.1.1"};

struct sn_tls_context {
    openssl ssl;
    void *all; /* an SSL_CTX */
    char *host;
    int is_address;      /* the host */
    atomic_uint holders; /* the caller, and each connection */
};

struct sn_tls {
    sn_tls_context *context;
    void *ssl;
    void *out; /* the memory into which OpenSSL writes what is to be sent: its own socket may raise SIGPIPE */
    int fd;
    char why[SN_TLS_WHY];
};

static int load(openssl *self, char *why)
{
    void *library = sn_library(LIBRARIES, sizeof LIBRARIES / sizeof *LIBRARIES);

    if (!library) {
        snprintf(why, SN_TLS_WHY, "TLS needs OpenSSL, but neither %s nor %s can be loaded here; install openssl",
                 LIBRARIES[0], LIBRARIES[1]);
        return -ENOENT;
    }
    for (size_t i = 0; i < sizeof MEMBERS / sizeof *MEMBERS; i++) {
        void *found = dlsym(library, MEMBERS[i].name);
        if (!found) {
            snprintf(why, SN_TLS_WHY, "TLS needs OpenSSL 1.1.1 or 3, but the one that is loaded here has no %s",
                     MEMBERS[i].name);
            return -ENOENT;
        }
        memcpy((char *)self + MEMBERS[i].at, &found, sizeof found);
    }
    return 0;
}

/* -- Contexts -- */

/* OpenSSL would ask for the password of a key on the terminal. */
static int no_password(char *to, int size, int is_new, void *data)
{
    (void)to, (void)size, (void)is_new, (void)data;
    return -1;
}

/* 0 if a file was loaded; else `why` names it. */
static int was_loaded(int is_loaded, const char *setting, const char *lacks, const char *path, char *why)
{
    if (is_loaded)
        return 0;
    if (access(path, R_OK) != 0)
        snprintf(why, SN_TLS_WHY, "TLS: %s cannot be read (%s): %s", setting, strerror(errno), path);
    else
        snprintf(why, SN_TLS_WHY, "TLS: %s has no %s: %s", setting, lacks, path);
    return -EINVAL;
}

static int load_files(sn_tls_context *self, const sn_tls_settings *settings, char *why)
{
    const openssl *ssl = &self->ssl;
    const char *ca = settings->ca_file, *cert = settings->cert_file;
    const char *key = settings->key_file ? settings->key_file : cert;
    int rc = 0;

    if (ca)
        rc = was_loaded(ssl->SSL_CTX_load_verify_locations(self->all, ca, NULL) == 1, "ssl_ca_certs",
                        "certificate in PEM", ca, why);
    else
        ssl->SSL_CTX_set_default_verify_paths(self->all);
    if (rc == 0 && cert)
        rc = was_loaded(ssl->SSL_CTX_use_certificate_chain_file(self->all, cert) == 1, "ssl_certfile",
                        "certificate in PEM", cert, why);
    if (rc == 0 && cert)
        rc = was_loaded(ssl->SSL_CTX_use_PrivateKey_file(self->all, key, FILE_PEM) == 1, "ssl_keyfile",
                        "key of that certificate in PEM, without a password", key, why);
    return rc;
}

sn_tls_context *sn_tls_context_new(const sn_tls_settings *settings, char why[SN_TLS_WHY])
{
    sn_tls_context *self = calloc(1, sizeof *self);
    uint8_t address[sizeof(struct in6_addr)];
    int rc = -ENOMEM;

    snprintf(why, SN_TLS_WHY, "%s", strerror(ENOMEM));
    if (!self)
        return NULL;
    atomic_init(&self->holders, 1);
    self->host = strdup(settings->host);
    self->is_address =
        inet_pton(AF_INET, settings->host, address) == 1 || inet_pton(AF_INET6, settings->host, address) == 1;
    rc = self->host ? load(&self->ssl, why) : -ENOMEM;
    if (rc == 0) {
        self->ssl.ERR_clear_error();
        self->all = self->ssl.SSL_CTX_new(self->ssl.TLS_client_method());
        rc = self->all ? 0 : -ENOMEM;
    }
    if (rc == 0) {
        self->ssl.SSL_CTX_ctrl(self->all, CTRL_LEAST_VERSION, TLS_1_2, NULL);
        self->ssl.SSL_CTX_ctrl(self->all, CTRL_READ_AHEAD, 1, NULL);
        self->ssl.SSL_CTX_set_default_read_buffer_len(self->all, CHUNK);
        self->ssl.SSL_CTX_set_verify(self->all, VERIFY_PEER, NULL);
        self->ssl.SSL_CTX_set_default_passwd_cb(self->all, no_password);
        rc = load_files(self, settings, why);
        self->ssl.ERR_clear_error();
    }
    if (rc == 0)
        return self;
    sn_tls_context_release(self);
    return NULL;
}

void sn_tls_context_release(sn_tls_context *self)
{
    /* acq_rel: whoever frees it comes after all that others did with it. */
    if (!self || atomic_fetch_sub_explicit(&self->holders, 1, memory_order_acq_rel) > 1)
        return;
    if (self->all)
        self->ssl.SSL_CTX_free(self->all);
    free(self->host);
    free(self);
}

/* -- Connections -- */

static void say_why(sn_tls *self, unsigned long error)
{
    const openssl *ssl = &self->context->ssl;
    long refused = ssl->SSL_get_verify_result(self->ssl);
    const char *reason = refused ? ssl->X509_verify_cert_error_string(refused) : ssl->ERR_reason_error_string(error);

    if (!reason)
        reason = "the connection failed";
    if (refused == EXPIRED || refused == NOT_YET_VALID)
        snprintf(self->why, sizeof self->why, "TLS: %s; renew it, or set the clock of this host", reason);
    else if (refused == OTHER_HOST || refused == OTHER_ADDRESS)
        snprintf(self->why, sizeof self->why, "TLS: %s; the server's certificate is not for %s", reason,
                 self->context->host);
    else if (refused)
        snprintf(self->why, sizeof self->why, "TLS: %s; name the file of the server's CA with ?ssl_ca_certs=", reason);
    else
        snprintf(self->why, sizeof self->why, "TLS: %s%s", (error & 0xfff) >= ALERTS ? "the server says: " : "",
                 reason);
}

/* Send what OpenSSL has written. */
static int flush(sn_tls *self, uint64_t deadline)
{
    const openssl *ssl = &self->context->ssl;
    char *bytes = NULL;
    long n = ssl->BIO_ctrl(self->out, MEMORY_INFO, 0, &bytes);
    struct iovec part = {.iov_base = bytes, .iov_len = (size_t)n};

    if (n <= 0)
        return 0;
    int rc = sn_socket_send(self->fd, &part, 1, deadline);
    ssl->BIO_ctrl(self->out, MEMORY_RESET, 0, NULL);
    return rc;
}

/* The answer of a call of OpenSSL's, other than that it is done: 0: it is to be tried again. */
static int go_on(sn_tls *self, int answer, uint64_t deadline)
{
    const openssl *ssl = &self->context->ssl;
    int error_number = errno, kind = ssl->SSL_get_error(self->ssl, answer);
    unsigned long error = kind == ERROR_WANT_READ ? 0 : ssl->ERR_get_error();
    int rc = flush(self, deadline); /* an alert, too, says to the server what was wrong */

    if (kind == ERROR_WANT_READ)
        return rc != 0 ? rc : sn_socket_await(self->fd, POLLIN, deadline);
    if (kind == ERROR_ZERO_RETURN || (error & 0xfff) == UNEXPECTED_EOF)
        rc = -ECONNRESET;
    else if (kind == ERROR_SYSCALL && error == 0)
        rc = error_number ? -error_number : -ECONNRESET;
    else {
        say_why(self, error);
        rc = -EPROTO;
    }
    ssl->ERR_clear_error();
    return rc;
}

/* A server without TLS answers with other bytes, or waits for the end of a line that never comes. */
static int shake_hands(sn_tls *self, uint64_t deadline)
{
    const openssl *ssl = &self->context->ssl;
    int rc = 0, is_answered = 0;
    uint8_t first = 0;

    for (;;) {
        ssl->ERR_clear_error();
        errno = 0;
        int answer = ssl->SSL_connect(self->ssl);
        if (answer == 1)
            return flush(self, deadline);
        rc = go_on(self, answer, deadline);
        if (rc == 0 && !is_answered && recv(self->fd, &first, 1, MSG_PEEK) == 1) {
            is_answered = 1;
            if (first < 20 || first > 23) { /* the types of TLS's records */
                snprintf(self->why, sizeof self->why,
                         "TLS: what answers there does not speak it; write redis://, or give the server a certificate");
                return -EPROTO;
            }
        }
        if (rc == -ETIMEDOUT && !is_answered)
            snprintf(self->why, sizeof self->why, "TLS: the server does not answer, as one that does not speak it");
        else if (rc == -ECONNRESET || rc == -EPIPE)
            snprintf(self->why, sizeof self->why, "TLS: the server has closed the connection in the handshake");
        if (rc != 0)
            return rc;
    }
}

int sn_tls_open(sn_tls_context *context, int fd, uint64_t deadline, sn_tls **opened, char why[SN_TLS_WHY])
{
    const openssl *ssl = &context->ssl;
    sn_tls *self = calloc(1, sizeof *self);
    void *in = NULL;
    int rc = -ENOMEM;

    *why = '\0';
    if (!self)
        return rc;
    atomic_fetch_add_explicit(&context->holders, 1, memory_order_relaxed); /* the caller holds it */
    self->context = context;
    self->fd = fd;
    ssl->ERR_clear_error();
    self->ssl = ssl->SSL_new(context->all);
    in = ssl->BIO_new_socket(fd, 0);
    self->out = ssl->BIO_new(ssl->BIO_s_mem());
    if (self->ssl && in && self->out) {
        ssl->SSL_set_bio(self->ssl, in, self->out); /* which frees them */
        in = NULL;
        ssl->SSL_set_hostflags(self->ssl, NO_PARTIAL_WILDCARDS);
        int is_named = context->is_address
                           ? ssl->X509_VERIFY_PARAM_set1_ip_asc(ssl->SSL_get0_param(self->ssl), context->host)
                           : ssl->SSL_set1_host(self->ssl, context->host) &&
                                 ssl->SSL_ctrl(self->ssl, CTRL_HOST_NAME, 0, context->host);
        rc = is_named ? shake_hands(self, deadline) : -EINVAL;
    } else {
        ssl->BIO_free(self->out);
        ssl->BIO_free(in);
    }
    if (rc != 0) {
        memcpy(why, self->why, SN_TLS_WHY);
        sn_tls_close(self);
        return rc;
    }
    *opened = self;
    return 0;
}

/* Encrypt some bytes; they are sent once there are enough of them. */
static int put(sn_tls *self, const void *bytes, size_t n, uint64_t deadline)
{
    const openssl *ssl = &self->context->ssl;

    for (;;) {
        ssl->ERR_clear_error();
        errno = 0;
        int answer = ssl->SSL_write(self->ssl, bytes, (int)n);
        if (answer > 0)
            return 0; /* all of them: no part of a write is done without SSL_MODE_ENABLE_PARTIAL_WRITE */
        int rc = go_on(self, answer, deadline);
        if (rc != 0)
            return rc;
    }
}

int sn_tls_send(sn_tls *self, const struct iovec *parts, size_t n, uint64_t deadline)
{
    size_t waiting = 0;

    for (size_t i = 0; i < n; i++) {
        for (size_t at = 0, length; at < parts[i].iov_len; at += length) {
            length = parts[i].iov_len - at < CHUNK - waiting ? parts[i].iov_len - at : CHUNK - waiting;
            int rc = put(self, (const uint8_t *)parts[i].iov_base + at, length, deadline);
            waiting += length;
            if (rc == 0 && waiting == CHUNK) {
                rc = flush(self, deadline);
                waiting = 0;
            }
            if (rc != 0)
                return rc;
        }
    }
    return flush(self, deadline);
}

ssize_t sn_tls_receive(sn_tls *self, void *to, size_t most, uint64_t deadline)
{
    const openssl *ssl = &self->context->ssl;

    for (;;) {
        ssl->ERR_clear_error();
        errno = 0;
        int n = ssl->SSL_read(self->ssl, to, most < INT_MAX ? (int)most : INT_MAX);
        if (n > 0)
            return n;
        int rc = go_on(self, n, deadline);
        if (rc != 0)
            return rc;
    }
}

const char *sn_tls_why(const sn_tls *self)
{
    return self->why;
}

void sn_tls_close(sn_tls *self)
{
    if (!self)
        return;
    if (self->ssl)
        self->context->ssl.SSL_free(self->ssl);
    sn_tls_context_release(self->context);
    free(self);
}
