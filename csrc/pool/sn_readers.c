#define _GNU_SOURCE
#include "sn_readers.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../base/sn_status.h"
#include "sn_early.h"
#include "sn_remote_batch.h"
#include "sn_read.h"

#define READER_STACK (256u << 10)
#define MOST_SCANS 1024 /* at places ahead, for neighbours of one that is to be fetched: some ten microseconds */

/* -- Reading ahead -- */

/* Whether nobody has the file of a place that fetchers bring, or that may be read ahead. */
static int is_to_be_read(const sn_pool *pool, const sn_batch_item *place)
{
    return pool->is_external ? sn_batch_item_is_to_be_fetched(place)
                             : place->stage == SN_DRAWN && place->item.source == SN_STORAGE;
}

/* The next place whose file nobody reads, if more may be read. Of places that want a copy, only fetchers get one. */
static sn_batch_item *claim_read(sn_pool *pool)
{
    if (!sn_pool_may_read(pool))
        return NULL;
    sn_batch_item *wanting = pool->is_external ? sn_pool_first_wanting(pool) : NULL;
    for (sn_batch *batch = pool->first; batch && !(wanting && sn_batch_item_is_due(wanting, batch));
         batch = batch->following)
        while (batch->next_read < batch->n_places) {
            sn_batch_item *place = &batch->places[batch->next_read++];
            if (is_to_be_read(pool, place) && !sn_batch_item_wants_copy(place))
                return place;
        }
    if (wanting)
        return wanting;
    pool->is_all_read = 1; /* until the next batch comes */
    return NULL;
}

/* As sn_read_ahead(). The mutex is held, but not while the file is read. */
static int read_from_storage(sn_pool *pool, sn_batch_item *place)
{
    place->file = sn_readahead_spare(&pool->ahead);
    pthread_mutex_unlock(&pool->mutex);
    int rc = sn_read_ahead(place->batch->context, place);
    pthread_mutex_lock(&pool->mutex);
    return rc;
}

