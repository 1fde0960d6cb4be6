/*
 * test_threads.c -- jobs as threads on one mapping of one segment, where ThreadSanitizer sees each byte that two of them use.
 *
 *   guests (guest.h)   a thread each: join, act at random (members of each kind, with exact copies and without, workers, the
 *                      split, growing, shrinking, reaping), leave, and come again as another job
 *   some of them       die at a crash point, of whatever they do, and of a rebuild too; whoever comes next rebuilds
 *   the auditor        is there from the first to the last, and holds what is derived against the truth
 *
 * Each handle has a descriptor, a mutex and locks of its own, as a process has. A process that joins also maps the segment
 * anew: here mmap() answers the mapping that there is. So joining and leaving are seen as well, which cache.h cannot.
 *
 * OPERATIONS=n goes on until so many are done: a draw, one sample prepared, or one copy written.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/sn_crash.h"
#include "base/sn_status.h"
#include "cache.h"
#include "check.h"
#include "crash_world.h"
#include "shm/sn_row.h"
#include "slots/sn_slots.h"
#include "store/sn_check.h"
#include "store/sn_store.h"

#ifdef __SANITIZE_ADDRESS__
void __lsan_disable(void);
void __lsan_enable(void);
#else
#define __lsan_disable() ((void)0)
#define __lsan_enable() ((void)0)
#endif

#define SOME_OPERATIONS 100000u /* unless OPERATIONS says more */
#define THREADS 6u
#define JOBS 12u
#define SAMPLES 48u
#define GRANULES 96u
#define STEPS 120u       /* of a member, at the most: an epoch has about 100 */
#define ACTS 24u         /* between two joins */
#define DEATHS 4u        /* one guest of so many dies */
#define LATEST 10000u    /* by so many crash points; most guests pass more */
#define AUDIT_EVERY_MS 5 /* so the others have the lock mostly */

typedef struct {
    pthread_t thread;
    uint32_t number;
    uint64_t served, joins, deaths, with_lock;
    _Atomic uint64_t operations;
    uint64_t commits, freed, rebuilds; /* by the crash points behind them */
} runner;

static uint64_t seed, wanted;
static char path[64];
static sn_geometry geometry = {.fingerprint = {1, 2},
                               .payload_bytes = (uint64_t)GRANULES * SN_GRANULE,
                               .n_samples = SAMPLES,
                               .keep = SN_KEEP_FOREVER,
                               .first_granules = 80,
                               .split = {0, 2500, 2500, 3000, 2000}};
static runner runners[THREADS];

/* -- One mapping -- */

/* A sanitizer calls these before it is ready for code that it checks. */
#define UNCHECKED __attribute__((no_sanitize("address", "undefined", "thread")))

static uint8_t *shared;     /* where the segment is mapped; NULL: it is not */
static size_t shared_bytes; /* with what map_at_huge_page() asks for besides */
static size_t last_length;  /* of the range that was asked for before the segment was mapped there */
static void *(*mmap_of_next)(void *, size_t, int, int, int, off_t);
static int (*munmap_of_next)(void *, size_t);

/* In place of the C library's, or of the sanitizer's, which comes next. */
UNCHECKED void *mmap(void *at, size_t length, int protection, int flags, int fd, off_t offset)
{
    if (!mmap_of_next)
        return (void *)syscall(SYS_mmap, at, length, protection, flags, fd, offset);
    if (shared && ((protection == PROT_NONE && length == shared_bytes) || at == shared))
        return shared;
    if (protection == PROT_NONE)
        last_length = length;
    void *got = mmap_of_next(at, length, protection, flags, fd, offset);
    if (got != MAP_FAILED && flags & MAP_FIXED && flags & MAP_SHARED) {
        shared_bytes = last_length;
        shared = got;
    }
    return got;
}

UNCHECKED int munmap(void *at, size_t length)
{
    if (!munmap_of_next)
        return (int)syscall(SYS_munmap, at, length);
    if (shared && (uint8_t *)at >= shared && (uint8_t *)at < shared + shared_bytes)
        return 0; /* others use it */
    return munmap_of_next(at, length);
}

static void map_once(void)
{
    munmap_of_next = (int (*)(void *, size_t))dlsym(RTLD_NEXT, "munmap");
    mmap_of_next = (void *(*)(void *, size_t, int, int, int, off_t))dlsym(RTLD_NEXT, "mmap");
    CHECK(mmap_of_next && munmap_of_next);
}

/* -- Death -- */

static _Thread_local runner *self;
static _Thread_local jmp_buf grave;
static _Thread_local uint32_t fuse; /* crash points until it dies; 0: it lives */
static _Thread_local const sn_header *head;

static void at_point(const char *name)
{
    if (!self)
        return;
    if (*name == 'c' && strcmp(name, "commit_ready") == 0)
        self->commits++;
    else if (*name == 'f' && strcmp(name, "free_given") == 0)
        self->freed++;
    else if (*name == 'r' && strcmp(name, "rebuild_done") == 0)
        self->rebuilds++;
    /* Of more deaths in a row within a rebuild the segment would be given up. */
    if (fuse && --fuse == 0) {
        if (atomic_load(&head->failures) < 2)
            longjmp(grave, 1);
        fuse = 1;
    }
}

