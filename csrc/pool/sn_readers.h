/*
 * sn_readers.h -- brings files before a preparer needs them: by the pool's readers, or by fetchers.
 *
 *   claim_read -->  a reader reads the file           --> ahead --> a preparer
 *             \-->  a fetcher: ticket ... its bytes  --/
 *
 * Files come from other hosts too: sn_remote_batch.h.
 *
 * Fetchers wait for places in sn_pool_next_fetch(), and bring their bytes to sn_pool_fetched(). In between they hold a
 * ticket and no memory of the pool's. Once the places' batches are dropped the ticket is void: a fetcher that hangs in
 * the network blocks no other thread, and what it brings late is thrown away.
 *
 * Lives in   private memory.
 * Callers    sn_pool.c, with the mutex. Fetchers, between sn_pool_enter() and sn_pool_leave(), without.
 * Blocking   sn_pool_next_fetch(), up to its time-out.
 * Ordering   one mutex; a place's work is done outside it.
 */
#ifndef SN_READERS_H
#define SN_READERS_H

#include "sn_threads.h"

/* Let those readers go on that may read beyond so many at a time. */
void sn_pool_wake_readers(sn_pool *pool, uint32_t beyond);

/* After a place that is prepared, which took a core so long: choose how many readers there are. */
void sn_pool_choose_readers(sn_pool *pool, const sn_batch_item *place, uint64_t busy_ns);

/* A fetcher is about to call the next three, and has called them. The pool is not ended between the two. Whoever enters
 * knows that its end has not been asked for: in Python, what asks holds the GIL, as the one who enters does. */
void sn_pool_enter(sn_pool *pool);
void sn_pool_leave(sn_pool *pool);

/* Whether the pool is to end, which waits for those that have entered. */
int sn_pool_ends(sn_pool *pool);

/* Wait for places whose bytes one request can fetch: one, and its neighbours. What another host has left is taken here,
 * and need not be fetched. 0; SN_BUSY: there is none within the time; SN_E_CLOSED: the pool ends. */
int sn_pool_next_fetch(sn_pool *pool, sn_wanted *wanted, int timeout_ms);

/* The bytes of a ticket's range, which are copied; or `rc`, -errno, and `why` they cannot be fetched. Places that were to
 * be fetched together are then fetched one by one. Bytes are left for other hosts. Whoever has brought them asks for the
 * next, in the place of this request. SN_MISS: the ticket is void, and nothing was done. */
int sn_pool_fetched(sn_pool *pool, uint64_t ticket, const uint8_t *bytes, size_t length, int rc, const char *why);

/* The same, of bytes in memory of malloc(). The pool may keep that, which spares a copy, and give other memory for it: NULL, if
 * it has none. */
int sn_pool_fetched_in(sn_pool *pool, uint64_t ticket, uint8_t **bytes, size_t *capacity, size_t length);

/* Whether more may be read, or fetched, before preparers need it. */
static inline int sn_pool_may_read(const sn_pool *pool)
{
    return sn_readahead_may_read(&pool->ahead, pool->limit, pool->fetches.bytes);
}

/* Whether a place is to be fetched before a preparer can take it. */
static inline int sn_batch_item_is_to_be_fetched(const sn_batch_item *place)
{
    return place->stage == SN_DRAWN && place->batch->context->is_external && sn_batch_item_needs_file(place);
}

#endif
