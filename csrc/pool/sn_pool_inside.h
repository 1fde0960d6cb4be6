/*
 * sn_pool_inside.h -- a pool's own fields, and what its two halves have in common.
 *
 *   sn_pool.c   takes batches, prepares places, ends threads
 *   sn_bring.c  brings files before a preparer needs them: readers of its own, and fetchers
 *
 * Callers    these two files.
 * Ordering   one mutex, which the caller of each function here holds.
 */
#ifndef SN_POOL_INSIDE_H
#define SN_POOL_INSIDE_H

#include <pthread.h>
#include <sys/types.h>
#include <time.h>

#include "sn_pool.h"

struct sn_thread {
    pthread_t id;
    _Atomic int32_t number; /* the kernel's; 0: it has not begun */
    sn_pool *pool;
    sn_scratch scratch; /* a preparer's */
    /* The mutex's. */
    int64_t since_ms; /* it has its place in hand; 0: it has none */
    int ended;
};

struct sn_pool {
    pthread_mutex_t mutex;
    pthread_cond_t work, parked, reads, progress;
    pid_t owner;        /* a forked child has none of the threads, and waits for none */
    sn_scratch scratch; /* the iterator's own thread's */
    struct sn_thread *preparers, *readers; /* room for most_preparers, and for SN_MOST_READERS */
    uint32_t most_preparers;
    uint64_t max_pixels;

    /* The mutex's. */
    uint32_t n_preparers, n_readers, running;
    uint32_t limit; /* preparers from this one on are parked */
    int ending;
    sn_batch *first, *last; /* submitted, and with tasks that nobody has claimed */
    uint64_t submitted;
    sn_ahead ahead;
    int is_all_read; /* no place is left to be read ahead */
    int is_external; /* fetchers read, and no thread of ours */
    sn_fetches fetches;
    uint32_t fetchers; /* that have entered */
};

/* Begin a thread of the pool. 0, or why not. */
int sn_pool_start(sn_pool *pool, struct sn_thread *thread, void *(*run_as)(void *), size_t stack_bytes);

/* Let those readers go on that may read beyond so many at a time. */
void sn_pool_wake_readers(sn_pool *pool, uint32_t beyond);

/* After a place that is prepared, which took a core so long: choose how many readers there are. */
void sn_pool_choose_readers(sn_pool *pool, const sn_place *place, uint64_t busy_ns);

static inline int64_t sn_now_ms(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static inline uint64_t sn_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static inline struct timespec sn_time_at(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
}

static inline uint32_t sn_batch_tasks(const sn_batch *batch)
{
    return batch->n_copies + batch->n_places;
}

/* Whether a place is to be fetched before a preparer can take it. */
static inline int sn_place_is_to_be_fetched(const sn_place *place)
{
    return place->stage == SN_DRAWN && place->batch->context->is_external && sn_place_needs_file(place);
}

/* A task is done. */
static inline void sn_pool_finish_task(sn_pool *pool, sn_batch *batch)
{
    if (++batch->finished == sn_batch_tasks(batch))
        pthread_cond_broadcast(&pool->progress);
}

#endif
