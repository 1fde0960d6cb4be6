/*
 * test_digests.c -- jobs compare what they make of samples, and report at once that they trust nobody.
 *
 *   rules      one word, and who meets it: what each learns, what is marked and what is counted
 *   storm      jobs come, open tables of more kinds than there is room for, compare, leave and die, all at once. All
 *              make the same of a sample. Therefore whoever learns of another digest was given another kind's words
 *   distrust   some jobs report, the others read; no lock
 */
#include <pthread.h>

#include "base/sn_hash.h"
#include "base/sn_rng.h"
#include "base/sn_status.h"
#include "cache.h"
#include "check.h"
#include "store/sn_digests.h"
#include "store/sn_distrust.h"
#include "store/sn_rows.h"
#include "store/sn_store.h"

#define JOBS 6
#define REPORTERS 3
#define ROUNDS 10
#define STEPS 4000
#define AT_ONCE 20
#define SAMPLES 700
#define KINDS (SN_DIGEST_TABLES + 40)
#define HELD 8 /* tables that a job has open; those of all jobs fit */
#define MARK_WORDS ((SAMPLES + 63) / 64)

_Static_assert(JOBS *HELD < SN_DIGEST_TABLES, "there is always one to take");

static const uint32_t split[SN_FORMS] = {0, 3000, 3000, 4000};

/* Rules */

static sn_digests opened(sn_segment *segment, uint32_t row, uint64_t kind, _Atomic uint64_t *marks)
{
    sn_digests digests = {.segment = segment, .row = row, .marks = marks};

    CHECK_EQUAL(sn_digests_open(&digests, kind, SN_AUGMENTED, "int64 (3,)"), 0, "kind %" PRIu64, kind);
    return digests;
}

/* The process of this row leaves, and another comes, of this job. */
static uint32_t come_as(sn_segment *segment, uint32_t row, uint64_t job_key)
{
    const sn_participant who = {.kind = SN_ROW_HOLDER, .job_key = job_key};

    CHECK_EQUAL(sn_store_enter(segment, CACHE_PATIENCE_MS), 0, "the lock");
    if (row != SN_NONE)
        sn_row_leave(segment, row);
    CHECK_EQUAL(sn_row_claim(segment, &who, &row), 0, "a row");
    sn_store_leave(segment);
    return row;
}

static uint32_t compared(const sn_digests *digests)
{
    CHECK_EQUAL(sn_digests_compared_of(digests->segment, digests->row, 5), sn_digests_compared(digests), "of the kind");
    return sn_digests_compared(digests);
}