static void *read_ahead(void *argument)
{
    struct sn_thread *self = argument;
    sn_pool *pool = self->pool;

    pthread_mutex_lock(&pool->mutex); /* a preparer has made it, and it has that one's nice value */
    while (!pool->ending) {
        int gives_way = sn_early_gives_way(pool);
        sn_batch_item *place = gives_way ? NULL : claim_read(pool);
        if (!place) {
            if (gives_way)
                sn_early_pause(pool, &pool->reads, UINT64_MAX);
            else if (sn_early_has_files(pool) && pool->early.bringing < pool->ahead.readers)
                sn_early_bring_one(pool, self);
            else
                pthread_cond_wait(&pool->reads, &pool->mutex);
            continue;
        }
        place->stage = SN_READING;
        sn_readahead_began(&pool->ahead);
        self->since_ms = sn_now_ms(CLOCK_MONOTONIC_COARSE);
        sn_pool_ask_hosts(pool, place);
        int rc = place->is_read ? 0 : read_from_storage(pool, place);
        self->since_ms = 0;
        sn_readahead_ended(&pool->ahead, rc);
        if (place->batch->dropped) {
            sn_abandon(place->batch->context, place, SN_E_CLOSED, NULL);
            sn_pool_finish_task(pool, place->batch);
            continue;
        }
        place->stage = SN_READ_AHEAD;
        sn_readahead_add(&pool->ahead, place);
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

void sn_pool_choose_readers(sn_pool *pool, const sn_batch_item *place, uint64_t busy_ns)
{
    uint32_t before = pool->ahead.readers;

    sn_readahead_choose(&pool->ahead, place, busy_ns, pool->limit);
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

/* A request is over, the mutex held. No other thread is woken: its fetcher is about to ask for the next, and another would
 * find nothing. Each wake for nothing takes a core from a preparer. */
static void end_request(sn_pool *pool, sn_request *request)
{
    sn_fetches_end(&pool->fetches, request);
    sn_readahead_ended(&pool->ahead, 0);
}

/* Have a request bring the neighbours of its places too, of those that nobody fetches. The mutex is held. A request that
 * has several places may have new neighbours, and they are searched for once more. */
static void join_neighbours(sn_pool *pool, sn_request *request)
{
    const sn_context *context = request->places[0]->batch->context;
    int want_copies = sn_batch_item_wants_copy(request->places[0]);
    uint32_t n, scans;

    if (request->places[0]->fetches_alone ||
        request->wanted.length == context->containers[request->wanted.container].size_bytes)
        return;
    do {
        n = request->wanted.n;
        scans = MOST_SCANS;
        for (sn_batch *batch = pool->first; batch && scans > 0; batch = batch->following) {
            uint32_t from = want_copies ? batch->next_wanting : batch->next_read;
            for (uint32_t i = from; i < batch->n_places && scans > 0; i++, scans--) {
                sn_batch_item *place = &batch->places[i];
                if (sn_batch_item_is_to_be_fetched(place) && !place->fetches_alone && batch->context == context &&
                    sn_batch_item_wants_copy(place) == want_copies && sn_fetches_join(&pool->fetches, request, place))
                    place->stage = SN_READING;
            }
        }
    } while (request->wanted.n > n);
}

/* Some places of a request are in it no longer, and the gap between the others may be too large now. The mutex is held.
 * The request of those that are neighbours still; NULL: there are none. */
static sn_request *narrow(sn_pool *pool, sn_request *request)
{
    sn_batch_item *left[SN_MOST_JOINED];
    uint32_t n = 0, first = 0, joined;

    for (uint32_t i = 0; i < request->wanted.n; i++)
        if (request->places[i])
            left[n++] = request->places[i];
    if (n == request->wanted.n)
        return request;
    if (n == 0) {
        end_request(pool, request);
        return NULL;
    }
    sn_fetches_end(&pool->fetches, request);
    request = sn_fetches_add(&pool->fetches, left[first++], sn_now_ns());
    do {
        joined = request->wanted.n;
        for (uint32_t i = first; i < n; i++) {
            if (sn_fetches_join(&pool->fetches, request, left[i]))
                left[i--] = left[--n];
        }
    } while (request->wanted.n > joined);
    for (uint32_t i = first; i < n; i++)
        sn_pool_give_back(pool, left[i]);
    return request;
}

/* Take what other hosts have left of a request's places. The mutex is held, but not while they are asked: places may be
 * dropped meanwhile. The request of what they have not; NULL: nothing is left to be fetched. */
static sn_request *ask_for_request(sn_pool *pool, const sn_context *context, sn_request *request)
{
    uint64_t ticket = request->wanted.ticket;

    for (uint32_t at = 0; request && at < request->wanted.n;) {
        uint32_t which[SN_REMOTE_AT_ONCE], n = 0, most = sn_readahead_at_once(&pool->ahead);
        sn_asked asked[SN_REMOTE_AT_ONCE];

        for (; at < request->wanted.n && n < most; at++) {
            if (!request->places[at] || request->places[at]->skips_remote)
                continue;
            which[n] = at;
            asked[n++] = sn_pool_asked_of(pool, request->places[at]);
        }
        if (n == 0)
            break;
        pthread_mutex_unlock(&pool->mutex);
        uint64_t began = sn_now_ns();
        sn_ask_other_hosts(context, asked, n);
        uint64_t took = sn_now_ns() - began;
        pthread_mutex_lock(&pool->mutex);
        request = sn_fetches_find(&pool->fetches, ticket);
        for (uint32_t i = 0; i < n; i++) {
            sn_batch_item *place = request ? request->places[which[i]] : NULL;
            if (place && asked[i].file.is_remote) {
                sn_pool_arrive(pool, sn_fetches_take(request, which[i]), &asked[i].file, took, n);
                continue;
            }
            sn_readahead_keep_spare(&pool->ahead, &asked[i].file);
            if (place)
                place->skips_remote = 1;
        }
    }
    return request ? narrow(pool, request) : NULL;
}

int sn_pool_ends(sn_pool *pool)
{
    pthread_mutex_lock(&pool->mutex);
    int ends = pool->ending;
    pthread_mutex_unlock(&pool->mutex);
    return ends;
}

int sn_pool_next_fetch(sn_pool *pool, sn_wanted *wanted, int timeout_ms)
{
    uint64_t until = sn_now_ns() + (uint64_t)timeout_ms * 1000000;
    struct timespec deadline = sn_time_at(until);
    int rc = SN_BUSY;

    pthread_mutex_lock(&pool->mutex);
    for (;;) {
        int gives_way = sn_early_gives_way(pool);
        sn_batch_item *place = pool->ending || gives_way ? NULL : claim_read(pool);
        if (place) {
            const sn_context *context = place->batch->context;
            place->stage = SN_READING;
            sn_readahead_began(&pool->ahead);
            sn_request *request = sn_fetches_add(&pool->fetches, place, sn_now_ns());
            join_neighbours(pool, request);
            if (context->remote)
                request = ask_for_request(pool, context, request);
            if (request) {
                *wanted = request->wanted;
                rc = 0;
                break;
            }
        } else if (pool->ending) {
            rc = SN_E_CLOSED;
            break;
        } else if (sn_now_ns() >= until) {
            break;
        } else if (gives_way) {
            sn_early_pause(pool, &pool->reads, until);
        } else {
            pthread_cond_timedwait(&pool->reads, &pool->mutex, &deadline);
        }
    }
    pthread_mutex_unlock(&pool->mutex);
    return rc;
}

/* The bytes of one place of a request, copied into memory of their own: it may be dropped meanwhile. The mutex is held, but
 * not while they are copied. */
static sn_file copy_of(sn_pool *pool, const uint8_t *bytes, size_t length, int rc)
{
    sn_file file = sn_readahead_spare(&pool->ahead);

    pthread_mutex_unlock(&pool->mutex);
    file.length = 0;
    file.is_remote = file.is_copy = 0;
    file.why = NULL;
    file.rc = rc == 0 ? sn_grow(&file.bytes, &file.capacity, length + 1) : rc;
    if (file.rc == 0 && length) {
        memcpy(file.bytes, bytes, length);
        file.length = length;
    }
    pthread_mutex_lock(&pool->mutex);
    return file;
}

/* Take the memory that bytes have come in, and leave other memory there. */
static sn_file exchanged(sn_pool *pool, sn_file *brought)
{
    sn_file spare = sn_readahead_spare(&pool->ahead), file = *brought;

    brought->bytes = spare.bytes;
    brought->capacity = spare.capacity;
    return file;
}

/* `may_keep`: the memory of what is brought may be exchanged. */
static int take_bytes(sn_pool *pool, uint64_t ticket, sn_file *brought, int may_keep)
{
    const uint8_t *bytes = brought->bytes;
    const char *why = brought->why;
    int rc = brought->rc;
    const sn_context *context = NULL;
    uint32_t came[SN_MOST_JOINED], n_came = 0, n = 0, answered = 0;
    uint64_t offset = 0, took = 0;

    pthread_mutex_lock(&pool->mutex);
    sn_request *request = sn_fetches_find(&pool->fetches, ticket);
    if (request) {
        n = request->wanted.n;
        offset = request->wanted.offset;
        took = sn_now_ns() - request->began_ns;
        if (rc == 0 && brought->length != request->wanted.length) {
            rc = -EIO;
            why = "its server has answered with another number of bytes";
        }
    }
    for (uint32_t i = 0; request && i < n; i++) {
        sn_batch_item *place = request->places[i];
        if (!place)
            continue;
        if (rc != 0 && n > 1) { /* the fault may be one place's alone */
            place->fetches_alone = 1;
            sn_pool_give_back(pool, sn_fetches_take(request, i));
            answered++;
            continue;
        }
        uint32_t sample = request->wanted.samples[i];
        context = place->batch->context;
        const sn_piece *piece = &context->pieces[sample];
        sn_file file = may_keep && n == 1 && rc == 0 && !context->remote /* the bytes are used below */
                           ? exchanged(pool, brought)
                           : copy_of(pool, rc == 0 ? bytes + (piece->offset - offset) : NULL, piece->length, rc);
        request = sn_fetches_find(&pool->fetches, ticket);
        if (!request || !request->places[i]) {
            sn_readahead_keep_spare(&pool->ahead, &file);
            continue;
        }
        if (why && !place->message)
            place->message = strdup(why);
        if (file.rc == 0)
            came[n_came++] = sample;
        sn_pool_arrive(pool, sn_fetches_take(request, i), &file, took, n);
        answered++;
    }
    if (request) {
        if (rc == 0)
            sn_readahead_brought(&pool->ahead, n);
        end_request(pool, request);
    }
    pthread_mutex_unlock(&pool->mutex);
    for (uint32_t i = 0; i < n_came && context->remote; i++) {
        const sn_piece *piece = &context->pieces[came[i]];
        sn_remote_put(context->remote, context->dataset, came[i], bytes + (piece->offset - offset), piece->length,
                      (sn_terms){0});
    }
    return answered ? 0 : SN_MISS;
}

int sn_pool_fetched(sn_pool *pool, uint64_t ticket, const uint8_t *bytes, size_t length, int rc, const char *why)
{
    sn_file brought = {.bytes = (uint8_t *)bytes, .length = length, .rc = rc, .why = why};

    return take_bytes(pool, ticket, &brought, 0);
}

int sn_pool_fetched_in(sn_pool *pool, uint64_t ticket, uint8_t **bytes, size_t *capacity, size_t length)
{
    sn_file brought = {.bytes = *bytes, .capacity = *capacity, .length = length};
    int rc = take_bytes(pool, ticket, &brought, 1);

    *bytes = brought.bytes;
    *capacity = brought.capacity;
    return rc;
}
