/*
 * sn_pool.h -- the threads of one job that prepare batches, first come first served.
 *
 *   submit -->  batch | batch | batch  --> threads take place after place from the first
 *
 * Lives in   private memory.
 * Callers    the iterator's thread; one pool an iterator.
 * Blocking   sn_pool_wait(), up to its time-out; sn_pool_drop() for places in hand.
 * Ordering   one mutex; a place's work is done outside it.
 * Fork       in a child, whose copy has no threads, freeing and dropping do nothing.
 */
#ifndef SN_POOL_H
#define SN_POOL_H

#include "sn_batch.h"
#include "sn_prepare.h"

typedef struct sn_pool sn_pool;

/* With 0 threads the waiting thread does the work. NULL when threads or memory are short. */
sn_pool *sn_pool_new(uint32_t threads, uint64_t max_pixels);

/* Ends the threads; every batch must have been waited for or dropped. */
void sn_pool_free(sn_pool *pool);

void sn_pool_submit(sn_pool *pool, sn_batch *batch);

/* 0 when the batch is complete; SN_BUSY after `timeout_ms` without. */
int sn_pool_wait(sn_pool *pool, sn_batch *batch, int timeout_ms);

/* Nobody works on the batch any more when this returns; what was not begun is abandoned. */
void sn_pool_drop(sn_pool *pool, sn_batch *batch);

/* Tools for the iterator's own thread (sn_finish()). */
sn_bench *sn_pool_bench(sn_pool *pool);

#endif
