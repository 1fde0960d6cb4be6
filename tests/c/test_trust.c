/*
 * test_trust.c -- jobs leave examples, compare with them, and tell at once that they trust nobody: who reads a
 * record reads one job's, whole.
 *
 *   examples   each job asks for kinds in an order of its own, under the lock; who comes first leaves its own
 *   distrust   some jobs tell, the others read; no lock
 */
#include <pthread.h>

#include "base/sn_rng.h"
#include "base/sn_status.h"
#include "cache.h"
#include "check.h"
#include "store/sn_store.h"
#include "store/sn_trust.h"

#define JOBS 6
#define TELLERS 3
#define ROUNDS 40
#define KINDS (SN_EXAMPLES + 16) /* more than are remembered */

typedef struct {
    sn_segment *segment;
    uint32_t number;
    sn_rng rng;
    uint64_t left, met, read;
} job;

static pthread_barrier_t together;

static uint64_t digest_of(uint64_t job_key, uint64_t kind, uint32_t i)
{
    return job_key << 32 | kind << 8 | i;
}

static void compare(job *j, uint64_t kind)
{
    sn_examples mine = {.job_key = j->number, .n = SN_EXAMPLE_SAMPLES}, theirs;

    atomic_store(&mine.kind, kind);
    for (uint32_t i = 0; i < SN_EXAMPLE_SAMPLES; i++)
        mine.digests[i] = digest_of(j->number, kind, i);
    CHECK_EQUAL(sn_store_enter(j->segment, CACHE_PATIENCE_MS), 0, "the lock");
    int rc = sn_examples_compare(j->segment, &mine, &theirs);
    sn_store_leave(j->segment);
    if (rc == SN_MISS) {
        j->left++;
        return;
    }
    CHECK_EQUAL(rc, 0, "kind %" PRIu64, kind);
    CHECK_EQUAL(theirs.n, SN_EXAMPLE_SAMPLES, "kind %" PRIu64, kind);
    for (uint32_t i = 0; i < theirs.n; i++)
        CHECK_EQUAL(theirs.digests[i], digest_of(theirs.job_key, kind, i), "example %u", i);
    j->met++;
}

static void *work(void *argument)
{
    job *j = argument;
    sn_distrust why;

    for (uint32_t i = 0; i < 4 * KINDS; i++)
        compare(j, 1 + sn_rng_below(&j->rng, KINDS));
    pthread_barrier_wait(&together);
    CHECK(!sn_is_distrusted(j->segment));
    CHECK(!sn_distrust_read(j->segment, &why));
    pthread_barrier_wait(&together);
    if (j->number < TELLERS)
        sn_distrust_tell(j->segment, j->number, 100 + j->number, SN_DECODED);
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
    static const uint32_t split[SN_FORMS] = {0, 3000, 3000, 4000};
    uint64_t seed = check_seed(argc, argv), keys[JOBS], left = 0, met = 0, read = 0;

    for (uint32_t i = 0; i < JOBS; i++)
        keys[i] = i;
    pthread_barrier_init(&together, NULL, JOBS);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        job jobs[JOBS];
        pthread_t threads[JOBS];
        cache made;

        cache_make(&made, JOBS, keys, 100, 1u << 20, split);
        for (uint32_t i = 0; i < JOBS; i++) {
            jobs[i] = (job){.segment = made.handles[i], .number = i};
            sn_rng_start(&jobs[i].rng, seed + round, 0, 0, i, SN_STREAM_CHOOSE);
            CHECK(pthread_create(&threads[i], NULL, work, &jobs[i]) == 0);
        }
        for (uint32_t i = 0; i < JOBS; i++) {
            pthread_join(threads[i], NULL);
            left += jobs[i].left;
            met += jobs[i].met;
            read += jobs[i].read;
        }
        cache_close(&made);
    }
    printf("test_trust: %" PRIu64 " examples left, %" PRIu64 " met, distrust read %" PRIu64 " times\n", left, met, read);
    CHECK(left > KINDS && met > 0 && read > 0);
    pthread_barrier_destroy(&together);
    return 0;
}
