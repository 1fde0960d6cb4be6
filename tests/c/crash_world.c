#define _GNU_SOURCE
#include "crash_world.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/sn_status.h"
#include "cache.h"
#include "check.h"
#include "shm/sn_row.h"
#include "slots/sn_slots.h"
#include "store/sn_check.h"
#include "store/sn_join.h"
#include "store/sn_store.h"

#define PATIENCE_MS 5000
#define HANGS_AFTER_S 30
#define MOST_STEPS 4000 /* until all epochs are over */
#define FEW_STEPS 8
#define NEWCOMER 61u
#define ROWS_BEFORE 8u /* row areas that are looked at: processes have the first rows, members the last */
#define ROWS_BEHIND 16u
#define TABLES 8u
#define WORLD_MOST_NAMES 8

static char names[WORLD_MOST_NAMES][64];
static int n_names;
static pid_t owner;

static void remove_names(void)
{
    while (getpid() == owner && n_names > 0)
        unlink(names[--n_names]);
}

void world_name(char path[64], const char *what)
{
    if (n_names == 0)
        CHECK(atexit(remove_names) == 0);
    owner = getpid();
    /* Not a name that other jobs of this user would sweep up. */
    snprintf(path, 64, "/dev/shm/test-of-seneca-%u-%d-%s", (unsigned)geteuid(), (int)getpid(), what);
    unlink(path); /* of a process of this number that died */
    for (int i = 0; i < n_names; i++)
        if (strcmp(names[i], path) == 0)
            return;
    CHECK(n_names < WORLD_MOST_NAMES);
    strcpy(names[n_names++], path);
}

static void add_region(world *w, size_t at, size_t bytes)
{
    CHECK(w->n_regions < WORLD_REGIONS);
    w->regions[w->n_regions].at = at;
    w->regions[w->n_regions++].bytes = bytes;
    w->saved_bytes += bytes;
}

/* One that dies with its hands full. Its row is reaped by who comes next. */
static void let_one_die(world *w)
{
    guest dead;
    player p;

    CHECK_EQUAL(guest_join(&dead, w->path, &w->geometry, 5, w->seed), SN_ATTACH_JOINED, "job 5");
    player_make(&p, dead.segment, dead.row, dead.job, w->seed);
    player_open(&p, PLAYER_EXCHANGES, 0);
    for (int i = 0; i < 10; i++)
        player_step(&p);
    atomic_store(&dead.segment->forked, 1);
    CHECK(close(dead.segment->fd) == 0);
    dead.segment->fd = -1;
    player_close(&p);
    sn_segment_close(dead.segment);
}

void world_make(world *w, uint64_t seed, int is_ordered)
{
    static const enum player_kind mixed[WORLD_PLAYERS] = {PLAYER_EXCHANGES, PLAYER_EXCHANGES, PLAYER_EXACT,
                                                          PLAYER_EXACT};

    memset(w, 0, sizeof *w);
    w->seed = seed;
    w->geometry = (sn_geometry){.fingerprint = {1, 2},
                                .payload_bytes = (uint64_t)WORLD_GRANULES * SN_GRANULE,
                                .n_samples = WORLD_SAMPLES,
                                .first_granules = WORLD_FIRST_GRANULES,
                                .keep = SN_KEEP_FOREVER,
                                .split = {0, 2500, 2500, 3000, 2000}};
    world_name(w->path, is_ordered ? "ordered" : "mixed");
    for (uint32_t i = 0; i < WORLD_HANDLES; i++)
        CHECK_EQUAL(guest_join(&w->hosts[i], w->path, &w->geometry, 1 + i, seed),
                    i == 0 ? SN_ATTACH_CREATED : SN_ATTACH_JOINED, "host %u", i);
    for (uint32_t i = 0; i < WORLD_PLAYERS; i++) {
        const guest *host = &w->hosts[i % WORLD_HANDLES];
        player_make(&w->players[i], host->segment, host->row, host->job, seed + i);
        if (!is_ordered || i < WORLD_HANDLES)
            player_open(&w->players[i], is_ordered ? PLAYER_ORDERED : mixed[i], 0);
    }
    for (int i = 0; i < 12; i++)
        for (uint32_t k = 0; k < WORLD_PLAYERS; k++)
            if (w->players[k].member && sn_member_left(w->players[k].member) > WORLD_SAMPLES / 2)
                player_step(&w->players[k]);
    guest_act(&w->hosts[0], GUEST_COMPARES, 0);
    let_one_die(w);

    const sn_header *head = w->hosts[0].segment->head;
    add_region(w, 0, head->payload_at + (size_t)WORLD_GRANULES * SN_GRANULE);
    add_region(w, head->areas_at, ROWS_BEFORE * head->area_bytes);
    add_region(w, head->areas_at + (SN_MAX_ROWS - ROWS_BEHIND) * head->area_bytes, ROWS_BEHIND * head->area_bytes);
    add_region(w, head->digests_at, TABLES * head->digests_bytes);
}

void world_close(world *w)
{
    for (uint32_t i = 0; i < WORLD_PLAYERS; i++)
        if (w->players[i].member)
            player_close(&w->players[i]);
    for (uint32_t i = 0; i < WORLD_HANDLES; i++)
        guest_leave(&w->hosts[i]);
    free(w->saved);
    unlink(w->path);
}

