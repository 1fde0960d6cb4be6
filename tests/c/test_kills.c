/*
 * test_kills.c -- eight processes at one segment that is never made anew, and a parent that kills them at random moments.
 *
 *   guests (guest.h)   act at random, for ever; each says in memory that all share how long it waited for the lock
 *   the parent         kills some with SIGKILL, half of them while they have the lock; audits; begins others in their place
 *
 * The audit comes before anybody reaps the dead, and once more after that. It holds what is derived against the truth, and
 * asks that each granule is free or a payload's.
 *
 * A call gives up after 100 ms without the lock. The longest wait is printed, and the longest time from a kill until
 * somebody who waited had the lock. A process that has no core waits for that besides. Only what is far beyond fails.
 *
 * KILLS=n goes on until so many were killed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/sn_clock.h"
#include "base/sn_status.h"
#include "check.h"
#include "crash_world.h"
#include "shm/sn_row.h"
#include "slots/sn_slots.h"
#include "store/sn_check.h"
#include "store/sn_join.h"
#include "store/sn_store.h"

#define SOME_KILLS 500u /* unless KILLS says more */
#define PROCESSES 8u
#define JOBS 12u
#define SAMPLES 48u
#define GRANULES 96u
#define STEPS 40
#define ACTS 20              /* between two joins */
#define HANGS_AFTER_MS 30000 /* who waits so long for a lock that the living let go of */
#define FAR_TOO_LONG_MS 5000
#define PROMISED_MS 100
#define LONGEST_PAUSE_US 3000 /* between two kills */
#define LONGEST_SECTION_US 60 /* how far into a critical section somebody is killed */
#define AT_ONCE 2u /* die at the most before the audit: of three in a rebuild the segment would be given up */

typedef struct {
    _Atomic uint64_t longest_ns, longest_of_dead_ns, acts, waits, gave_up;
    _Atomic uint64_t killed_ns; /* when somebody was killed last, in the block of the first process */
    _Atomic uint32_t has_lock;
} life;

static uint64_t seed;
static char path[64];
static sn_geometry geometry = {.fingerprint = {1, 2},
                               .payload_bytes = (uint64_t)GRANULES * SN_GRANULE,
                               .n_samples = SAMPLES,
                               .keep = SN_KEEP_FOREVER,
                               .first_granules = 80,
                               .split = {0, 2500, 2500, 3000, 2000}};
static life *lives, *mine; /* mine: of this process; NULL in the parent */
static uint64_t asked_ns;  /* when this call first asked for the lock; 0: it does not wait */
static int has_slept;

/* In place of the C library's: sn_lock.c asks, sleeps and asks again. */
int nanosleep(const struct timespec *time, struct timespec *left)
{
    has_slept = 1;
    return (int)syscall(SYS_nanosleep, time, left);
}

static void note_wait(int is_over)
{
    uint64_t now = sn_now_ns(), took = now - asked_ns, killed = atomic_load(&lives[0].killed_ns);

    if (killed > asked_ns && killed < now && now - killed > atomic_load(&mine->longest_of_dead_ns))
        atomic_store(&mine->longest_of_dead_ns, now - killed);
    if (took > atomic_load(&mine->longest_ns))
        atomic_store(&mine->longest_ns, took);
    if (!is_over && took >= (uint64_t)PROMISED_MS * 1000000) {
        atomic_fetch_add(&mine->gave_up, 1);
        asked_ns = 0;
    }
}

int flock(int fd, int operation)
{
    if (mine && operation == LOCK_UN)
        atomic_store(&mine->has_lock, 0);
    int rc = (int)syscall(SYS_flock, fd, operation), error = errno;

    if (mine && operation != LOCK_UN) {
        if (!has_slept || asked_ns == 0)
            asked_ns = sn_now_ns(); /* another call: between two of its tries one sleeps */
        else
            note_wait(rc == 0);
        atomic_fetch_add(&mine->waits, has_slept && rc == 0);
        has_slept = 0;
        atomic_store(&mine->has_lock, rc == 0);
    }
    errno = error;
    return rc;
}

static void be_guest(uint32_t number)
{
    sn_rng rng;
    guest g;

    mine = &lives[number % PROCESSES];
    sn_rng_start(&rng, seed, number, 0, 0, SN_STREAM_CHOOSE);
    for (;;) {
        int rc = guest_join(&g, path, &geometry, 1 + sn_rng_below(&rng, JOBS), sn_rng_u32(&rng));
        CHECK(rc == SN_ATTACH_JOINED || rc == SN_BUSY);
        for (int i = 0; rc == SN_ATTACH_JOINED && i < ACTS; i++) {
            guest_act(&g, sn_rng_below(&rng, GUEST_ACTS), 1 + sn_rng_below(&rng, STEPS));
            atomic_fetch_add(&mine->acts, 1);
        }
        if (rc == SN_ATTACH_JOINED)
            guest_leave(&g);
    }
}

static pid_t begin_guest(uint32_t number)
{
    pid_t pid = world_fork();

    if (pid == 0)
        be_guest(number);
    return pid;
}

static void enter(sn_segment *segment)
{
    CHECK_EQUAL(sn_store_enter(segment, HANGS_AFTER_MS), 0, "everybody who has the lock lets go of it, or is dead");
}

