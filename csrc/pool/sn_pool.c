#define _GNU_SOURCE
#include "sn_pool.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "../base/sn_status.h"
#include "../slots/sn_slots.h"
#include "sn_early.h"

#define NICER 5 /* than the training loop, whose thread gets a core before ours */

/* A fault of a thread of ours has to be seen where it happens. */
static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP};

static uint64_t least_ns(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Copies go first: their payloads are wanted by others. As sn_prepare(). */
static int run(sn_scratch *scratch, sn_batch *batch, uint32_t task)
{
    const sn_context *context = batch->context;

    if (context->hosts)
        sn_hosts_meet(context->hosts);
    if (task >= batch->n_copies) {
        uint32_t place = task - batch->n_copies;
        return sn_prepare(scratch, context, &batch->places[place], batch->out + place * context->item_bytes);
    }
    sn_copy *copy = &batch->copies[task];
    sn_slot *slot = &context->segment->slots[copy->offer.slot];
    memcpy(sn_slot_room(context->segment, slot, copy->offer.length), copy->payload, copy->offer.length);
    sn_slot_commit(context->segment, copy->offer.slot);
    free(copy->payload);
    copy->payload = NULL;
    return 0;
}

static sn_batch_item *place_of(const sn_batch *batch, uint32_t task)
{
    return task < batch->n_copies ? NULL : &batch->places[task - batch->n_copies];
}

static void take_off_queue(sn_pool *pool, sn_batch *batch)
{
    sn_batch *before = NULL, *at = pool->first;

    while (at != batch) {
        before = at;
        at = at->following;
    }
    if (before)
        before->following = batch->following;
    else
        pool->first = batch->following;
    if (pool->last == batch)
        pool->last = before;
}

static void put_on_queue(sn_pool *pool, sn_batch *batch)
{
    sn_batch *before = NULL, *at = pool->first;

    while (at && at->number < batch->number) {
        before = at;
        at = at->following;
    }
    batch->following = at;
    if (before)
        before->following = batch;
    else
        pool->first = batch;
    if (!at)
        pool->last = batch;
}

static int is_for_preparers(const sn_batch_item *place)
{
    return place->stage == SN_DRAWN && !sn_batch_item_is_to_be_fetched(place) && !sn_batch_item_wants_copy(place);
}

/* The first batch with a task that a preparer can take, that was not read ahead and wants no copy; its `next` is that
 * task. */
static sn_batch *first_drawn(sn_pool *pool)
{
    for (sn_batch *batch = pool->first; batch; batch = batch->following) {
        const sn_batch_item *place;
        while (batch->next < sn_batch_tasks(batch) && (place = place_of(batch, batch->next)) &&
               !is_for_preparers(place))
            batch->next++;
        if (batch->next < sn_batch_tasks(batch))
            return batch;
    }
    return NULL;
}

/* The first place that wants a copy, and that a preparer can take. */
static sn_batch_item *first_wanting(sn_pool *pool)
{
    return pool->is_external ? NULL : sn_pool_first_wanting(pool);
}

/* The next task: the earliest batch's, and of that a place that was read ahead before one that must be read. Places that
 * want a copy come after the others of their batch and of the next. */
static sn_batch *claim(sn_pool *pool, uint32_t *task)
{
    sn_batch_item *ahead = pool->ahead.first, *wanting = first_wanting(pool);
    sn_batch *batch = first_drawn(pool);

    if (wanting && (!ahead || sn_batch_item_is_due(wanting, ahead->batch)) &&
        (!batch || sn_batch_item_is_due(wanting, batch))) {
        batch = wanting->batch;
        *task = batch->n_copies + (uint32_t)(wanting - batch->places);
    } else if (ahead && (!batch || ahead->batch->number < batch->number ||
                         (ahead->batch == batch && batch->next >= batch->n_copies))) {
        sn_readahead_take(&pool->ahead, ahead);
        if (!pool->is_all_read && sn_pool_may_read(pool))
            pthread_cond_signal(&pool->reads); /* there may have been too much ahead for it */
        batch = ahead->batch;
        *task = batch->n_copies + (uint32_t)(ahead - batch->places);
    } else if (batch) {
        *task = batch->next++;
    } else {
        return NULL;
    }
    if (place_of(batch, *task))
        place_of(batch, *task)->stage = SN_CLAIMED;
    if (++batch->claimed == sn_batch_tasks(batch))
        take_off_queue(pool, batch);
    return batch;
}

/* Undo a claim. */
static void unclaim(sn_pool *pool, sn_batch *batch, uint32_t task)
{
    if (batch->claimed-- == sn_batch_tasks(batch))
        put_on_queue(pool, batch);
    if (place_of(batch, task)) {
        place_of(batch, task)->stage = SN_DRAWN;
        sn_batch_return(batch, task - batch->n_copies);
        pool->is_all_read = 0;
    } else if (task < batch->next) {
        batch->next = task;
    }
}

static int was_interrupted(const sn_batch *batch, uint32_t task)
{
    return place_of(batch, task) && place_of(batch, task)->status == -EINTR;
}

/* A preparer has met a place whose bytes are to be fetched first. */
static void put_back(sn_pool *pool, sn_batch *batch, uint32_t task)
{
    if (batch->dropped) {
        sn_abandon(batch->context, place_of(batch, task), SN_E_CLOSED, NULL);
        sn_pool_finish_task(pool, batch);
        return;
    }
    unclaim(pool, batch, task);
    pthread_cond_signal(&pool->reads);
}

/* On Linux 0 means this thread, and a higher nice value needs no privilege. */
static void be_nice(void)
{
    setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + NICER);
}

