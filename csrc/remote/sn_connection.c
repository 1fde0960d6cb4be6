#define _GNU_SOURCE
#include "sn_connection.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../base/sn_status.h"
#include "sn_socket.h"

#define CONNECT_NS 200000000u
#define ANSWER_NS 500000000u /* for an answer, and 10 us for each of its bytes */
#define BYTE_NS 10000u
#define LONGEST_NS 10000000000u /* for a value of any length */
#define ALERT 21                /* the first byte of what a server says that wants TLS, and gets a command */

int sn_connection_open(const struct sockaddr *address, socklen_t length, sn_tls_context *tls, sn_connection **opened,
                       char why[SN_TLS_WHY])
{
    uint64_t deadline = sn_now_ns() + CONNECT_NS;
    sn_connection *self = calloc(1, sizeof *self);
    int rc;

    *why = '\0';
    if (!self)
        return -ENOMEM;
    self->is_fresh = 1;
    rc = self->fd = sn_socket_connect(address, length, deadline);
    if (rc >= 0)
        rc = tls ? sn_tls_open(tls, self->fd, deadline, &self->tls, why) : 0;
    if (rc != 0) {
        sn_connection_close(self);
        return rc;
    }
    *opened = self;
    return 0;
}

void sn_connection_close(sn_connection *self)
{
    sn_tls_close(self->tls);
    if (self->fd >= 0)
        close(self->fd);
    free(self);
}

/* Keep what is known of a failure beside its code. A peer that wants TLS, or a certificate, closes the connection, and
 * what it says before that may be lost. */
static void note(sn_connection *self, ssize_t rc)
{
    if (rc == -EPROTO && self->tls)
        memcpy(self->why, sn_tls_why(self->tls), SN_TLS_WHY);
    else if (self->is_fresh && (rc == -ECONNRESET || rc == -EPIPE))
        snprintf(self->why, sizeof self->why, "%s; %s", strerror((int)-rc),
                 self->tls ? "if the server wants a certificate of its clients, name one with ?ssl_certfile="
                           : "if the server wants TLS, write rediss://");
}

int sn_connection_send(sn_connection *self, struct iovec *parts, size_t n)
{
    uint64_t deadline = sn_now_ns() + ANSWER_NS;

    for (size_t i = 0; i < n; i++)
        deadline += parts[i].iov_len * BYTE_NS;
    int rc = self->tls ? sn_tls_send(self->tls, parts, n, deadline) : sn_socket_send(self->fd, parts, n, deadline);
    note(self, rc);
    return rc;
}

int sn_connection_say(sn_connection *self, const sn_word *words, uint32_t n)
{
    uint8_t command[1024];
    struct iovec part = {.iov_base = command, .iov_len = sn_resp_command(command, sizeof command, n, words, n)};

    return part.iov_len ? sn_connection_send(self, &part, 1) : -EINVAL;
}

static ssize_t receive(sn_connection *self, uint8_t *to, size_t most, uint64_t deadline)
{
    ssize_t n =
        self->tls ? sn_tls_receive(self->tls, to, most, deadline) : sn_socket_receive(self->fd, to, most, deadline);
    note(self, n);
    return n;
}

int sn_connection_answer(sn_connection *self, uint64_t most, sn_answer *answer)
{
    uint64_t deadline = sn_now_ns() + ANSWER_NS;

    for (;;) {
        size_t used;
        int rc = sn_resp_answer(self->bytes + self->from, self->until - self->from, most, answer, &used);
        if (rc != SN_BUSY) {
            self->from += rc == 0 ? used : 0;
            return rc;
        }
        if (!self->tls && self->until > self->from && self->bytes[self->from] == ALERT) {
            snprintf(self->why, sizeof self->why, "the server wants TLS; write rediss://");
            return -EPROTO;
        }
        if (self->from) {
            memmove(self->bytes, self->bytes + self->from, self->until - self->from);
            self->until -= self->from;
            self->from = 0;
        }
        ssize_t n = receive(self, self->bytes + self->until, sizeof self->bytes - self->until, deadline);
        if (n < 0)
            return (int)n;
        self->until += (size_t)n;
    }
}

int sn_connection_bytes(sn_connection *self, size_t length, uint8_t **bytes, size_t *capacity)
{
    uint64_t patience = length < LONGEST_NS / BYTE_NS ? ANSWER_NS + length * BYTE_NS : LONGEST_NS;
    uint64_t deadline = sn_now_ns() + (patience < LONGEST_NS ? patience : LONGEST_NS);
    size_t whole = length + 2, at = self->until - self->from;

    if (whole > *capacity) {
        uint8_t *larger = realloc(*bytes, whole + whole / 2);
        if (!larger)
            return -ENOMEM;
        *bytes = larger;
        *capacity = whole + whole / 2;
    }
    at = at < whole ? at : whole;
    memcpy(*bytes, self->bytes + self->from, at);
    self->from += at;
    while (at < whole) {
        ssize_t n = receive(self, *bytes + at, whole - at, deadline);
        if (n < 0)
            return (int)n;
        at += (size_t)n;
    }
    return (*bytes)[length] == '\r' && (*bytes)[length + 1] == '\n' ? 0 : -EPROTO;
}