static void check_rules(void)
{
    static const uint64_t keys[3] = {11, 12, 13};
    _Atomic uint64_t marks[4][MARK_WORDS] = {0};
    sn_digests of[4];
    cache made;

    cache_make(&made, 3, keys, SAMPLES, 1u << 20, split);
    of[0] = opened(made.handles[0], made.rows[0], 5, marks[0]);
    CHECK(!sn_digests_have_company(&of[0]));
    for (uint32_t i = 1; i < 3; i++)
        of[i] = opened(made.handles[i], made.rows[i], 5, marks[i]);
    CHECK(of[0].table == of[1].table && of[1].table == of[2].table);
    CHECK(sn_digests_have_company(&of[0]));
    CHECK(strcmp(made.handles[0]->head->tables[of[0].table].shape, "int64 (3,)") == 0);

    for (uint32_t i = 0; i < SAMPLES; i++) {
        uint64_t digest = (uint64_t)i << 40; /* that of sample 0 is 0, which is no word */
        CHECK_EQUAL(sn_digests_meet(&of[0], i, digest, 0, 0), SN_DIGEST_NEW, "sample %u", i);
        CHECK_EQUAL(sn_digests_meet(&of[0], i, digest, 1, 0), SN_DIGEST_OWN, "sample %u", i);
        CHECK(!sn_digests_vouch(&of[1], i, digest));
        CHECK_EQUAL(sn_digests_meet(&of[1], i, digest, 0, 0), SN_DIGEST_EQUAL, "sample %u", i);
        CHECK_EQUAL(sn_digests_meet(&of[1], i, digest, 0, 0), SN_DIGEST_EQUAL, "sample %u", i);
        CHECK(sn_digests_vouch(&of[1], i, digest) && !sn_digests_vouch(&of[1], i, digest + (1 << 20)));
        CHECK(sn_digests_is_marked(&of[0], i) && !sn_digests_is_marked(&of[2], i));
        CHECK_EQUAL(sn_digests_maker(&of[2], i), keys[0], "sample %u", i);
    }
    CHECK_EQUAL(compared(&of[0]), SAMPLES, "with the second, each once");
    CHECK_EQUAL(compared(&of[1]), SAMPLES, "with the first, each once");
    CHECK_EQUAL(compared(&of[2]), 0, "with nobody");

    CHECK_EQUAL(sn_digests_meet(&of[2], 6, 6ull << 40, 0, 0), SN_DIGEST_EQUAL, "the first's");
    CHECK_EQUAL(compared(&of[2]), 1, "with the first");
    CHECK_EQUAL(compared(&of[0]), SAMPLES, "a word counts once for its maker");
    CHECK_EQUAL(sn_digests_meet(&of[2], 7, 1ull << 60, 0, 0), SN_DIGEST_DIFFERS, "another");
    CHECK_EQUAL(sn_digests_meet(&of[0], 7, 1ull << 60, 0, 0), SN_DIGEST_CHANGED, "differs from before");
    CHECK(!sn_digests_is_marked(&of[2], 7));
    CHECK_EQUAL(sn_digests_meet(&of[2], 8, 1ull << 60, 1, 0), SN_DIGEST_DIFFERS, "no random numbers were drawn");
    CHECK_EQUAL(sn_digests_meet(&of[2], 9, 1ull << 60, 1, 1), SN_DIGEST_NEW, "fixed takes the place of what is not");
    CHECK_EQUAL(sn_digests_meet(&of[1], 9, 1ull << 60, 1, 1), SN_DIGEST_EQUAL, "both are fixed");
    CHECK_EQUAL(sn_digests_meet(&of[1], 9, 1ull << 59, 1, 1), SN_DIGEST_DIFFERS, "both are fixed");
    CHECK_EQUAL(sn_digests_maker(&of[0], 9), keys[2], "it is the third's");

    /* The first leaves, and another job is given its bit: it has made nothing yet. */
    uint32_t bit = made.handles[0]->rows[made.rows[0]].job;
    made.rows[0] = come_as(made.handles[0], made.rows[0], 14);
    CHECK_EQUAL(made.handles[0]->rows[made.rows[0]].job, bit, "the bit is given again");
    of[3] = opened(made.handles[0], made.rows[0], 5, marks[3]);
    CHECK_EQUAL(compared(&of[3]), 0, "with nobody");
    CHECK_EQUAL(sn_digests_maker(&of[3], 3), 0, "it has gone");
    CHECK_EQUAL(sn_digests_meet(&of[3], 3, 3ull << 40, 0, 0), SN_DIGEST_EQUAL, "not its own");
    CHECK_EQUAL(compared(&of[3]), 1, "with one that has gone");

    /* Whoever dies as it is about to name a table does not keep it. */
    sn_header *head = made.handles[0]->head;
    CHECK_EQUAL(sn_store_enter(made.handles[1], CACHE_PATIENCE_MS), 0, "the lock");
    for (uint32_t i = 0; i < SN_DIGEST_TABLES; i++)
        if (i != of[0].table)
            head->tables[i].taker = 1 + made.rows[2];
    head->tables[SN_DIGEST_TABLES - 1].users[0] = ~(uint64_t)0;
    sn_store_leave(made.handles[1]);
    sn_digests late = {.segment = made.handles[1], .row = made.rows[1], .marks = marks[1]};
    CHECK_EQUAL(sn_digests_open(&late, 6, SN_DECODED, ""), SN_E_RECORDS, "all are in use");
    sn_row_desert(made.handles[2], made.rows[2]);
    CHECK_EQUAL(sn_store_enter(made.handles[1], CACHE_PATIENCE_MS), 0, "the lock");
    CHECK_EQUAL(sn_store_reap(made.handles[1], 1), 1, "one has died");
    sn_store_leave(made.handles[1]);
    CHECK_EQUAL(sn_digests_open(&late, 6, SN_DECODED, ""), 0, "they are free again");
    CHECK_EQUAL(head->tables[SN_DIGEST_TABLES - 1].users[0] & ~head->live_rows[0], 0, "the dead use nothing");
    cache_close(&made);
}

/* Storm and distrust */

typedef struct {
    sn_segment *segment;
    uint32_t number, row, came;
    sn_rng rng;
    sn_digests held[HELD];
    uint64_t kinds[HELD];
    _Atomic uint64_t marks[HELD][MARK_WORDS];
    uint64_t met[5], opened, read;
} job;

static pthread_barrier_t together;

static void close_all(job *j)
{
    memset(j->kinds, 0, sizeof j->kinds);
}

/* The process leaves or dies, and comes again as another job's. */
static void come_again(job *j)
{
    if (sn_rng_below(&j->rng, 2)) {
        sn_row_desert(j->segment, j->row); /* another process reaps it, or never does: rows are enough */
        j->row = SN_NONE;
    }
    j->row = come_as(j->segment, j->row, j->number + JOBS * ++j->came);
    close_all(j);
}

