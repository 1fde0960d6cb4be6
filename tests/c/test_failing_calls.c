/*
 * test_failing_calls.c -- the n-th call to the C library fails, for each n: what a process does to a segment then ends well,
 * or in an error; nothing stays open, and the segment is as good as before.
 *
 *   a child:  join --> serve an epoch of pictures | change the segment | look at it --> leave
 *                ^ call 0, 1, ... n fails: once, or from there on; and in other runs malloc does
 *             compare what is open and mapped with what was before; then do all of it again, and nothing fails
 *   the parent: another process finds a segment without a fault
 *
 * The functions of the C library are replaced in all of the program. What closes something does so, and then says that it
 * failed. Where calls may fail, nobody sleeps: a sleep moves the clock on. A sample that was served has its pixels.
 *
 * ERRORS=all takes each error for each call, and not one at random.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

#include "base/sn_children.h"
#include "base/sn_status.h"
#include "check.h"
#include "crash_world.h"
#include "failing_calls.h"
#include "sample_files.h"
#include "plans.h"
#include "pool/sn_pool.h"
#include "shm/sn_row.h"
#include "shm/sn_snapshot.h"
#include "shm/sn_telemetry.h"
#include "store/sn_backing.h"
#include "store/sn_check.h"
#include "store/sn_digests.h"
#include "store/sn_join.h"
#include "store/sn_shrink.h"
#include "store/sn_store.h"

#define N_SAMPLES 12
#define BATCH 5
#define GRANULES 64u
#define JOB 7u
#define HANGS_AFTER_S 60
#define LEAKS_EVERY 8
#define MAX_PIXELS 10000
#define TRIES 10   /* to join one that is being taken away */
#define IN_A_ROW 5 /* interruptions: one that came for ever would be none */

typedef struct {
    char call[32];
    int32_t answer;
    uint32_t failed;
} report;

static uint64_t seed;
static char path[64], paths[N_SAMPLES * SAMPLE_PATH];
static uint64_t path_at[N_SAMPLES];
static sn_geometry geometry = {.fingerprint = {1, 2},
                               .payload_bytes = (uint64_t)GRANULES * SN_GRANULE,
                               .n_samples = N_SAMPLES,
                               .first_granules = 40,
                               .split = {0, 2500, 2500, 3000, 2000}};
static sn_plan plans[N_PLANS];
static uint8_t *expected; /* of each sample, what a job without a cache gets */
static size_t item_bytes;
static guest host;   /* where there is one: another job */
static report *said; /* by a child */
static char doing[128];

static sn_context context_of(sn_segment *segment)
{
    sn_context context = {.plan = &plans[PLAN_EVAL],
                          .segment = segment,
                          .paths = paths,
                          .path_at = path_at,
                          .seed = seed,
                          .epoch = 0,
                          .check_every = 3,
                          .item_bytes = item_bytes};

    CHECK_EQUAL(sn_plan_output_size(context.plan, &context.height, &context.width), 0, "");
    return context;
}

/* A batch is complete: its pixels are right, or its places say why they have none. Answers how many have none. */
static uint32_t examine(const sn_context *context, sn_batch *batch, const uint32_t *indices)
{
    uint32_t n_failed = 0;

    for (uint32_t i = 0; i < batch->n_places; i++) {
        sn_batch_item *place = &batch->places[i];
        if (place->status == SN_E_FOR_PILLOW)
            sn_abandon(context, place, SN_E_CLOSED, NULL);
        CHECK(atomic_load(&place->settled));
        if (place->status == 0 && expected)
            CHECK(memcmp(batch->out + i * item_bytes, expected + indices[i] * item_bytes, item_bytes) == 0);
        n_failed += place->status != 0;
    }
    return n_failed;
}

static int prepare(const sn_context *context, sn_member *member, sn_pool *pool, sn_offers *offers, uint8_t *out,
                   uint32_t *n_failed)
{
    static uint32_t until_check = 3;
    uint32_t left = sn_member_left(member), indices[BATCH];
    sn_batch *batch = sn_batch_new(context, left < BATCH ? left : BATCH, offers->n);

    if (!batch)
        return -ENOMEM;
    batch->out = out;
    int rc = sn_batch_draw(batch, member, offers, &until_check, indices);
    if (rc == 0) {
        sn_pool_submit(pool, batch);
        while (sn_pool_wait(pool, batch, 100) != 0)
            ;
        *n_failed += examine(context, batch, indices);
        for (uint32_t i = 0; i < batch->n_places && expected == NULL; i++)
            memcpy(out + N_SAMPLES * item_bytes + indices[i] * item_bytes, out + i * item_bytes, item_bytes);
        rc = sn_offers_collect(offers, batch);
        sn_batch_done(batch, member);
    }
    sn_batch_free(batch);
    return rc;
}

