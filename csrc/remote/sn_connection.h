/*
 * sn_connection.h -- a connection to a Redis or Valkey server: commands go out, answers come in.
 *
 *   sn_remote --words--> sn_connection --bytes--> sn_tls, where there is one --> sn_socket
 *
 * Lives in   private memory.
 * Callers    one at a time.
 * Blocking   200 ms to connect, the TLS handshake included; 100 ms without a byte. An answer that trickles is given up
 *            after half a second and 10 us for each of its bytes, and after 10 s in any case.
 * Errors     -errno; -EPROTO: no server says this. After an error the connection can only be closed.
 */
#ifndef SN_CONNECTION_H
#define SN_CONNECTION_H

#include "sn_resp.h"
#include "sn_tls.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

typedef struct sn_connection {
    struct sn_connection *next; /* the owner's */
    uint32_t owed;              /* the owner's: unread answers to SET and DEL */
    int is_fresh;               /* the owner's: no answer has come on it */
    int fd;
    sn_tls *tls;        /* NULL: without */
    size_t from, until; /* of `bytes`: received, and not read */
    uint8_t bytes[4096];
    char why[SN_TLS_WHY]; /* it has failed, if this says more than the code; else empty */
} sn_connection;

/* A connection, with TLS if there is a context. 0, and then sn_connection_close() is owed; else `why` may say more than
 * the code. */
int sn_connection_open(const struct sockaddr *address, socklen_t length, sn_tls_context *tls, sn_connection **opened,
                       char why[SN_TLS_WHY]);

void sn_connection_close(sn_connection *self);

/* Send bytes. `parts` is overwritten. */
int sn_connection_send(sn_connection *self, struct iovec *parts, size_t n);

/* Send a command, of a kilobyte at the most. */
int sn_connection_say(sn_connection *self, const sn_word *words, uint32_t n);

/* Read the first line of an answer, whose BYTES are no more than `most`. The answer's text stays in the connection
 * until the next call. */
int sn_connection_answer(sn_connection *self, uint64_t most, sn_answer *answer);

/* The bytes that an answer has announced, and the CR LF behind them, into a buffer from malloc() that grows. */
int sn_connection_bytes(sn_connection *self, size_t length, uint8_t **bytes, size_t *capacity);

#endif
