/*
 * records.h -- where the records of a small segment are, for tests that overwrite them.
 *
 * Callers    one thread.
 */
#ifndef RECORDS_H
#define RECORDS_H

#include "shm/sn_segment.h"

#define RECORDS_MOST 16u

typedef struct {
    const char *name;
    size_t at, bytes; /* in the segment */
} region;

/* Every kind of record, and nothing of the payloads. How many they are. */
uint32_t records_find(const sn_segment *segment, region found[RECORDS_MOST]);

/* Whoever enters next rebuilds, as after a death. Then what is derived agrees, unless the segment was given up. */
void records_check_rebuilt(sn_segment *segment);

#endif
