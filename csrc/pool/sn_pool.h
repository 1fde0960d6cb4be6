/*
 * sn_pool.h -- the threads of one job that prepare batches, first come first served.
 *
 *   submit -->  batch | batch | batch  --> preparers take place after place from the first
 *                            |                ^
 *                            +--> readers ----+   while storage is slow to answer: they read files ahead
 *                            +--> fetchers ---+   where containers are external: the caller's threads bring the bytes
 *
 * Preparers use a core; there are as many as the user wants, or as sn_pool_limit() says: the others are parked. Readers sleep while storage finds their file; there are as
 * many as the preparers need never to be without one, and none where files come from the page cache. Both are nicer
 * than the training loop: the kernel gives a core to its thread first.
 *
 *   drop all --> end --0--> free
 *                 | ^
 *              SN_BUSY: a thread hangs in its place; leave all of it as it is, and ask again later
 *
 * Lives in   private memory; its fields are in sn_threads.h.
 *
 * Callers    the iterator's thread; one pool an iterator. Fetchers, between sn_pool_enter() and sn_pool_leave().
 * Blocking   sn_pool_wait() and sn_pool_next_fetch(), up to their time-outs; sn_pool_end(), up to its patience.
 * Ordering   one mutex; a place's work is done outside it.
 * Hanging    a read from storage may never return, and no thread can be taken out of it. What the thread may
 *            touch when it does return has to be there: the pool with its scratch memory, the batch with its
 *            output, the context with what it points to, the mapping; and what the place holds in the segment must
 *            stay held, because the thread may still write and commit it. Therefore a caller that gets SN_BUSY
 *            frees none of it.
 * Fork       in a child, whose copy has no threads, ending, freeing and dropping do nothing.
 */
#ifndef SN_POOL_H
#define SN_POOL_H

#include "sn_remote_batch.h"
#include "sn_batch.h"
#include "sn_readers.h"
#include "sn_prepare.h"

/* With 0 threads the waiting thread does the work. `most`: that sn_pool_limit() may ask for. `pools`: of the process, which
 * outlive it; NULL: it is alone. NULL when threads or memory are short. */
sn_pool *sn_pool_new(uint32_t threads, uint32_t most, uint64_t max_pixels, sn_pools *pools);

/* From now on so many threads prepare, at least 1: others are started, or parked once their place is done. */
void sn_pool_limit(sn_pool *pool, uint32_t threads);

/* End the threads; every batch must have been waited for or dropped. 0: all have ended, no fetcher is in a call, and
 * nobody works on any batch any more. SN_BUSY: a thread has been at its place for `patience_ms`, and may be for
 * ever. */
int sn_pool_end(sn_pool *pool, int patience_ms);

/* Once the threads have ended. */
void sn_pool_free(sn_pool *pool);

/* The kernel's numbers of its threads, `most` at the most; how many. What they take of the cores is in
 * /proc/<number>/schedstat. */
uint32_t sn_pool_threads(const sn_pool *pool, int32_t *numbers, uint32_t most);

void sn_pool_submit(sn_pool *pool, sn_batch *batch);

/* 0 when the batch is complete; SN_BUSY after `timeout_ms` without, and, where this thread does the work, when
 * a signal has interrupted it: handle it, and wait again. */
int sn_pool_wait(sn_pool *pool, sn_batch *batch, int timeout_ms);

/* The same, until this moment of CLOCK_MONOTONIC, in nanoseconds. */
int sn_pool_wait_until(sn_pool *pool, sn_batch *batch, uint64_t until_ns);

/* A place that was AWAITED when its batch was submitted is to be served or made, as its item says. */
void sn_pool_release(sn_pool *pool, sn_batch_item *place);

typedef struct {
    int is_idle;      /* no place is there that a preparer could take, of any batch */
    uint32_t left;    /* places and copies of this batch that are not finished */
    uint64_t mean_ns; /* that a place takes here, by the wall; 0: none was prepared yet */
} sn_pool_load;

sn_pool_load sn_pool_get_load(sn_pool *pool, const sn_batch *batch);

/* Its mean_ns alone. */
uint64_t sn_pool_mean_ns(sn_pool *pool);

/* Abandon what was not begun of a batch. It is complete, and nobody works on it, once the places in hand are done. */
void sn_pool_drop(sn_pool *pool, sn_batch *batch);

/* Tools for the iterator's own thread (sn_finish()). */
sn_scratch *sn_pool_scratch(sn_pool *pool);

#endif