/* An epoch, as far as it goes. Answers 0, or what it failed with; *n_failed: samples that it could not have. */
static int serve(sn_segment *segment, uint32_t row, uint8_t *out, uint32_t *n_failed)
{
    sn_context context = context_of(segment);
    sn_member_options options = {
        .epoch = {.n_samples = N_SAMPLES, .places = N_SAMPLES, .seed = seed},
        .job_key = JOB,
        .client = {.decoded_pipeline = 102,
                   .augmented_pipeline = 202,
                   .height = (uint16_t)context.height,
                   .width = (uint16_t)context.width,
                   .copy_bytes = (uint32_t)sn_plan_copy_bytes(context.plan, context.height, context.width),
                   .shares = 1,
                   .keeps = 1,
                   .recodes = 1},
        .process_row = segment ? row : SN_NONE,
        .in_flight = BATCH,
        .substitutes = 1,
    };
    sn_offers offers = {0};
    sn_member *member = NULL;
    int joined, rc = sn_member_open(segment, &options, &member, &joined);

    if (rc != 0)
        return rc;
    sn_pool *pool = sn_pool_new(0, 0, MAX_PIXELS, NULL);
    if (!pool)
        rc = -ENOMEM;
    while (rc == 0 && sn_member_left(member) > 0)
        rc = prepare(&context, member, pool, &offers, out, n_failed);
    if (pool) {
        CHECK_EQUAL(sn_pool_end(pool, 0), 0, "it has no threads");
        sn_pool_free(pool);
    }
    sn_offers_free(&offers);
    sn_member_close(member);
    return rc;
}

/* What a process does to its segment besides. */
static int change(sn_segment *segment, uint32_t row)
{
    static const uint32_t split[SN_FORMS] = {0, 1000, 6000, 2000, 1000};
    _Atomic uint64_t marks[N_SAMPLES / 64 + 1] = {0};
    sn_digests digests = {.segment = segment, .row = row, .marks = marks};
    sn_work work = {.since_ms = 1, .published_ms = 2, .delivered = 3, .served = {1, 1}, .name = "a job"};
    sn_shrunk found;
    int rc = sn_store_enter(segment, SN_LOCK_DEADLINE_MS);

    if (rc != 0)
        return rc;
    sn_store_change_split(segment, split, segment->head->n_changes, "a test");
    sn_store_reap(segment, 1);
    sn_store_leave(segment);
    sn_telemetry_write(segment, row, &work);
    rc = sn_backing_grow(segment, 4);
    if (rc >= 0 && (rc = sn_digests_open(&digests, 77, SN_DECODED, "uint8 [3, 4]")) == 0)
        sn_digests_meet(&digests, 3, 99, 1, 0);
    int shrunk = sn_shrink_pass(segment, 50, &found);
    return rc < 0 ? rc : shrunk;
}

static int join_and(int (*act)(sn_segment *segment, uint32_t row, uint8_t *out, uint32_t *n_failed), uint8_t *out,
                    uint32_t *n_failed)
{
    sn_segment *segment = NULL;
    uint32_t row;
    int rc = SN_E_GONE;

    for (int i = 0; i < TRIES && (rc == SN_E_GONE || rc == SN_BUSY); i++) {
        int fd = open(path, O_RDWR | O_CLOEXEC | O_CREAT, 0600);
        rc = fd < 0 ? -errno : sn_join(fd, path, &geometry, 0, JOB, NULL, NULL, &segment, &row);
    }
    if (rc != SN_ATTACH_CREATED && rc != SN_ATTACH_JOINED) {
        CHECK(segment == NULL);
        return rc ? rc : -EINVAL;
    }
    rc = act(segment, row, out, n_failed);
    if (armed == 0 && first_name == NULL)
        CHECK_EQUAL(*n_failed, 0, "nothing failed");
    int left = sn_leave(segment, row);
    sn_segment_close(segment);
    return rc ? rc : left;
}

static int act_serve(sn_segment *segment, uint32_t row, uint8_t *out, uint32_t *n_failed)
{
    return serve(segment, row, out, n_failed);
}

static int act_change(sn_segment *segment, uint32_t row, uint8_t *out, uint32_t *n_failed)
{
    (void)out;
    (void)n_failed;
    return change(segment, row);
}

static int do_serve(uint8_t *out, uint32_t *n_failed)
{
    return join_and(act_serve, out, n_failed);
}

static int do_change(uint8_t *out, uint32_t *n_failed)
{
    return join_and(act_change, out, n_failed);
}

