/*
 * test_crash.c -- a process dies after every single store that it makes to a segment.
 *
 *   a guest joins, acts, leaves:  its mapping is read-only --> each store faults --> is done alone --> the segment is copied
 *                                                                                                            |
 *   a copy of the survivors (crash_world.h) recovers on the copy, checks everything, goes on, leaves  <------+
 *
 * The guest holds no lock on the copy, as if it had been killed there. Some guests are killed indeed, mostly in a critical
 * section: then the next one rebuilds, and is followed as it does. A state that was seen before is not tried again. States
 * that differ in a time or a number of a process alone count as one.
 *
 * STATES=n goes on until so many different states were recovered from.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/sn_status.h"
#include "check.h"
#include "crash_world.h"
#include "store/sn_store.h"

#define SOME_STATES 3000u /* unless STATES says more */
#define STEPS 20          /* of each member */
#define MOST_WORLDS 200u  /* until all acts were followed */
#define GUESTS 8u         /* in each world */
#define MOST_STATES 200u  /* of one guest */
#define HANGS_AFTER_MS 60000
#define TO_THE_END 8u /* every so many recoveries go on through all epochs */
#define WINDOW 128u   /* bytes around an address that one store may change */
#define TABLE (1u << 23)
#define JOINS GUEST_ACTS /* in place of an act */
#define LEAVES (GUEST_ACTS + 1)

#ifdef __x86_64__

/* The tracer's and its guest's. */
typedef struct {
    uint64_t hash;            /* of the segment's records */
    uint64_t stores, changes; /* faults; of these, that changed a record */
    uint64_t states, in_busy, in_rebuild, of_act[GUEST_ACTS + 2];
    uint32_t act;
    _Atomic uint64_t seen[TABLE]; /* hashes */
} shared_state;

static uint64_t seed;
static shared_state *shared;
static world w;
static char copy_path[64];
static uint8_t *copy;
static uint8_t *noise; /* a byte for each 4 of the header and the rows: no part of a state */
static size_t noise_words;

/* In the guest. */
static int is_followed, tell_fd, told_fd;
static uint8_t *base;
static size_t length, window_at, window_bytes;
static uint32_t window[(3 * WINDOW) / 4];

/* What is hashed: records, not what processes publish, and no payloads. */
static struct {
    size_t at, end;
} hashed[4];

static uint64_t hash_of(size_t at, uint32_t word)
{
    if (at / 4 < noise_words && noise[at / 4])
        return 0;
    return word ? sn_mix64((uint64_t)at << 32 ^ word) : 0;
}

static void mark_noise(size_t at, size_t bytes)
{
    memset(noise + at / 4, 1, (bytes + 3) / 4);
}

static void plan_hash(void)
{
    const sn_header *head = w.hosts[0].segment->head;

    hashed[0].end = head->telemetry_at;
    hashed[1].at = head->slots_at;
    hashed[1].end = head->payload_at;
    for (int i = 0; i < 2; i++) {
        hashed[2 + i].at = w.regions[1 + i].at;
        hashed[2 + i].end = w.regions[1 + i].at + w.regions[1 + i].bytes;
    }
    noise_words = head->telemetry_at / 4;
    noise = calloc(noise_words, 1);
    CHECK(noise);
    for (uint32_t row = 0; row < SN_MAX_ROWS; row++)
        mark_noise(head->rows_at + row * sizeof(sn_row) + offsetof(sn_row, pid), sizeof(int32_t));
    for (uint32_t i = 0; i < SN_CHANGES; i++)
        mark_noise(offsetof(sn_header, changes) + i * sizeof(sn_change) + offsetof(sn_change, when), sizeof(uint64_t));
    for (uint32_t i = 0; i < SN_DIGEST_TABLES; i++)
        mark_noise(offsetof(sn_header, tables) + i * sizeof(sn_digest_table) + offsetof(sn_digest_table, when),
                   sizeof(uint64_t) + sizeof(int32_t));
    mark_noise(offsetof(sn_header, left_at), sizeof(uint32_t));
    mark_noise(offsetof(sn_header, joins), 2 * sizeof(uint32_t));
}

static uint64_t hash_all(void)
{
    const uint8_t *head = (const uint8_t *)w.hosts[0].segment->head;
    uint64_t hash = 0;

    for (int i = 0; i < 4; i++)
        for (size_t at = hashed[i].at; at < hashed[i].end; at += 4)
            hash ^= hash_of(at, *(const uint32_t *)(head + at));
    return hash;
}

static int is_hashed(size_t at)
{
    for (int i = 0; i < 4; i++)
        if (at >= hashed[i].at && at < hashed[i].end)
            return 1;
    return 0;
}

