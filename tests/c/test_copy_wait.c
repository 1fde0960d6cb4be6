/*
 * test_copy_wait.c -- jobs of one seed divide what they prepare; each delivers, in its order, what a lone codec makes.
 *
 *   files --> 4 iterators of one seed and order, a thread, a member and a pool each: from no threads to three; some
 *             begin when the others are amid their epoch, some leave amid it, and batches are dropped
 *   ghost     a fifth job, which draws and prepares nothing: as one that is stopped. Then it aborts, or dies with
 *             what it reserved
 *   visitor   compares the store with its own rebuild
 *
 * An iterator that waits for the ghost for ever ends no epoch.
 */
#include <pthread.h>
#include <sys/stat.h>
#include <time.h>

#include "base/sn_status.h"
#include "cache.h"
#include "check.h"
#include "sample_files.h"
#include "plans.h"
#include "pool/sn_copy_wait.h"
#include "slots/sn_slots.h"
#include "store/sn_check.h"
#include "store/sn_store.h"

#define N_SAMPLES 160
#define N_JOBS 4
#define N_EPOCHS 6
#define N_GHOSTS 3 /* that die; the others are this job's first handle */
#define BATCH 8
#define DEPTH 3
#define PAYLOAD_BYTES (3u << 20)
#define MAX_PIXELS 100000
#define GHOST_MS 100
#define FAMILY 77

typedef struct {
    uint64_t served, prepared, staged, in_vain, batches;
} counts;

typedef struct {
    uint32_t number, threads, depth;
    sn_member *member;
    sn_pool *pool;
    sn_context context;
    sn_copy_wait await;
    sn_batch *under_way[DEPTH]; /* the first first */
    uint32_t n_under_way;
    sn_offers offers;
    sn_note notes[N_SAMPLES];
    uint32_t until_check, next; /* the sample that comes next: the order is that of the dataset */
    sn_codec *lone;
    sn_rng rng;
    counts counts;
} job;

static const uint32_t threads_of[N_JOBS] = {2, 1, 0, 3};
static uint64_t seed;
static cache shared;
static sn_plan plans[N_PLANS];
static picture_file files[N_SAMPLES];
static char paths[N_SAMPLES * SAMPLE_PATH];
static uint64_t path_at[N_SAMPLES];
static pthread_barrier_t together;
static job jobs[N_JOBS];
static _Atomic uint32_t playing;

static void pass_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

/* One in ten is damaged: its copy never comes, whoever makes it. */
static void make_files(void)
{
    sn_rng rng;

    sample_files_begin("/tmp", N_SAMPLES, paths, path_at);
    for (uint32_t i = 0; i < N_SAMPLES; i++) {
        sn_rng_start(&rng, seed, 0, 0, i, SN_STREAM_ORDER);
        picture_kind kind = {.height = 20 + sn_rng_below(&rng, 90),
                             .width = 20 + sn_rng_below(&rng, 90),
                             .colour = PICTURE_YCC,
                             .across = 1,
                             .down = 1,
                             .quality = 70};
        files[i] = picture_make(&kind, &rng);
        if (i % 10 == 7)
            files[i].length -= 3; /* its end is missing */
        sample_files_write(i, &files[i]);
    }
}

static void check_place(const job *j, const sn_batch_item *place, const uint8_t *item)
{
    uint32_t i = place->item.sample, height = j->context.height, width = j->context.width;
    uint8_t *pixels = malloc((size_t)3 * height * width), *made = malloc(j->context.item_bytes);
    sn_rng rng;

    CHECK(pixels && made && atomic_load(&place->settled) && !place->is_held_back);
    sn_rng_start(&rng, seed, 0, j->context.epoch, i, SN_STREAM_AUGMENT);
    int rc = sn_codec_augment_encoded(j->lone, j->context.plan, &rng, files[i].bytes, files[i].length, pixels);
    CHECK_EQUAL(place->status, rc, "sample %u of job %u, from form %d", i, j->number, place->item.source);
    if (rc == 0) {
        sn_rng_start(&rng, seed, 0, j->context.epoch, i, SN_STREAM_ERASE);
        sn_batch_write(j->context.plan, pixels, height, width, &rng, made);
        CHECK_EQUAL(memcmp(made, item, j->context.item_bytes), 0, "sample %u of job %u, from form %d", i, j->number,
                    place->item.source);
        CHECK_EQUAL(j->notes[i].form, place->item.source, "sample %u", i);
    }
    free(pixels);
    free(made);
}

static sn_member_options options_of(uint32_t handle, uint64_t job_key, uint32_t epoch, uint32_t in_flight)
{
    uint32_t height, width;

    CHECK(sn_plan_output_size(&plans[PLAN_TRAIN], &height, &width) == 0);
    return (sn_member_options){
        .epoch = {.n_samples = N_SAMPLES, .places = N_SAMPLES, .seed = seed, .epoch = epoch, .fixed = 1},
        .job_key = job_key,
        .client = {.decoded_pipeline = 100,
                   .augmented_pipeline = 200 + epoch,
                   .height = (uint16_t)height,
                   .width = (uint16_t)width,
                   .shares = 1,
                   .exact = 1},
        .process_row = shared.rows[handle],
        .in_flight = in_flight,
        .family = FAMILY,
    };
}

