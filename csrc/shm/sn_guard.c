#define _GNU_SOURCE
#include "sn_guard.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST 64

static sn_guarded *_Atomic all[MOST];
static atomic_flag in_handler = ATOMIC_FLAG_INIT;
static struct sigaction before; /* who had the signal */
static volatile sig_atomic_t is_passing_on;

static sn_guarded *mapping_at(uintptr_t address)
{
    for (uint32_t i = 0; i < MOST; i++) {
        sn_guarded *guarded = atomic_load(&all[i]);
        if (guarded && address - (uintptr_t)guarded->head < guarded->bytes)
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

void sn_guard_watch(sn_guarded *guarded, sn_header *head, uint64_t bytes, int fd)
{
    *guarded = (sn_guarded){.head = head, .bytes = bytes, .fd = fd, .whole_bytes = bytes};
    take_signal();
    for (uint32_t i = 0; i < MOST; i++) {
        sn_guarded *none = NULL;
        if (atomic_compare_exchange_strong(&all[i], &none, guarded))
            return;
    }
}

void sn_guard_forget(sn_guarded *guarded)
{
    for (uint32_t i = 0; i < MOST; i++) {
        sn_guarded *found = guarded;
        if (atomic_compare_exchange_strong(&all[i], &found, NULL))
            return;
    }
}
