/*
 * test_small_shm.c -- jobs come to a /dev/shm that is too small, while a neighbour fills it and frees some of it again.
 *
 *   neighbour   takes memory until there is none, lets go of some, and again
 *   a host      lives in one segment from the beginning
 *   guests      (guest.h), some at a time: join that one or make another, act, leave, with less memory than they ask for
 *
 * Nobody may touch memory that it has not reserved: where there is none, the kernel sends SIGBUS, and no handler is there.
 * A guest that cannot join has been told why. At the end the neighbour is gone, and the segment is as it should be.
 *
 * RUNS=n: so many guests come. It needs mounts of its own; without the right to them it runs nothing, and says so.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/sn_status.h"
#include "check.h"
#include "crash_world.h"
#include "store/sn_check.h"
#include "store/sn_store.h"

#define SOME_RUNS 200u /* unless RUNS says more */
#define AT_ONCE 3u
#define JOBS 12u
#define GRANULES 96u
#define ACTS 6u
#define STEPS 40
#define REFUSED 3        /* the status of a guest that had no memory to join with */
#define SEGMENTS 4u      /* so many have room in all */
#define PIECES 64u       /* of memory that the neighbour takes, each in a file of its own */
#define HANGS_AFTER_S 60 /* a guest */

static uint64_t seed;
static char path[64];
static sn_geometry geometry = {.fingerprint = {1, 2},
                               .payload_bytes = (uint64_t)GRANULES * SN_GRANULE,
                               .n_samples = 48,
                               .first_granules = 40,
                               .split = {0, 2500, 2500, 3000, 2000}};
static struct {
    _Atomic uint64_t filled; /* so often nothing was left */
} *neighbour;

static int write_once(const char *file, const char *text)
{
    int fd = open(file, O_WRONLY | O_CLOEXEC), rc = fd >= 0 && write(fd, text, strlen(text)) > 0;

    if (fd >= 0)
        close(fd);
    return rc;
}

/* A /dev/shm of this process and its children alone: 0, or -1 where that is not allowed. */
static int have_small_shm(uint64_t bytes)
{
    char options[64], map[64];
    uid_t user = geteuid();
    gid_t group = getegid();

    snprintf(options, sizeof options, "size=%" PRIu64 ",mode=1777", bytes);
    if (unshare(CLONE_NEWNS) != 0) {
        if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
            return -1;
        snprintf(map, sizeof map, "0 %u 1", (unsigned)user);
        if (!write_once("/proc/self/setgroups", "deny") || !write_once("/proc/self/uid_map", map))
            return -1;
        snprintf(map, sizeof map, "0 %u 1", (unsigned)group);
        if (!write_once("/proc/self/gid_map", map))
            return -1;
    }
    if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
        return -1;
    return mount("tmpfs", "/dev/shm", "tmpfs", 0, options);
}

static pid_t begin(void (*work)(uint32_t number), uint32_t number)
{
    pid_t pid = world_fork();

    if (pid == 0) {
        work(number);
        _exit(0);
    }
    return pid;
}

static void fill_and_free(uint32_t number)
{
    int pieces[PIECES];
    char name[80];
    sn_rng rng;

    sn_rng_start(&rng, seed, number, 0, 0, SN_STREAM_ORDER);
    for (uint32_t i = 0; i < PIECES; i++) {
        snprintf(name, sizeof name, "/dev/shm/neighbour-%u", i);
        pieces[i] = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        CHECK(pieces[i] >= 0 && unlink(name) == 0);
    }
    for (;;) {
        struct timespec pause = {0, 1000l * sn_rng_below(&rng, 2000)};
        uint32_t at = sn_rng_below(&rng, PIECES), n_granules = 1 + sn_rng_below(&rng, 32);

        if (fallocate(pieces[at], 0, 0, (off_t)n_granules * SN_GRANULE) == 0)
            continue;
        CHECK(errno == ENOSPC || errno == EINTR);
        while (fallocate(pieces[at], 0, 0, (off_t)--n_granules * SN_GRANULE) != 0 && n_granules > 1)
            ; /* to the last page, or nearly */
        atomic_fetch_add(&neighbour->filled, 1);
        nanosleep(&pause, NULL);
        for (uint32_t i = sn_rng_below(&rng, 2 * PIECES); i > 0; i--)
            CHECK(ftruncate(pieces[sn_rng_below(&rng, PIECES)], 0) == 0);
        nanosleep(&pause, NULL);
    }
}

