/*
 * fake_host.h -- a server that speaks as Redis does, lies as the test says, and dies when it has to.
 *
 *   client --GET, SET, DEL, PING--> a thread for each connection --> values of HOST_SAMPLES samples, and one that is
 *                                                                    no sample, of each of HOST_NAMES names
 *
 * It keeps what a SET with PX brings for ever.
 *
 * Lives in   threads of its own, on the loopback; one a program.
 * Callers    any thread.
 */
#ifndef FAKE_HOST_H
#define FAKE_HOST_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/sn_rng.h"

#define HOST_SAMPLES 64u
#define HOST_NAMES 16u
#define HOST_MOST_BYTES 65536u
#define HOST_CONNECTIONS 64u

enum lie { TRUTH, FLIPPED, OTHERS, SHORTER, RUBBISH, HALF, CLOSES, ERROR, SILENT, HUGE_LENGTH, LIES };

typedef struct {
    pthread_mutex_t mutex;
    int listener;
    pthread_t listens;
    uint16_t port;
    char names[HOST_NAMES][40]; /* in its keys, as they came first */
    uint8_t *values[HOST_NAMES][HOST_SAMPLES + 1];
    size_t lengths[HOST_NAMES][HOST_SAMPLES + 1];
    int connections[HOST_CONNECTIONS]; /* descriptors; 0: none */
    atomic_uint lies;                  /* a bit for each lie that it may use */
    atomic_uint threads;               /* that serve */
    atomic_int is_dead;                /* connections end, and so do new ones; set it with fake_host_die() */
    atomic_int ending;
    atomic_uint lies_used[LIES]; /* how often, of each lie */
    sn_rng rng;
} fake_host;

extern fake_host host;

/* Begin to serve, on host.port. */
void fake_host_start(uint64_t seed);

/* As a crash would end it: what it had is gone. It comes back empty, on the same port. */
void fake_host_die(void);
void fake_host_come_back(void);

/* How many samples it has of a name, of 16 bytes. */
uint32_t fake_host_count(const void *name);

/* End, once all clients are gone. */
void fake_host_end(void);

#endif
