/*
 * scale_loop.c -- one job of many that draw from one segment, timed where it happens.
 *
 *   scale_loop NAME SAMPLES COPIES PAGES JOB      says how many nanoseconds attaching took; then, line by line:
 *      in   open EPOCH                out   nanoseconds
 *      in   draw COUNT BATCH PERIOD   out   COUNT pairs: nanoseconds of a draw, and of its wait for the lock
 *      in   turn COUNT BATCH          out   COUNT: as many draws, not timed, an epoch begun where one ends
 *      in   left                      out   samples left of the epoch
 *      in   close                     out   nanoseconds
 *
 * Nothing is decoded. What a draw reserves is committed two batches later, as a pool would; that, and a
 * PERIOD in nanoseconds from the start of a draw to that of the next, are not in the time of a draw.
 *
 * The linker puts __wrap_sn_lock_enter() before the core's own (--wrap=sn_lock_enter).
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/sn_rng.h"
#include "base/sn_status.h"
#include "loop.h"
#include "member/sn_member.h"
#include "slots/sn_slots.h"
#include "store/sn_join.h"
#include "store/sn_store.h"

#define AHEAD 2
#define MAX_BATCH 4096u
#define MAX_DRAWS 1000000u
#define TRIES 50 /* to join, while another makes the segment: each waits for a fifth of a second */

int __real_sn_lock_enter(sn_segment *segment, int deadline_ms);

static uint64_t waited;

int __wrap_sn_lock_enter(sn_segment *segment, int deadline_ms)
{
    uint64_t start = nanoseconds(CLOCK_MONOTONIC);
    int rc = __real_sn_lock_enter(segment, deadline_ms);

    waited += nanoseconds(CLOCK_MONOTONIC) - start;
    return rc;
}

static sn_segment *segment;
static sn_member *member;
static uint32_t samples, copy_bytes, epoch, process_row;
static uint64_t job;

static sn_item items[AHEAD][MAX_BATCH];
static uint32_t held[AHEAD];
static uint32_t turn;

static uint64_t attach(const char *path, uint64_t copies)
{
    sn_geometry geometry = {
        .payload_bytes = copies * copy_bytes, .n_samples = samples, .split = {[SN_AUGMENTED] = 10000}};
    uint64_t start = nanoseconds(CLOCK_MONOTONIC);
    int rc = SN_BUSY;

    for (int tries = 0; tries < TRIES && rc == SN_BUSY; tries++) {
        int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (fd < 0)
            give_up("cannot make %s", path);
        rc = sn_join(fd, path, &geometry, 0, job, NULL, NULL, &segment, &process_row);
    }
    if (rc != SN_ATTACH_CREATED && rc != SN_ATTACH_JOINED)
        give_up("%d from joining %s", rc, path);
    return nanoseconds(CLOCK_MONOTONIC) - start;
}

static uint64_t open_member(void)
{
    sn_member_options options = {
        .epoch = {.n_samples = samples, .places = samples, .seed = job, .epoch = epoch},
        .job_key = job,
        .client = {.decoded_pipeline = 1, .augmented_pipeline = 2, .copy_bytes = copy_bytes, .shares = 1},
        .process_row = process_row,
        .in_flight = AHEAD * 256,
        .substitutes = 1,
    };
    int joined;
    uint64_t start = nanoseconds(CLOCK_MONOTONIC);
    int rc = sn_member_open(segment, &options, &member, &joined);
    uint64_t took = nanoseconds(CLOCK_MONOTONIC) - start;

    if (rc != 0 || joined != 0)
        give_up("%d from opening a member, %d from joining", rc, rc == 0 ? joined : 0);
    return took;
}

static void settle(uint32_t batch)
{
    for (uint32_t i = 0; i < held[batch]; i++)
        if (items[batch][i].target_slot != SN_NONE)
            sn_slot_commit(segment, items[batch][i].target_slot);
    sn_member_done(member, items[batch], held[batch]);
    held[batch] = 0;
}

