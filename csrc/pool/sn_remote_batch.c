#include "sn_remote_batch.h"

#include "../base/sn_status.h"

#define MOST_PREPARED 3     /* places that a preparer prepares before it takes what it has asked for */
#define MOST_SCANS 1024     /* at places ahead, for what to ask for together with a place: some ten microseconds */
#define MOST_SCANS_AHEAD 64 /* the same, before each place that is prepared */

sn_batch_item *sn_pool_first_wanting(sn_pool *pool)
{
    for (sn_batch *batch = pool->first; batch; batch = batch->following) {
        for (; batch->next_wanting < batch->n_places; batch->next_wanting++) {
            sn_batch_item *place = &batch->places[batch->next_wanting];
            if (place->stage == SN_DRAWN && sn_batch_item_wants_copy(place))
                return place;
        }
    }
    return NULL;
}

/* Whether other hosts may have what a place needs: its file, or its copy. */
static int may_hosts_have(const sn_batch_item *place)
{
    return place->batch->context->remote && (place->item.source == SN_STORAGE || sn_batch_item_wants_copy(place)) &&
           !place->is_read && !place->skips_remote;
}

sn_asked sn_pool_asked_of(sn_pool *pool, const sn_batch_item *place)
{
    return (sn_asked){.sample = place->item.sample,
                      .wants_file = place->item.source == SN_STORAGE,
                      .wants_copy = (uint8_t)sn_batch_item_wants_copy(place),
                      .file = sn_readahead_spare(&pool->ahead)};
}

/* A place that wants a copy, and the next of its batch that do. The mutex is held. How many. */
static uint32_t gather_wanting(const sn_pool *pool, sn_batch_item *place, sn_batch_item **asked)
{
    sn_batch *batch = place->batch;
    uint32_t n = 0, most = sn_readahead_at_once(&pool->ahead);

    asked[n++] = place;
    for (uint32_t i = batch->next_wanting; i < batch->n_places && n < most; i++) {
        sn_batch_item *other = &batch->places[i];
        if (other->stage == SN_DRAWN && sn_batch_item_wants_copy(other))
            asked[n++] = other;
    }
    return n;
}

/* Gather the places to ask for: this one, if it needs that, and the next unread ones. The mutex is held. How many. */
static uint32_t gather(const sn_pool *pool, sn_batch_item *place, sn_batch_item **asked)
{
    if (sn_batch_item_wants_copy(place) && may_hosts_have(place))
        return gather_wanting(pool, place, asked);
    uint32_t n = 0, most = sn_readahead_at_once(&pool->ahead),
             scans = may_hosts_have(place) ? MOST_SCANS : MOST_SCANS_AHEAD;

    if (may_hosts_have(place))
        asked[n++] = place;
    for (sn_batch *batch = pool->first; batch; batch = batch->following) {
        uint32_t next = batch->next > batch->n_copies ? batch->next - batch->n_copies : 0;
        for (uint32_t i = next; i < batch->n_places; i++) {
            sn_batch_item *other = &batch->places[i];
            if (n == most || scans-- == 0)
                return n;
            if (batch->context == place->batch->context && other->stage == SN_DRAWN && may_hosts_have(other) &&
                !sn_batch_item_wants_copy(other))
                asked[n++] = other;
        }
    }
    return n;
}

/* Other hosts do not have what a place needs. If storage has to give it, what it cost to ask is a part of what that costs. */
static void note_miss(sn_pool *pool, sn_batch_item *place, sn_file *file, uint64_t took_ns, uint32_t together)
{
    sn_readahead_keep_spare(&pool->ahead, file);
    place->skips_remote = 1;
    if (place->item.source == SN_STORAGE)
        place->spent.read = took_ns / together;
}

/* Store the answer for a place that this thread asked for and does not have in hand. The mutex is held. */
static void end_asking(sn_pool *pool, sn_batch_item *place, sn_file *file, uint64_t took_ns, uint32_t together)
{
    sn_readahead_ended(&pool->ahead, 0);
    if (file->is_remote && !place->batch->dropped) {
        sn_pool_arrive(pool, place, file, took_ns, together);
        return;
    }
    note_miss(pool, place, file, took_ns, together);
    if (!place->batch->dropped) {
        sn_pool_give_back(pool, place);
        return;
    }
    sn_abandon(place->batch->context, place, SN_E_CLOSED, NULL);
    sn_pool_finish_task(pool, place->batch);
}

