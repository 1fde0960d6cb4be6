/*
 * failing_calls.h -- the n-th call to the C library fails, and whether anything was left open.
 *
 *   failing_arm(kind, n, ...) --> call 0, call 1, ... call n: a failure and errno --> failing_disarm()
 *
 * In place of the C library's functions, in all of the program: one file of it includes this. What closes something does
 * so, and then says that it failed. Where calls may fail, nobody sleeps: a sleep moves the clock on.
 *
 * Lives in   a program of one thread.
 */
#ifndef FAILING_CALLS_H
#define FAILING_CALLS_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

/* A sanitizer calls these before it is ready for code that it checks. */
#define UNCHECKED __attribute__((no_sanitize("address", "undefined")))

enum failing_kind { FAILING_CALLS, FAILING_MEMORY };

/* What the process has open and mapped. */
typedef struct {
    uint32_t descriptors, of_files; /* of_files: mappings of the segment's file */
    uint64_t mapped_bytes;          /* without the heap, which keeps what was freed */
    int64_t allocations;            /* both 0 under AddressSanitizer */
} failing_held;

static int armed;
static enum failing_kind of_kind;
static uint32_t first, n_times, calls, failed;
static int failure;
static const char *first_name;
static uint64_t slept_ns;
static int64_t allocations;

/* Fail so many calls of this kind in a row, from the n-th on. */
static void failing_arm(enum failing_kind kind, uint32_t n, uint32_t times, int error)
{
    of_kind = kind;
    first = n;
    n_times = times;
    failure = error;
    calls = failed = 0;
    first_name = NULL;
    armed = 1;
}

static uint32_t failing_disarm(void)
{
    armed = 0;
    return failed;
}

UNCHECKED static int fails(enum failing_kind kind, const char *name)
{
    if (!armed || kind != of_kind || calls++ < first || failed == n_times)
        return 0;
    if (failed++ == 0)
        first_name = name;
    errno = failure;
    return 1;
}

#define FAILS(name) fails(FAILING_CALLS, name)

/* -- Calls -- */

