/*
 * test_pool_remote.c -- pools whose files are on a server: each place comes once, with the right pixels, and is asked for
 * once, while the server has all files, some or none, and while it dies.
 *
 *   files (JPEG, missing) --> 4 iterators, each a thread with a pool of its own --> one client --> fake_host.h
 *
 * At last the iterators share copies there as well, each as a host of its own: a place's copy is its owner's, or made here.
 *
 * Preparers ask for files before they prepare, readers before they read, fetchers before they fetch. One iterator has no
 * threads, and prepares while it waits. Batches are delivered in any order, dropped while they are asked for, and left
 * under way at an epoch's end.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/sn_status.h"
#include "check.h"
#include "fake_host.h"
#include "sample_files.h"
#include "plans.h"
#include "pool/sn_pool.h"

#define N_SAMPLES HOST_SAMPLES
#define N_ITERATORS 4
#define N_FETCHERS 3
#define BATCH 8
#define DEPTH 4
#define MAX_PIXELS 100000
#define SLOW_US 300 /* a read: files are then read ahead */
#define MOST_THREADS 4

/* The epochs, one after another. The server is empty at first. */
enum { FILLS, SERVES, IS_LEFT, DIES, COMES_BACK, SERVES_AGAIN, SHARES, SHARES_AND_IS_LEFT, SHARES_AND_DIES, N_EPOCHS };

static const struct {
    uint32_t threads;
    int is_external;
} iterators[N_ITERATORS] = {{3, 0}, {2, 0}, {0, 0}, {2, 1}};

typedef struct {
    uint64_t served, read, failed, dropped, drawn, copies;
} counts;

typedef struct {
    uint32_t number, epoch;
    sn_member *member;
    sn_pool *pool;
    sn_context context;
    sn_hosts *hosts;
    sn_batch *under_way[DEPTH];
    uint32_t n_under_way;
    uint8_t times[N_SAMPLES];
    sn_rng rng;
    sn_codec *lone;
    counts counts;
    pthread_t fetchers[N_FETCHERS];
    pthread_mutex_t gate; /* as the interpreter's lock in the border */
    int is_closed;        /* the gate's */
} stream;

static uint64_t seed;
static sn_plan plans[N_PLANS];
static picture_file files[N_SAMPLES]; /* without bytes: it is missing */
static uint32_t n_files;
static char paths[N_SAMPLES * SAMPLE_PATH];
static uint64_t path_at[N_SAMPLES];
static sn_piece pieces[N_SAMPLES];
static sn_container containers[N_SAMPLES];
static sn_remote *client;
static pthread_barrier_t epoch_begins, epoch_ends;
static atomic_uint delivered; /* of all iterators, in this epoch */
static stream streams[N_ITERATORS];

static const uint8_t dataset[SN_REMOTE_DATASET] = "a dataset's name";

static void name_copies(uint32_t epoch, uint8_t name[SN_REMOTE_DATASET])
{
    memcpy(name, "epoch's copies  ", SN_REMOTE_DATASET);
    name[SN_REMOTE_DATASET - 1] = (uint8_t)epoch;
}

static int shares(const stream *s)
{
    return s->epoch >= SHARES;
}

static int may_drop(const stream *s)
{
    return s->epoch == IS_LEFT || s->epoch == DIES || s->epoch > SHARES;
}

static void pass_us(int us)
{
    nanosleep(&(struct timespec){.tv_nsec = (long)us * 1000}, NULL);
}

/* In place of the C library's. */
ssize_t read(int fd, void *buffer, size_t count)
{
    pass_us(SLOW_US);
    return syscall(SYS_read, fd, buffer, count);
}

/* -- Files -- */