static struct sn_thread *thread_at(const sn_pool *pool, uint32_t i)
{
    return i < pool->n_preparers ? &pool->preparers[i] : &pool->readers[i - pool->n_preparers];
}

/* -- Preparing -- */

/* A place is prepared: its file's buffer is used again, and how large files are is known. The mutex is held. */
static void end_file(sn_pool *pool, sn_batch_item *place, int was_ahead)
{
    if (!was_ahead) /* else it was seen as it came */
        sn_readahead_saw(&pool->ahead, place->read_bytes);
    if (place->status != SN_E_FOR_PILLOW ||
        !sn_batch_item_was_fetched(place->batch->context, place)) /* else Pillow needs it */
        sn_readahead_keep_spare(&pool->ahead, &place->file);
}

/* Do a task. The mutex is held before and after it. `waited_ns`: how long the thread has waited for a file. */
static void prepare(sn_pool *pool, struct sn_thread *self, sn_batch *batch, uint32_t task, uint64_t waited_ns)
{
    sn_batch_item *place = place_of(batch, task);
    int is_ahead = place && place->is_read;
    uint64_t blocked = place ? place->spent.blocked : 0, began = sn_now_ns();

    self->since_ms = sn_now_ms(CLOCK_MONOTONIC_COARSE);
    if (place) {
        place->spent.blocked += sn_pool_ask_hosts(pool, place);
        sn_pool_ask_ahead(pool, place, &self->asking);
    }
    pthread_mutex_unlock(&pool->mutex);
    int rc = run(&self->scratch, batch, task);
    uint64_t took = sn_now_ns() - began;
    pthread_mutex_lock(&pool->mutex);
    if (rc == SN_MISS) {
        put_back(pool, batch, task);
    } else {
        if (place) {
            uint64_t read_here = place->spent.blocked - blocked;
            sn_pool_choose_readers(pool, place, took > read_here ? took - read_here : 0);
            if (is_ahead) /* before its reading began, the thread waited for something else */
                place->spent.blocked +=
                    least_ns(waited_ns, place->spent.read * (place->together ? place->together : 1));
            end_file(pool, place, is_ahead);
        }
        sn_pool_finish_task(pool, batch); /* the memory of a batch may be gone behind its last task */
    }
    self->asking.prepared++;
    if (sn_pool_is_due(pool, &self->asking))
        sn_pool_take_ahead(pool, &self->asking);
    self->since_ms = 0;
}