static void be_guest(uint32_t number)
{
    sn_rng rng;
    guest g;

    alarm(HANGS_AFTER_S);
    sn_rng_start(&rng, seed, 1 + number, 0, 0, SN_STREAM_CHOOSE);
    if (sn_rng_below(&rng, 3) == 0)
        snprintf(path, sizeof path, "/dev/shm/own-%u", number); /* in a folder that nobody else has */
    int rc = guest_join(&g, path, &geometry, 1 + sn_rng_below(&rng, JOBS), sn_rng_u32(&rng));
    if (rc == -ENOSPC || rc == SN_E_RECORDS || rc == SN_E_GONE)
        _exit(REFUSED);
    CHECK(rc == SN_ATTACH_JOINED || rc == SN_ATTACH_CREATED);
    for (uint32_t i = 0; i < ACTS; i++)
        guest_act(&g, sn_rng_below(&rng, GUEST_ACTS), 1 + sn_rng_below(&rng, STEPS));
    guest_leave(&g);
    CHECK(rc == SN_ATTACH_JOINED || access(path, F_OK) != 0);
}

static void check_segment(guest *host)
{
    char why[256] = "";

    guest_acts(host, STEPS);
    CHECK_EQUAL(sn_store_enter(host->segment, SN_LOCK_DEADLINE_MS), 0, "nobody else is there");
    sn_store_reap(host->segment, 1);
    CHECK_EQUAL(sn_store_check(host->segment, why, sizeof why), 0, "%s", why);
    sn_store_leave(host->segment);
    guest_leave(host);
    CHECK(access(path, F_OK) != 0);
}

int main(int argc, char **argv)
{
    const char *asked = getenv("RUNS");
    uint32_t wanted = asked ? (uint32_t)strtoul(asked, NULL, 10) : SOME_RUNS, begun = 0, ended = 0, refused = 0;
    sn_header layout;
    guest host;

    seed = check_seed(argc, argv);
    CHECK(setenv("SENECA_SIGBUS", "default", 1) == 0);
    CHECK_EQUAL(sn_layout_compute(&geometry, &layout), 0, "the geometry");
    uint64_t bytes = SEGMENTS * (layout.payload_at + geometry.payload_bytes + 8 * layout.area_bytes);
    if (have_small_shm(bytes) != 0) {
        printf("test_small_shm: not run, for it may have no mounts of its own: %s\n", strerror(errno));
        return 0;
    }
    world_name(path, "small");
    neighbour = mmap(NULL, sizeof *neighbour, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(neighbour != MAP_FAILED);
    CHECK_EQUAL(guest_join(&host, path, &geometry, JOBS + 1, seed), SN_ATTACH_CREATED, "the host");
    pid_t filling = begin(fill_and_free, 0);
    while (ended < wanted) {
        int status;

        while (begun < wanted && begun - ended < AT_ONCE)
            begin(be_guest, ++begun);
        pid_t pid = waitpid(-1, &status, 0);
        CHECK(pid > 0 && pid != filling);
        CHECK_EQUAL(WIFSIGNALED(status) ? WTERMSIG(status) : 0, 0, "the signal that ended a guest");
        CHECK(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == REFUSED);
        refused += WEXITSTATUS(status) == REFUSED;
        ended++;
    }
    CHECK(kill(filling, SIGKILL) == 0 && world_wait(filling) == -SIGKILL);
    check_segment(&host);
    printf("test_small_shm: %u guests, %u of these refused; %" PRIu64 " times nothing was left of %" PRIu64 " KiB\n",
           ended, refused, atomic_load(&neighbour->filled), bytes / 1024);
    CHECK(ended > 0 && refused > 0 && refused < ended && atomic_load(&neighbour->filled) > 0);
    return 0;
}