static void make_files(void)
{
    sn_rng rng;

    sample_files_begin("/tmp", N_SAMPLES, paths, path_at);
    sn_rng_start(&rng, seed, 0, 0, 0, SN_STREAM_ORDER);
    for (uint32_t i = 0; i < N_SAMPLES; i++) {
        picture_kind kind = {.height = 20 + sn_rng_below(&rng, 60),
                             .width = 20 + sn_rng_below(&rng, 60),
                             .colour = PICTURE_YCC,
                             .across = 1,
                             .down = 1,
                             .quality = 70};
        if (i % 16 == 5)
            continue;
        files[i] = picture_make(&kind, &rng);
        pieces[i] = (sn_piece){.length = (uint32_t)files[i].length, .container = i};
        containers[i].size_bytes = files[i].length;
        sample_files_write(i, &files[i]);
        n_files++;
    }
    for (uint32_t i = 0; i < N_SAMPLES; i++)
        pieces[i].container = i;
}

/* -- Fetching -- */

static int enter(stream *s)
{
    pthread_mutex_lock(&s->gate);
    int may = !s->is_closed;
    if (may)
        sn_pool_enter(s->pool);
    pthread_mutex_unlock(&s->gate);
    return may;
}

static void *fetch(void *argument)
{
    stream *s = argument;
    sn_wanted wanted;

    while (enter(s)) {
        int rc = sn_pool_next_fetch(s->pool, &wanted, 2);
        if (rc == 0) {
            const picture_file *file = &files[wanted.samples[0]];
            CHECK_EQUAL(wanted.n, 1, "sample %u", wanted.samples[0]);
            size_t capacity = file->length + 1;
            uint8_t *bytes = malloc(capacity);
            CHECK(bytes != NULL);
            if (file->bytes)
                memcpy(bytes, file->bytes, file->length);
            if (file->bytes && wanted.ticket % 2 == 0)
                rc = sn_pool_fetched_in(s->pool, wanted.ticket, &bytes, &capacity, file->length);
            else
                rc = sn_pool_fetched(s->pool, wanted.ticket, bytes, file->length, file->bytes ? 0 : -ENOENT, NULL);
            free(bytes);
            CHECK(rc == 0 || rc == SN_MISS);
        }
        sn_pool_leave(s->pool);
    }
    return NULL;
}

/* -- The iterator -- */

static void open_stream(stream *s)
{
    uint32_t all[N_SAMPLES];
    int joined;

    for (uint32_t i = 0; i < N_SAMPLES; i++)
        all[i] = i;
    s->context = (sn_context){.plan = &plans[PLAN_TRAIN],
                              .paths = paths,
                              .path_at = path_at,
                              .seed = shares(s) ? seed : seed + s->number,
                              .epoch = s->epoch,
                              .remote = client};
    memcpy(s->context.dataset, dataset, sizeof dataset);
    if (shares(s)) {
        s->context.hosts = s->hosts;
        name_copies(s->epoch, s->context.copies);
        sn_hosts_begin(s->hosts, s->context.copies);
    }
    if (iterators[s->number].is_external) {
        s->context.is_external = 1;
        s->context.pieces = pieces;
        s->context.containers = containers;
        s->context.paths = NULL;
    }
    CHECK(sn_plan_output_size(s->context.plan, &s->context.height, &s->context.width) == 0);
    s->context.item_bytes = plan_item_bytes(s->context.plan, s->context.height, s->context.width);
    sn_member_options options = {
        .epoch = {.n_samples = N_SAMPLES,
                  .samples = all,
                  .count = N_SAMPLES,
                  .places = N_SAMPLES,
                  .seed = seed + s->number,
                  .epoch = s->epoch},
        .job_key = s->number,
        .client = {.height = (uint16_t)s->context.height, .width = (uint16_t)s->context.width},
        .process_row = SN_NONE,
        .in_flight = DEPTH * BATCH,
    };
    CHECK_EQUAL(sn_member_open(NULL, &options, &s->member, &joined), 0, "epoch %u", s->epoch);
    s->pool = sn_pool_new(iterators[s->number].threads, MOST_THREADS, MAX_PIXELS, NULL);
    CHECK(s->pool);
    s->n_under_way = s->is_closed = 0;
    memset(s->times, 0, sizeof s->times);
    for (uint32_t i = 0; i < N_FETCHERS && s->context.is_external; i++)
        CHECK(pthread_create(&s->fetchers[i], NULL, fetch, s) == 0);
}

