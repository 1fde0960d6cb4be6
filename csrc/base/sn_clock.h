/*
 * sn_clock.h -- what time it is, as one number.
 *
 * Lives in   nothing: calls.
 * Callers    any.
 * Blocking   never. CLOCK_MONOTONIC needs no system call; CLOCK_THREAD_CPUTIME_ID does.
 */
#ifndef SN_CLOCK_H
#define SN_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Nanoseconds of any clock. */
static inline uint64_t sn_clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Nanoseconds of CLOCK_MONOTONIC, by which deadlines are. */
static inline uint64_t sn_now_ns(void)
{
    return sn_clock_ns(CLOCK_MONOTONIC);
}

static inline int64_t sn_now_ms(clockid_t clock)
{
    return (int64_t)(sn_clock_ns(clock) / 1000000);
}

/* A deadline as POSIX takes it. */
static inline struct timespec sn_time_at(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
}

#endif
