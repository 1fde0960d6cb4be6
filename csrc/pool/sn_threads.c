#include "sn_threads.h"

int sn_pool_start(sn_pool *pool, struct sn_thread *thread, void *(*run_as)(void *), size_t stack_bytes)
{
    pthread_attr_t attributes;

    thread->pool = pool;
    pthread_attr_init(&attributes);
    if (stack_bytes)
        pthread_attr_setstacksize(&attributes, stack_bytes);
    int failed = pthread_create(&thread->id, &attributes, run_as, thread);
    pthread_attr_destroy(&attributes);
    if (!failed)
        pool->running++;
    return failed;
}

void sn_pool_have(sn_pool *pool, sn_batch_item *place, const sn_file *file, uint64_t took_ns, uint32_t together)
{
    sn_readahead_keep_spare(&pool->ahead, &place->file); /* the buffer of an attempt that a signal has interrupted */
    place->file = *file;
    place->is_read = 1;
    place->spent.read = took_ns / together;
    place->together = together;
    if (pool->is_external)
        place->awaited_ns = took_ns / together; /* fetchers are counted in requests */
}

void sn_pool_arrive(sn_pool *pool, sn_batch_item *place, const sn_file *file, uint64_t took_ns, uint32_t together)
{
    sn_pool_have(pool, place, file, took_ns, together);
    place->stage = SN_READ_AHEAD;
    sn_readahead_add(&pool->ahead, place);
    pthread_cond_signal(&pool->work);
    if (pool->n_preparers == 0)
        pthread_cond_broadcast(&pool->progress); /* the thread that waits there prepares */
}

void sn_pool_give_back(sn_pool *pool, sn_batch_item *place)
{
    sn_batch *batch = place->batch;

    place->stage = SN_DRAWN;
    sn_batch_return(batch, (uint32_t)(place - batch->places));
    pool->is_all_read = 0;
    pthread_cond_signal(&pool->reads);
    if (!pool->is_external)
        pthread_cond_signal(&pool->work);
}

void sn_pools_count(sn_pools *pools, pid_t process, uint32_t more)
{
    uint64_t before = atomic_load_explicit(&pools->busy, memory_order_relaxed), after;

    do {
        uint32_t n = before >> 32 == (uint64_t)process ? (uint32_t)before : 0;
        after = (uint64_t)process << 32 | (uint32_t)(n + more);
    } while (!atomic_compare_exchange_weak_explicit(&pools->busy, &before, after, memory_order_relaxed,
                                                    memory_order_relaxed));
}

void sn_pool_count_unfinished(sn_pool *pool, int more)
{
    pool->unfinished += (uint32_t)more;
    int is_busy = pool->pools && pool->unfinished && !pool->early.is_early;

    if (is_busy == pool->is_busy)
        return;
    pool->is_busy = is_busy;
    sn_pools_count(pool->pools, pool->owner, is_busy ? 1 : UINT32_MAX); /* that is -1 */
}
