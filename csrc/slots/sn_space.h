/*
 * sn_space.h -- payload space, a bit a granule.
 *
 *   granules  0 ......................... end ............. n
 *             staged copies ->   kept ->        two searches, so that the short-lived
 *                                               leave no holes among the long-lived
 *
 * The end is sn_usable_granules(): behind it granules have no memory yet, or are not given out any more.
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

/* The end has changed: take note of what is free between the two. */
void sn_space_resize(sn_segment *segment, uint32_t end_before);

/* Rebuilding: all free, then mark run by run. 0, or SN_FULL where a run has no memory or is
 * taken already, and then nothing was marked. */
void sn_space_clear(sn_segment *segment);
int sn_space_mark(sn_segment *segment, enum sn_form form, uint32_t start, uint32_t count);

#endif