/* Whoever looks at segments from outside, and takes away what nobody uses. */
static int do_read(uint8_t *out, uint32_t *n_failed)
{
    sn_snapshot *snapshot = (sn_snapshot *)out;
    sn_dataset dataset;
    int fd = open(path, O_RDWR | O_CLOEXEC), rc = fd < 0 ? -errno : 0;

    (void)n_failed;
    if (fd >= 0) {
        rc = sn_snapshot_take(fd, snapshot);
        if (rc == 0)
            sn_snapshot_read_dataset(fd, snapshot, 0, &dataset);
        sn_left_behind(fd);
        close(fd);
    }
    sn_children_read();
    fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd >= 0)
        sn_sweep(fd, path);
    fd = open(path, O_RDWR | O_CLOEXEC);
    int discarded = fd >= 0 ? sn_discard(fd, path) : 0;
    return rc ? rc : discarded;
}

/* -- Who does it -- */

typedef struct {
    const char *name;
    int (*act)(uint8_t *out, uint32_t *n_failed);
    int is_alone; /* there is no other job */
    int leaves;   /* one that is kept lies there */
} scenario;

static const scenario scenarios[] = {
    {"make one and serve", do_serve, 1, 0},      {"join one and serve", do_serve, 0, 0},
    {"make one and change it", do_change, 1, 0}, {"join one and change it", do_change, 0, 0},
    {"look at one in use", do_read, 0, 0},       {"look at one that is kept", do_read, 1, 1},
};
#define N_SCENARIOS (sizeof scenarios / sizeof *scenarios)

/* Nobody else lives in it, or one does. */
static void check_segment(sn_segment *segment, uint32_t others)
{
    char why[256] = "";
    uint32_t living = 0;

    CHECK_EQUAL(sn_store_enter(segment, HANGS_AFTER_S * 1000), 0, "%s", doing);
    sn_store_reap(segment, 1);
    CHECK_EQUAL(sn_store_check(segment, why, sizeof why), 0, "%s: %s", doing, why);
    for (uint32_t row = 0; row < SN_MAX_ROWS; row++)
        living += atomic_load(&segment->rows[row].state) == SN_ROW_LIVE && !sn_row_is_own(segment, row);
    CHECK_EQUAL(living, others, "rows that others hold: %s", doing);
    sn_store_leave(segment);
}

static void leave_one_kept(void)
{
    guest kept;
    sn_geometry for_ever = geometry;

    for_ever.keep = SN_KEEP_FOREVER;
    CHECK_EQUAL(guest_join(&kept, path, &for_ever, JOB, seed), SN_ATTACH_CREATED, "");
    guest_leave(&kept);
}

static uint8_t *new_out(void)
{
    uint8_t *out = malloc(2 * N_SAMPLES * item_bytes + sizeof(sn_snapshot));

    CHECK(out);
    return out;
}

/* In a child: with calls that fail; then nothing is left open, and without them all is well. */
static void run(const scenario *one, enum failing_kind kind, uint32_t n, uint32_t times, int error)
{
    uint8_t *out = new_out();
    uint32_t n_failed = 0;

    failing_held before = failing_look(path);
    failing_arm(kind, n, times, error);
    said->answer = one->act(out, &n_failed);
    said->failed = failing_disarm();
    strncpy(said->call, first_name ? first_name : "nothing", sizeof said->call - 1);
    failing_held after = failing_look(path);
    CHECK_EQUAL(after.descriptors, before.descriptors, "descriptors");
    CHECK_EQUAL(after.of_files, before.of_files, "mappings of the segment");
    CHECK_EQUAL(after.mapped_bytes, before.mapped_bytes, "bytes of mappings");
    CHECK_EQUAL(after.allocations, before.allocations, "allocations");
    first_name = NULL;
    if (one->act != do_read) {
        n_failed = 0;
        int rc = one->act(out, &n_failed);
        CHECK_EQUAL(rc < 0 ? rc : 0, 0, "afterwards");
        CHECK_EQUAL(n_failed, 0, "afterwards");
    }
    free(out);
#ifdef __SANITIZE_ADDRESS__
    if (n % LEAKS_EVERY == 0) /* it takes a tenth of a second */
        CHECK_EQUAL(__lsan_do_recoverable_leak_check(), 0, "leaks");
#endif
}

static int run_in_child(const scenario *one, enum failing_kind kind, uint32_t n, uint32_t times, int error)
{
    if (one->leaves)
        leave_one_kept();
    memset(said, 0, sizeof *said);
    pid_t pid = world_fork();
    if (pid == 0) {
        alarm(HANGS_AFTER_S);
        run(one, kind, n, times, error);
        _exit(0);
    }
    int rc = world_wait(pid);
    snprintf(doing, sizeof doing, "%s, %s %u (%s), %u times, errno %d", one->name,
             kind == FAILING_CALLS ? "call" : "allocation", n, said->call, times, error);
    CHECK_EQUAL(rc, 0, "the status of a child: %s", doing);
    return said->failed > 0;
}

