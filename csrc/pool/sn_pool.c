#define _GNU_SOURCE
#include "sn_pool.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../base/sn_status.h"
#include "../slots/sn_slots.h"

struct sn_pool {
    pthread_mutex_t mutex;
    pthread_cond_t work, progress;
    sn_batch *first, *last; /* submitted, and with places that nobody has claimed */
    int ending;
    uint32_t n_threads, running;
    pid_t owner; /* a forked child has none of the threads, and waits for none */
    sn_scratch scratch; /* the iterator's own thread's */
    struct sn_thread {
        pthread_t id;
        _Atomic int32_t number; /* the kernel's; 0: it has not begun */
        sn_pool *pool;
        sn_scratch scratch;
        /* The mutex's. */
        int64_t since_ms; /* it has its place in hand; 0: it has none */
        int ended;
    } *threads;
};

/* A fault of a thread of ours has to be seen where it happens. */
static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP};

static int64_t now_ms(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static struct timespec at_ms(int64_t ms)
{
    return (struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
}

static uint32_t tasks(const sn_batch *batch)
{
    return batch->n_copies + batch->n_places;
}

/* Copies go first: their payloads are wanted by others. */
static void run(sn_scratch *scratch, sn_batch *batch, uint32_t task)
{
    const sn_context *context = batch->context;

    if (task >= batch->n_copies) {
        uint32_t place = task - batch->n_copies;
        sn_prepare(scratch, context, &batch->places[place], batch->out + place * context->item_bytes);
        return;
    }
    sn_copy *copy = &batch->copies[task];
    sn_slot *slot = &context->segment->slots[copy->offer.slot];
    memcpy(sn_slot_payload(context->segment, slot), copy->payload, copy->offer.length);
    sn_slot_commit(context->segment, copy->offer.slot);
    free(copy->payload);
    copy->payload = NULL;
}

/* The next task of the first batch; its last one takes the batch off the queue. */
static sn_batch *claim(sn_pool *pool, uint32_t *task)
{
    sn_batch *batch = pool->first;
    if (!batch)
        return NULL;
    *task = batch->next++;
    if (batch->next == tasks(batch)) {
        pool->first = batch->following;
        if (!pool->first)
            pool->last = NULL;
    }
    return batch;
}

/* Undo the last claim of the thread that is alone in this pool. */
static void unclaim(sn_pool *pool, sn_batch *batch)
{
    if (batch->next-- == tasks(batch)) {
        batch->following = pool->first;
        pool->first = batch;
        if (!pool->last)
            pool->last = batch;
    }
}

static int was_interrupted(const sn_batch *batch, uint32_t task)
{
    return task >= batch->n_copies && batch->places[task - batch->n_copies].status == -EINTR;
}

static void finish(sn_pool *pool, sn_batch *batch)
{
    if (++batch->finished == tasks(batch))
        pthread_cond_broadcast(&pool->progress);
}

static void *work(void *argument)
{
    struct sn_thread *self = argument;
    sn_pool *pool = self->pool;
    uint32_t task;

    atomic_store(&self->number, (int32_t)gettid());
    pthread_mutex_lock(&pool->mutex);
    for (;;) {
        sn_batch *batch = claim(pool, &task);
        if (batch) {
            self->since_ms = now_ms(CLOCK_MONOTONIC_COARSE);
            pthread_mutex_unlock(&pool->mutex);
            run(&self->scratch, batch, task);
            pthread_mutex_lock(&pool->mutex);
            self->since_ms = 0;
            finish(pool, batch);
        } else if (pool->ending) {
            break;
        } else {
            pthread_cond_wait(&pool->work, &pool->mutex);
        }
    }
    self->ended = 1;
    pool->running--;
    pthread_cond_broadcast(&pool->progress);
    pthread_mutex_unlock(&pool->mutex);
    return NULL;
}

sn_pool *sn_pool_new(uint32_t threads, uint64_t max_pixels)
{
    sn_pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return NULL;
    pool->owner = getpid();
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->work, NULL);
    pthread_cond_init(&pool->progress, &monotonic);
    pthread_condattr_destroy(&monotonic);

    int failed = sn_scratch_init(&pool->scratch, max_pixels);
    pool->scratch.is_interruptible = 1;
    pool->threads = calloc(threads ? threads : 1, sizeof *pool->threads);
    if (!pool->threads)
        failed = 1;

    /* Signals are the training loop's: a handler must not run on a thread of ours. */
    sigset_t all, before;
    sigfillset(&all);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        sigdelset(&all, faults[i]);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    while (!failed && pool->n_threads < threads) {
        struct sn_thread *thread = &pool->threads[pool->n_threads];
        thread->pool = pool;
        failed = sn_scratch_init(&thread->scratch, max_pixels);
        if (failed)
            break;
        pthread_mutex_lock(&pool->mutex);
        failed = pthread_create(&thread->id, NULL, work, thread);
        if (!failed)
            pool->n_threads = ++pool->running;
        pthread_mutex_unlock(&pool->mutex);
        if (failed)
            sn_scratch_free(&thread->scratch);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed && pool->n_threads == 0) { /* with fewer than were wanted it goes on */
        sn_pool_free(pool);
        pool = NULL;
    }
    return pool;
}

/* Until when to wait for the threads that have not ended: one that has no place in hand is about to. */
static int64_t wait_until(const sn_pool *pool, int64_t began_ms, int patience_ms)
{
    int64_t until = 0;
    for (uint32_t i = 0; i < pool->n_threads; i++) {
        const struct sn_thread *thread = &pool->threads[i];
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
    int64_t began = now_ms(CLOCK_MONOTONIC), until;
    pthread_mutex_lock(&pool->mutex);
    pool->ending = 1;
    pthread_cond_broadcast(&pool->work);
    while (pool->running > 0 && (until = wait_until(pool, began, patience_ms)) > now_ms(CLOCK_MONOTONIC)) {
        struct timespec deadline = at_ms(until);
        pthread_cond_timedwait(&pool->progress, &pool->mutex, &deadline);
    }
    int rc = pool->running > 0 ? SN_BUSY : 0;
    pthread_mutex_unlock(&pool->mutex);
    return rc;
}

void sn_pool_free(sn_pool *pool)
{
    if (!pool || pool->owner != getpid())
        return;
    for (uint32_t i = 0; i < pool->n_threads; i++) {
        pthread_join(pool->threads[i].id, NULL);
        sn_scratch_free(&pool->threads[i].scratch);
    }
    sn_scratch_free(&pool->scratch);
    free(pool->threads);
    pthread_cond_destroy(&pool->work);
    pthread_cond_destroy(&pool->progress);
    pthread_mutex_destroy(&pool->mutex);
    free(pool);
}

uint32_t sn_pool_threads(const sn_pool *pool, int32_t *numbers, uint32_t most)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < pool->n_threads && n < most; i++)
        if ((numbers[n] = atomic_load(&pool->threads[i].number)) != 0)
            n++;
    return n;
}