/* As if all iterators were members of hosts that are near. */
static void give_roles(const stream *s, sn_batch *batch)
{
    sn_rendezvous near = {.self = 1 + s->number, .asks = 1, .leaves = 1};

    for (uint32_t i = 0; i < N_ITERATORS; i++)
        if (i != s->number)
            near.others[near.n++] = 1 + i;
    for (uint32_t i = 0; i < batch->n_places; i++)
        batch->places[i].item.role = sn_rendezvous_role(&near, batch->places[i].item.sample);
}

static void draw(stream *s)
{
    uint32_t left = sn_member_left(s->member), wanted = 1 + sn_rng_below(&s->rng, BATCH), until_check = 0;
    uint32_t indices[BATCH];
    sn_offers offers = {0};

    wanted = wanted < left ? wanted : left;
    sn_batch *batch = sn_batch_new(&s->context, wanted, 0);
    CHECK(batch);
    batch->out = malloc(wanted * s->context.item_bytes);
    CHECK(batch->out);
    CHECK_EQUAL(sn_batch_draw(batch, s->member, &offers, &until_check, indices), 0, "of %u left", left);
    for (uint32_t i = 0; i < wanted; i++)
        CHECK_EQUAL(s->times[indices[i]]++, 0, "sample %u", indices[i]);
    if (shares(s))
        give_roles(s, batch);
    s->counts.drawn += wanted;
    s->under_way[s->n_under_way++] = batch;
    sn_pool_submit(s->pool, batch);
    if (sn_rng_below(&s->rng, 4) == 0)
        sn_pool_limit(s->pool, 1 + sn_rng_below(&s->rng, MOST_THREADS));
}

static void check_place(stream *s, const sn_batch_item *place, const uint8_t *item)
{
    uint32_t i = place->item.sample;
    const picture_file *file = &files[i];
    uint8_t *pixels = malloc((size_t)3 * s->context.height * s->context.width), *made = malloc(s->context.item_bytes);
    sn_rng rng;

    CHECK(pixels && made && atomic_load(&place->settled));
    CHECK_EQUAL(place->status, file->bytes ? 0 : -ENOENT, "sample %u", i);
    CHECK_EQUAL(place->read_bytes, place->is_remote || place->is_copy ? 0 : file->length, "sample %u", i);
    CHECK(!place->damaged && (file->bytes || !(place->is_remote || place->is_copy)));
    CHECK(!place->is_copy || (place->item.role == SN_ASKS_FOR_COPY && !place->is_remote));
    if (file->bytes) {
        sn_rng_start(&rng, s->context.seed, 0, s->epoch, i, SN_STREAM_AUGMENT);
        CHECK_EQUAL(sn_codec_augment_encoded(s->lone, s->context.plan, &rng, file->bytes, file->length, pixels), 0,
                    "sample %u", i);
        sn_rng_start(&rng, s->context.seed, 0, s->epoch, i, SN_STREAM_ERASE);
        sn_batch_write(s->context.plan, pixels, s->context.height, s->context.width, &rng, made);
        CHECK_EQUAL(memcmp(made, item, s->context.item_bytes), 0, "sample %u", i);
    }
    free(pixels);
    free(made);
}

static void free_batch(stream *s, uint32_t at)
{
    sn_batch *batch = s->under_way[at];

    s->under_way[at] = s->under_way[--s->n_under_way];
    free(batch->out);
    sn_batch_free(batch);
}

