/*
 * test_liveness.c -- who is taken for dead: all that are, at the first look, and nobody else.
 *
 *   processes   join, and are stopped, also with the lock; killed, also while stopped, and left as zombies or not; fork; in
 *               pid namespaces of their own, where each is number 1; some numbers of the dead are given to others
 *   an observer after each event: from within the segment (sn_store_reap), and from outside (sn_snapshot_take)
 *
 * TRIALS=n: so many events. Where pid namespaces, or numbers of one's choice, are not allowed, there are none of these.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/sn_status.h"
#include "check.h"
#include "crash_world.h"
#include "shm/sn_row.h"
#include "shm/sn_snapshot.h"
#include "store/sn_check.h"
#include "store/sn_store.h"

#define SOME_TRIALS 1000u /* unless TRIALS says more */
#define PLACES 10u
#define HANGS_AFTER_MS 60000
#define SHORT_MS 1 /* to wait for a lock that somebody who is stopped holds */

typedef struct {
    pid_t pid; /* 0: nobody */
    int socket;
    uint32_t row;
    int is_stopped, is_dead, is_reaped, has_lock, is_apart;
    pid_t child; /* that it has forked, or a bystander with its number; 0: none */
} process;

typedef struct {
    uint32_t row;
    int32_t rc;
    pid_t child;
} answer;

static uint64_t seed;
static char path[64];
static sn_geometry geometry = {
    .fingerprint = {1, 2}, .payload_bytes = 64u * SN_GRANULE, .n_samples = 24, .split = {0, 2500, 2500, 3000, 2000}};
static process places[PLACES];
static guest observer;
static sn_snapshot seen;
static int died_inside; /* with the lock, since the last look */
static uint32_t died, died_as_zombies, died_with_lock, survived_by_children, stopped, stopped_with_lock, apart, reused;

/* -- A process -- */

static void tell(int socket, answer said)
{
    if (write(socket, &said, sizeof said) != sizeof said)
        _exit(8);
}

/* Whoever outlives the process that forked it, or has its number. */
static void stand_by(int socket)
{
    char byte;

    while (read(socket, &byte, 1) > 0) /* until nobody has the other end */
        ;
    _exit(0);
}

/* Until the child has run the handlers of fork(), it holds what this process does. */
static pid_t fork_bystander(int bystanders_end)
{
    int ends[2];
    char byte = 0;

    CHECK(pipe2(ends, O_CLOEXEC) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        CHECK(write(ends[1], &byte, 1) == 1);
        stand_by(bystanders_end);
    }
    CHECK(pid > 0 && read(ends[0], &byte, 1) == 1);
    close(ends[0]);
    close(ends[1]);
    return pid;
}

static void live(uint32_t job, int socket, int bystanders_end)
{
    char command;
    guest g;
    int rc = guest_join(&g, path, &geometry, job, seed);

    tell(socket, (answer){.row = g.row, .rc = rc});
    while (read(socket, &command, 1) == 1) {
        answer said = {.row = g.row};
        if (command == 'l') {
            said.rc = sn_store_enter(g.segment, 1000);
        } else if (command == 'u') {
            sn_store_leave(g.segment);
        } else if (command == 'f') {
            said.child = fork_bystander(bystanders_end);
        } else {
            guest_leave(&g);
            tell(socket, said);
            _exit(0);
        }
        tell(socket, said);
    }
    _exit(9);
}

/* -- What happens -- */

static int bystanders[2]; /* the observer's end, and theirs */

static answer hear(const process *p)
{
    answer said;

    CHECK_EQUAL(read(p->socket, &said, sizeof said), sizeof said, "process %d", (int)p->pid);
    return said;
}

static answer ask(const process *p, char command)
{
    CHECK_EQUAL(write(p->socket, &command, 1), 1, "process %d", (int)p->pid);
    return hear(p);
}

/* Not fork(): it has no namespaces. Its handlers close what the child has of the observer. */
static pid_t fork_apart(void)
{
    pid_t parent = getpid(), pid = (pid_t)syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, NULL, NULL, NULL, NULL);

    if (pid == 0) {
        world_end_with(parent);
        close(observer.segment->fd);
    }
    return pid;
}