static void *work(void *argument)
{
    struct sn_thread *self = argument;
    sn_pool *pool = self->pool;
    uint64_t waited_ns = 0;
    uint32_t task;

    be_nice();
    atomic_store(&self->number, (int32_t)gettid());
    pthread_mutex_lock(&pool->mutex);
    for (;;) {
        int is_parked = self - pool->preparers >= pool->limit && !pool->ending;
        int gives_way = sn_early_gives_way(pool);
        sn_batch *batch = is_parked || gives_way ? NULL : claim(pool, &task);
        if (batch) {
            prepare(pool, self, batch, task, waited_ns);
            waited_ns = 0;
        } else if (self->asking.n > 0) {
            sn_pool_take_ahead(pool, &self->asking);
        } else if (is_parked) {
            pthread_cond_wait(&pool->parked, &pool->mutex);
            waited_ns = 0;
        } else if (pool->ending) {
            break;
        } else if (gives_way) {
            sn_early_pause(pool, &pool->work, UINT64_MAX);
        } else if (sn_early_has_files(pool)) {
            sn_early_bring_one(pool, self);
        } else if (pool->ahead.reading) {
            uint64_t began = sn_now_ns();
            pthread_cond_wait(&pool->work, &pool->mutex);
            waited_ns += sn_now_ns() - began;
        } else {
            pthread_cond_wait(&pool->work, &pool->mutex);
            waited_ns = 0;
        }
    }
    self->ended = 1;
    pool->running--;
    pthread_cond_broadcast(&pool->progress);
    pthread_mutex_unlock(&pool->mutex);
    return NULL;
}

/* Start preparers until there are so many, the mutex held; 0: there are. */
static int start_preparers(sn_pool *pool, uint32_t threads)
{
    int failed = 0;

    /* Signals are the training loop's: a handler must not run on a thread of ours. */
    sigset_t all, before;
    sigfillset(&all);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        sigdelset(&all, faults[i]);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    while (!failed && pool->n_preparers < threads) {
        struct sn_thread *thread = &pool->preparers[pool->n_preparers];
        failed = sn_scratch_init(&thread->scratch, pool->max_pixels);
        if (failed)
            break;
        failed = sn_pool_start(pool, thread, work, 0);
        if (failed)
            sn_scratch_free(&thread->scratch);
        else
            pool->n_preparers++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

sn_pool *sn_pool_new(uint32_t threads, uint32_t most, uint64_t max_pixels, sn_pools *pools)
{
    sn_pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return NULL;
    pool->owner = getpid();
    pool->limit = threads;
    pool->most_preparers = most < threads ? threads : most;
    pool->max_pixels = max_pixels;
    pool->pools = pools;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->work, &monotonic);
    pthread_cond_init(&pool->parked, NULL);
    pthread_cond_init(&pool->reads, &monotonic);
    pthread_cond_init(&pool->progress, &monotonic);
    pthread_condattr_destroy(&monotonic);

    int failed = sn_scratch_init(&pool->scratch, max_pixels);
    pool->scratch.is_interruptible = 1;
    sn_readahead_init(&pool->ahead);
    pool->preparers = calloc(pool->most_preparers + SN_MOST_READERS, sizeof *pool->preparers);
    if (!pool->preparers)
        failed = 1;
    else
        pool->readers = pool->preparers + pool->most_preparers;
    pthread_mutex_lock(&pool->mutex);
    if (!failed)
        failed = start_preparers(pool, threads);
    if (failed)
        pool->limit = pool->n_preparers;
    pthread_mutex_unlock(&pool->mutex);
    if (failed && pool->n_preparers == 0) { /* with fewer than were wanted it goes on */
        sn_pool_free(pool);
        pool = NULL;
    }
    return pool;
}

/* Until when to wait for the threads that have not ended, and for fetchers in a call: one that has no place in hand is
 * about to. */
static int64_t wait_until(const sn_pool *pool, int64_t began_ms, int patience_ms)
{
    int64_t until = pool->fetchers > 0 ? began_ms + patience_ms : 0;
    for (uint32_t i = 0; i < pool->n_preparers + pool->n_readers; i++) {
        const struct sn_thread *thread = thread_at(pool, i);
        int64_t limit = (thread->since_ms ? thread->since_ms : began_ms) + patience_ms;
        if (!thread->ended && limit > until)
            until = limit;
    }
    return until;
}

int sn_pool_end(sn_pool *pool, int patience_ms)
{
    if (pool->owner != getpid())
        return 0;
    int64_t began = sn_now_ms(CLOCK_MONOTONIC), until;
    pthread_mutex_lock(&pool->mutex);
    pool->ending = 1;
    pthread_cond_broadcast(&pool->work);
    pthread_cond_broadcast(&pool->parked);
    pthread_cond_broadcast(&pool->reads);
    while (pool->running + pool->fetchers > 0 &&
           (until = wait_until(pool, began, patience_ms)) > sn_now_ms(CLOCK_MONOTONIC)) {
        struct timespec deadline = sn_time_at((uint64_t)until * 1000000);
        pthread_cond_timedwait(&pool->progress, &pool->mutex, &deadline);
    }
    int rc = pool->running + pool->fetchers > 0 ? SN_BUSY : 0;
    pthread_mutex_unlock(&pool->mutex);
    return rc;
}

void sn_pool_free(sn_pool *pool)
{
    if (!pool || pool->owner != getpid())
        return;
    for (uint32_t i = 0; i < pool->n_preparers + pool->n_readers; i++)
        pthread_join(thread_at(pool, i)->id, NULL);
    for (uint32_t i = 0; i < pool->n_preparers; i++)
        sn_scratch_free(&pool->preparers[i].scratch);
    sn_readahead_free(&pool->ahead);
    sn_early_free(pool);
    sn_scratch_free(&pool->scratch);
    free(pool->preparers);
    pthread_cond_destroy(&pool->work);
    pthread_cond_destroy(&pool->parked);
    pthread_cond_destroy(&pool->reads);
    pthread_cond_destroy(&pool->progress);
    pthread_mutex_destroy(&pool->mutex);
    free(pool);
}

uint32_t sn_pool_threads(const sn_pool *pool, int32_t *numbers, uint32_t most)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < pool->n_preparers && n < most; i++)
        if ((numbers[n] = atomic_load(&pool->preparers[i].number)) != 0)
            n++;
    return n;
}

