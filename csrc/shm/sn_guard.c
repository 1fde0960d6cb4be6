#define _GNU_SOURCE
#include "sn_guard.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define AT_ONCE 64

/* A mapping of somebody else's may be forgotten, and its sn_guarded freed, while the handler looks. Therefore its bounds
 * are here. One that changes meanwhile is not the one that the handler's thread uses. */
typedef struct {
    sn_guarded *_Atomic guarded; /* NULL: the place is free */
    _Atomic uint32_t changes;
    _Atomic uintptr_t from;
    _Atomic uint64_t bytes; /* 0 where the place is free, or about to be given out */
} place;

/* Grows and never shrinks: the handler walks it without a lock, at any time. */
typedef struct guard_table {
    place places[AT_ONCE];
    struct guard_table *_Atomic next;
} guard_table;

static guard_table first;
static atomic_flag in_handler = ATOMIC_FLAG_INIT;
static struct sigaction before; /* who had the signal */
static volatile sig_atomic_t is_passing_on;

static sn_guarded *mapping_at(uintptr_t address)
{
    for (guard_table *in = &first; in; in = atomic_load(&in->next))
        for (uint32_t i = 0; i < AT_ONCE; i++) {
            place *at = &in->places[i];
            uint32_t changes = atomic_load(&at->changes);
            uint64_t bytes = atomic_load(&at->bytes);
            uintptr_t from = atomic_load(&at->from);
            sn_guarded *guarded = atomic_load(&at->guarded);
            if (address - from < bytes && atomic_load(&at->changes) == changes)
                return guarded;
        }
    return NULL;
}

/* Put zeroes wherever there is nothing any more: 0, or -1. Calls only what a handler may call. */
static int make_up_for(sn_guarded *guarded, uint64_t missing)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), from = missing / page * page;
    struct stat file;
    int rc = 0;

    if (fstat(guarded->fd, &file) == 0 && ((uint64_t)file.st_size + page - 1) / page * page < from)
        from = ((uint64_t)file.st_size + page - 1) / page * page;
    atomic_store(&guarded->is_cut, 1);
    while (atomic_flag_test_and_set(&in_handler)) /* of another thread, which is in these lines */
        ;
    if (from < guarded->whole_bytes) { /* else that thread has done it */
        void *at = (uint8_t *)guarded->head + from;
        if (mmap(at, guarded->whole_bytes - from, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == at)
            guarded->whole_bytes = from;
        else
            rc = -1;
    }
    atomic_flag_clear(&in_handler);
    if (rc == 0)
        atomic_store(&guarded->head->abandoned, SN_CUT);
    return rc;
}

/* Whoever had the signal may pass it on to this handler, if that was there before it. Then the process ends here.
 * SA_NODEFER: it comes at once, and not when all of that is over and forgotten. */
static void pass_on(int number, siginfo_t *info, void *context)
{
    int is_ours_again = is_passing_on, was_sent = info->si_code <= 0;

    is_passing_on = 1;
    if (!is_ours_again && before.sa_flags & SA_SIGINFO) {
        before.sa_sigaction(number, info, context);
    } else if (!is_ours_again && before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
        before.sa_handler(number);
    } else if (is_ours_again || before.sa_handler != SIG_IGN || !was_sent) {
        signal(number, SIG_DFL);
        raise(number);
    }
    is_passing_on = is_ours_again;
}

static void on_bus_error(int number, siginfo_t *info, void *context)
{
    sn_guarded *guarded = info->si_code > 0 ? mapping_at((uintptr_t)info->si_addr) : NULL;

    if (guarded && make_up_for(guarded, (uint64_t)((uintptr_t)info->si_addr - (uintptr_t)guarded->head)) == 0)
        return;
    pass_on(number, info, context);
}

/* A library may have taken the signal since, as torch does in its workers. */
static void take_signal(void)
{
    struct sigaction ours = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER}, theirs;
    const char *wanted = getenv("SENECA_SIGBUS");

    if (wanted && strcmp(wanted, "default") == 0)
        return;
    sigemptyset(&ours.sa_mask);
    if (sigaction(SIGBUS, NULL, &theirs) != 0 || theirs.sa_sigaction == on_bus_error)
        return;
    before = theirs;
    sigaction(SIGBUS, &ours, NULL);
}

/* The place that has this, or NULL, and has `now` from then on; NULL: there is none in this table. */
static place *find(guard_table *in, sn_guarded *of, sn_guarded *now)
{
    for (uint32_t i = 0; i < AT_ONCE; i++) {
        sn_guarded *found = of;
        if (atomic_compare_exchange_strong(&in->places[i].guarded, &found, now))
            return &in->places[i];
    }
    return NULL;
}

/* The table behind this one, made if there is none; NULL: no memory. */
static guard_table *next_of(guard_table *one)
{
    guard_table *next = atomic_load(&one->next);

    if (next)
        return next;
    guard_table *made = calloc(1, sizeof *made);
    if (!made || atomic_compare_exchange_strong(&one->next, &next, made))
        return made;
    free(made); /* another thread was first */
    return next;
}

int sn_guard_watch(sn_guarded *guarded, sn_header *head, uint64_t bytes, int fd)
{
    guard_table *next;
    place *at;

    *guarded = (sn_guarded){.head = head, .bytes = bytes, .fd = fd, .whole_bytes = bytes};
    take_signal();
    for (guard_table *in = &first; !(at = find(in, NULL, guarded)); in = next)
        if (!(next = next_of(in)))
            return -ENOMEM;
    atomic_fetch_add(&at->changes, 1);
    atomic_store(&at->from, (uintptr_t)head);
    atomic_store(&at->bytes, bytes);
    return 0;
}

void sn_guard_forget(sn_guarded *guarded)
{
    for (guard_table *in = &first; in; in = atomic_load(&in->next)) {
        place *at = find(in, guarded, guarded);
        if (!at)
            continue;
        atomic_fetch_add(&at->changes, 1);
        atomic_store(&at->bytes, 0);
        atomic_store(&at->guarded, NULL);
        return;
    }
}
