/*
 * sn_distrust.h -- a segment that its jobs give up, because a sample was not the same for all of them.
 *
 *   a sample differs from its digest, or from what was served --> the segment is distrusted, for all its jobs
 *
 * Lives in   the segment's header.
 * Callers    any thread of a process that is attached.
 * Blocking   never.
 * Ordering   sn_distrust_report() says that the segment is abandoned before anything else (release); whoever draws or
 *            serves next reads it (acquire).
 * Crash      a death in the middle leaves the segment abandoned, and no job named.
 */
#ifndef SN_DISTRUST_H
#define SN_DISTRUST_H

#include "../shm/sn_segment.h"

/* The segment is not to be trusted any more: its users go on privately from their next draw on, what is
 * held and not yet delivered is not served, newcomers make another. The first report is kept. */
void sn_distrust_report(sn_segment *segment, uint64_t job_key, uint32_t sample, enum sn_form form);

/* Whether it is distrusted, or was cut off. For each served sample: one load. */
static inline int sn_is_distrusted(const sn_segment *segment)
{
    return atomic_load_explicit(&segment->head->abandoned, memory_order_acquire) >= SN_DISTRUSTED;
}

/* Why: 1 and a copy in *why; 0: it is trusted, or the reason is not written yet. */
int sn_distrust_read(const sn_segment *segment, sn_distrust *why);

#endif
