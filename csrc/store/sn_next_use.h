/*
 * sn_next_use.h -- which kept payload the jobs need last.
 *
 *   a member's order is fixed ----> its timetable: in which part of its epoch it comes to each sample
 *   a sample is read or decoded --> is there a kept payload whose next use is later? Then that one makes room.
 *
 * If no member knew when it comes to a sample, nothing better could be done than to keep what came first. One job
 * alone can do nothing better either: it uses each sample once an epoch, so of what is kept all is used once, whatever
 * that is. But of several jobs in orders of their own, one may come to a sample soon after another has read it.
 * Belady's rule ("A study of replacement algorithms for a virtual-storage computer", IBM Systems Journal 5(2), 1966)
 * keeps what is used soonest. Here the victim is the one of SN_CANDIDATES payloads that is used last: with eight jobs
 * and a tenth of the samples kept, 0.36 of them are found in the cache, and if what came first is kept 0.10
 * (`python -m bench.bench_keep`).
 *
 * The *next use* of a payload is the number of samples that any one member draws until it comes to the sample; of the
 * members that can use the payload, the first counts. All are taken to be equally fast. In an epoch in which a member
 * has had the sample, it comes to it again in its next epoch, on average in the middle of that.
 *
 * Lives in   the segment; timetables in row areas.
 * Callers    the lock holder. A timetable is written by the member's own thread before its row says that it has one.
 * Blocking   never.
 * Crash      a timetable is a hint: a wrong one costs reads, and nothing else.
 */
#ifndef SN_NEXT_USE_H
#define SN_NEXT_USE_H

#include "../shm/sn_row.h"

#define SN_CANDIDATES 32u    /* for the one that makes room */
#define SN_FEW_CANDIDATES 4u /* to see whether it is worth while to make a payload: each draw asks that for each miss */

/* Whether kept payloads make room for others: members of several jobs are here, and all have timetables. */
int sn_next_use_is_known(const sn_segment *segment);

/* If next uses are known: the kept payload of this form, of so many candidates that may be given up, whose next use is the latest, and later than
 * that of a payload of `sample` and `pipeline`; SN_NONE: there is none. */
uint32_t sn_next_use_later(sn_segment *segment, enum sn_form form, uint64_t pipeline, uint32_t sample,
                           uint32_t candidates);

#endif