static int act_check(sn_segment *segment, uint32_t row, uint8_t *out, uint32_t *n_failed)
{
    int rc = serve(segment, row, out, n_failed);

    check_segment(segment, host.segment != NULL);
    return rc;
}

/* Another process finds all well. */
static void use_afterwards(const scenario *one, uint8_t *out)
{
    uint32_t n_failed = 0;

    if (host.segment)
        check_segment(host.segment, 0);
    CHECK_EQUAL(join_and(act_check, out, &n_failed), 0, "%s", doing);
    if (!host.segment && access(path, F_OK) == 0)
        CHECK(one->leaves && unlink(path) == 0);
}

static void make_files(void)
{
    sn_rng rng;

    sn_rng_start(&rng, seed, 0, 0, 0, SN_STREAM_ORDER);
    sample_files_begin("/dev/shm", N_SAMPLES, paths, path_at);
    for (uint32_t i = 0; i < N_SAMPLES; i++) {
        picture_kind kind = {.height = 20 + sn_rng_below(&rng, 40),
                             .width = 20 + sn_rng_below(&rng, 40),
                             .colour = PICTURE_YCC,
                             .across = 1,
                             .down = 1,
                             .progressive = i % 4 == 0,
                             .quality = 70};
        picture_file picture = picture_make(&kind, &rng);
        sample_files_write(i, &picture);
        picture_free(&picture);
    }
}

static void make_expected(void)
{
    uint8_t *out = new_out();
    uint32_t n_failed = 0;

    CHECK_EQUAL(serve(NULL, SN_NONE, out, &n_failed), 0, "without a cache");
    CHECK_EQUAL(n_failed, 0, "without a cache");
    memmove(out, out + N_SAMPLES * item_bytes, N_SAMPLES * item_bytes);
    expected = out;
}

int main(int argc, char **argv)
{
    static const int errors[] = {ENOSPC, ENOMEM, EINTR, EIO, EMFILE, EACCES};
    const uint32_t n_errors = sizeof errors / sizeof *errors;
    const char *asked = getenv("ERRORS");
    int takes_all = asked && strcmp(asked, "all") == 0;
    uint32_t runs[2] = {0}, sites[2] = {0}, with_error = 0;
    sn_rng rng;

    seed = check_seed(argc, argv);
    sn_rng_start(&rng, seed, 0, 0, 1, SN_STREAM_ORDER);
    CHECK(setenv("SENECA_SIGBUS", "default", 1) == 0);
    mallopt(M_ARENA_MAX, 1);
    plans_make(plans);
    sn_context context = context_of(NULL);
    item_bytes = plan_item_bytes(context.plan, context.height, context.width);
    make_files();
    world_name(path, "failing");
    said = mmap(NULL, sizeof *said, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(said != MAP_FAILED);
    make_expected();
    uint8_t *out = new_out();
    for (uint32_t i = 0; i < N_SCENARIOS; i++) {
        const scenario *one = &scenarios[i];
        if (!one->is_alone)
            CHECK_EQUAL(guest_join(&host, path, &geometry, 1, seed), SN_ATTACH_CREATED, "");
        for (enum failing_kind kind = FAILING_CALLS; kind <= FAILING_MEMORY; kind++) {
            int more = 1;
            for (uint32_t n = 0; more; n++) {
                uint32_t from = kind == FAILING_MEMORY ? 1 : takes_all ? 0 : sn_rng_below(&rng, n_errors);
                uint32_t to = kind == FAILING_MEMORY || !takes_all ? from + 1 : n_errors;
                more = 0;
                for (uint32_t k = from; k < to; k++)
                    for (int for_good = 0; for_good < 2; for_good++) {
                        uint32_t times = !for_good ? 1 : errors[k] == EINTR ? IN_A_ROW : UINT32_MAX;
                        more |= run_in_child(one, kind, n, times, errors[k]);
                        with_error += said->answer < 0;
                        runs[kind]++;
                        use_afterwards(one, out);
                    }
                sites[kind] += (uint32_t)more;
            }
        }
        if (!one->is_alone)
            guest_leave(&host);
    }
    free(out);
    free(expected);
    printf("test_failing_calls: %u calls and %u allocations failed, in %u runs; %u of these ended in an error\n",
           sites[0], sites[1], runs[0] + runs[1], with_error);
    CHECK(sites[0] > 0 && sites[1] > 0 && with_error > 0);
    return 0;
}
