/*
 * slow_reads.c -- slow storage without root: reads of files beneath a folder wait for a token bucket, and for an answer.
 *
 *   read, readv, pread, preadv --> the kernel's --> beneath the folder? --> wait until the bytes are paid for,
 *                                                                             and as long as an answer takes
 *
 * Preloaded (LD_PRELOAD), so that Python's reads and those of the core's threads come by alike.
 *
 * An idle bucket saves nothing up: as with a disk, time without a reader is lost. A read lasts as long as its
 * bytes cost, on average. Who wakes up too late has that time taken off what the next read waits, because the
 * kernel's timers were late, and no storage.
 *
 * Lives in   each process of a benchmark; the bucket in a file of 24 bytes, which all of them map.
 * Callers    any thread.
 * Blocking   a read of the folder's until its bytes are paid for and the time of an answer is over; no other.
 * Ordering   relaxed: no other memory depends on the bucket's words.
 * Crash      who dies while it waits has paid already.
 *
 * There is no page cache: every read is paid for, as often as it is made. A mapping of a file, sendfile()
 * and the C library's own FILE streams are not held back; nobody here reads pictures by these.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define SECOND_NS 1000000000u
#define MOST_LATE_NS (SECOND_NS / 5000) /* who wakes up later than this waited for a core, not for a timer */
#define VISIBLE __attribute__((visibility("default")))

typedef struct {
    _Atomic uint64_t paid_until_ns; /* when the last byte that was asked for is there, by CLOCK_MONOTONIC */
    _Atomic uint64_t bytes;         /* asked for so far; bench/slow_reads.py reads it */
    _Atomic uint64_t late_ns;       /* how much too late the last reader woke up; MOST_LATE_NS at most */
} bucket;

static bucket *shared; /* NULL: nothing is held back */
static char folder[PATH_MAX];
static size_t folder_length;
static uint64_t bytes_per_s, answer_ns; /* answers of several reads may be awaited at once */

static void give_up(const char *what)
{
    fprintf(stderr, "slow_reads: %s: %s\n", what, strerror(errno));
    _exit(2);
}

__attribute__((constructor)) static void start(void)
{
    const char *place = getenv("SLOW_READS_BUCKET"), *rate = getenv("SLOW_READS_BYTES_PER_S");
    const char *beneath = getenv("SLOW_READS_FOLDER"), *answer = getenv("SLOW_READS_ANSWER_US");

    if (!place || !rate || !beneath)
        return;
    bytes_per_s = strtoull(rate, NULL, 10);
    answer_ns = answer ? 1000 * strtoull(answer, NULL, 10) : 0;
    if (bytes_per_s == 0 || !realpath(beneath, folder))
        give_up(bytes_per_s ? beneath : "SLOW_READS_BYTES_PER_S");
    folder_length = strlen(folder);
    int fd = open(place, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        give_up(place);
    bucket *mapped = mmap(NULL, sizeof *mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED)
        give_up(place);
    close(fd);
    shared = mapped;
}

static int is_beneath(int fd)
{
    char link[32], path[PATH_MAX];

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path);
    return length > (ssize_t)folder_length && memcmp(path, folder, folder_length) == 0 && path[folder_length] == '/';
}

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec;
}

/* Books the time that these bytes take behind all that is booked already, and waits for its end. */
static void pay(uint64_t bytes)
{
    uint64_t cost_ns = (uint64_t)((unsigned __int128)bytes * SECOND_NS / bytes_per_s);
    uint64_t until_ns = atomic_load_explicit(&shared->paid_until_ns, memory_order_relaxed), mine_ns;

    do {
        uint64_t earliest_ns = now_ns() - atomic_load_explicit(&shared->late_ns, memory_order_relaxed);
        mine_ns = (until_ns > earliest_ns ? until_ns : earliest_ns) + cost_ns;
    } while (!atomic_compare_exchange_weak_explicit(&shared->paid_until_ns, &until_ns, mine_ns, memory_order_relaxed,
                                                    memory_order_relaxed));
    atomic_fetch_add_explicit(&shared->bytes, bytes, memory_order_relaxed);
    uint64_t answered_ns = now_ns() + answer_ns;
    uint64_t wake_ns = mine_ns > answered_ns ? mine_ns : answered_ns;
    struct timespec wake = {(time_t)(wake_ns / SECOND_NS), (long)(wake_ns % SECOND_NS)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &wake, NULL) == EINTR)
        ;
    uint64_t late_ns = now_ns() - wake_ns;
    atomic_store_explicit(&shared->late_ns, late_ns < MOST_LATE_NS ? late_ns : MOST_LATE_NS, memory_order_relaxed);
}

static ssize_t held_back(int fd, ssize_t got)
{
    int error = errno;

    if (got > 0 && shared && is_beneath(fd))
        pay((uint64_t)got);
    errno = error;
    return got;
}

/* Straight to the kernel: the C library's own functions could be asked for only once it has started. */

VISIBLE ssize_t read(int fd, void *to, size_t length)
{
    return held_back(fd, syscall(SYS_read, fd, to, length));
}

VISIBLE ssize_t readv(int fd, const struct iovec *to, int count)
{
    return held_back(fd, syscall(SYS_readv, fd, to, count));
}

VISIBLE ssize_t pread64(int fd, void *to, size_t length, off64_t at)
{
    return held_back(fd, syscall(SYS_pread64, fd, to, length, at));
}

VISIBLE ssize_t pread(int fd, void *to, size_t length, off_t at)
{
    return pread64(fd, to, length, at);
}

VISIBLE ssize_t preadv64v2(int fd, const struct iovec *to, int count, off64_t at, int flags)
{
    return held_back(fd, syscall(SYS_preadv2, fd, to, count, at, 0, flags));
}

VISIBLE ssize_t preadv2(int fd, const struct iovec *to, int count, off_t at, int flags)
{
    return preadv64v2(fd, to, count, at, flags);
}

VISIBLE ssize_t preadv64(int fd, const struct iovec *to, int count, off64_t at)
{
    return held_back(fd, syscall(SYS_preadv, fd, to, count, at, 0));
}

VISIBLE ssize_t preadv(int fd, const struct iovec *to, int count, off_t at)
{
    return preadv64(fd, to, count, at);
}

_Static_assert(sizeof(long) == 8, "the kernel takes a file's offset in one argument");
