#include "sn_early.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../base/sn_children.h"
#include "sn_read.h"

#define ASK_NS 50000000u   /* so often children are asked what they have read */
#define MUCH_BYTES 131072u /* in that time: more than messages between idle processes have */
#define PAUSE_NS 3000000u  /* nobody signals that another pool has nothing left to do */

/* The upper half is the process, because a forked child has a copy of the number and none of the pools. */
static uint32_t busy_pools(const sn_pools *pools, pid_t process)
{
    uint64_t seen = atomic_load_explicit(&pools->busy, memory_order_relaxed);

    return seen >> 32 == (uint64_t)process ? (uint32_t)seen : 0;
}

/* Whether children have read much lately. */
static int children_read(sn_early *early)
{
    uint64_t now = sn_now_ns();

    if (now - early->asked_ns >= ASK_NS) {
        uint64_t bytes = sn_children_read();
        if (early->asked_ns && bytes > early->children_read + MUCH_BYTES)
            early->children_until_ns = now + 2 * ASK_NS;
        early->children_read = bytes;
        early->asked_ns = now;
    }
    return now < early->children_until_ns;
}

int sn_early_gives_way(sn_pool *pool)
{
    if (!pool->early.is_early || !pool->pools || !(pool->first || sn_early_has_files(pool)))
        return 0;
    return children_read(&pool->early) || busy_pools(pool->pools, pool->owner) > 0;
}

void sn_early_pause(sn_pool *pool, pthread_cond_t *condition, uint64_t until_ns)
{
    uint64_t soon = sn_now_ns() + PAUSE_NS;
    struct timespec until = sn_time_at(soon < until_ns ? soon : until_ns);

    pthread_cond_timedwait(condition, &pool->mutex, &until);
}

void sn_early_begin(sn_pool *pool)
{
    pthread_mutex_lock(&pool->mutex);
    pool->early.is_early = 1;
    pthread_mutex_unlock(&pool->mutex);
}

void sn_early_go_on(sn_pool *pool)
{
    pthread_mutex_lock(&pool->mutex);
    pool->early.is_early = 0;
    pthread_cond_broadcast(&pool->work);
    pthread_cond_broadcast(&pool->reads);
    pthread_mutex_unlock(&pool->mutex);
}

int sn_early_bring(sn_pool *pool, const sn_context *context, const uint32_t *samples, uint32_t n, uint64_t bytes)
{
    uint32_t *own = malloc((n ? n : 1) * sizeof *own);

    if (!own)
        return -ENOMEM;
    memcpy(own, samples, n * sizeof *own);
    pthread_mutex_lock(&pool->mutex);
    free(pool->early.samples);
    pool->early.context = context;
    pool->early.samples = own;
    pool->early.n = n;
    pool->early.next = 0;
    pool->early.bytes = bytes;
    pthread_cond_broadcast(&pool->work);
    pthread_cond_broadcast(&pool->reads);
    pthread_mutex_unlock(&pool->mutex);
    return 0;
}

/* A file that cannot be read is left to the epoch, which reports it. */
void sn_early_bring_one(sn_pool *pool, struct sn_thread *self)
{
    uint32_t sample = pool->early.samples[pool->early.next++];
    const sn_context *context = pool->early.context;
    sn_file file = sn_readahead_spare(&pool->ahead);

    pool->early.bringing++;
    self->since_ms = sn_now_ms(CLOCK_MONOTONIC_COARSE);
    pthread_mutex_unlock(&pool->mutex);
    sn_read_file(context, sample, 0, 1, &file);
    pthread_mutex_lock(&pool->mutex);
    self->since_ms = 0;
    pool->early.bringing--;
    if (file.length < pool->early.bytes) {
        pool->early.bytes -= file.length;
        pool->early.brought++;
    } else {
        pool->early.n = pool->early.next;
    }
    sn_readahead_keep_spare(&pool->ahead, &file);
}

uint32_t sn_early_brought(sn_pool *pool)
{
    pthread_mutex_lock(&pool->mutex);
    uint32_t brought = pool->early.brought;
    pthread_mutex_unlock(&pool->mutex);
    return brought;
}

void sn_early_free(sn_pool *pool)
{
    free(pool->early.samples);
    if (pool->is_busy)
        sn_pools_count(pool->pools, pool->owner, UINT32_MAX); /* that is -1 */
}