/* A signal of `work` may have gone to a preparer that is parked now. Therefore all search for work again. */
void sn_pool_limit(sn_pool *pool, uint32_t threads)
{
    pthread_mutex_lock(&pool->mutex);
    if (pool->n_preparers > 0 && !pool->ending) {
        threads = threads < 1 ? 1 : threads > pool->most_preparers ? pool->most_preparers : threads;
        start_preparers(pool, threads);
        pool->limit = threads < pool->n_preparers ? threads : pool->n_preparers;
        pthread_cond_broadcast(&pool->work);
        pthread_cond_broadcast(&pool->parked);
    }
    pthread_mutex_unlock(&pool->mutex);
}

void sn_pool_submit(sn_pool *pool, sn_batch *batch)
{
    if (sn_batch_tasks(batch) == 0)
        return;
    pthread_mutex_lock(&pool->mutex);
    batch->following = NULL;
    batch->number = ++pool->submitted;
    pool->is_all_read = 0;
    if (batch->context->is_external) {
        pool->is_external = 1;
        sn_readahead_fetches(&pool->ahead);
    }
    if (pool->last)
        pool->last->following = batch;
    else
        pool->first = batch;
    pool->last = batch;
    sn_pool_count_unfinished(pool, 1);
    pthread_cond_broadcast(&pool->work);
    sn_pool_wake_readers(pool, pool->ahead.reading);
    pthread_mutex_unlock(&pool->mutex);
}

int sn_pool_wait(sn_pool *pool, sn_batch *batch, int timeout_ms)
{
    return sn_pool_wait_until(pool, batch, sn_now_ns() + (uint64_t)timeout_ms * 1000000);
}

