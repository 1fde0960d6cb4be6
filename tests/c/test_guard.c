/*
 * test_guard.c -- files that are cut off while they are mapped: zeroes, for as many mappings as there are, and whoever had
 * SIGBUS before gets all others.
 *
 *   mappings   more than one table of the guard has; each is cut off in turn, and the others stay as they are
 *   threads    let the guard watch and forget mappings, while one of them meets what was cut off
 *   children   meet a page that is nobody's, with each kind of handler that had the signal before
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/sn_rng.h"
#include "check.h"
#include "crash_world.h"
#include "shm/sn_guard.h"

#define MAPPINGS 150u /* a table has 64 */
#define PAGES 4u
#define PAGE 4096u
#define BYTES (PAGES * PAGE)
#define THREADS 4u
#define ROUNDS 300u
#define OF_A_HANDLER 77 /* the code with which a child ends whose handler was called */

typedef struct {
    sn_guarded guarded;
    uint8_t *base;
    int fd;
} mapping;

static uint64_t seed;

static mapping make(void)
{
    mapping made = {.fd = memfd_create("guarded", MFD_CLOEXEC)};

    CHECK(made.fd >= 0 && ftruncate(made.fd, BYTES) == 0);
    made.base = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, made.fd, 0);
    CHECK(made.base != MAP_FAILED);
    memset(made.base, 0xEE, BYTES);
    return made;
}

static void watch(mapping *m)
{
    CHECK_EQUAL(sn_guard_watch(&m->guarded, (sn_header *)m->base, BYTES, m->fd), 0, "memory");
}

static void drop(mapping *m)
{
    sn_guard_forget(&m->guarded);
    CHECK(munmap(m->base, BYTES) == 0 && close(m->fd) == 0);
}

/* A sanitizer takes mmap() for a write, and would see two threads that race where one of them is given zeroes. */
__attribute__((no_sanitize("thread"))) static uint8_t read_at(const mapping *m, uint32_t at)
{
    return *(volatile uint8_t *)(m->base + at);
}

/* To nothing, or to some of its pages. */
static void cut(mapping *m, uint32_t pages)
{
    const sn_header *head = (const sn_header *)m->base;

    CHECK(ftruncate(m->fd, pages * PAGE) == 0);
    CHECK_EQUAL(read_at(m, BYTES - PAGE), 0, "a page that is gone");
    CHECK_EQUAL(atomic_load(&m->guarded.is_cut), 1, "it was noticed");
    CHECK_EQUAL(m->guarded.whole_bytes, pages * PAGE, "what is the file's");
    CHECK_EQUAL(atomic_load(&head->abandoned), SN_CUT, "it is given up");
    for (uint32_t page = 0; page < PAGES; page++)
        CHECK_EQUAL(read_at(m, page * PAGE + PAGE - 1), page < pages ? 0xEE : 0, "page %u of %u", page, pages);
}

static void as_many_as_there_are_are_guarded(void)
{
    static mapping all[MAPPINGS];
    sn_rng rng;

    sn_rng_start(&rng, seed, 0, 0, 0, SN_STREAM_ORDER);
    for (uint32_t i = 0; i < MAPPINGS; i++) {
        all[i] = make();
        watch(&all[i]);
    }
    for (uint32_t i = 0; i < MAPPINGS; i += 1 + sn_rng_below(&rng, 5)) {
        cut(&all[i], sn_rng_below(&rng, PAGES - 1));
        for (uint32_t k = i + 1; k < MAPPINGS; k++)
            CHECK_EQUAL(atomic_load(&all[k].guarded.is_cut), 0, "mapping %u, after %u was cut", k, i);
    }
    if (!atomic_load(&all[MAPPINGS - 1].guarded.is_cut))
        cut(&all[MAPPINGS - 1], 0);
    for (uint32_t i = 0; i < MAPPINGS; i++)
        drop(&all[i]);
    sn_guard_forget(&all[0].guarded); /* a second time is nothing */
}

static void *come_and_go(void *argument)
{
    sn_rng rng;

    sn_rng_start(&rng, seed, 0, 0, *(uint32_t *)argument, SN_STREAM_CHOOSE);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        mapping m = make();
        watch(&m);
        if (sn_rng_below(&rng, 2))
            cut(&m, sn_rng_below(&rng, PAGES - 1));
        drop(&m);
    }
    return NULL;
}

