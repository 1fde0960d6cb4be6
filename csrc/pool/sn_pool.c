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

#define NICER 5 /* than the training loop, whose thread gets a core before ours */
#define READER_STACK (256u << 10)
#define MOST_LOOKS 1024 /* at places ahead, for neighbours of one that is to be fetched: some ten microseconds */

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

/* A fault of a thread of ours has to be seen where it happens. */
static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP};

static int64_t now_ms(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static struct timespec at_ns(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint64_t least_ns(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint32_t tasks(const sn_batch *batch)
{
    return batch->n_copies + batch->n_places;
}

/* Copies go first: their payloads are wanted by others. As sn_prepare(). */
static int run(sn_scratch *scratch, sn_batch *batch, uint32_t task)
{
    const sn_context *context = batch->context;

    if (task >= batch->n_copies) {
        uint32_t place = task - batch->n_copies;
        return sn_prepare(scratch, context, &batch->places[place], batch->out + place * context->item_bytes);
    }
    sn_copy *copy = &batch->copies[task];
    sn_slot *slot = &context->segment->slots[copy->offer.slot];
    memcpy(sn_slot_payload(context->segment, slot), copy->payload, copy->offer.length);
    sn_slot_commit(context->segment, copy->offer.slot);
    free(copy->payload);
    copy->payload = NULL;
    return 0;
}

static sn_place *place_of(const sn_batch *batch, uint32_t task)
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

/* Whether a place is to be fetched before a preparer can take it. */
static int is_to_be_fetched(const sn_place *place)
{
    return place->stage == SN_DRAWN && place->batch->context->is_external && sn_place_needs_file(place);
}

static int is_for_preparers(const sn_place *place)
{
    return place->stage == SN_DRAWN && !is_to_be_fetched(place);
}

/* The first batch with a task that a preparer can take and that was not read ahead; its `next` is that task. */
static sn_batch *first_drawn(sn_pool *pool)
{
    for (sn_batch *batch = pool->first; batch; batch = batch->following) {
        const sn_place *place;
        while (batch->next < tasks(batch) && (place = place_of(batch, batch->next)) && !is_for_preparers(place))
            batch->next++;
        if (batch->next < tasks(batch))
            return batch;
    }
    return NULL;
}

static int may_read(const sn_pool *pool)
{
    return sn_ahead_may_read(&pool->ahead, pool->limit, pool->fetches.bytes);
}

/* The next task: the earliest batch's, and of that a place that was read ahead before one that must be read. */
static sn_batch *claim(sn_pool *pool, uint32_t *task)
{
    sn_place *ahead = pool->ahead.first;
    sn_batch *batch = first_drawn(pool);

    if (ahead && (!batch || ahead->batch->number < batch->number ||
                  (ahead->batch == batch && batch->next >= batch->n_copies))) {
        sn_ahead_take(&pool->ahead, ahead);
        if (!pool->is_all_read && may_read(pool))
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
    if (++batch->claimed == tasks(batch))
        take_off_queue(pool, batch);
    return batch;
}

/* Undo a claim. */
static void unclaim(sn_pool *pool, sn_batch *batch, uint32_t task)
{
    if (batch->claimed-- == tasks(batch))
        put_on_queue(pool, batch);
    batch->next = least(batch->next, task);
    if (place_of(batch, task)) {
        place_of(batch, task)->stage = SN_DRAWN;
        batch->next_read = least(batch->next_read, task - batch->n_copies);
        pool->is_all_read = 0;
    }
}

static int was_interrupted(const sn_batch *batch, uint32_t task)
{
    return place_of(batch, task) && place_of(batch, task)->status == -EINTR;
}

static void finish(sn_pool *pool, sn_batch *batch)
{
    if (++batch->finished == tasks(batch))
        pthread_cond_broadcast(&pool->progress);
}

/* A preparer has met a place whose bytes are to be fetched first. */
static void put_back(sn_pool *pool, sn_batch *batch, uint32_t task)
{
    if (batch->dropped) {
        sn_abandon(batch->context, place_of(batch, task), SN_E_CLOSED, NULL);
        finish(pool, batch);
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

static int start(sn_pool *pool, struct sn_thread *thread, void *(*run_as)(void *), size_t stack_bytes)
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
    if (!may_read(pool))
        return NULL;
    for (sn_batch *batch = pool->first; batch; batch = batch->following)
        while (batch->next_read < batch->n_places) {
            sn_place *place = &batch->places[batch->next_read++];
            if (pool->is_external ? is_to_be_fetched(place)
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
        self->since_ms = now_ms(CLOCK_MONOTONIC_COARSE);
        pthread_mutex_unlock(&pool->mutex);
        int rc = sn_read_ahead(place->batch->context, place);
        pthread_mutex_lock(&pool->mutex);
        self->since_ms = 0;
        sn_ahead_ended(&pool->ahead, rc);
        if (place->batch->dropped) {
            sn_abandon(place->batch->context, place, SN_E_CLOSED, NULL);
            finish(pool, place->batch);
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

/* Those that may read beyond so many. */
static void wake_readers(sn_pool *pool, uint32_t beyond)
{
    for (uint32_t n = beyond; n < pool->ahead.readers; n++)
        pthread_cond_signal(&pool->reads);
}

/* After a place that is prepared. */
static void choose_readers(sn_pool *pool, const sn_place *place, uint64_t busy_ns)
{
    uint32_t before = pool->ahead.readers;

    sn_ahead_choose(&pool->ahead, place, busy_ns, pool->limit);
    /* One after each place. If it fails, those that are there do. */
    if (!pool->is_external && pool->ahead.readers > pool->n_readers && !pool->ending &&
        start(pool, &pool->readers[pool->n_readers], read_ahead, READER_STACK) == 0)
        pool->n_readers++;
    wake_readers(pool, before);
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

/* A file has come, or has failed to, and its place has it now. The mutex is held. `together`: how many places one
 * request, which took so long, has brought. */
static void arrive(sn_pool *pool, sn_place *place, const sn_file *file, uint64_t took_ns, uint32_t together)
{
    place->file = *file;
    place->is_read = 1;
    place->spent.read = took_ns / together;
    place->together = together;
    place->was_awaited = 1;
    place->stage = SN_READ_AHEAD;
    sn_ahead_add(&pool->ahead, place);
    pthread_cond_signal(&pool->work);
    if (pool->n_preparers == 0)
        pthread_cond_broadcast(&pool->progress); /* the thread that waits there prepares */
}

/* A place that a request should have brought is to be fetched by another one. The mutex is held. */
static void fetch_again(sn_pool *pool, sn_place *place)
{
    sn_batch *batch = place->batch;

    place->stage = SN_DRAWN;
    batch->next_read = least(batch->next_read, (uint32_t)(place - batch->places));
    pool->is_all_read = 0;
    pthread_cond_signal(&pool->reads);
}

/* A request is over, the mutex held. */
static void end_request(sn_pool *pool, sn_request *request)
{
    sn_fetches_end(&pool->fetches, request);
    sn_ahead_ended(&pool->ahead, 0);
    pthread_cond_signal(&pool->reads);
}

/* Have a request bring the neighbours of its places too, of those that nobody fetches. The mutex is held. A request that
 * has several places may have new neighbours, and they are looked for once more. */
static void join_neighbours(sn_pool *pool, sn_request *request)
{
    const sn_context *context = request->places[0]->batch->context;
    uint32_t n, looks;

    if (request->places[0]->fetches_alone || request->wanted.length == context->containers[request->wanted.container].size_bytes)
        return;
    do {
        n = request->wanted.n;
        looks = MOST_LOOKS;
        for (sn_batch *batch = pool->first; batch && looks > 0; batch = batch->following) {
            for (uint32_t i = batch->next_read; i < batch->n_places && looks > 0; i++, looks--) {
                sn_place *place = &batch->places[i];
                if (is_to_be_fetched(place) && !place->fetches_alone && batch->context == context &&
                    sn_fetches_join(&pool->fetches, request, place))
                    place->stage = SN_READING;
            }
        }
    } while (request->wanted.n > n);
}

/* Whether another host has left the bytes of a sample. The mutex is held, but not while that host is asked: the place
 * may be dropped meanwhile, and is not touched. */
static int is_left_by_another_host(sn_pool *pool, const sn_context *context, uint32_t sample, sn_file *file)
{
    *file = sn_ahead_spare(&pool->ahead);
    pthread_mutex_unlock(&pool->mutex);
    int found = sn_is_from_another_host(context, sample, file);
    pthread_mutex_lock(&pool->mutex);
    return found;
}

/* Some places of a request are in it no longer, and what lies between the others may be too much now. The mutex is held. The
 * request of those that are neighbours still; NULL: there are none. */
static sn_request *narrow(sn_pool *pool, sn_request *request)
{
    sn_place *left[SN_MOST_JOINED];
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
    request = sn_fetches_add(&pool->fetches, left[first++], now_ns());
    do {
        joined = request->wanted.n;
        for (uint32_t i = first; i < n; i++) {
            if (sn_fetches_join(&pool->fetches, request, left[i]))
                left[i--] = left[--n];
        }
    } while (request->wanted.n > joined);
    for (uint32_t i = first; i < n; i++)
        fetch_again(pool, left[i]);
    return request;
}

/* Take what other hosts have left of a request's places. The mutex is held, but not while they are asked. The request of what
 * they have not; NULL: nothing is left to be fetched. */
static sn_request *ask_other_hosts(sn_pool *pool, const sn_context *context, sn_request *request)
{
    uint64_t ticket = request->wanted.ticket;
    sn_file file;

    for (uint32_t i = 0; request && i < request->wanted.n; i++) {
        if (!request->places[i] || request->places[i]->skips_remote)
            continue;
        uint64_t began = now_ns();
        int found = is_left_by_another_host(pool, context, request->wanted.samples[i], &file);
        request = sn_fetches_find(&pool->fetches, ticket);
        if (found && request && request->places[i]) {
            arrive(pool, sn_fetches_take(request, i), &file, now_ns() - began, 1);
            continue;
        }
        sn_ahead_keep_spare(&pool->ahead, &file);
        if (request && request->places[i])
            request->places[i]->skips_remote = 1;
    }
    return request ? narrow(pool, request) : NULL;
}

int sn_pool_next_fetch(sn_pool *pool, sn_wanted *wanted, int timeout_ms)
{
    struct timespec deadline = at_ns(now_ns() + (uint64_t)timeout_ms * 1000000);
    int rc = SN_BUSY, is_late = 0;

    pthread_mutex_lock(&pool->mutex);
    for (;;) {
        sn_place *place = pool->ending ? NULL : claim_read(pool);
        if (place) {
            const sn_context *context = place->batch->context;
            place->stage = SN_READING;
            sn_ahead_began(&pool->ahead);
            sn_request *request = sn_fetches_add(&pool->fetches, place, now_ns());
            join_neighbours(pool, request);
            if (context->remote)
                request = ask_other_hosts(pool, context, request);
            if (request) {
                *wanted = request->wanted;
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

/* The bytes of one place of a request, copied into memory of their own: it may be dropped meanwhile. The mutex is held, but
 * not while they are copied. */
static sn_file copy_of(sn_pool *pool, const uint8_t *bytes, size_t length, int rc)
{
    sn_file file = sn_ahead_spare(&pool->ahead);

    pthread_mutex_unlock(&pool->mutex);
    file.length = 0;
    file.is_remote = 0;
    file.why = NULL;
    file.rc = rc == 0 ? sn_file_reserve(&file, length + 1) : rc;
    if (file.rc == 0 && length) {
        memcpy(file.bytes, bytes, length);
        file.length = length;
    }
    pthread_mutex_lock(&pool->mutex);
    return file;
}
int sn_pool_fetched(sn_pool *pool, uint64_t ticket, const uint8_t *bytes, size_t length, int rc, const char *why)
{
    const sn_context *context = NULL;
    uint32_t came[SN_MOST_JOINED], n_came = 0, n = 0, answered = 0;
    uint64_t offset = 0, took = 0;

    pthread_mutex_lock(&pool->mutex);
    sn_request *request = sn_fetches_find(&pool->fetches, ticket);
    if (request) {
        n = request->wanted.n;
        offset = request->wanted.offset;
        took = now_ns() - request->began_ns;
        if (rc == 0 && length != request->wanted.length) {
            rc = -EIO;
            why = "its server has answered with another number of bytes";
        }
    }
    for (uint32_t i = 0; request && i < n; i++) {
        sn_place *place = request->places[i];
        if (!place)
            continue;
        if (rc != 0 && n > 1) { /* the fault may be one place's alone */
            place->fetches_alone = 1;
            fetch_again(pool, sn_fetches_take(request, i));
            answered++;
            continue;
        }
        uint32_t sample = request->wanted.samples[i];
        context = place->batch->context;
        const sn_piece *piece = &context->pieces[sample];
        sn_file file = copy_of(pool, rc == 0 ? bytes + (piece->offset - offset) : NULL, piece->length, rc);
        request = sn_fetches_find(&pool->fetches, ticket);
        if (!request || !request->places[i]) {
            sn_ahead_keep_spare(&pool->ahead, &file);
            continue;
        }
        if (why && !place->message)
            place->message = strdup(why);
        if (file.rc == 0)
            came[n_came++] = sample;
        arrive(pool, sn_fetches_take(request, i), &file, took, n);
        answered++;
    }
    if (request) {
        if (rc == 0)
            sn_ahead_brought(&pool->ahead, n);
        end_request(pool, request);
    }
    pthread_mutex_unlock(&pool->mutex);
    for (uint32_t i = 0; i < n_came && context->remote; i++) {
        const sn_piece *piece = &context->pieces[came[i]];
        sn_remote_put(context->remote, context->dataset, came[i], bytes + (piece->offset - offset), piece->length);
    }
    return answered ? 0 : SN_MISS;
}

/* -- Preparing -- */

/* Do a task. The mutex is held before and after it. `waited_ns`: how long the thread has waited for a file. */
static void prepare(sn_pool *pool, struct sn_thread *self, sn_batch *batch, uint32_t task, uint64_t waited_ns)
{
    sn_place *place = place_of(batch, task);
    int is_ahead = place && place->is_read;

    self->since_ms = now_ms(CLOCK_MONOTONIC_COARSE);
    pthread_mutex_unlock(&pool->mutex);
    uint64_t began = now_ns();
    int rc = run(&self->scratch, batch, task);
    uint64_t took = now_ns() - began;
    pthread_mutex_lock(&pool->mutex);
    self->since_ms = 0;
    if (rc == SN_MISS) {
        put_back(pool, batch, task);
        return;
    }
    if (place) {
        uint64_t read_here = place->spent.blocked;
        choose_readers(pool, place, took > read_here ? took - read_here : 0);
        if (is_ahead) /* before its reading began, the thread waited for something else */
            place->spent.blocked += least_ns(waited_ns, place->spent.read * (place->together ? place->together : 1));
        if (place->status != SN_E_NOT_JPEG || !sn_place_was_fetched(batch->context, place)) /* else it is for Pillow */
            sn_ahead_keep_spare(&pool->ahead, &place->file);
    }
    finish(pool, batch);
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
        if (self - pool->preparers >= pool->limit && !pool->ending) {
            pthread_cond_wait(&pool->parked, &pool->mutex);
            waited_ns = 0;
            continue;
        }
        sn_batch *batch = claim(pool, &task);
        if (batch) {
            prepare(pool, self, batch, task, waited_ns);
            waited_ns = 0;
        } else if (pool->ending) {
            break;
        } else if (pool->ahead.reading) {
            uint64_t began = now_ns();
            pthread_cond_wait(&pool->work, &pool->mutex);
            waited_ns += now_ns() - began;
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
        failed = start(pool, thread, work, 0);
        if (failed)
            sn_scratch_free(&thread->scratch);
        else
            pool->n_preparers++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

sn_pool *sn_pool_new(uint32_t threads, uint32_t most, uint64_t max_pixels)
{
    sn_pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return NULL;
    pool->owner = getpid();
    pool->limit = threads;
    pool->most_preparers = most < threads ? threads : most;
    pool->max_pixels = max_pixels;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->work, NULL);
    pthread_cond_init(&pool->parked, NULL);
    pthread_cond_init(&pool->reads, &monotonic);
    pthread_cond_init(&pool->progress, &monotonic);
    pthread_condattr_destroy(&monotonic);

    int failed = sn_scratch_init(&pool->scratch, max_pixels);
    pool->scratch.is_interruptible = 1;
    sn_ahead_init(&pool->ahead);
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
    int64_t began = now_ms(CLOCK_MONOTONIC), until;
    pthread_mutex_lock(&pool->mutex);
    pool->ending = 1;
    pthread_cond_broadcast(&pool->work);
    pthread_cond_broadcast(&pool->parked);
    pthread_cond_broadcast(&pool->reads);
    while (pool->running + pool->fetchers > 0 &&
           (until = wait_until(pool, began, patience_ms)) > now_ms(CLOCK_MONOTONIC)) {
        struct timespec deadline = at_ns((uint64_t)until * 1000000);
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
    sn_ahead_free(&pool->ahead);
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

/* A signal of `work` may have gone to a preparer that is parked now. Therefore all look for work again. */
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
    if (tasks(batch) == 0)
        return;
    pthread_mutex_lock(&pool->mutex);
    batch->following = NULL;
    batch->number = ++pool->submitted;
    pool->is_all_read = 0;
    if (batch->context->is_external) {
        pool->is_external = 1;
        sn_ahead_fetches(&pool->ahead);
    }
    if (pool->last)
        pool->last->following = batch;
    else
        pool->first = batch;
    pool->last = batch;
    pthread_cond_broadcast(&pool->work);
    wake_readers(pool, pool->ahead.reading);
    pthread_mutex_unlock(&pool->mutex);
}

int sn_pool_wait(sn_pool *pool, sn_batch *batch, int timeout_ms)
{
    return sn_pool_wait_until(pool, batch, now_ns() + (uint64_t)timeout_ms * 1000000);
}

int sn_pool_wait_until(sn_pool *pool, sn_batch *batch, uint64_t until_ns)
{
    struct timespec deadline = at_ns(until_ns);
    int rc = 0;
    pthread_mutex_lock(&pool->mutex);
    while (batch->finished < tasks(batch) && rc == 0) {
        uint32_t task = 0;
        /* Without threads the caller is the only worker, and this batch is the only one. */
        sn_batch *own = pool->n_preparers > 0 ? NULL : claim(pool, &task);
        if (!own) {
            if (pthread_cond_timedwait(&pool->progress, &pool->mutex, &deadline) != 0)
                rc = SN_BUSY;
        } else {
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
            finish(pool, own);
            if (now_ns() >= until_ns)
                rc = SN_BUSY;
        }
    }
    if (batch->finished == tasks(batch))
        rc = 0;
    pthread_mutex_unlock(&pool->mutex);
    return rc;
}

void sn_pool_release(sn_pool *pool, sn_place *place)
{
    sn_batch *batch = place->batch;
    uint32_t at = (uint32_t)(place - batch->places);

    pthread_mutex_lock(&pool->mutex);
    place->stage = SN_DRAWN;
    batch->next = least(batch->next, batch->n_copies + at);
    batch->next_read = least(batch->next_read, at);
    pool->is_all_read = 0;
    pthread_cond_signal(&pool->work);
    if (pool->is_external)
        pthread_cond_signal(&pool->reads);
    pthread_mutex_unlock(&pool->mutex);
}

sn_pool_load sn_pool_look(sn_pool *pool, const sn_batch *batch)
{
    pthread_mutex_lock(&pool->mutex);
    int may_fetch = pool->is_external && !pool->is_all_read; /* preparers wait for what others have yet to ask for */
    sn_pool_load load = {.is_idle = !pool->ahead.first && !first_drawn(pool) && !may_fetch,
                         .left = tasks(batch) - batch->finished,
                         .mean_ns = (uint64_t)(pool->ahead.busy_ns + pool->ahead.awaited_ns)};
    pthread_mutex_unlock(&pool->mutex);
    return load;
}

void sn_pool_drop(sn_pool *pool, sn_batch *batch)
{
    if (pool->owner != getpid())
        return;
    pthread_mutex_lock(&pool->mutex);
    batch->dropped = 1;
    if (batch->claimed < tasks(batch)) {
        take_off_queue(pool, batch);
        for (uint32_t i = batch->next; i < batch->n_copies; i++) {
            sn_slot_abort(&batch->context->segment->slots[batch->copies[i].offer.slot]);
            batch->finished++;
        }
        for (uint32_t i = 0; i < batch->n_places; i++) {
            sn_place *place = &batch->places[i];
            int is_over;
            if (place->stage == SN_READ_AHEAD) {
                sn_ahead_take(&pool->ahead, place);
            } else if (place->stage == SN_READING && sn_fetches_forget(&pool->fetches, place, &is_over)) {
                if (is_over) /* its fetcher holds a void ticket, and nothing of the place */
                    sn_ahead_ended(&pool->ahead, 0);
            } else if (place->stage != SN_DRAWN && place->stage != SN_AWAITED) {
                continue; /* in hand: whoever has it finishes it, and abandons it where it was only read */
            }
            place->stage = SN_CLAIMED;
            sn_abandon(batch->context, place, SN_E_CLOSED, NULL);
            batch->finished++;
        }
        batch->claimed = batch->next = tasks(batch);
    }
    pthread_mutex_unlock(&pool->mutex);
}

sn_scratch *sn_pool_scratch(sn_pool *pool)
{
    return &pool->scratch;
}