/* Whether the state is a new one; then it counts as seen. */
static int note_state(uint64_t hash)
{
    for (uint32_t i = 0; i < TABLE; i++) {
        _Atomic uint64_t *place = &shared->seen[(hash + i) % TABLE];
        if (atomic_load(place) == hash)
            return 0;
        if (atomic_load(place) == 0) {
            atomic_store(place, hash);
            return 1;
        }
    }
    return 0;
}

/* In place of the C library's: what the guest maps of the segment cannot be written to. */
void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t from)
{
    long got = syscall(SYS_mmap, at, bytes, protection, flags, fd, from);

    if (got != -1 && is_followed && flags & MAP_SHARED && protection & PROT_WRITE) {
        base = (uint8_t *)got;
        length = bytes;
        mprotect(base, length, PROT_READ);
    }
    return got == -1 ? MAP_FAILED : (void *)got;
}

static void on_fault(int number, siginfo_t *info, void *context)
{
    uint8_t *at = info->si_addr;

    if (!base || at < base || at >= base + length) {
        signal(number, SIG_DFL);
        return;
    }
    size_t offset = (size_t)(at - base) & ~(size_t)7;
    window_at = offset > WINDOW ? offset - WINDOW : 0;
    window_bytes = window_at + sizeof window <= length ? sizeof window : (length - window_at) & ~(size_t)3;
    memcpy(window, base + window_at, window_bytes);
    mprotect(base, length, PROT_READ | PROT_WRITE);
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] |= 0x100; /* stop after one instruction */
}

static void tell(void)
{
    int answer, error = errno;
    char word = 'x';

    if (write(tell_fd, &word, 1) != 1 || read(told_fd, &answer, sizeof answer) != sizeof answer)
        _exit(7);
    if (answer != 0)
        raise(SIGKILL);
    errno = error;
}

static void on_step(int number, siginfo_t *info, void *context)
{
    int changed = 0;

    (void)number;
    (void)info;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~0x100ll;
    mprotect(base, length, PROT_READ);
    shared->stores++;
    for (size_t i = 0; i < window_bytes / 4; i++) {
        size_t at = window_at + 4 * i;
        uint32_t now = *(uint32_t *)(base + at);
        if (now == window[i] || !is_hashed(at))
            continue;
        shared->hash ^= hash_of(at, window[i]) ^ hash_of(at, now);
        changed = 1;
    }
    shared->changes += (uint64_t)changed;
    if (changed && note_state(shared->hash))
        tell();
}

static void follow(void)
{
    struct sigaction action = {.sa_flags = SA_SIGINFO | SA_NODEFER};

    action.sa_sigaction = on_fault;
    sigaction(SIGSEGV, &action, NULL);
    action.sa_sigaction = on_step;
    sigaction(SIGTRAP, &action, NULL);
    is_followed = 1;
}

/* Followed as it joins, for 0, or else from act `from` - 1 on. */
static void be_guest(uint32_t job, uint64_t guest_seed, uint32_t from)
{
    uint32_t acts[GUEST_ACTS];
    guest g;

    shared->act = JOINS;
    if (from == 0)
        follow();
    CHECK_EQUAL(guest_join(&g, w.path, &w.geometry, job, guest_seed), SN_ATTACH_JOINED, "job %u", job);
    for (uint32_t i = 0; i < GUEST_ACTS; i++) {
        uint32_t at = sn_rng_below(&g.rng, i + 1);
        acts[i] = acts[at];
        acts[at] = i;
    }
    for (uint32_t i = 0; i < GUEST_ACTS; i++) {
        if (acts[i] + 1 == from) {
            shared->hash = hash_all();
            base = (uint8_t *)g.segment->head;
            length = g.segment->bytes;
            follow();
            mprotect(base, length, PROT_READ);
        }
        shared->act = acts[i];
        guest_act(&g, acts[i], STEPS);
    }
    shared->act = LEAVES;
    guest_leave(&g);
    _exit(0);
}

/* In the tracer. */
static void recover_here(void)
{
    const uint8_t *from = (const uint8_t *)w.hosts[0].segment->head;
    const sn_header *head = w.hosts[0].segment->head;

    for (uint32_t i = 0; i < w.n_regions; i++)
        memcpy(copy + w.regions[i].at, from + w.regions[i].at, w.regions[i].bytes);
    shared->states++;
    shared->of_act[shared->act]++;
    shared->in_busy += atomic_load(&head->busy) != 0;
    shared->in_rebuild += atomic_load(&head->failures) != 0;
    pid_t pid = world_fork_survivor();
    if (pid == 0) {
        world_move_to(&w, copy_path);
        world_recover(&w, shared->states % TO_THE_END == 0);
        _exit(0);
    }
    CHECK_EQUAL(world_wait(pid), 0, "state %" PRIu64 ", in act %u", shared->states, shared->act);
}

