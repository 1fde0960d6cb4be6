/*
 * crash_points.h -- the points of base/sn_crash.h, by number, and what happens at them.
 *
 *   each point, as it is passed --> counted --> the visit that was asked for: this process kills itself
 *
 * Lives in   the process; the counts in memory that forked children share.
 * Callers    one thread.
 */
#ifndef CRASH_POINTS_H
#define CRASH_POINTS_H

#include <stdint.h>

#define CRASH_MOST_POINTS 512u

/* How many points the program has. */
uint32_t crash_points_count(void);
const char *crash_points_name(uint32_t point);

/* Count visits from now on, here and in children: an array, by point. It is cleared. */
uint32_t *crash_points_watch(void);

/* This process dies at this visit of this point, the first being 1. */
void crash_points_die_at(uint32_t point, uint32_t visit);

/* Nothing happens at points any more. */
void crash_points_stop(void);

#endif
