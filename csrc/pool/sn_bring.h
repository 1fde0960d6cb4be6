/*
 * sn_bring.h -- a pool's fields, and how files come before a preparer needs them: by readers, or by fetchers.
 *
 *   claim_read -->  a reader reads the file           --> ahead --> a preparer
 *             \-->  a fetcher: ticket ... its bytes  --/
 *
 * Files come from other hosts too: sn_ask.h.
 *
 * Fetchers wait for places in sn_pool_next_fetch(), and bring their bytes to sn_pool_fetched(). In between they hold a
 * ticket and no memory of the pool's. Once the places' batches are dropped the ticket is void: a fetcher that hangs in
 * the network holds up nobody, and what it brings late is thrown away.
 *
 * Lives in   private memory.
 * Callers    sn_pool.c, with the mutex. Fetchers, between sn_pool_enter() and sn_pool_leave(), without.
 * Blocking   sn_pool_next_fetch(), up to its time-out.
 * Ordering   one mutex; a place's work is done outside it.
 */
#ifndef SN_BRING_H
#define SN_BRING_H

#include <pthread.h>
#include <sys/types.h>
#include <time.h>

#include "sn_ahead.h"
#include "sn_ask.h"
#include "sn_batch.h"
#include "sn_fetches.h"
#include "sn_prepare.h"

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

/* A place has its file now, or why there is none. `together`: how many places one request, which took so long, has brought.
 * The mutex is held in this call and in the next two. */
void sn_pool_have(sn_pool *pool, sn_place *place, const sn_file *file, uint64_t took_ns, uint32_t together);

/* The same, of a place that a preparer is to take. */
void sn_pool_arrive(sn_pool *pool, sn_place *place, const sn_file *file, uint64_t took_ns, uint32_t together);

/* A request has not brought a place, and somebody else is to take it. */
void sn_pool_give_back(sn_pool *pool, sn_place *place);

/* A fetcher is about to call the next three, and has called them. The pool is not ended between the two. Whoever enters
 * knows that nobody has asked for its end: in Python, what asks holds the GIL, as the one who enters does. */
void sn_pool_enter(sn_pool *pool);
void sn_pool_leave(sn_pool *pool);

/* Whether the pool is to end, which waits for those that have entered. */
int sn_pool_ends(sn_pool *pool);

/* Wait for places whose bytes one request can fetch: one, and its neighbours. What another host has left is taken here,
 * and nobody is asked to fetch it. 0; SN_BUSY: there is none within the time; SN_E_CLOSED: the pool ends. */
int sn_pool_next_fetch(sn_pool *pool, sn_wanted *wanted, int timeout_ms);

/* The bytes of a ticket's range, which are copied; or `rc`, -errno, and `why` they cannot be fetched. Places that were to
 * be fetched together are then fetched one by one. Bytes are left for other hosts. Whoever has brought them asks for the
 * next, in the place of this request. SN_MISS: the ticket is void, and nothing was done. */
int sn_pool_fetched(sn_pool *pool, uint64_t ticket, const uint8_t *bytes, size_t length, int rc, const char *why);

/* The same, of bytes in memory of malloc(). The pool may keep that, which spares a copy, and give other memory for it: NULL, if
 * it has none. */
int sn_pool_fetched_in(sn_pool *pool, uint64_t ticket, uint8_t **bytes, size_t *capacity, size_t length);

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

/* Whether more may be read, or fetched, before preparers need it. */
static inline int sn_pool_may_read(const sn_pool *pool)
{
    return sn_ahead_may_read(&pool->ahead, pool->limit, pool->fetches.bytes);
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

/* Whether a place is to be fetched before a preparer can take it. */
static inline int sn_place_is_to_be_fetched(const sn_place *place)
{
    return place->stage == SN_DRAWN && place->batch->context->is_external && sn_place_needs_file(place);
}

/* A task is done. As many as there are copies are not counted as places. */
static inline void sn_pool_finish_task(sn_pool *pool, sn_batch *batch)
{
    if (++batch->finished > batch->n_copies && batch->context->progress)
        atomic_fetch_add_explicit(batch->context->progress, 1, memory_order_relaxed);
    if (batch->finished == sn_batch_tasks(batch))
        pthread_cond_broadcast(&pool->progress);
}

#endif