static void deliver(stream *s, uint32_t at)
{
    sn_batch *batch = s->under_way[at];
    uint32_t remote = 0, copies = 0, failed = 0;
    sn_batch_sums sums;

    while (sn_pool_wait(s->pool, batch, (int)sn_rng_below(&s->rng, 3)) != 0)
        ;
    for (uint32_t i = 0; i < batch->n_places; i++) {
        const sn_batch_item *place = &batch->places[i];

        check_place(s, place, batch->out + i * s->context.item_bytes);
        remote += place->is_remote;
        copies += place->is_copy;
        failed += place->status != 0;
    }
    sn_batch_sum(batch, &sums);
    CHECK_EQUAL(sums.n_remote, remote, "a batch of %u", batch->n_places);
    CHECK_EQUAL(sums.n_copies, copies, "a batch of %u", batch->n_places);
    CHECK_EQUAL(sums.served[SN_AUGMENTED], copies, "a batch of %u", batch->n_places);
    CHECK_EQUAL(sums.prepared, batch->n_places - failed - copies, "a batch of %u", batch->n_places);
    CHECK(!remote == !sums.remote_ns);
    s->counts.served += remote;
    s->counts.copies += copies;
    s->counts.failed += failed;
    s->counts.read += sums.n_read;
    uint32_t before = atomic_fetch_add(&delivered, batch->n_places);
    if ((s->epoch == DIES || s->epoch == SHARES_AND_DIES) && before < N_SAMPLES &&
        before + batch->n_places >= N_SAMPLES)
        fake_host_die();
    sn_batch_done(batch, s->member);
    free_batch(s, at);
}

static void drop(stream *s, uint32_t at)
{
    sn_batch *batch = s->under_way[at];

    sn_pool_drop(s->pool, batch);
    while (sn_pool_wait(s->pool, batch, 10) != 0)
        ;
    sn_abandon_unfinished(batch);
    for (uint32_t i = 0; i < batch->n_places; i++) {
        CHECK(atomic_load(&batch->places[i].settled));
        s->counts.dropped += batch->places[i].status == SN_E_CLOSED;
    }
    sn_batch_done(batch, s->member);
    free_batch(s, at);
}

static void close_stream(stream *s)
{
    pthread_mutex_lock(&s->gate);
    s->is_closed = 1;
    pthread_mutex_unlock(&s->gate);
    for (uint32_t i = 0; i < s->n_under_way; i++)
        sn_pool_drop(s->pool, s->under_way[i]);
    while (sn_pool_end(s->pool, 10) != 0)
        ;
    for (uint32_t i = 0; i < N_FETCHERS && s->context.is_external; i++)
        pthread_join(s->fetchers[i], NULL);
    sn_pool_free(s->pool);
    while (s->n_under_way) {
        sn_abandon_unfinished(s->under_way[0]);
        free_batch(s, 0);
    }
    sn_member_close(s->member);
}

static void run_epoch(stream *s)
{
    while (sn_member_left(s->member) || s->n_under_way) {
        while (s->n_under_way < DEPTH && sn_member_left(s->member))
            draw(s);
        if ((s->epoch == IS_LEFT || s->epoch == SHARES_AND_IS_LEFT) && sn_rng_below(&s->rng, 20) == 0)
            return;
        uint32_t at = sn_rng_below(&s->rng, s->n_under_way);
        if (may_drop(s) && sn_rng_below(&s->rng, 3) == 0)
            drop(s, at);
        else
            deliver(s, at);
    }
    for (uint32_t i = 0; i < N_SAMPLES; i++)
        CHECK_EQUAL(s->times[i], 1, "sample %u, epoch %u", i, s->epoch);
}

static void *iterate(void *argument)
{
    stream *s = argument;

    for (s->epoch = 0; s->epoch < N_EPOCHS; s->epoch++) {
        pthread_barrier_wait(&epoch_begins);
        memset(&s->counts, 0, sizeof s->counts);
        open_stream(s);
        run_epoch(s);
        close_stream(s);
        pthread_barrier_wait(&epoch_ends);
    }
    return NULL;
}

/* -- The epochs -- */

static counts sum_of_all(void)
{
    counts sum = {0};

    for (uint32_t i = 0; i < N_ITERATORS; i++) {
        sum.served += streams[i].counts.served;
        sum.read += streams[i].counts.read;
        sum.failed += streams[i].counts.failed;
        sum.dropped += streams[i].counts.dropped;
        sum.drawn += streams[i].counts.drawn;
        sum.copies += streams[i].counts.copies;
    }
    return sum;
}

/* All iterators run an epoch. `knows`: the server has all files. Whether the server was never given up, as it may be where
 * this machine is so busy that it does not answer in time. */