void world_save(world *w)
{
    uint8_t *to = w->saved = w->saved ? w->saved : malloc(w->saved_bytes);

    CHECK(to);
    for (uint32_t i = 0; i < w->n_regions; to += w->regions[i++].bytes)
        memcpy(to, (uint8_t *)w->hosts[0].segment->head + w->regions[i].at, w->regions[i].bytes);
}

static void lock_rows(const world *w)
{
    for (uint32_t i = 0; i < WORLD_HANDLES; i++)
        for (uint32_t row = 0; row < SN_MAX_ROWS; row++)
            if (sn_row_is_own(w->hosts[i].segment, row))
                CHECK_EQUAL(sn_row_lock(w->hosts[i].segment, row), 0, "row %u", row);
}

void world_restore(const world *w)
{
    const uint8_t *from = w->saved;

    for (uint32_t i = 0; i < w->n_regions; from += w->regions[i++].bytes)
        memcpy((uint8_t *)w->hosts[0].segment->head + w->regions[i].at, from, w->regions[i].bytes);
    lock_rows(w); /* which a copy has left */
}

/* In a pid namespace of its own a process sees 0 as its parent. */
void world_end_with(pid_t parent)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || (getppid() != parent && getppid() != 0))
        _exit(7);
}

pid_t world_fork(void)
{
    pid_t parent = getpid(), pid = fork();

    CHECK(pid >= 0);
    if (pid == 0)
        world_end_with(parent);
    return pid;
}

/* Not fork(), whose handlers make the child's handles unusable. */
pid_t world_fork_survivor(void)
{
    pid_t parent = getpid(), pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);

    CHECK(pid >= 0);
    if (pid == 0)
        world_end_with(parent);
    return pid;
}

void world_move_to(world *w, const char *path)
{
    for (uint32_t i = 0; i < WORLD_HANDLES; i++) {
        sn_segment *segment = w->hosts[i].segment;
        int fd = open(path, O_RDWR | O_CLOEXEC);

        CHECK(fd >= 0 && dup2(fd, segment->fd) == segment->fd);
        close(fd);
        fd = open(path, O_RDWR | O_CLOEXEC); /* a mapping has no locks, see sn_segment.c */
        CHECK(mmap(segment->head, segment->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) ==
              (void *)segment->head);
        close(fd);
        strcpy(segment->path, path);
    }
    lock_rows(w);
    strcpy(w->path, path);
}

static void check_all(world *w)
{
    sn_segment *segment = w->hosts[0].segment;
    char why[256] = "";

    CHECK_EQUAL(sn_store_check(segment, why, sizeof why), 0, "%s", why);
    for (uint32_t row = 0; row < SN_MAX_ROWS; row++)
        if (atomic_load(&segment->rows[row].state) == SN_ROW_LIVE)
            CHECK(sn_row_is_own(segment, row) || sn_row_is_own(w->hosts[1].segment, row));
    for (uint32_t slot = 0; slot < segment->n_slots; slot++)
        if (sn_slot_state(&segment->slots[slot]) == SN_SLOT_READY)
            player_check_payload(segment, slot);
    for (uint32_t i = 0; i < WORLD_PLAYERS; i++)
        if (w->players[i].member)
            player_check_hand(&w->players[i]);
}

static void go_on(world *w, player *newcomer, int to_the_end)
{
    int busy = 1;

    for (int i = 0; busy && i < (to_the_end ? MOST_STEPS : FEW_STEPS); i++) {
        busy = player_step(newcomer);
        for (uint32_t k = 0; k < WORLD_PLAYERS; k++)
            busy |= w->players[k].member && player_step(&w->players[k]);
    }
    if (!to_the_end)
        return;
    CHECK(!busy);
    player_check_epoch(newcomer);
    for (uint32_t k = 0; k < WORLD_PLAYERS; k++)
        if (w->players[k].member)
            player_check_epoch(&w->players[k]);
}

void world_recover(world *w, int to_the_end)
{
    sn_segment *segment = w->hosts[0].segment;
    guest newcomer;
    player p;

    alarm(HANGS_AFTER_S);
    CHECK_EQUAL(sn_store_enter(segment, PATIENCE_MS), 0, "recovery");
    sn_store_reap(segment, 1);
    check_all(w);
    sn_store_leave(segment);
    CHECK_EQUAL(guest_join(&newcomer, w->path, &w->geometry, NEWCOMER, w->seed), SN_ATTACH_JOINED, "a newcomer");
    player_make(&p, newcomer.segment, newcomer.row, NEWCOMER, w->seed);
    player_open(&p, PLAYER_EXCHANGES, 0);
    go_on(w, &p, to_the_end);
    player_close(&p);
    guest_leave(&newcomer);
    for (uint32_t i = 0; i < WORLD_PLAYERS; i++)
        if (w->players[i].member)
            player_close(&w->players[i]);
    cache_check_empty(segment);
    alarm(0);
}

int world_wait(pid_t pid)
{
    int status;

    while (waitpid(pid, &status, 0) != pid)
        CHECK(errno == EINTR);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}
