/*
 * sn_early.h -- a pool that works for an epoch which nobody has asked for yet.
 *
 *   epoch ends --> early: its first batches, then files into the page cache --> the epoch begins with what is complete
 *                    |
 *                    +-- gives way while another pool of the process has a task that is not done, and while
 *                        child processes read, which may be the workers of another loader
 *
 * Lives in   private memory: the pool's, and sn_pools, which the pools of a process share.
 * Callers    the pool's threads and fetchers; the iterator's.
 * Blocking   on storage, as sn_read.h says, without the pool's mutex.
 * Ordering   the pool's mutex is held in every call but sn_early_begin(), _bring(), _go_on() and _brought(), which take it,
 *            and sn_early_free(). What sn_pools counts is a hint, and relaxed.
 * Fork       a child counts its own pools only.
 */
#ifndef SN_EARLY_H
#define SN_EARLY_H

#include "sn_threads.h"

/* The pool is early. Nothing was submitted to it yet. */
void sn_early_begin(sn_pool *pool);

/* Once its batches need no thread, bring the files of these samples into the page cache, in this order, until that were so
 * many bytes. The context outlives the pool. What it was to bring before is forgotten. 0; -ENOMEM. */
int sn_early_bring(sn_pool *pool, const sn_context *context, const uint32_t *samples, uint32_t n, uint64_t bytes);

/* Its epoch has begun, with all its batches: it gives way no more, and brings the files that are left to be brought. */
void sn_early_go_on(sn_pool *pool);

/* Whether there is something to do, and it is to be left until others have less to do. */
int sn_early_gives_way(sn_pool *pool);

/* Sleep before asking that again: a few milliseconds, or until the condition is signalled, or until this moment of
 * CLOCK_MONOTONIC, in nanoseconds. */
void sn_early_pause(sn_pool *pool, pthread_cond_t *condition, uint64_t until_ns);

/* Whether files are to be brought. */
static inline int sn_early_has_files(const sn_pool *pool)
{
    return pool->early.next < pool->early.n;
}

/* How many files were brought. */
uint32_t sn_early_brought(sn_pool *pool);

/* Bring one of them, by this thread. The mutex is not held meanwhile. */
void sn_early_bring_one(sn_pool *pool, struct sn_thread *self);

void sn_early_free(sn_pool *pool);

#endif