static int check_epoch(uint32_t epoch, int knows)
{
    sn_remote_counts before, after;

    sn_remote_read_counts(client, 0, &before);
    atomic_store(&delivered, 0);
    pthread_barrier_wait(&epoch_begins);
    pthread_barrier_wait(&epoch_ends);
    sn_remote_read_counts(client, 0, &after);
    counts sum = sum_of_all();
    uint64_t hits = after.hits - before.hits, misses = after.misses - before.misses,
             skipped = after.skipped - before.skipped;
    printf("test_pool_remote: epoch %u: %" PRIu64 " drawn, %" PRIu64 " copies, %" PRIu64 " from the server, %" PRIu64
           " read, %" PRIu64 " failed, %" PRIu64 " dropped; %" PRIu64 " hits, %" PRIu64 " misses, %" PRIu64
           " not asked, %" PRIu64 " failures\n",
           epoch, sum.drawn, sum.copies, sum.served, sum.read, sum.failed, sum.dropped, hits, misses, skipped,
           after.failures - before.failures);
    CHECK_EQUAL(after.wrong, 0, "%s", after.message);
    CHECK(epoch >= SHARES || hits + misses + skipped <= sum.drawn); /* each place is asked for once */
    CHECK(epoch == SHARES ? sum.copies > 0 : epoch > SHARES || sum.copies == 0);
    int is_calm = after.failures == before.failures && skipped == 0;
    if (epoch == DIES)
        CHECK(!is_calm && sum.dropped > 0);
    if (epoch == DIES || epoch == IS_LEFT)
        return is_calm;
    if (epoch > SHARES)
        return is_calm;
    CHECK_EQUAL(sum.served + sum.copies + sum.read + sum.failed, sum.drawn, "epoch %u", epoch);
    CHECK_EQUAL(sum.failed, N_ITERATORS * (N_SAMPLES - n_files), "epoch %u", epoch);
    if (epoch == SHARES) {
        uint8_t copies[SN_REMOTE_DATASET];
        name_copies(epoch, copies);
        CHECK(sum.copies <= fake_host_count(copies) * (N_ITERATORS - 1));
        return is_calm;
    }
    CHECK_EQUAL(sum.served, hits, "epoch %u", epoch);
    if (is_calm)
        CHECK_EQUAL(hits + misses, sum.drawn, "epoch %u", epoch);
    if (is_calm && knows)
        CHECK_EQUAL(sum.served, N_ITERATORS * n_files, "epoch %u", epoch);
    if (epoch == FILLS || epoch == COMES_BACK)
        CHECK(sum.read >= n_files);
    return is_calm;
}

/* -- Neighbours -- */

/* Places that want copies, whose pieces lie side by side in one container: fetchers bring them by one request, as they do
 * others, once the server has nothing of them. */