int sn_pool_wait_until(sn_pool *pool, sn_batch *batch, uint64_t until_ns)
{
    struct timespec deadline = sn_time_at(until_ns);
    int rc = 0;
    pthread_mutex_lock(&pool->mutex);
    while (batch->finished < sn_batch_tasks(batch) && rc == 0) {
        uint32_t task = 0;
        /* Without threads the caller is the only worker, and this batch is the only one. */
        sn_batch *own = pool->n_preparers > 0 ? NULL : claim(pool, &task);
        if (!own) {
            if (pthread_cond_timedwait(&pool->progress, &pool->mutex, &deadline) != 0)
                rc = SN_BUSY;
        } else {
            if (place_of(own, task))
                place_of(own, task)->spent.blocked += sn_pool_ask_hosts(pool, place_of(own, task));
            pthread_mutex_unlock(&pool->mutex);
            int is_missing = run(&pool->scratch, own, task) == SN_MISS;
            pthread_mutex_lock(&pool->mutex);
            if (is_missing) {
                put_back(pool, own, task);
                continue;
            }
            if (was_interrupted(own, task)) {
                unclaim(pool, own, task);
                rc = SN_BUSY;
                break;
            }
            if (place_of(own, task))
                end_file(pool, place_of(own, task), 0);
            sn_pool_finish_task(pool, own);
            if (sn_now_ns() >= until_ns)
                rc = SN_BUSY;
        }
    }
    if (batch->finished == sn_batch_tasks(batch))
        rc = 0;
    pthread_mutex_unlock(&pool->mutex);
    return rc;
}

void sn_pool_release(sn_pool *pool, sn_batch_item *place)
{
    sn_batch *batch = place->batch;

    pthread_mutex_lock(&pool->mutex);
    place->stage = SN_DRAWN;
    sn_batch_return(batch, (uint32_t)(place - batch->places));
    pool->is_all_read = 0;
    pthread_cond_signal(&pool->work);
    if (pool->is_external)
        pthread_cond_signal(&pool->reads);
    pthread_mutex_unlock(&pool->mutex);
}

sn_pool_load sn_pool_get_load(sn_pool *pool, const sn_batch *batch)
{
    pthread_mutex_lock(&pool->mutex);
    int may_fetch = pool->is_external && !pool->is_all_read; /* preparers wait for what others have yet to ask for */
    sn_pool_load load = {.is_idle = !pool->ahead.first && !first_drawn(pool) && !first_wanting(pool) && !may_fetch,
                         .left = sn_batch_tasks(batch) - batch->finished,
                         .mean_ns = (uint64_t)(pool->ahead.busy_ns + pool->ahead.read_ns)};
    pthread_mutex_unlock(&pool->mutex);
    return load;
}

uint64_t sn_pool_mean_ns(sn_pool *pool)
{
    pthread_mutex_lock(&pool->mutex);
    uint64_t mean_ns = (uint64_t)(pool->ahead.busy_ns + pool->ahead.read_ns);
    pthread_mutex_unlock(&pool->mutex);
    return mean_ns;
}

void sn_pool_drop(sn_pool *pool, sn_batch *batch)
{
    if (pool->owner != getpid())
        return;
    pthread_mutex_lock(&pool->mutex);
    batch->dropped = 1;
    if (batch->claimed < sn_batch_tasks(batch)) {
        take_off_queue(pool, batch);
        for (uint32_t i = batch->next; i < batch->n_copies; i++) {
            sn_slot_abort(&batch->context->segment->slots[batch->copies[i].offer.slot]);
            batch->finished++;
        }
        for (uint32_t i = 0; i < batch->n_places; i++) {
            sn_batch_item *place = &batch->places[i];
            int is_over;
            if (place->stage == SN_READ_AHEAD) {
                sn_readahead_take(&pool->ahead, place);
            } else if (place->stage == SN_READING && sn_fetches_forget(&pool->fetches, place, &is_over)) {
                if (is_over) /* its fetcher holds a void ticket, and nothing of the place */
                    sn_readahead_ended(&pool->ahead, 0);
            } else if (place->stage != SN_DRAWN && place->stage != SN_AWAITED) {
                continue; /* in hand: whoever has it finishes it, and abandons it where it was only read */
            }
            place->stage = SN_CLAIMED;
            sn_abandon(batch->context, place, SN_E_CLOSED, NULL);
            batch->finished++;
        }
        batch->claimed = batch->next = sn_batch_tasks(batch);
        if (batch->finished == sn_batch_tasks(batch))
            sn_pool_count_unfinished(pool, -1);
    }
    pthread_mutex_unlock(&pool->mutex);
}

sn_scratch *sn_pool_scratch(sn_pool *pool)
{
    return &pool->scratch;
}
