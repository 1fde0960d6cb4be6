/*
 * sn_want.h -- which staged copies are of use to whom.
 *
 * A member is eligible for a staged copy while its pipeline made it, its job has not used it
 * and the member has not taken the sample. `want` counts the eligible members; a copy that
 * nobody wants and nobody holds is freed at once.
 *
 * A member that exchanges takes copies in the order in which they are made. It is not eligible for those that are
 * known to be made in an order that is not random: its own order would become like that one.
 *
 * Lives in   the segment (derived: the members' eligible vectors, `wants`, the want lists).
 * Callers    the lock holder.     Blocking  never.
 */
#ifndef SN_WANT_H
#define SN_WANT_H

#include "../shm/sn_row.h"

/* It will be asked who wants these samples: fetch the answers from memory, all of them at once. */
void sn_want_prefetch(const sn_segment *segment, const uint32_t *samples, uint32_t n);

/* This row wants nothing, whatever its vector held. */
void sn_want_clear(sn_segment *segment, uint32_t row);

/* A staged copy is READY: find who wants it. Frees it when nobody does or holds it. */
void sn_want_publish(sn_segment *segment, uint32_t slot);

/* This member no longer wants this copy. */
void sn_want_drop(sn_segment *segment, uint32_t row, uint32_t slot);

/* This job has used this copy: none of its members wants it. */
void sn_want_use(sn_segment *segment, uint32_t job, uint32_t slot);

/* The member has taken this sample: it wants no copy of it. */
void sn_want_taken(sn_segment *segment, uint32_t row, uint32_t sample);

/* A member came (its seen bits are in place), or goes. */
void sn_want_join(sn_segment *segment, uint32_t row);
void sn_want_leave(sn_segment *segment, uint32_t row);

/* How many members of other jobs would want a copy of `sample` that `job` makes now, `in_order` or not. */
uint32_t sn_want_expected(const sn_segment *segment, uint32_t job, uint64_t pipeline, uint32_t sample, int in_order);

/*
 * Up to `wanted` (and SN_PICK_MOST) of the copies that this member is eligible for, lowest want
 * first, into `slots`; answers how many. Examines SN_PICK_AMONG of them at the most, from the
 * `k`-th (below their number) on and around: with `k` at random none is left lying.
 */
#define SN_PICK_MOST 1024u
#define SN_PICK_AMONG 2048u
uint32_t sn_want_pick(const sn_segment *segment, uint32_t row, uint32_t k, uint32_t wanted, uint32_t *slots);

/* A copy of the lowest want, at most `most`, that may be given up, the oldest or the newest of these; of this pipeline
 * where that is not 0. SN_NONE when the few that are examined are all held. */
uint32_t sn_want_lowest(const sn_segment *segment, uint32_t most, uint64_t pipeline, int is_newest);

/* Give up a copy that nobody holds, whoever wants it. */
void sn_want_evict(sn_segment *segment, uint32_t slot);

#endif