static int wait_for_word(int fd)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};
    char word;

    CHECK(poll(&one, 1, HANGS_AFTER_MS) == 1);
    return read(fd, &word, 1) == 1;
}

/* What be_guest() takes for one that was not followed yet; GUEST_ACTS + 1: all were. Those that rarely change a record do
 * not count. */
static uint32_t not_followed_yet(void)
{
    if (shared->of_act[JOINS] == 0 || shared->in_rebuild == 0)
        return 0;
    for (uint32_t act = 0; act < GUEST_ACTS; act++)
        if (shared->of_act[act] == 0 && act != GUEST_REAPS && act != GUEST_PUBLISHES)
            return act + 1;
    return GUEST_ACTS + 1;
}

/* How it ended, as world_wait(). */
static int follow_guest(uint32_t job, uint32_t number, sn_rng *rng)
{
    int told[2], tells[2];
    uint64_t states = 0, most = 1 + sn_rng_below(rng, MOST_STATES), guest_seed = sn_rng_u32(rng);
    uint32_t from = number % 2 ? not_followed_yet() : GUEST_ACTS + 1;
    from = from <= GUEST_ACTS ? from : number / 2 % (GUEST_ACTS + 1);

    CHECK(pipe2(told, O_CLOEXEC) == 0 && pipe2(tells, O_CLOEXEC) == 0);
    shared->hash = hash_all();
    pid_t pid = world_fork();
    if (pid == 0) {
        close(told[1]);
        close(tells[0]);
        told_fd = told[0];
        tell_fd = tells[1];
        be_guest(job, guest_seed, from);
    }
    close(told[0]);
    close(tells[1]);
    while (wait_for_word(tells[0])) {
        recover_here();
        /* In a critical section, if it comes to one soon. */
        int answer = ++states >= most && (atomic_load(&w.hosts[0].segment->head->busy) || states >= most + 50);
        CHECK(write(told[1], &answer, sizeof answer) == sizeof answer);
    }
    close(told[1]);
    close(tells[0]);
    return world_wait(pid);
}

static void try_world(uint64_t number, uint32_t *kills, uint32_t *guests)
{
    sn_rng rng;

    sn_rng_start(&rng, seed, number, 0, 0, SN_STREAM_ORDER);
    world_make(&w, sn_rng_u32(&rng), number % 3 == 2);
    if (!noise)
        plan_hash();
    world_name(copy_path, "copy");
    int fd = open(copy_path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && ftruncate(fd, (off_t)w.hosts[0].segment->bytes) == 0);
    CHECK(fallocate(fd, 0, 0, (off_t)w.hosts[0].segment->bytes) == 0);
    copy = mmap(NULL, w.hosts[0].segment->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(copy != MAP_FAILED);
    close(fd);
    for (uint32_t i = 0; i < GUESTS; i++) {
        int ended = follow_guest(6 + i, *guests, &rng);
        CHECK(ended == 0 || ended == -SIGKILL);
        *kills += ended == -SIGKILL;
        ++*guests;
        /* Now and then a survivor is who rebuilds. */
        for (uint32_t k = 0; k < WORLD_PLAYERS && sn_rng_below(&rng, 3) == 0; k++)
            if (w.players[k].member && sn_member_left(w.players[k].member) > 4)
                player_step(&w.players[k]);
    }
    munmap(copy, w.hosts[0].segment->bytes);
    unlink(copy_path);
    world_close(&w);
}

int main(int argc, char **argv)
{
    const char *asked = getenv("STATES");
    uint64_t wanted = asked ? strtoull(asked, NULL, 10) : SOME_STATES;
    uint32_t kills = 0, guests = 0;

    seed = check_seed(argc, argv);
    CHECK(wanted < TABLE / 2);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(shared != MAP_FAILED);
    for (uint64_t number = 0; shared->states < wanted || (not_followed_yet() <= GUEST_ACTS && number < MOST_WORLDS);
         number++)
        try_world(number, &kills, &guests);
    printf("test_crash: %" PRIu64 " stores, %" PRIu64 " changed a record, %" PRIu64
           " different states recovered from (%" PRIu64 " in a critical section, %" PRIu64
           " in a rebuild); %u guests, %u killed\n",
           shared->stores, shared->changes, shared->states, shared->in_busy, shared->in_rebuild, guests, kills);
    CHECK(shared->states >= wanted && shared->in_busy > 0 && kills > 0);
    CHECK_EQUAL(not_followed_yet(), GUEST_ACTS + 1, "all acts were followed");
    free(noise);
    return 0;
}

#else

int main(void)
{
    printf("test_crash: needs an x86-64 processor, whose instructions are stepped through\n");
    return 0;
}

#endif
