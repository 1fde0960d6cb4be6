/*
 * check.h -- what a test in C is made of: checks that name their place, and a seed.
 *
 *   int main(int argc, char **argv)
 *   {
 *       uint64_t seed = check_seed(argc, argv);   prints it; argv[1] where it is given
 *       CHECK(a < b);                             or: file:line, what did not hold, exit 1
 *       CHECK_EQUAL(rc, 0, "sample %u", i);       the same with both numbers and a remark
 *   }
 *
 * Callers    any thread; the first check that fails ends the program.
 */
#ifndef CHECK_H
#define CHECK_H

#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

/* One, of all files of the program. */
__attribute__((weak)) uint64_t check_seed_in_use;

__attribute__((noreturn, format(printf, 3, 4))) static inline void check_failed(const char *file, int line,
                                                                                const char *format, ...)
{
    static atomic_flag ending = ATOMIC_FLAG_INIT;
    va_list rest;

    while (atomic_flag_test_and_set(&ending)) /* another thread is at it, and will end us */
        pause();
    fprintf(stderr, "%s:%d: ", file, line);
    va_start(rest, format);
    vfprintf(stderr, format, rest);
    va_end(rest);
    fprintf(stderr, " (seed %" PRIu64 ")\n", check_seed_in_use);
    exit(1);
}

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            check_failed(__FILE__, __LINE__, "does not hold: %s", #condition);                                         \
    } while (0)

/* Two integers, and a printf() format with what else it takes to find the case again. */
#define CHECK_EQUAL(got, wanted, remark, ...)                                                                          \
    do {                                                                                                               \
        long long got_ = (long long)(got), wanted_ = (long long)(wanted);                                              \
        if (got_ != wanted_)                                                                                           \
            check_failed(__FILE__, __LINE__, "%s is %lld and not %lld: " remark, #got, got_, wanted_, ##__VA_ARGS__);  \
    } while (0)

/* The seed that was asked for, or another each time. */
static inline uint64_t check_seed(int argc, char **argv)
{
    uint64_t seed = 0;
    const char *name = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];
    char *end = "";

    if (argc > 1)
        seed = strtoull(argv[1], &end, 10);
    else if (getrandom(&seed, 4, 0) != 4) /* short enough to be typed */
        check_failed(__FILE__, __LINE__, "no random numbers");
    if (argc > 2 || *end) {
        fprintf(stderr, "usage: %s [seed]\n", name);
        exit(2);
    }
    check_seed_in_use = seed;
    printf("%s: seed %" PRIu64 "\n", name, seed);
    fflush(stdout);
    return seed;
}

#endif