static void check_neighbours(enum sn_role role)
{
    static sn_piece side_by_side[N_SAMPLES];
    static const sn_container container = {.size_bytes = 1000000};
    uint32_t all[N_SAMPLES], indices[N_SAMPLES], until_check = 0;
    sn_context context = {.plan = &plans[PLAN_TRAIN],
                          .remote = client,
                          .hosts = streams[0].hosts,
                          .is_external = 1,
                          .pieces = side_by_side,
                          .containers = &container,
                          .path_at = path_at};
    uint8_t bytes[N_SAMPLES * 100] = {0};
    sn_offers offers = {0};
    sn_wanted wanted;
    sn_member *member;
    int joined;

    memcpy(context.dataset, role ? "joined and asked" : "joined and alone", SN_REMOTE_DATASET);
    memcpy(context.copies, "copies of joined", SN_REMOTE_DATASET);
    for (uint32_t i = 0; i < N_SAMPLES; i++) {
        all[i] = i;
        side_by_side[i] = (sn_piece){.offset = 100 * i, .length = 100};
    }
    CHECK(sn_plan_output_size(context.plan, &context.height, &context.width) == 0);
    context.item_bytes = plan_item_bytes(context.plan, context.height, context.width);
    sn_member_options options = {
        .epoch = {.n_samples = N_SAMPLES, .samples = all, .count = N_SAMPLES, .places = N_SAMPLES},
        .client = {.height = (uint16_t)context.height, .width = (uint16_t)context.width},
        .process_row = SN_NONE,
        .in_flight = N_SAMPLES,
    };
    CHECK_EQUAL(sn_member_open(NULL, &options, &member, &joined), 0, "role %d", role);
    sn_pool *pool = sn_pool_new(1, 1, MAX_PIXELS, NULL);
    sn_batch *batch = sn_batch_new(&context, N_SAMPLES, 0);
    CHECK(pool && batch);
    batch->out = malloc(N_SAMPLES * context.item_bytes);
    CHECK(batch->out);
    CHECK_EQUAL(sn_batch_draw(batch, member, &offers, &until_check, indices), 0, "role %d", role);
    for (uint32_t i = 0; i < N_SAMPLES; i++)
        batch->places[i].item.role = role;
    sn_pool_submit(pool, batch);
    CHECK_EQUAL(sn_pool_next_fetch(pool, &wanted, 1000), 0, "role %d", role);
    CHECK_EQUAL(wanted.n, N_SAMPLES, "role %d", role);
    CHECK_EQUAL(sn_pool_fetched(pool, wanted.ticket, bytes, wanted.length, 0, NULL), 0, "role %d", role);
    while (sn_pool_wait(pool, batch, 10) != 0)
        ; /* zeros are no pictures: all have failed */
    while (sn_pool_end(pool, 10) != 0)
        ;
    sn_pool_free(pool);
    sn_batch_done(batch, member);
    free(batch->out);
    sn_batch_free(batch);
    sn_member_close(member);
}

static void wait_until_it_has_all(void)
{
    while (fake_host_count(dataset) < n_files) /* what was left last is sent, and no answer was waited for */
        pass_us(1000);
}

static void wait_until_it_serves(void)
{
    while (sn_remote_ping(client, 0) != 0)
        pass_us(50000); /* it is left alone, for some seconds */
}

int main(int argc, char **argv)
{
    pthread_t threads[N_ITERATORS];

    seed = check_seed(argc, argv);
    plans_make(plans);
    make_files();
    fake_host_start(seed);
    sn_remote_server server = {.name = "here", .address = "127.0.0.1", .port = host.port};
    client = sn_remote_new(&server, 1);
    CHECK(client);
    pthread_barrier_init(&epoch_begins, NULL, N_ITERATORS + 1);
    pthread_barrier_init(&epoch_ends, NULL, N_ITERATORS + 1);
    for (uint32_t i = 0; i < N_ITERATORS; i++) {
        streams[i].number = i;
        streams[i].lone = sn_codec_new(MAX_PIXELS);
        CHECK(streams[i].lone);
        streams[i].hosts = sn_hosts_new(client, dataset, i + 1);
        CHECK(streams[i].hosts);
        sn_rng_start(&streams[i].rng, seed, 0, 1, i, SN_STREAM_CHOOSE);
        pthread_mutex_init(&streams[i].gate, NULL);
        CHECK(pthread_create(&threads[i], NULL, iterate, &streams[i]) == 0);
    }
    check_neighbours(SN_ALONE);
    check_neighbours(SN_ASKS_FOR_COPY);
    for (uint32_t epoch = 0, is_calm = 0; epoch < N_EPOCHS; epoch++) {
        if (epoch == COMES_BACK)
            fake_host_come_back();
        wait_until_it_serves();
        int knows = is_calm && (epoch == SERVES || epoch == SERVES_AGAIN);
        if (knows)
            wait_until_it_has_all();
        is_calm = (uint32_t)check_epoch(epoch, knows);
    }
    for (uint32_t i = 0; i < N_ITERATORS; i++) {
        pthread_join(threads[i], NULL);
        pthread_mutex_destroy(&streams[i].gate);
        sn_hosts_free(streams[i].hosts);
        sn_codec_free(streams[i].lone);
    }
    sn_remote_free(client);
    fake_host_end();
    for (uint32_t i = 0; i < N_SAMPLES; i++)
        picture_free(&files[i]);
    pthread_barrier_destroy(&epoch_begins);
    pthread_barrier_destroy(&epoch_ends);
    return 0;
}