UNCHECKED int open(const char *path, int flags, ...)
{
    mode_t mode = 0;
    if (flags & O_CREAT) {
        va_list rest;
        va_start(rest, flags);
        mode = va_arg(rest, mode_t);
        va_end(rest);
    }
    return FAILS("open") ? -1 : (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

UNCHECKED int close(int fd)
{
    int rc = (int)syscall(SYS_close, fd);
    return FAILS("close") ? -1 : rc;
}

UNCHECKED ssize_t read(int fd, void *to, size_t bytes)
{
    return FAILS("read") ? -1 : syscall(SYS_read, fd, to, bytes);
}

ssize_t pread(int fd, void *to, size_t bytes, off_t at)
{
    return FAILS("pread") ? -1 : syscall(SYS_pread64, fd, to, bytes, at);
}

off_t lseek(int fd, off_t to, int whence)
{
    return FAILS("lseek") ? -1 : syscall(SYS_lseek, fd, to, whence);
}

int ftruncate(int fd, off_t length)
{
    return FAILS("ftruncate") ? -1 : (int)syscall(SYS_ftruncate, fd, length);
}

int fallocate(int fd, int mode, off_t at, off_t length)
{
    return FAILS("fallocate") ? -1 : (int)syscall(SYS_fallocate, fd, mode, at, length);
}

int fchmod(int fd, mode_t mode)
{
    return FAILS("fchmod") ? -1 : (int)syscall(SYS_fchmod, fd, mode);
}

UNCHECKED int fstat(int fd, struct stat *file)
{
    return FAILS("fstat") ? -1 : fstatat(fd, "", file, AT_EMPTY_PATH);
}

UNCHECKED int stat(const char *restrict path, struct stat *restrict file)
{
    return FAILS("stat") ? -1 : fstatat(AT_FDCWD, path, file, 0);
}

UNCHECKED int lstat(const char *restrict path, struct stat *restrict file)
{
    return FAILS("lstat") ? -1 : fstatat(AT_FDCWD, path, file, AT_SYMLINK_NOFOLLOW);
}

int fstatfs(int fd, struct statfs *fs)
{
    return FAILS("fstatfs") ? -1 : (int)syscall(SYS_fstatfs, fd, fs);
}

int unlink(const char *path)
{
    return FAILS("unlink") ? -1 : (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

int flock(int fd, int operation)
{
    return FAILS("flock") ? -1 : (int)syscall(SYS_flock, fd, operation);
}

UNCHECKED int fcntl(int fd, int command, ...)
{
    va_list rest;
    va_start(rest, command);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    return FAILS("fcntl") ? -1 : (int)syscall(SYS_fcntl, fd, command, argument);
}

UNCHECKED void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t from)
{
    return FAILS("mmap") ? MAP_FAILED : (void *)syscall(SYS_mmap, at, bytes, protection, flags, fd, from);
}

UNCHECKED int munmap(void *at, size_t bytes)
{
    int rc = (int)syscall(SYS_munmap, at, bytes);
    return FAILS("munmap") ? -1 : rc;
}

UNCHECKED int madvise(void *at, size_t bytes, int advice)
{
    return FAILS("madvise") ? -1 : (int)syscall(SYS_madvise, at, bytes, advice);
}

int nanosleep(const struct timespec *time, struct timespec *left)
{
    if (!armed)
        return (int)syscall(SYS_nanosleep, time, left);
    slept_ns += (uint64_t)time->tv_sec * 1000000000 + (uint64_t)time->tv_nsec;
    return 0;
}

UNCHECKED int clock_gettime(clockid_t clock, struct timespec *time)
{
    int rc = (int)syscall(SYS_clock_gettime, clock, time);
    uint64_t ns = (uint64_t)time->tv_nsec + slept_ns;

    time->tv_sec += (time_t)(ns / 1000000000);
    time->tv_nsec = (long)(ns % 1000000000);
    return rc;
}

/* -- Memory -- */

/* The next one of this name: the C library's, or the sanitizer's. What looks for it may ask for memory, and goes on
 * without. */
UNCHECKED static void *next_of(const char *name)
{
    static volatile int is_looking; /* volatile: dlsym() is said not to call back */
    void *found = NULL;

    if (!is_looking) {
        is_looking = 1;
        found = dlsym(RTLD_NEXT, name);
        is_looking = 0;
    }
    return found;
}

#define NEXT(type, name)                                                                                               \
    static __typeof__(type) *next;                                                                                     \
    if (!next)                                                                                                         \
        next = (__typeof__(next))next_of(name);                                                                        \
    if (!next || fails(FAILING_MEMORY, name))                                                                          \
        return NULL;

UNCHECKED static void *counted(void *made)
{
    allocations += made != NULL;
    return made;
}

UNCHECKED void *malloc(size_t bytes)
{
    NEXT(void *(size_t), "malloc")
    return counted(next(bytes));
}

UNCHECKED void *calloc(size_t n, size_t bytes)
{
    NEXT(void *(size_t, size_t), "calloc")
    return counted(next(n, bytes));
}

UNCHECKED void *realloc(void *old, size_t bytes)
{
    NEXT(void *(void *, size_t), "realloc")
    return old ? next(old, bytes) : counted(next(old, bytes));
}

UNCHECKED void free(void *old)
{
    static void (*next)(void *);

    if (!next)
        next = (void (*)(void *))next_of("free");
    if (!next)
        return; /* of what looks for it: some bytes, once */
    allocations -= old != NULL;
    next(old);
}

UNCHECKED void *aligned_alloc(size_t alignment, size_t bytes)
{
    NEXT(void *(size_t, size_t), "aligned_alloc")
    return counted(next(alignment, bytes));
}

int posix_memalign(void **out, size_t alignment, size_t bytes)
{
    *out = aligned_alloc(alignment, bytes);
    return *out ? 0 : ENOMEM;
}

/* -- What is held -- */

static uint32_t count_descriptors(void)
{
    DIR *all = opendir("/proc/self/fd");
    uint32_t n = 0;

    CHECK(all);
    while (readdir(all))
        n++;
    closedir(all);
    return n;
}

static failing_held failing_look(const char *file)
{
    failing_held held = {.descriptors = count_descriptors()};
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[1024];

    CHECK(maps);
#ifndef __SANITIZE_ADDRESS__ /* which has its own memory, and sees what leaks */
    held.allocations = allocations;
#endif
    while (fgets(line, sizeof line, maps)) {
        uint64_t from, to;
        CHECK(sscanf(line, "%" SCNx64 "-%" SCNx64, &from, &to) == 2);
        held.of_files += strstr(line, file) != NULL;
#ifndef __SANITIZE_ADDRESS__
        if (!strstr(line, "[heap]") && !strstr(line, "[stack]"))
            held.mapped_bytes += to - from;
#endif
    }
    fclose(maps);
    return held;
}

#endif