/* The mutex is held. `own`: the place that this thread has in hand. */
static void begin_asking(sn_pool *pool, sn_asking *asking, const sn_batch_item *own)
{
    pool->ahead.hosts_asked = sn_readahead_at_once(&pool->ahead) * (pool->limit ? pool->limit : 1);
    for (uint32_t i = 0; i < asking->n; i++) {
        asking->asked[i] = sn_pool_asked_of(pool, asking->places[i]);
        if (asking->places[i] == own)
            continue;
        asking->places[i]->stage = SN_READING; /* this thread's, also where its batch is dropped meanwhile */
        sn_readahead_began(&pool->ahead);
    }
}

/* `awaited_ns`: what of that no preparation hides, and only more threads that ask can. */
static void end_asking_for_all(sn_pool *pool, sn_asking *asking, sn_batch_item *own, uint64_t awaited_ns)
{
    for (uint32_t i = 0; i < asking->n; i++) {
        sn_batch_item *place = asking->places[i];
        sn_file *file = &asking->asked[i].file;
        place->awaited_ns = awaited_ns;
        if (place != own) {
            end_asking(pool, place, file, asking->took_ns, asking->n);
        } else if (file->is_remote) {
            sn_readahead_saw(&pool->ahead, file->length);
            sn_pool_have(pool, place, file, asking->took_ns, asking->n);
        } else {
            note_miss(pool, place, file, asking->took_ns, asking->n);
        }
    }
}

/* Of the time that asking takes: what is left if files are asked for while a place is prepared. Nothing is known of that
 * before the first. */
static uint64_t not_hidden(const sn_pool *pool, uint64_t took_ns)
{
    uint64_t hidden = pool->ahead.busy_ns > 0 ? (uint64_t)pool->ahead.busy_ns : UINT64_MAX;

    return took_ns > hidden ? took_ns - hidden : 0;
}

uint64_t sn_pool_ask_hosts(sn_pool *pool, sn_batch_item *place)
{
    sn_asking asking;

    if (pool->is_external || !may_hosts_have(place))
        return 0;
    asking.n = gather(pool, place, asking.places);
    begin_asking(pool, &asking, place);
    pthread_mutex_unlock(&pool->mutex);
    uint64_t began = sn_now_ns();
    sn_ask_other_hosts(place->batch->context, asking.asked, asking.n);
    asking.took_ns = sn_now_ns() - began;
    pthread_mutex_lock(&pool->mutex);
    end_asking_for_all(pool, &asking, place, not_hidden(pool, asking.took_ns));
    return asking.took_ns;
}

void sn_pool_ask_ahead(sn_pool *pool, sn_batch_item *place, sn_asking *asking)
{
    if (pool->is_external || !place->batch->context->remote || asking->n > 0 ||
        !sn_readahead_may_ask(&pool->ahead, pool->limit))
        return;
    asking->context = place->batch->context;
    asking->prepared = 0;
    asking->n = gather(pool, place, asking->places);
    if (asking->n == 0)
        return;
    begin_asking(pool, asking, NULL);
    pthread_mutex_unlock(&pool->mutex);
    uint64_t began = sn_now_ns();
    sn_ask_for_files(asking->context, asking->asked, asking->n, &asking->question);
    asking->took_ns = sn_now_ns() - began;
    pthread_mutex_lock(&pool->mutex);
}

int sn_pool_is_due(const sn_pool *pool, const sn_asking *asking)
{
    return asking->n > 0 && (asking->prepared >= MOST_PREPARED || pool->ahead.n < pool->limit);
}

void sn_pool_take_ahead(sn_pool *pool, sn_asking *asking)
{
    pthread_mutex_unlock(&pool->mutex);
    long slept = sn_thread_sleeps();
    uint64_t began = sn_now_ns();
    sn_take_files(asking->context, &asking->question);
    asking->took_ns += sn_now_ns() - began;
    int has_waited = sn_thread_sleeps() > slept;
    pthread_mutex_lock(&pool->mutex);
    for (uint32_t i = 0; i < asking->n; i++)
        asking->places[i]->spent.blocked += asking->took_ns / asking->n;
    end_asking_for_all(pool, asking, NULL, has_waited ? asking->took_ns : 0);
    asking->n = 0;
}
