/*
 * sn_choose.h -- substitutes chosen a little ahead of their use.
 *
 *   eligible --choose--> [ .. 32 chosen .. ] --next--> served
 *      ^                        |
 *      +------- put back -------+        what the draw had no use for
 *
 * Their records lie at random places in memory: chosen ahead, they arrive while others are
 * served. Each is chosen uniformly among all that are left, as if it were at its turn: a chosen copy is
 * out of the member's eligible vector, and still counted in `want`.
 *
 * Lives in   the stack of a draw.
 * Callers    the lock holder, who puts back before anything but serving substitutes may free a slot.
 * Blocking   never.
 * Crash      the rebuild makes the eligible vector anew.
 */
#ifndef SN_CHOOSE_H
#define SN_CHOOSE_H

#include "../base/sn_rng.h"
#include "../shm/sn_segment.h"

#define SN_CHOSEN 32u

typedef struct {
    uint32_t slots[SN_CHOSEN]; /* places first .. last - 1, modulo its size */
    uint32_t first, last;
    uint32_t foreseen; /* up to here, what serving them touches was asked for */
} sn_chosen;

/* The next substitute for the member in `row`, which is eligible again, of at most `wanted` that the
 * draw has still use for; SN_NONE: no copy is eligible. `taken` are the member's own bits. */
uint32_t sn_choose_next(sn_segment *segment, uint32_t row, const uint64_t *taken, sn_rng *rng, uint32_t wanted,
                        sn_chosen *chosen);

/* Put back what is left. */
void sn_choose_end(sn_segment *segment, uint32_t row, sn_chosen *chosen);

#endif