static void come(process *p, uint32_t job, int is_apart)
{
    int ends[2];

    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    pid_t pid = is_apart ? fork_apart() : world_fork();
    if (pid < 0 && is_apart) { /* it is not allowed */
        is_apart = 0;
        pid = world_fork();
    }
    if (pid == 0) {
        for (uint32_t i = 0; i < PLACES; i++)
            if (places[i].pid)
                close(places[i].socket);
        close(ends[0]);
        close(bystanders[0]);
        live(job, ends[1], bystanders[1]);
    }
    close(ends[1]);
    *p = (process){.pid = pid, .socket = ends[0], .is_apart = is_apart};
    answer said = hear(p);
    CHECK_EQUAL(said.rc, SN_ATTACH_JOINED, "process %d", (int)pid);
    p->row = said.row;
    apart += (uint32_t)is_apart;
}

static void stop(process *p, int with_lock)
{
    if (with_lock)
        CHECK_EQUAL(ask(p, 'l').rc, 0, "nobody has it");
    p->has_lock = with_lock;
    CHECK(kill(p->pid, SIGSTOP) == 0);
    siginfo_t info;
    CHECK(waitid(P_PID, (id_t)p->pid, &info, WSTOPPED) == 0);
    p->is_stopped = 1;
    stopped++;
    stopped_with_lock += (uint32_t)with_lock;
}

static void go_on(process *p)
{
    CHECK(kill(p->pid, SIGCONT) == 0);
    if (p->has_lock)
        ask(p, 'u');
    p->is_stopped = p->has_lock = 0;
}

/* With this number: 0 where that is not allowed. */
static pid_t come_as(pid_t pid)
{
    struct clone_args arguments = {.exit_signal = SIGCHLD, .set_tid = (uintptr_t)&pid, .set_tid_size = 1};
    pid_t got = (pid_t)syscall(SYS_clone3, &arguments, sizeof arguments);

    if (got == 0) {
        close(observer.segment->fd);
        close(bystanders[0]);
        for (uint32_t i = 0; i < PLACES; i++)
            if (places[i].pid)
                close(places[i].socket);
        stand_by(bystanders[1]);
    }
    return got > 0 ? got : 0;
}

static void die(process *p, int stays_zombie, int is_reused)
{
    siginfo_t info;

    CHECK(kill(p->pid, SIGKILL) == 0);
    CHECK(waitid(P_PID, (id_t)p->pid, &info, WEXITED | WNOWAIT) == 0 && info.si_status == SIGKILL);
    p->is_dead = 1;
    died++;
    died_as_zombies += (uint32_t)stays_zombie;
    died_with_lock += (uint32_t)p->has_lock;
    died_inside |= p->has_lock;
    survived_by_children += p->child != 0 && !p->is_apart;
    p->has_lock = p->is_stopped = 0;
    if (stays_zombie)
        return;
    CHECK_EQUAL(world_wait(p->pid), -SIGKILL, "");
    p->is_reaped = 1;
    if (is_reused && p->child == 0) {
        p->child = come_as(p->pid);
        reused += p->child != 0;
    }
}

static void clear(process *p)
{
    if (!p->is_reaped)
        CHECK_EQUAL(world_wait(p->pid), -SIGKILL, "");
    close(p->socket);
    if (p->child && !p->is_apart) {
        kill(p->child, SIGKILL);
        waitpid(p->child, NULL, 0); /* one that has another parent ends by itself */
    }
    memset(p, 0, sizeof *p);
}

/* -- The observer -- */

static process *somebody_with_lock(void)
{
    for (uint32_t i = 0; i < PLACES; i++)
        if (places[i].has_lock)
            return &places[i];
    return NULL;
}

static void look_from_outside(void)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);

    CHECK(fd >= 0);
    CHECK_EQUAL(sn_snapshot_take(fd, &seen), 0, "");
    close(fd);
    for (uint32_t i = 0; i < PLACES; i++)
        if (places[i].pid)
            CHECK_EQUAL(sn_bit_get(seen.alive, places[i].row), !places[i].is_dead, "process %d, row %u",
                        (int)places[i].pid, places[i].row);
}