/* Of a process that dies nothing is left but its memory, which the kernel frees. */
static void bury(guest *g)
{
    self->deaths++;
    self->with_lock += pthread_mutex_trylock(&g->segment->mutex) != 0;
    cache_die(g->segment);
    pthread_mutex_unlock(&g->segment->mutex); /* it has been had, then or now */
    sn_holder_free(&g->holder);
    sn_segment_close(g->segment);
}

static void act(guest *g, sn_rng *rng)
{
    for (uint32_t i = 0; i < ACTS; i++) {
        guest_act(g, sn_rng_below(rng, GUEST_ACTS), 1 + sn_rng_below(rng, STEPS));
        atomic_fetch_add_explicit(&self->operations, g->steps, memory_order_relaxed);
        self->served += g->served;
        g->steps = g->served = 0;
    }
}

/* What it has allocated is lost with it. */
static void act_and_die(guest *g, sn_rng *rng)
{
    __lsan_disable();
    head = g->segment->head;
    if (setjmp(grave) == 0) {
        fuse = 1 + sn_rng_below(rng, LATEST);
        act(g, rng);
        guest_leave(g);
        fuse = 0;
    } else {
        bury(g);
    }
    __lsan_enable();
}

static void *run(void *argument)
{
    sn_rng rng;
    guest g;

    self = argument;
    sn_rng_start(&rng, seed, self->number, 0, 0, SN_STREAM_CHOOSE);
    while (atomic_load_explicit(&self->operations, memory_order_relaxed) < wanted / THREADS + 1) {
        int rc = guest_join(&g, path, &geometry, 1 + sn_rng_below(&rng, JOBS), sn_rng_u32(&rng));
        CHECK(rc == SN_ATTACH_JOINED || rc == SN_BUSY);
        if (rc != SN_ATTACH_JOINED)
            continue;
        self->joins++;
        if (sn_rng_below(&rng, DEATHS) == 0) {
            act_and_die(&g, &rng);
        } else {
            act(&g, &rng);
            guest_leave(&g);
        }
    }
    return NULL;
}

static void audit(sn_segment *segment)
{
    char why[256] = "";

    CHECK_EQUAL(sn_store_enter(segment, CACHE_PATIENCE_MS), 0, "everybody who has the lock lets go of it, or is dead");
    sn_store_reap(segment, 1);
    CHECK_EQUAL(sn_store_check(segment, why, sizeof why), 0, "%s", why);
    for (uint32_t slot = 0; slot < segment->n_slots; slot++)
        if (sn_slot_state(&segment->slots[slot]) == SN_SLOT_READY)
            player_check_payload(segment, slot);
    sn_store_leave(segment);
}

static int is_running(void)
{
    for (uint32_t i = 0; i < THREADS; i++)
        if (atomic_load_explicit(&runners[i].operations, memory_order_relaxed) < wanted / THREADS + 1)
            return 1;
    return 0;
}

int main(int argc, char **argv)
{
    const char *asked = getenv("OPERATIONS");
    struct timespec pause = {0, AUDIT_EVERY_MS * 1000000};
    uint32_t audits = 0;
    uint64_t operations = 0;
    runner sum = {0};
    guest auditor;

    wanted = asked ? strtoull(asked, NULL, 10) : SOME_OPERATIONS;
    seed = check_seed(argc, argv);
    world_name(path, "threads");
    map_once();
    CHECK_EQUAL(guest_join(&auditor, path, &geometry, JOBS + 1, seed), SN_ATTACH_CREATED, "the auditor");
    sn_crash_hook = at_point;
    for (uint32_t i = 0; i < THREADS; i++) {
        runners[i].number = i;
        CHECK(pthread_create(&runners[i].thread, NULL, run, &runners[i]) == 0);
    }
    for (; is_running(); audits++) {
        audit(auditor.segment);
        nanosleep(&pause, NULL);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        const runner *each = &runners[i];
        pthread_join(each->thread, NULL);
        operations += atomic_load(&each->operations);
        sum.served += each->served;
        sum.joins += each->joins;
        sum.deaths += each->deaths;
        sum.with_lock += each->with_lock;
        sum.commits += each->commits;
        sum.freed += each->freed;
        sum.rebuilds += each->rebuilds;
    }
    audit(auditor.segment);
    cache_check_empty(auditor.segment);
    guest_leave(&auditor);
    printf("test_threads: %" PRIu64 " operations, %" PRIu64 " payloads served, %" PRIu64 " committed, %" PRIu64
           " freed; %" PRIu64 " joins, %" PRIu64 " deaths, %" PRIu64 " of these with the lock; %" PRIu64
           " rebuilds, %u audits\n",
           operations, sum.served, sum.commits, sum.freed, sum.joins, sum.deaths, sum.with_lock, sum.rebuilds, audits);
    CHECK(operations >= wanted && operations > 0 && sum.served > 0 && sum.commits > 0 && sum.freed > 0);
    CHECK(sum.deaths > 0 && sum.with_lock > 0 && sum.rebuilds > 0 && audits > 0);
    return 0;
}
