/*
 * sn_remote.h -- samples' files in the memory of other hosts, on Redis or Valkey servers.
 *
 *   (dataset, sample) --rendezvous hashing--> one server --GET--> the file, if its checksum is right
 *                                                |
 *                                                +--SET NX--   what storage gave, for the other hosts
 *
 * A thread may ask, do something else, and take the files then. While it works the server does too, and it neither sleeps
 * nor is woken: either takes as long as copying a file.
 *
 * All clients that name the same servers search for a sample on the same one. A value never changes: its key has the
 * dataset's fingerprint. It ends with 32 bytes of ours (magic, sample, length, checksum). A value that does not fit is
 * deleted, and counts as missing.
 *
 * A server that fails is left alone for a while, as sn_server.h says. Meanwhile its samples are missing, and come from
 * storage. No other server gets them: it would have no room for them either.
 *
 * Lives in   private memory; one handle a process and set of servers.
 * Callers    any number of threads at a time. In a forked child each sample is missing.
 * Blocking   on the server, as sn_server.h says.
 * Ordering   as sn_server.h says.
 * Errors     none reach the caller: a sample is there or is missing. sn_remote_read_counts() has them.
 */
#ifndef SN_REMOTE_H
#define SN_REMOTE_H

#include "sn_server.h"

#include <stddef.h>
#include <stdint.h>

#define SN_REMOTE_DATASET 16         /* bytes of a dataset's fingerprint, which `dataset` always is */
#define SN_REMOTE_MOST (1u << 30)    /* bytes of a value */
#define SN_REMOTE_UNKNOWN (1u << 26) /* bytes of a value of unknown length, at the most */
/* Samples that are asked for together. 4 files of 110 KB take half of the CPU time of 4 that are asked for one by one: the server
 * is woken once. With 8 a file takes 3 us less, but no job got faster. */
#define SN_REMOTE_AT_ONCE 4u
#define SN_REMOTE_COMMAND 96u /* bytes of a GET, at the most */

typedef struct sn_remote sn_remote;

/* NULL when memory is short, or an address is invalid. No server is asked yet. */
sn_remote *sn_remote_new(const sn_remote_server *servers, uint32_t n);

/* It is in use no longer. Waits shortly until what was stored last has arrived. */
void sn_remote_free(sn_remote *remote);

/* The server has another address now, as after a restart elsewhere. 0, or -EINVAL. */
int sn_remote_move(sn_remote *remote, uint32_t server, const char *address);

/* A sample that is asked for, and its file in a buffer from malloc(), which grows and may be overwritten in any case. */
typedef struct {
    uint32_t sample;
    int is_found;
    uint8_t *bytes;
    size_t capacity, length;
    size_t most; /* bytes that the file may have; 0: it is not known. A server that announces more is not believed. */
} sn_wish;

/* GETs that one server has been sent. */
typedef struct {
    sn_server *server;
    sn_connection *connection; /* NULL: it has not, for it fails */
    sn_wish *wishes[SN_REMOTE_AT_ONCE];
    uint32_t n;
    size_t length; /* of the commands */
    uint8_t commands[SN_REMOTE_AT_ONCE * SN_REMOTE_COMMAND];
} sn_gets_of_server;

/* A request whose answer has to be taken. */
typedef struct {
    const uint8_t *dataset;
    uint32_t n_parts;
    sn_gets_of_server parts[SN_REMOTE_AT_ONCE];
} sn_gets;

/* Ask for the files of up to SN_REMOTE_AT_ONCE samples, without waiting for them. Each server gets the commands for all of its
 * samples at once. `dataset` and `wishes` stay until the files are taken, by this thread. */
void sn_remote_ask(sn_remote *remote, const uint8_t *dataset, sn_wish *wishes, uint32_t n, sn_gets *gets);

/* Take the files that were asked for, and wait for those that have not come. */
void sn_remote_take(const sn_gets *gets);

/* Do both. */
void sn_remote_get(sn_remote *remote, const uint8_t *dataset, sn_wish *wishes, uint32_t n);

/* All zero: it stays as long as the server does, and what is there stays. */
typedef struct {
    uint32_t lives_ms; /* it is gone after that; 0: it is not */
    int replaces;      /* what is there */
} sn_terms;

/* Leave the file of a sample there, unless there is no room. It is sent, but no answer is waited for. */
void sn_remote_put(sn_remote *remote, const uint8_t *dataset, uint32_t sample, const uint8_t *bytes, size_t length,
                   sn_terms terms);

/* Ask a server whether it serves this client: 0; else why not is in its message. */
int sn_remote_ping(sn_remote *remote, uint32_t server);

/* The number of the server that has a sample. */
uint32_t sn_remote_server_of(const sn_remote *remote, const uint8_t *dataset, uint32_t sample);

void sn_remote_read_counts(sn_remote *remote, uint32_t server, sn_remote_counts *counts);

#endif
