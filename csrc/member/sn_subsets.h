/*
 * sn_subsets.h -- which of the attached datasets a sample belongs to: its class.
 *
 * Members of one pipeline exchange samples of the same class only. Else jobs on overlapping
 * subsets would be served first what they have in common, and last what is their own.
 *
 * Lives in   private memory of a member: copies of what rows of kind SN_ROW_SUBSET say. A subset
 *            that was met counts until the member's epoch ends, so that classes do not change
 *            whenever another job is between two epochs.
 * Callers    sn_subsets_update(): the lock holder.     Blocking  never.
 */
#ifndef SN_SUBSETS_H
#define SN_SUBSETS_H

#include "../shm/sn_row.h"

#define SN_MAX_SUBSETS 64u /* different ones; what more there are do not count */

typedef struct {
    uint32_t keys[SN_MAX_SUBSETS], n;
    uint64_t *seen[SN_MAX_SUBSETS]; /* clear bits: its samples */
} sn_subsets;

/* A name of these samples, in whatever order. */
uint32_t sn_subsets_key(const uint32_t *samples, uint32_t n);

/* Meet the subsets that members of this pipeline draw from: how many are new; -ENOMEM. */
int sn_subsets_update(sn_subsets *subsets, const sn_segment *segment, uint64_t pipeline);
void sn_subsets_free(sn_subsets *subsets);

static inline uint64_t sn_subsets_class(const sn_subsets *subsets, uint32_t sample)
{
    uint64_t class = 0;
    for (uint32_t i = 0; i < subsets->n; i++)
        class |= (uint64_t)!sn_bit_get(subsets->seen[i], sample) << i;
    return class;
}

#endif
