/*
 * cache.h -- a segment in the hands of a test: several handles on one mapping.
 *
 *   handle 0 --own descriptor, mutex, locks--+
 *   handle 1 --own descriptor, mutex, locks--+--> one mapping of one segment
 *   handle 2 --own descriptor, mutex, locks--+
 *
 * A handle is what a process has. Threads with a handle each exclude each other by the kernel's
 * lock alone, as processes do; that they share a mapping, which processes do not, lets
 * ThreadSanitizer see that two of them touch the same byte.
 *
 * Owns       the shared memory object, whose name is gone once all handles are made.
 */
#ifndef CACHE_H
#define CACHE_H

#include "shm/sn_segment.h"

#define CACHE_MAX_HANDLES 16
#define CACHE_PATIENCE_MS 60000 /* a lock that is not to be had for so long is a hang */

typedef struct {
    sn_segment *handles[CACHE_MAX_HANDLES];
    uint32_t rows[CACHE_MAX_HANDLES]; /* the process's own, of each */
    uint32_t n_handles;
} cache;

/* A handle for each job key, which holds a row as an attached process does. `split`: shares of
 * storage, encoded, decoded, augmented in 1/10,000. */
void cache_make(cache *made, uint32_t n_handles, const uint64_t *job_keys, uint32_t n_samples, uint64_t payload_bytes,
                const uint32_t split[SN_FORMS]);

/* The same, of which so many granules have memory at first. */
void cache_make_part(cache *made, uint32_t n_handles, const uint64_t *job_keys, uint32_t n_samples,
                     uint64_t payload_bytes, uint32_t first_granules, const uint32_t split[SN_FORMS]);

/* The process of this handle dies: the kernel lets go of its locks, and nothing else happens. What
 * it has open may still be closed, which frees its memory and touches nothing that is shared. */
void cache_die(sn_segment *handle);

/* Nobody draws from it any more: check that derived state is what a rebuild makes of the truth, that the living hold
 * nothing, and that each granule is free or of one payload. */
void cache_check_empty(sn_segment *segment);

/* ... of the first handle. Then close all. */
void cache_check_and_close(cache *made);

/* Close it as it is. */
void cache_close(cache *made);

#endif