static void threads_come_and_go(void)
{
    static mapping others[MAPPINGS];
    pthread_t threads[THREADS];
    uint32_t numbers[THREADS];

    for (uint32_t i = 0; i < MAPPINGS; i += 2) { /* so that the threads use several tables */
        others[i] = make();
        watch(&others[i]);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        numbers[i] = i;
        CHECK(pthread_create(&threads[i], NULL, come_and_go, &numbers[i]) == 0);
    }
    for (uint32_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (uint32_t i = 0; i < MAPPINGS; i += 2)
        drop(&others[i]);
}

/* Two threads at one mapping: one of them makes up for what is missing. */
static void *read_end(void *argument)
{
    CHECK_EQUAL(read_at(argument, BYTES - 1), 0, "a page that is gone");
    return NULL;
}

static void two_threads_meet_it(void)
{
    for (uint32_t round = 0; round < ROUNDS; round++) {
        mapping m = make();
        pthread_t other;

        watch(&m);
        CHECK(ftruncate(m.fd, 0) == 0);
        CHECK(pthread_create(&other, NULL, read_end, &m) == 0);
        read_end(&m);
        pthread_join(other, NULL);
        drop(&m);
    }
}

/* The file is cut off further: what was made up for stays, and the rest is made up for. */
static void one_is_cut_off_twice(void)
{
    mapping m = make();

    watch(&m);
    cut(&m, 3);
    m.base[BYTES - 1] = 5;
    CHECK(ftruncate(m.fd, PAGE) == 0);
    CHECK_EQUAL(read_at(&m, 2 * PAGE), 0, "");
    CHECK_EQUAL(read_at(&m, PAGE - 1), 0xEE, "the file's still");
    drop(&m);
}

/* -- Whoever had the signal before -- */

static void (*found)(int, siginfo_t *, void *); /* by whoever set a handler after the guard */

static void plain(int number)
{
    _exit(number == SIGBUS ? OF_A_HANDLER : 1);
}

static void with_info(int number, siginfo_t *info, void *context)
{
    _exit(number == SIGBUS && info->si_signo == SIGBUS && context ? OF_A_HANDLER : 1);
}

static void passes_back(int number, siginfo_t *info, void *context)
{
    found(number, info, context);
}

enum before { DEFAULT, IGNORED, PLAIN, WITH_INFO, PASSES_BACK, BEFORES };

static void set_before(enum before kind)
{
    static void (*const handlers[BEFORES])(int) = {SIG_DFL, SIG_IGN, plain};
    static void (*const informed[BEFORES])(int, siginfo_t *, void *) = {[WITH_INFO] = with_info,
                                                                        [PASSES_BACK] = passes_back};
    struct sigaction guard, action = {.sa_handler = handlers[kind]};

    if (informed[kind]) {
        action.sa_sigaction = informed[kind];
        action.sa_flags = SA_SIGINFO;
    }
    CHECK(sigaction(SIGBUS, &action, &guard) == 0 && guard.sa_flags & SA_SIGINFO);
    found = guard.sa_sigaction;
}

/* In a child: how it ends that meets SIGBUS after somebody else had the signal. */
static int end_of(enum before kind, int was_sent)
{
    pid_t pid = world_fork();

    if (pid == 0) {
        mapping guarded = make(), nobodys = make();

        set_before(kind);
        watch(&guarded);
        if (was_sent) {
            raise(SIGBUS);
        } else {
            CHECK(ftruncate(nobodys.fd, 0) == 0);
            read_at(&nobodys, 0);
        }
        _exit(0);
    }
    return world_wait(pid);
}

static void others_get_the_rest(void)
{
    static const int of_a_page[BEFORES] = {-SIGBUS, -SIGBUS, OF_A_HANDLER, OF_A_HANDLER, -SIGBUS};
    static const int sent[BEFORES] = {-SIGBUS, 0, OF_A_HANDLER, OF_A_HANDLER, -SIGBUS};

    for (enum before kind = DEFAULT; kind < BEFORES; kind++) {
        CHECK_EQUAL(end_of(kind, 0), of_a_page[kind], "a page that is nobody's, %u", kind);
        CHECK_EQUAL(end_of(kind, 1), sent[kind], "a signal that was sent, %u", kind);
    }
}

/* SENECA_SIGBUS=default leaves the signal alone; anything else does not. */
static void the_environment_may_forbid_it(void)
{
    for (int forbids = 0; forbids < 2; forbids++) {
        pid_t pid = world_fork();

        if (pid == 0) {
            mapping m = make();
            CHECK(signal(SIGBUS, SIG_DFL) != SIG_ERR);
            setenv("SENECA_SIGBUS", forbids ? "default" : "guard", 1);
            watch(&m);
            CHECK(ftruncate(m.fd, 0) == 0);
            _exit(read_at(&m, 0));
        }
        CHECK_EQUAL(world_wait(pid), forbids ? -SIGBUS : 0, "");
    }
}

int main(int argc, char **argv)
{
    seed = check_seed(argc, argv);
    as_many_as_there_are_are_guarded();
    threads_come_and_go();
    two_threads_meet_it();
    one_is_cut_off_twice();
    others_get_the_rest();
    the_environment_may_forbid_it();
    printf("test_guard: %u mappings at once\n", MAPPINGS);
    return 0;
}