static void open_job(job *j, uint32_t epoch)
{
    sn_member_options options = options_of(j->number, j->number, epoch, j->depth * BATCH);
    int joined;

    CHECK_EQUAL(sn_member_open(shared.handles[j->number], &options, &j->member, &joined), 0, "epoch %u", epoch);
    CHECK_EQUAL(joined, 0, "epoch %u", epoch);
    j->context = (sn_context){.plan = &plans[PLAN_TRAIN],
                              .height = options.client.height,
                              .width = options.client.width,
                              .segment = shared.handles[j->number],
                              .paths = paths,
                              .path_at = path_at,
                              .seed = seed,
                              .job_key = j->number,
                              .epoch = epoch,
                              .notes = j->notes,
                              .progress = sn_member_progress(j->member)};
    CHECK(j->context.progress);
    j->context.item_bytes = plan_item_bytes(j->context.plan, j->context.height, j->context.width);
    j->pool = sn_pool_new(j->threads, j->threads, MAX_PIXELS, NULL);
    j->lone = sn_codec_new(MAX_PIXELS);
    CHECK(j->pool && j->lone);
    j->next = 0;
}

static void draw(job *j)
{
    while (sn_copy_wait_turn(&j->await, j->pool, j->member, 30) != 0)
        ;
    uint32_t left = sn_member_left(j->member), n = left < BATCH ? left : BATCH, indices[BATCH];
    sn_batch *batch = sn_batch_new(&j->context, n, 0);

    CHECK(batch);
    batch->out = malloc(n * j->context.item_bytes);
    CHECK(batch->out);
    if (!sn_member_expects(j->member))
        for (uint32_t i = 0; i < j->n_under_way; i++)
            sn_batch_settle(j->under_way[i], j->member);
    sn_copy_wait_poll(&j->await, j->pool, j->member);
    sn_copy_wait_begin(&j->await, j->member, batch);
    CHECK_EQUAL(sn_batch_draw(batch, j->member, &j->offers, &j->until_check, indices), 0, "%u left", left);
    sn_copy_wait_add(&j->await, batch);
    j->under_way[j->n_under_way++] = batch;
    for (uint32_t i = 0; i < n; i++)
        CHECK_EQUAL(indices[i], j->next++, "place %u of job %u", i, j->number);
    sn_pool_submit(j->pool, batch);
}

static void retire(job *j)
{
    sn_batch *batch = j->under_way[0];

    sn_batch_done(batch, j->member);
    memmove(j->under_way, j->under_way + 1, --j->n_under_way * sizeof *j->under_way);
    free(batch->out);
    sn_batch_free(batch);
}

static void deliver(job *j)
{
    sn_batch *batch = j->under_way[0];
    sn_batch_sums sums;

    while (sn_copy_wait_batch(&j->await, j->pool, j->member, batch, (int)sn_rng_below(&j->rng, 30)) != 0)
        ;
    CHECK_EQUAL(batch->n_awaited, 0, "a complete batch of job %u", j->number);
    for (uint32_t i = 0; i < batch->n_places; i++)
        check_place(j, &batch->places[i], batch->out + i * j->context.item_bytes);
    sn_batch_sum(batch, &sums);
    j->counts.served += sums.served[SN_AUGMENTED];
    j->counts.prepared += sums.prepared;
    j->counts.staged += sums.staged;
    j->counts.in_vain += sums.in_vain;
    j->counts.batches++;
    retire(j);
}

static void close_job(job *j)
{
    for (uint32_t i = 0; i < j->n_under_way; i++) {
        sn_batch *batch = j->under_way[i];

        sn_copy_wait_forget(&j->await, batch);
        sn_pool_drop(j->pool, batch);
        while (j->threads && sn_pool_wait(j->pool, batch, 1000) != 0) /* for the places in hand */
            ;
        for (uint32_t k = 0; k < batch->n_places; k++)
            CHECK(atomic_load(&batch->places[k].settled));
    }
    while (sn_pool_end(j->pool, 1000) != 0)
        ;
    CHECK(j->await.first == NULL && j->await.last == NULL);
    sn_pool_free(j->pool);
    while (j->n_under_way)
        retire(j);
    sn_offers_free(&j->offers);
    sn_member_close(j->member);
    sn_codec_free(j->lone);
}

static void *iterate(void *argument)
{
    job *j = argument;

    for (uint32_t epoch = 0; epoch < N_EPOCHS; epoch++) {
        int leaves = (j->number + epoch) % 5 == 4, comes_late = (j->number + epoch) % 4 == 3;
        if (!comes_late)
            open_job(j, epoch);
        pthread_barrier_wait(&together); /* the ghost draws */
        pthread_barrier_wait(&together);
        if (comes_late) {
            pass_ms(5);
            open_job(j, epoch);
        }
        while (sn_member_left(j->member) || j->n_under_way) {
            while (j->n_under_way < j->depth && sn_member_left(j->member))
                draw(j);
            if (leaves && j->next > N_SAMPLES / 2)
                break;
            deliver(j);
        }
        close_job(j);
    }
    atomic_fetch_sub(&playing, 1);
    return NULL;
}

