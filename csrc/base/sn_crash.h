/*
 * sn_crash.h -- places at which a test lets a process die.
 *
 *   store one;
 *   SN_CRASH_POINT(name_of_this_place);      nothing, but in a build for tests
 *   store two;
 *
 * A point stands between two stores of which a survivor may find the first without the second. tests/c/test_crash_points.c
 * kills a process at each of them, and another that recovers from that. A point that it does not reach is an error.
 *
 * Lives in   with -DSN_CRASH_POINTS: a section of the program, one record a point. Without: nowhere.
 * Callers    whoever changes the segment.
 * Blocking   never.
 * Crash      is what it is for.
 */
#ifndef SN_CRASH_H
#define SN_CRASH_H

#ifdef SN_CRASH_POINTS

typedef struct {
    const char *name;
} sn_crash_point;

/* Called at each point, if it is not NULL. The test that has it defines it. */
extern void (*sn_crash_hook)(const char *name);

#define SN_CRASH_POINT(point)                                                                                          \
    do {                                                                                                               \
        static const sn_crash_point point_ __attribute__((section("sn_crash_points"), used)) = {#point};               \
        if (sn_crash_hook)                                                                                             \
            sn_crash_hook(point_.name);                                                                                \
    } while (0)

#else

#define SN_CRASH_POINT(point) ((void)0)

#endif
#endif
