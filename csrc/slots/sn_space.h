/*
 * sn_space.h -- payload space, a bit a granule.
 *
 *   granules  0 ......................... n
 *             staged copies ->   kept ->        two searches, so that the short-lived
 *                                               leave no holes among the long-lived
 *
 * Lives in   the segment (derived: rebuilt by marking what the slot records name).
 * Callers    the lock holder.
 * Blocking   never.
 */
#ifndef SN_SPACE_H
#define SN_SPACE_H

#include "../shm/sn_segment.h"

static inline uint32_t sn_granules_for(uint32_t bytes)
{
    return (uint32_t)(((uint64_t)bytes + SN_GRANULE - 1) / SN_GRANULE);
}

/* A run of `count` granules for this form, taken; SN_NONE when no run is long enough. */
uint32_t sn_space_take(sn_segment *segment, enum sn_form form, uint32_t count);

void sn_space_give(sn_segment *segment, enum sn_form form, uint32_t start, uint32_t count);

/* Rebuilding: all free, then mark run by run. 0, or SN_FULL where a run is out of bounds or
 * taken already, and then nothing was marked. */
void sn_space_clear(sn_segment *segment);
int sn_space_mark(sn_segment *segment, enum sn_form form, uint32_t start, uint32_t count);

#endif