/* One scan. Answers how many states it has compared. */
static uint32_t look(void)
{
    char why[256] = "";
    uint32_t compared = 0, dead = 0;

    look_from_outside();
    if (somebody_with_lock()) {
        CHECK_EQUAL(sn_store_enter(observer.segment, SHORT_MS), SN_BUSY, "its holder is stopped, and lives");
        return 0;
    }
    for (uint32_t i = 0; i < PLACES; i++)
        dead += places[i].pid != 0 && places[i].is_dead;
    CHECK_EQUAL(sn_store_enter(observer.segment, HANGS_AFTER_MS), 0, "nobody has the lock");
    uint32_t reaped = sn_store_reap(observer.segment, 1);
    CHECK(reaped == dead || (died_inside && reaped == 0)); /* a rebuild has found them before */
    died_inside = 0;
    for (uint32_t i = 0; i < PLACES; i++) {
        const process *p = &places[i];
        if (!p->pid)
            continue;
        CHECK_EQUAL(atomic_load(&observer.segment->rows[p->row].state) == SN_ROW_LIVE, !p->is_dead,
                    "process %d, row %u", (int)p->pid, p->row);
        compared++;
    }
    CHECK_EQUAL(sn_store_check(observer.segment, why, sizeof why), 0, "%s", why);
    sn_store_leave(observer.segment);
    for (uint32_t i = 0; i < PLACES; i++)
        if (places[i].is_dead)
            clear(&places[i]);
    return compared;
}

static void happen(process *p, sn_rng *rng)
{
    if (!p->pid) {
        if (!somebody_with_lock())
            come(p, 1 + sn_rng_below(rng, 20), sn_rng_below(rng, 4) == 0);
    } else if (p->is_dead) {
        return; /* and nobody could look, for somebody has the lock */
    } else if (sn_rng_below(rng, 3) == 0) {
        die(p, (int)sn_rng_below(rng, 2), (int)sn_rng_below(rng, 2));
    } else if (p->is_stopped) {
        go_on(p);
    } else if (sn_rng_below(rng, 4) == 0 && !p->child) {
        p->child = ask(p, 'f').child;
        CHECK(p->child > 0);
    } else if (sn_rng_below(rng, 6) == 0 && !p->child && !somebody_with_lock()) {
        ask(p, 'x');
        CHECK_EQUAL(world_wait(p->pid), 0, "it has left");
        close(p->socket);
        memset(p, 0, sizeof *p);
    } else {
        stop(p, sn_rng_below(rng, 3) == 0 && !somebody_with_lock());
    }
}

int main(int argc, char **argv)
{
    const char *asked = getenv("TRIALS");
    uint32_t wanted = asked ? (uint32_t)strtoul(asked, NULL, 10) : SOME_TRIALS, compared = 0;
    sn_rng rng;

    seed = check_seed(argc, argv);
    sn_rng_start(&rng, seed, 0, 0, 0, SN_STREAM_ORDER);
    world_name(path, "liveness");
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, bystanders) == 0);
    CHECK_EQUAL(guest_join(&observer, path, &geometry, 50, seed), SN_ATTACH_CREATED, "the observer");
    for (uint32_t i = 0; i < wanted; i++) {
        process *holder = somebody_with_lock();
        happen(holder && sn_rng_below(&rng, 2) ? holder : &places[sn_rng_below(&rng, PLACES)], &rng);
        compared += look();
    }
    for (uint32_t i = 0; i < PLACES; i++)
        if (places[i].pid && !places[i].is_dead)
            die(&places[i], 0, 0);
    look();
    guest_leave(&observer);
    printf(
        "test_liveness: %u events, after which %u processes were judged; %u died, %u of these as zombies, %u with the "
        "lock, %u survived by children, %u whose numbers others got; %u stops, %u of these with the lock; %u in pid "
        "namespaces\n",
        wanted, compared, died, died_as_zombies, died_with_lock, survived_by_children, reused, stopped,
        stopped_with_lock, apart);
    CHECK(died_as_zombies > 0 && died_as_zombies < died && died_with_lock > 0 && survived_by_children > 0);
    CHECK(stopped_with_lock > 0 && stopped_with_lock < stopped && compared > 0);
    return 0;
}
