/*
 * sn_server.h -- one Redis or Valkey server: connections to it, and what is to be done while it fails.
 *
 *   may_ask --yes--> send --> receive --> a connection with the answer --> done, or give_up
 *           --no --> it is left alone
 *
 * Connections are made as they are needed, and kept. After three failures in a row the server is left alone for a
 * second, then for twice as long each time, up to half a minute. One caller then tries it again.
 *
 * With TLS one thread at a time connects, and the others wait for its connection or their turn. A handshake takes the
 * server as long as some ten GETs, and if all threads of all hosts began with one, most of them would time out.
 *
 * Lives in   private memory.
 * Callers    any number of threads at a time.
 * Blocking   as sn_connection.h says; with TLS 200 ms more, for others' handshakes.
 * Ordering   a mutex guards connections and counters. A connection has one user at a time.
 * Errors     counted, with a message for sn_server_read_counts().
 */
#ifndef SN_SERVER_H
#define SN_SERVER_H

#include "sn_connection.h"
#include "sn_resp.h"
#include "sn_tls.h"

#include <stddef.h>
#include <stdint.h>

#define SN_SERVER_MOST ((1u << 30) + 64) /* bytes of an answer */

typedef struct sn_server sn_server;

/* Texts are copied. */
typedef struct {
    const char *name;    /* as all hosts call it: it decides which samples are there */
    const char *path;    /* of a Unix socket; NULL: it has an address */
    const char *address; /* numeric, IPv4 or IPv6 */
    uint16_t port;
    const char *user;     /* NULL: the server's default user */
    const char *password; /* NULL: none is asked for */
    uint32_t database;
    const sn_tls_settings *tls; /* NULL: without TLS */
} sn_remote_server;

typedef struct {
    uint64_t hits, misses; /* GETs that were answered */
    uint64_t skipped;      /* samples that were not asked for: the server was left alone */
    uint64_t stored;       /* SETs that were answered with OK */
    uint64_t short_lived;  /* SETs that were sent of what goes by itself: copies, rosters */
    uint64_t refused;      /* SETs that failed because the server's memory is full */
    uint64_t failures;     /* of connections, and invalid answers */
    uint64_t wrong;        /* values with another checksum, sample, length or type */
    uint64_t bytes;        /* of the hits */
    uint64_t get_ns;       /* that the hits took */
    int is_left_alone;
    char message[SN_TLS_WHY]; /* of the last failure; empty: there was none */
} sn_remote_counts;

/* NULL when memory is short, or the address is invalid. The server is not asked yet. */
sn_server *sn_server_new(const sn_remote_server *about);

/* It is in use no longer. Waits shortly until what was sent last has arrived. */
void sn_server_free(sn_server *self);

/* It has another address now. 0, or -EINVAL. */
int sn_server_move(sn_server *self, const char *address);

/* Whether a caller may ask now. If it may, sn_server_send() has to follow; else so many samples are skipped. */
int sn_server_may_ask(sn_server *self, uint32_t samples);

/* Send commands. The connection, whose answers sn_server_receive() has to read; NULL: the server has failed, which is
 * counted. */
sn_connection *sn_server_send(sn_server *self, const uint8_t *commands, size_t length);

/* Read the first line of the first answer, which is no error, except that a key holds another type. If the server had closed the connection meanwhile, the commands
 * are sent once more, on another one. The connection, which has to end with sn_server_done() or sn_server_give_up(); NULL: the
 * server has failed, which is counted. */
sn_connection *sn_server_receive(sn_server *self, sn_connection *one, const uint8_t *commands, size_t length,
                                 sn_answer *answer);

/* Read the first line of the next answer, likewise. 0, or the code for sn_server_give_up(). */
int sn_server_next(sn_connection *one, sn_answer *answer);

/* All answers were read, and the server serves, unless too many values were wrong. */
void sn_server_done(sn_server *self, sn_connection *one);

/* The connection has failed with this code, after this answer. */
void sn_server_give_up(sn_server *self, sn_connection *one, int rc, const sn_answer *answer);

/* Whether something may be sent to be stored: the server serves, and has room. */
int sn_server_wants(sn_server *self);

/* Send a SET, whose answer is read later. `parts` is overwritten. `is_short_lived`: what it sets goes by itself. */
void sn_server_set(sn_server *self, struct iovec *parts, size_t n, int is_short_lived);

/* Add what was found out about answers that are right: hits, misses, bytes and get_ns. */
void sn_server_count(sn_server *self, const sn_remote_counts *more);

/* Count a wrong value, which took so long. With many of them sn_server_done() leaves the server alone, as if it had failed. */
void sn_server_count_wrong(sn_server *self, uint64_t took_ns);

void sn_server_read_counts(sn_server *self, sn_remote_counts *counts);

#endif