/* Its draw reserves what the others then wait for. In the even epochs it dies with that, inside no lock. */
static void *haunt(void *argument)
{
    uint64_t *reserved = argument;

    for (uint32_t epoch = 0; epoch < N_EPOCHS; epoch++) {
        int dies = epoch % 2 == 0, joined;
        uint32_t handle = dies ? N_JOBS + 1 + epoch / 2 : N_JOBS, drawn;
        sn_member_options options = options_of(handle, handle, epoch, 3 * BATCH);
        sn_item items[3 * BATCH];
        sn_member *member;

        CHECK_EQUAL(sn_member_open(shared.handles[handle], &options, &member, &joined), 0, "epoch %u", epoch);
        pthread_barrier_wait(&together);
        sn_member_draw(member, 3 * BATCH, items, &drawn, NULL, 0);
        pthread_barrier_wait(&together);
        pass_ms(GHOST_MS);
        for (uint32_t i = 0; i < drawn; i++) {
            if (items[i].target_slot == SN_NONE)
                continue;
            ++*reserved;
            if (!dies)
                sn_slot_abort(&shared.handles[handle]->slots[items[i].target_slot]);
        }
        if (dies)
            cache_die(shared.handles[handle]);
        sn_member_close(member);
    }
    atomic_fetch_sub(&playing, 1);
    return NULL;
}

static void *visit(void *argument)
{
    sn_segment *segment = argument;

    while (atomic_load(&playing)) {
        char why[256] = "";
        CHECK_EQUAL(sn_store_enter(segment, CACHE_PATIENCE_MS), 0, "to visit");
        sn_store_reap(segment, 1);
        CHECK_EQUAL(sn_store_check(segment, why, sizeof why), 0, "%s", why);
        sn_store_leave(segment);
        pass_ms(3);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    static const uint32_t split[SN_FORMS] = {0, 0, 0, 10000};
    uint64_t job_keys[N_JOBS + 1 + N_GHOSTS], reserved = 0;
    pthread_t threads[N_JOBS], ghost, visitor;
    counts sum = {0};

    seed = check_seed(argc, argv);
    CHECK(sn_patience_ns(0) == SN_LEAST_PATIENCE_NS && sn_patience_ns(30000000) == SN_MOST_PATIENCE_NS);
    CHECK_EQUAL(sn_patience_ns(400000000), 800000000, "two long preparations");
    CHECK_EQUAL(sn_patience_ns(8000000), 32000000, "four preparations");
    plans_make(plans);
    make_files();
    for (uint32_t i = 0; i < N_JOBS + 1 + N_GHOSTS; i++)
        job_keys[i] = i;
    cache_make(&shared, N_JOBS + 1 + N_GHOSTS, job_keys, N_SAMPLES, PAYLOAD_BYTES, split);
    pthread_barrier_init(&together, NULL, N_JOBS + 1);
    atomic_store(&playing, N_JOBS + 1);
    for (uint32_t i = 0; i < N_JOBS; i++) {
        jobs[i] = (job){.number = i, .threads = threads_of[i], .depth = threads_of[i] ? DEPTH : 1};
        sn_rng_start(&jobs[i].rng, seed, 0, 1, i, SN_STREAM_CHOOSE);
        CHECK(pthread_create(&threads[i], NULL, iterate, &jobs[i]) == 0);
    }
    CHECK(pthread_create(&ghost, NULL, haunt, &reserved) == 0);
    CHECK(pthread_create(&visitor, NULL, visit, shared.handles[0]) == 0);
    for (uint32_t i = 0; i < N_JOBS; i++)
        pthread_join(threads[i], NULL);
    pthread_join(ghost, NULL);
    pthread_join(visitor, NULL);
    cache_check_and_close(&shared);

    for (uint32_t i = 0; i < N_JOBS; i++) {
        sum.served += jobs[i].counts.served;
        sum.prepared += jobs[i].counts.prepared;
        sum.staged += jobs[i].counts.staged;
        sum.in_vain += jobs[i].counts.in_vain;
        sum.batches += jobs[i].counts.batches;
    }
    printf("test_copy_wait: %" PRIu64 " batches, %" PRIu64 " samples prepared, %" PRIu64 " of them for others, %" PRIu64
           " served; %" PRIu64 " awaited in vain, of %" PRIu64 " that a ghost reserved\n",
           sum.batches, sum.prepared, sum.staged, sum.served, sum.in_vain, reserved);
    CHECK(sum.served > 0 && sum.staged > 0 && sum.prepared > 0);
    CHECK(reserved > 0 && sum.in_vain > 0);
    for (uint32_t i = 0; i < N_SAMPLES; i++)
        picture_free(&files[i]);
    pthread_barrier_destroy(&together);
    return 0;
}
