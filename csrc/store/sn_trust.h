/*
 * sn_trust.h -- what jobs prove to each other: that they mean the same by their samples.
 *
 *   a job makes some samples itself --> compare with the examples of this kind
 *                                         none: leave these | equal: share | other: do not
 *   a served sample is made again   --> other: distrust the segment, for all its jobs
 *
 * Names of datasets and pipelines are fingerprints, and a fingerprint is a guess about code. Examples are kept a kind
 * of payload (a dataset's ENCODED, DECODED of a pipeline, AUGMENTED of one); what the digests are of is the caller's.
 *
 * Lives in   the segment's header.
 * Callers    sn_examples_compare(): the lock holder. sn_distrust_tell(), sn_is_distrusted(): any thread.
 * Blocking   never.
 * Ordering   a record of examples is cleared first and named last. sn_distrust_tell() says that the segment is
 *            abandoned before anything else (release); whoever draws or serves next reads it (acquire).
 * Crash      a record whose writer died has no name, and is written anew. A death while distrust is told leaves
 *            the segment abandoned, with nobody named.
 */
#ifndef SN_TRUST_H
#define SN_TRUST_H

#include "../shm/sn_segment.h"

/* Compare with the examples of the same kind: 0 and a copy of them in *theirs. Where there are none, leave `mine`:
 * SN_MISS. Of more kinds than there is room for the oldest are forgotten. */
int sn_examples_compare(sn_segment *segment, const sn_examples *mine, sn_examples *theirs);

/* Nobody is to trust what lies in the segment any more: its users go on privately from their next draw on, what is
 * held and not yet delivered is not served, newcomers make another. The first who tells is remembered. */
void sn_distrust_tell(sn_segment *segment, uint64_t job_key, uint32_t sample, enum sn_form form);

/* Whether it was told. For each served sample: one load. */
static inline int sn_is_distrusted(const sn_segment *segment)
{
    return atomic_load_explicit(&segment->head->abandoned, memory_order_acquire) == SN_DISTRUSTED;
}

/* Why: 1 and a copy in *why; 0 where it is trusted, or nobody has come to say why. */
int sn_distrust_read(const sn_segment *segment, sn_distrust *why);

#endif