static void check_space(const sn_segment *segment)
{
    uint32_t usable = sn_usable_granules(segment->head), in_use = 0, free_below = 0, counted = 0;

    for (uint32_t granule = 0; granule < segment->n_granules; granule++) {
        int is_taken = sn_bit_get(segment->granules, granule);
        in_use += (uint32_t)is_taken;
        free_below += !is_taken && granule < usable;
    }
    for (int form = 0; form < SN_FORMS; form++)
        counted += segment->head->granules_of[form];
    CHECK_EQUAL(counted, in_use, "granules of payloads");
    CHECK_EQUAL(segment->head->granules_free, free_below, "free granules");
}

/* What the dead left is as any survivor finds it; then they are reaped, and nothing is theirs any more. */
static void audit(sn_segment *segment)
{
    char why[256] = "";

    enter(segment);
    check_space(segment);
    CHECK_EQUAL(sn_store_check(segment, why, sizeof why), 0, "before the dead are reaped: %s", why);
    sn_store_reap(segment, 1);
    CHECK_EQUAL(sn_store_check(segment, why, sizeof why), 0, "after the dead were reaped: %s", why);
    check_space(segment);
    for (uint32_t row = 0; row < SN_MAX_ROWS; row++)
        if (atomic_load(&segment->rows[row].state) == SN_ROW_LIVE)
            CHECK(sn_row_is_alive(segment, row));
    for (uint32_t i = 0; i < segment->head->lists[SN_LIST_WRITING].count; i++)
        CHECK(segment->slots[segment->writing[i]].pins > 0);
    sn_store_leave(segment);
}

static uint64_t more(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Half of them are killed while they have the lock. */
static void kill_one(pid_t *pid, life *victim, sn_rng *rng, uint32_t *with_lock)
{
    uint64_t until_ns = sn_now_ns() + 2000000;

    if (sn_rng_below(rng, 2)) {
        while (!atomic_load(&victim->has_lock) && sn_now_ns() < until_ns)
            ;
        until_ns = sn_now_ns() + 1000u * sn_rng_below(rng, LONGEST_SECTION_US);
        while (sn_now_ns() < until_ns)
            ;
    }
    atomic_store(&lives[0].killed_ns, sn_now_ns());
    CHECK(kill(*pid, SIGKILL) == 0);
    CHECK_EQUAL(world_wait(*pid), -SIGKILL, "a guest that failed ends by itself");
    *with_lock += atomic_exchange(&victim->has_lock, 0);
}

int main(int argc, char **argv)
{
    const char *asked = getenv("KILLS");
    uint32_t wanted = asked ? (uint32_t)strtoul(asked, NULL, 10) : SOME_KILLS, killed = 0, with_lock = 0, begun = 0;
    uint64_t longest_ns = 0, of_dead_ns = 0, acts = 0, waits = 0, gave_up = 0;
    pid_t pids[PROCESSES];
    guest auditor;
    sn_rng rng;

    seed = check_seed(argc, argv);
    sn_rng_start(&rng, seed, 0, 0, 0, SN_STREAM_ORDER);
    world_name(path, "kills");
    lives = mmap(NULL, PROCESSES * sizeof *lives, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(lives != MAP_FAILED);
    CHECK_EQUAL(guest_join(&auditor, path, &geometry, JOBS + 1, seed), SN_ATTACH_CREATED, "the auditor");
    for (uint32_t i = 0; i < PROCESSES; i++, begun++)
        pids[i] = begin_guest(begun);
    while (killed < wanted) {
        struct timespec pause = {0, 1000l * (1 + sn_rng_below(&rng, LONGEST_PAUSE_US))};
        uint32_t first = sn_rng_below(&rng, PROCESSES), n = 1 + sn_rng_below(&rng, AT_ONCE);

        nanosleep(&pause, NULL);
        for (uint32_t i = 0; i < n; i++)
            kill_one(&pids[(first + i) % PROCESSES], &lives[(first + i) % PROCESSES], &rng, &with_lock);
        killed += n;
        audit(auditor.segment);
        for (uint32_t i = 0; i < n; i++) {
            begun += PROCESSES;
            pids[(first + i) % PROCESSES] = begin_guest(begun / PROCESSES * PROCESSES + (first + i) % PROCESSES);
        }
    }
    for (uint32_t i = 0; i < PROCESSES; i++) {
        CHECK(kill(pids[i], SIGKILL) == 0);
        CHECK_EQUAL(world_wait(pids[i]), -SIGKILL, "a guest that failed ends by itself");
        longest_ns = more(longest_ns, atomic_load(&lives[i].longest_ns));
        of_dead_ns = more(of_dead_ns, atomic_load(&lives[i].longest_of_dead_ns));
        acts += atomic_load(&lives[i].acts);
        waits += atomic_load(&lives[i].waits);
        gave_up += atomic_load(&lives[i].gave_up);
    }
    audit(auditor.segment);
    guest_leave(&auditor);
    printf("test_kills: %u kills, %u of these with the lock; %" PRIu64 " acts; %" PRIu64
           " waits for the lock, the longest %.1f ms, %" PRIu64
           " of %d ms or more; the longest while somebody died, %.1f ms\n",
           killed, with_lock, acts, waits, (double)longest_ns / 1e6, gave_up, PROMISED_MS, (double)of_dead_ns / 1e6);
    CHECK(killed >= wanted && killed > 0 && with_lock > 0 && acts > 0);
    CHECK(longest_ns < (uint64_t)FAR_TOO_LONG_MS * 1000000);
    return 0;
}