static uint64_t close_member(void)
{
    for (uint32_t batch = 0; batch < AHEAD; batch++)
        settle(batch);
    uint64_t start = nanoseconds(CLOCK_MONOTONIC);
    sn_member_close(member);
    return nanoseconds(CLOCK_MONOTONIC) - start;
}

static uint64_t draw(uint32_t batch)
{
    uint64_t start = nanoseconds(CLOCK_MONOTONIC);
    int rc = sn_member_draw(member, batch, items[turn], &held[turn], NULL, 0);
    uint64_t took = nanoseconds(CLOCK_MONOTONIC) - start;

    if (rc != 0 && rc != SN_BUSY)
        give_up("%d from a draw", rc);
    turn = (turn + 1) % AHEAD;
    settle(turn);
    return took;
}

static void next_epoch(void)
{
    close_member();
    epoch++;
    open_member();
}

static void wait_until(uint64_t when)
{
    struct timespec then = {(time_t)(when / 1000000000u), (long)(when % 1000000000u)};

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &then, NULL) != 0)
        ;
}

/* Jobs do not keep step: the pause varies by half its length either way. */
static void draw_and_report(uint32_t count, uint32_t batch, uint64_t period)
{
    static uint64_t took[MAX_DRAWS], of_it_waited[MAX_DRAWS];
    uint64_t next = nanoseconds(CLOCK_MONOTONIC);
    sn_rng rng;

    sn_rng_start(&rng, job, 0, epoch, 0, SN_STREAM_CHOOSE);
    for (uint32_t k = 0; k < count; k++) {
        if (sn_member_left(member) < batch)
            next_epoch();
        if (period) {
            next += period / 2 + period * (uint64_t)sn_rng_below(&rng, 1000) / 1000;
            wait_until(next);
        }
        waited = 0;
        took[k] = draw(batch);
        of_it_waited[k] = waited;
    }
    for (uint32_t k = 0; k < count; k++)
        printf("%llu %llu ", (unsigned long long)took[k], (unsigned long long)of_it_waited[k]);
    printf("\n");
}

int main(int argc, char **argv)
{
    char line[128], word[16];
    unsigned long long a, b, c;

    if (argc != 6)
        give_up("usage: scale_loop NAME SAMPLES COPIES PAGES JOB");
    samples = (uint32_t)strtoul(argv[2], NULL, 10);
    copy_bytes = (uint32_t)strtoul(argv[4], NULL, 10) * SN_GRANULE;
    job = strtoul(argv[5], NULL, 10);
    printf("%llu\n", (unsigned long long)attach(argv[1], strtoul(argv[3], NULL, 10)));
    fflush(stdout);
    while (fgets(line, sizeof line, stdin) != NULL) {
        int words = sscanf(line, "%15s %llu %llu %llu", word, &a, &b, &c);

        if (words == 2 && strcmp(word, "open") == 0) {
            epoch = (uint32_t)a;
            printf("%llu\n", (unsigned long long)open_member());
        } else if (words == 4 && strcmp(word, "draw") == 0 && a <= MAX_DRAWS && b <= MAX_BATCH) {
            draw_and_report((uint32_t)a, (uint32_t)b, c);
        } else if (words == 3 && strcmp(word, "turn") == 0 && b <= MAX_BATCH) {
            for (unsigned long long k = 0; k < a; k++) {
                if (sn_member_left(member) < b)
                    next_epoch();
                draw((uint32_t)b);
            }
            printf("%llu\n", a);
        } else if (words == 1 && strcmp(word, "left") == 0) {
            printf("%u\n", sn_member_left(member));
        } else if (words == 1 && strcmp(word, "close") == 0) {
            printf("%llu\n", (unsigned long long)close_member());
        } else {
            give_up("not a request: %s", line);
        }
        fflush(stdout);
    }
    sn_segment_close(segment);
    return 0;
}