void sn_pool_submit(sn_pool *pool, sn_batch *batch)
{
    if (tasks(batch) == 0)
        return;
    pthread_mutex_lock(&pool->mutex);
    batch->following = NULL;
    if (pool->last)
        pool->last->following = batch;
    else
        pool->first = batch;
    pool->last = batch;
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->mutex);
}

int sn_pool_wait(sn_pool *pool, sn_batch *batch, int timeout_ms)
{
    int64_t until = now_ms(CLOCK_MONOTONIC) + timeout_ms;
    struct timespec deadline = at_ms(until);
    int rc = 0;
    pthread_mutex_lock(&pool->mutex);
    while (batch->finished < tasks(batch) && rc == 0) {
        uint32_t task = 0;
        if (pool->n_threads > 0) {
            if (pthread_cond_timedwait(&pool->progress, &pool->mutex, &deadline) != 0)
                rc = SN_BUSY;
        } else { /* the caller is the only worker, and this batch is the only one */
            sn_batch *own = claim(pool, &task);
            pthread_mutex_unlock(&pool->mutex);
            run(&pool->scratch, own, task);
            pthread_mutex_lock(&pool->mutex);
            if (was_interrupted(own, task)) {
                unclaim(pool, own);
                rc = SN_BUSY;
                break;
            }
            finish(pool, own);
            if (now_ms(CLOCK_MONOTONIC) >= until)
                rc = SN_BUSY;
        }
    }
    if (batch->finished == tasks(batch))
        rc = 0;
    pthread_mutex_unlock(&pool->mutex);
    return rc;
}

void sn_pool_drop(sn_pool *pool, sn_batch *batch)
{
    if (pool->owner != getpid())
        return;
    pthread_mutex_lock(&pool->mutex);
    uint32_t begun = batch->next;
    if (begun < tasks(batch)) {
        sn_batch *before = NULL;
        sn_batch *at = pool->first;
        while (at && at != batch) {
            before = at;
            at = at->following;
        }
        if (at) {
            if (before)
                before->following = batch->following;
            else
                pool->first = batch->following;
            if (pool->last == batch)
                pool->last = before;
        }
        for (uint32_t task = begun; task < tasks(batch); task++) {
            if (task >= batch->n_copies)
                sn_abandon(batch->context, &batch->places[task - batch->n_copies], SN_E_CLOSED, NULL);
            else
                sn_slot_abort(&batch->context->segment->slots[batch->copies[task].offer.slot]);
        }
        batch->next = tasks(batch);
        batch->finished += tasks(batch) - begun;
    }
    pthread_mutex_unlock(&pool->mutex);
}

sn_scratch *sn_pool_scratch(sn_pool *pool)
{
    return &pool->scratch;
}
