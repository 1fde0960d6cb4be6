#define _GNU_SOURCE
#include "sn_bring.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../base/sn_status.h"
#include "sn_read.h"

#define READER_STACK (256u << 10)

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

/* -- Reading ahead -- */

/* The next place whose file nobody reads, if more may be read. */
static sn_place *claim_read(sn_pool *pool)
{
    if (!sn_ahead_may_read(&pool->ahead, pool->limit))
        return NULL;
    for (sn_batch *batch = pool->first; batch; batch = batch->following)
        while (batch->next_read < batch->n_places) {
            sn_place *place = &batch->places[batch->next_read++];
            if (pool->is_external ? sn_place_is_to_be_fetched(place)
                                  : place->stage == SN_DRAWN && place->item.source == SN_STORAGE)
                return place;
        }
    pool->is_all_read = 1; /* until the next batch comes */
    return NULL;
}

static void *read_ahead(void *argument)
{
    struct sn_thread *self = argument;
    sn_pool *pool = self->pool;

    pthread_mutex_lock(&pool->mutex); /* a preparer has made it, and it has that one's nice value */
    while (!pool->ending) {
        sn_place *place = claim_read(pool);
        if (!place) {
            pthread_cond_wait(&pool->reads, &pool->mutex);
            continue;
        }
        place->stage = SN_READING;
        sn_ahead_began(&pool->ahead);
        place->file = sn_ahead_spare(&pool->ahead);
        self->since_ms = sn_now_ms(CLOCK_MONOTONIC_COARSE);
        pthread_mutex_unlock(&pool->mutex);
        int rc = sn_read_ahead(place->batch->context, place);
        pthread_mutex_lock(&pool->mutex);
        self->since_ms = 0;
        sn_ahead_ended(&pool->ahead, rc);
        if (place->batch->dropped) {
            sn_abandon(place->batch->context, place, SN_E_CLOSED, NULL);
            sn_pool_finish_task(pool, place->batch);
            continue;
        }
        place->stage = SN_READ_AHEAD;
        sn_ahead_add(&pool->ahead, place);
        pthread_cond_signal(&pool->work);
    }
    self->ended = 1;
    pool->running--;
    pthread_cond_broadcast(&pool->progress);
    pthread_mutex_unlock(&pool->mutex);
    return NULL;
}

void sn_pool_wake_readers(sn_pool *pool, uint32_t beyond)
{
    for (uint32_t n = beyond; n < pool->ahead.readers; n++)
        pthread_cond_signal(&pool->reads);
}

void sn_pool_choose_readers(sn_pool *pool, const sn_place *place, uint64_t busy_ns)
{
    uint32_t before = pool->ahead.readers;

    sn_ahead_choose(&pool->ahead, place, busy_ns, pool->limit);
    /* One after each place. If it fails, those that are there do. */
    if (!pool->is_external && pool->ahead.readers > pool->n_readers && !pool->ending &&
        sn_pool_start(pool, &pool->readers[pool->n_readers], read_ahead, READER_STACK) == 0)
        pool->n_readers++;
    sn_pool_wake_readers(pool, before);
}

/* -- Fetching -- */

void sn_pool_enter(sn_pool *pool)
{
    pthread_mutex_lock(&pool->mutex);
    pool->fetchers++;
    pthread_mutex_unlock(&pool->mutex);
}

void sn_pool_leave(sn_pool *pool)
{
    pthread_mutex_lock(&pool->mutex);
    if (--pool->fetchers == 0)
        pthread_cond_broadcast(&pool->progress);
    pthread_mutex_unlock(&pool->mutex);
}

/* A file has come, or has failed to. The mutex is held. Its place, which has it now; NULL: the ticket is void. */
static sn_place *arrive(sn_pool *pool, uint64_t ticket, sn_file *file, const char *why)
{
    uint64_t began;
    sn_place *place = sn_fetches_take(&pool->fetches, ticket, &began);

    if (!place) {
        sn_ahead_keep_spare(&pool->ahead, file);
        return NULL;
    }
    sn_ahead_ended(&pool->ahead, 0);
    place->file = *file;
    place->is_read = 1;
    place->spent.read = sn_now_ns() - began;
    place->was_awaited = 1;
    if (why && !place->message)
        place->message = strdup(why);
    place->stage = SN_READ_AHEAD;
    sn_ahead_add(&pool->ahead, place);
    pthread_cond_signal(&pool->work);
    if (pool->n_preparers == 0)
        pthread_cond_broadcast(&pool->progress); /* the thread that waits there prepares */
    pthread_cond_signal(&pool->reads);
    return place;
}

/* Whether another host has left the bytes of a ticket's sample. The mutex is held, but not while that host is asked:
 * the place may be dropped meanwhile, and is not touched. */
static int is_left_by_another_host(sn_pool *pool, const sn_context *context, const sn_wanted *wanted)
{
    sn_file file = sn_ahead_spare(&pool->ahead);

    pthread_mutex_unlock(&pool->mutex);
    int found = sn_is_from_another_host(context, wanted->sample, &file);
    pthread_mutex_lock(&pool->mutex);
    if (found)
        arrive(pool, wanted->ticket, &file, NULL);
    else
        sn_ahead_keep_spare(&pool->ahead, &file);
    return found;
}

int sn_pool_next_fetch(sn_pool *pool, sn_wanted *wanted, int timeout_ms)
{
    struct timespec deadline = sn_time_at(sn_now_ns() + (uint64_t)timeout_ms * 1000000);
    int rc = SN_BUSY, is_late = 0;

    pthread_mutex_lock(&pool->mutex);
    for (;;) {
        sn_place *place = pool->ending ? NULL : claim_read(pool);
        if (place) {
            const sn_context *context = place->batch->context;
            place->stage = SN_READING;
            sn_ahead_began(&pool->ahead);
            *wanted = sn_fetches_add(&pool->fetches, place, sn_now_ns());
            if (!context->remote || place->skips_remote || !is_left_by_another_host(pool, context, wanted)) {
                rc = 0;
                break;
            }
        } else if (pool->ending) {
            rc = SN_E_CLOSED;
            break;
        } else if (is_late) {
            break;
        } else {
            is_late = pthread_cond_timedwait(&pool->reads, &pool->mutex, &deadline) != 0;
        }
    }
    pthread_mutex_unlock(&pool->mutex);
    return rc;
}

int sn_pool_fetched(sn_pool *pool, uint64_t ticket, const uint8_t *bytes, size_t length, int rc, const char *why)
{
    pthread_mutex_lock(&pool->mutex);
    sn_file file = sn_ahead_spare(&pool->ahead);
    pthread_mutex_unlock(&pool->mutex);
    file.length = 0;
    file.is_remote = 0;
    file.why = NULL;
    file.rc = rc == 0 ? sn_grow(&file.bytes, &file.capacity, length + 1) : rc;
    if (file.rc == 0) { /* into memory of its own: the place may be dropped meanwhile */
        memcpy(file.bytes, bytes, length);
        file.length = length;
    }
    int is_good = file.rc == 0;
    pthread_mutex_lock(&pool->mutex);
    sn_place *place = arrive(pool, ticket, &file, why);
    const sn_context *context = place ? place->batch->context : NULL;
    uint32_t sample = place ? place->item.sample : 0;
    pthread_mutex_unlock(&pool->mutex);
    if (context && context->remote && is_good)
        sn_remote_put(context->remote, context->dataset, sample, bytes, length);
    return context ? 0 : SN_MISS;
}
