/*
 * guest.h -- a process that joins a segment, does everything to it that csrc/ can do, and leaves.
 *
 *   join --> acts, in a random order: members of each kind, workers, the split, growing, shrinking, ... --> leave
 *
 * Lives in   private memory of a test.
 * Callers    one thread.
 * Crash      it may be killed at any instruction.
 */
#ifndef GUEST_H
#define GUEST_H

#include "player.h"

typedef struct {
    sn_segment *segment;
    uint32_t row, job;
    uint64_t seed;
    sn_rng rng;
    sn_holder holder;       /* of its row, for all its workers: what one could not let go of, the next one does */
    int is_damaged;         /* see player.h */
    uint64_t steps, served; /* of its members: steps, and samples that came from the segment */
} guest;

/* Join the segment of this name, or make it. What sn_join() answers; SN_E_GONE is tried again. */
int guest_join(guest *g, const char *path, const sn_geometry *geometry, uint32_t job, uint64_t seed);
void guest_leave(guest *g);

/* One of the things that a process does; there are so many, and one more that takes long. `steps`: of a member. */
#define GUEST_ACTS 13u
#define GUEST_GROWS 7u
#define GUEST_REAPS 9u
#define GUEST_COMPARES 10u
#define GUEST_PUBLISHES 11u
#define GUEST_IS_LATE 13u
void guest_act(guest *g, uint32_t act, uint32_t steps);

/* Each act once, in an order that the seed says. */
void guest_acts(guest *g, uint32_t steps);

#endif