static void open_one(job *j)
{
    uint32_t i = (uint32_t)sn_rng_below(&j->rng, HELD);

    if (j->kinds[i])
        return; /* a process has a table open as long as it is here */
    uint64_t kind = 1 + sn_rng_below(&j->rng, KINDS);
    for (uint32_t other = 0; other < HELD; other++)
        if (j->kinds[other] == kind)
            return;
    memset((void *)j->marks[i], 0, sizeof j->marks[i]);
    j->held[i] = opened(j->segment, j->row, kind, j->marks[i]);
    j->kinds[i] = kind;
    j->opened++;
}

static void meet_some(job *j)
{
    uint32_t i = (uint32_t)sn_rng_below(&j->rng, HELD);

    for (uint32_t n = 0; j->kinds[i] && n < 20; n++) {
        uint32_t sample = (uint32_t)sn_rng_below(&j->rng, SAMPLES);
        uint64_t digest = sn_hash64(&sample, sizeof sample, j->kinds[i]);
        enum sn_met met = sn_digests_meet(&j->held[i], sample, digest, 0, 0);

        CHECK(met == SN_DIGEST_NEW || met == SN_DIGEST_OWN || met == SN_DIGEST_EQUAL);
        CHECK(sn_digests_vouch(&j->held[i], sample, digest));
        j->met[met]++;
    }
}

static void *work(void *argument)
{
    job *j = argument;
    sn_distrust why;

    for (uint32_t i = 0; i < STEPS; i++) {
        uint64_t what = sn_rng_below(&j->rng, 100);
        if (what == 0)
            come_again(j);
        else if (what < 20)
            open_one(j);
        else
            meet_some(j);
    }
    for (uint32_t i = 0; i < AT_ONCE; i++) { /* all take one for the same kind, and one of them is named */
        pthread_barrier_wait(&together);
        j->row = come_as(j->segment, j->row, j->number);
        pthread_barrier_wait(&together);
        opened(j->segment, j->row, KINDS + 1 + i, j->marks[0]);
    }
    pthread_barrier_wait(&together);
    for (uint32_t i = 0; i < SN_DIGEST_TABLES; i++)
        CHECK_EQUAL(j->segment->head->tables[i].taker, 0, "table %u, all are open", i);
    CHECK(!sn_is_distrusted(j->segment));
    CHECK(!sn_distrust_read(j->segment, &why));
    pthread_barrier_wait(&together);
    if (j->number < REPORTERS)
        sn_distrust_report(j->segment, j->number, 100 + j->number, SN_DECODED);
    for (uint32_t i = 0; i < 100; i++) {
        if (!sn_distrust_read(j->segment, &why))
            continue;
        CHECK(sn_is_distrusted(j->segment));
        CHECK_EQUAL(why.sample, 100 + why.job_key, "job %u", j->number);
        CHECK_EQUAL(why.form, SN_DECODED, "job %u", j->number);
        j->read++;
    }
    pthread_barrier_wait(&together);
    CHECK(sn_distrust_read(j->segment, &why));
    return NULL;
}

int main(int argc, char **argv)
{
    static job jobs[JOBS];
    uint64_t seed = check_seed(argc, argv), keys[JOBS], met[3] = {0}, kinds = 0, came = 0, read = 0;

    check_rules();
    for (uint32_t i = 0; i < JOBS; i++)
        keys[i] = i;
    pthread_barrier_init(&together, NULL, JOBS);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        pthread_t threads[JOBS];
        cache made;

        cache_make(&made, JOBS, keys, SAMPLES, 1u << 20, split);
        for (uint32_t i = 0; i < JOBS; i++) {
            memset((void *)&jobs[i], 0, sizeof jobs[i]);
            jobs[i].segment = made.handles[i];
            jobs[i].number = i;
            jobs[i].row = made.rows[i];
            sn_rng_start(&jobs[i].rng, seed + round, 0, 0, i, SN_STREAM_CHOOSE);
            CHECK(pthread_create(&threads[i], NULL, work, &jobs[i]) == 0);
        }
        for (uint32_t i = 0; i < JOBS; i++) {
            pthread_join(threads[i], NULL);
            for (uint32_t how = 0; how < 3; how++)
                met[how] += jobs[i].met[how];
            kinds += jobs[i].opened;
            came += jobs[i].came;
            read += jobs[i].read;
        }
        cache_close(&made);
    }
    printf("test_digests: %" PRIu64 " tables opened by %" PRIu64 " processes; %" PRIu64 " words new, %" PRIu64
           " own, %" PRIu64 " equal to another job's; distrust read %" PRIu64 " times\n",
           kinds, came, met[SN_DIGEST_NEW], met[SN_DIGEST_OWN], met[SN_DIGEST_EQUAL], read);
    CHECK(kinds > ROUNDS * KINDS && came > ROUNDS && met[SN_DIGEST_EQUAL] > met[SN_DIGEST_NEW] / 10 && read > 0);
    pthread_barrier_destroy(&together);
    return 0;
}
