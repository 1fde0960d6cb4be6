/*
 * sn_threads.h -- what a pool and its threads are, and how a file comes to a preparer.
 *
 * Lives in   private memory.
 * Callers    sn_pool.c, sn_readers.c and sn_remote_batch.c, with the pool's mutex.
 * Blocking   never.
 * Ordering   one mutex; a place's work is done outside it.
 */
#ifndef SN_THREADS_H
#define SN_THREADS_H

#include <pthread.h>
#include <sys/types.h>

#include "../base/sn_clock.h"
#include "sn_readahead.h"
#include "sn_batch.h"
#include "sn_fetches.h"
#include "sn_prepare.h"

typedef struct sn_pool sn_pool;

/* Files that a preparer has asked other hosts for while it goes on preparing. */
typedef struct {
    const sn_context *context;
    uint32_t n;        /* 0: it has not asked */
    uint32_t prepared; /* places since */
    uint64_t took_ns;
    sn_batch_item *places[SN_REMOTE_AT_ONCE];
    sn_asked asked[SN_REMOTE_AT_ONCE];
    sn_question question;
} sn_asking;

struct sn_thread {
    pthread_t id;
    _Atomic int32_t number; /* the kernel's; 0: it has not begun */
    sn_pool *pool;
    sn_scratch scratch; /* a preparer's, as is the next */
    sn_asking asking;
    /* The mutex's. */
    int64_t since_ms; /* it has its place in hand; 0: it has none */
    int ended;
};

/* The pools of one process, as far as they know of each other: how many have a task that nobody has taken. All zero at
 * first. See sn_early.h. */
typedef struct {
    _Atomic uint64_t busy;
} sn_pools;

/* What a pool does before its epoch has begun. */
typedef struct {
    int is_early;
    const sn_context *context;
    uint32_t *samples; /* whose files are to be brought into the page cache; owned */
    uint32_t n, next, bringing;
    uint32_t brought;                                    /* files */
    uint64_t bytes;                                      /* that may yet be brought */
    uint64_t children_read, asked_ns, children_until_ns; /* see sn_early_gives_way() */
} sn_early;

struct sn_pool {
    pthread_mutex_t mutex;
    pthread_cond_t work, parked, reads, progress;
    pid_t owner;                           /* a forked child has none of the threads, and waits for none */
    sn_scratch scratch;                    /* the iterator's own thread's */
    struct sn_thread *preparers, *readers; /* room for most_preparers, and for SN_MOST_READERS */
    uint32_t most_preparers;
    uint64_t max_pixels;
    sn_pools *pools; /* NULL: it gives way to none, and none to it */

    /* The mutex's. */
    uint32_t n_preparers, n_readers, running;
    uint32_t limit; /* preparers from this one on are parked */
    int ending;
    sn_batch *first, *last; /* submitted, and with tasks that nobody has claimed */
    uint64_t submitted;
    uint32_t unfinished; /* batches with a task that is not done */
    sn_readahead ahead;
    int is_all_read; /* no place is left to be read ahead */
    int is_external; /* fetchers read, and no thread of ours */
    sn_fetches fetches;
    uint32_t fetchers; /* that have entered */
    int is_busy;       /* it is counted in `pools` */
    sn_early early;
};

/* Begin a thread of the pool. 0, or why not. */
int sn_pool_start(sn_pool *pool, struct sn_thread *thread, void *(*run_as)(void *), size_t stack_bytes);

/* Store the file, or the error, in its place. `together`: how many places this request brought; it took `took_ns`.
 * The mutex is held in this call and in the next two. */
void sn_pool_have(sn_pool *pool, sn_batch_item *place, const sn_file *file, uint64_t took_ns, uint32_t together);

/* The same, of a place that a preparer is to take. */
void sn_pool_arrive(sn_pool *pool, sn_batch_item *place, const sn_file *file, uint64_t took_ns, uint32_t together);

/* A request has not brought a place, and somebody else is to take it. */
void sn_pool_give_back(sn_pool *pool, sn_batch_item *place);

static inline uint32_t sn_batch_tasks(const sn_batch *batch)
{
    return batch->n_copies + batch->n_places;
}

/* A place is DRAWN again, or for the first time. The mutex is held. */
static inline void sn_batch_return(sn_batch *batch, uint32_t place)
{
    if (place + batch->n_copies < batch->next)
        batch->next = place + batch->n_copies;
    if (place < batch->next_read)
        batch->next_read = place;
    if (place < batch->next_wanting)
        batch->next_wanting = place;
}

/* Count pools of this process that have work, or (uint32_t)-1: one that has none any more. */
void sn_pools_count(sn_pools *pools, pid_t process, uint32_t more);

/* A batch was submitted, or its last task is done: a pool with work is counted, and early ones give way. The mutex is held. */
void sn_pool_count_unfinished(sn_pool *pool, int more);

/* A task is done. As many as there are copies are not counted as places. */
static inline void sn_pool_finish_task(sn_pool *pool, sn_batch *batch)
{
    if (++batch->finished > batch->n_copies && batch->context->progress)
        atomic_fetch_add_explicit(batch->context->progress, 1, memory_order_relaxed);
    if (batch->finished == sn_batch_tasks(batch)) {
        sn_pool_count_unfinished(pool, -1);
        pthread_cond_broadcast(&pool->progress);
    }
}

#endif
