/*
 * sn_store.h -- the critical sections of a segment, and who has died.
 *
 *   enter --> fold what was committed --> decide --> leave
 *     |
 *     +-- `busy` found set: the last holder died inside. Rebuild first.
 *
 * Truth is the slot records, the rows, each row's ledger and seen bits. Everything else is
 * derived from these by sn_store_rebuild(), see sn_rebuild.h.
 *
 * Lives in   the segment.
 * Callers    any process that is attached; all under the lock unless said otherwise.
 * Blocking   sn_store_enter() alone, up to its deadline.
 * Crash      a death outside the critical section leaves a row without a living owner:
 *            sn_store_reap() finds it. Three rebuilds begun and not finished: the segment
 *            is abandoned, its users go on privately, newcomers make another. So it is when
 *            its payloads are not to be trusted, see sn_distrust.h.
 */
#ifndef SN_STORE_H
#define SN_STORE_H

#include "../shm/sn_segment.h"

/* Nobody waits longer than this for a peer that has the lock and was stopped. */
#define SN_LOCK_DEADLINE_MS 100

/* Begin a critical section: 0, SN_BUSY, SN_E_FORKED, SN_E_ABANDONED, -errno. */
int sn_store_enter(sn_segment *segment, int deadline_ms);
void sn_store_leave(sn_segment *segment);

/* For the caller that attached with the lock held: the same, from there. */
int sn_store_entered(sn_segment *segment);

/* Take note of what was committed since anyone last took note. */
void sn_store_fold(sn_segment *segment);

/* Free the rows whose owners died and what they held; answers how many. `all` 0 examines one
 * row of another's, a different one each time, and not in every section. */
uint32_t sn_store_reap(sn_segment *segment, int all);

/* Shares of the payload space by form, in 1/10,000; they change at once. Payloads over their
 * share stay until space is needed, and are the first to go then. Only if the split has been changed `after`
 * times so far, so that of two who decide at once one does. `why` is remembered. 0, or SN_MISS. */
int sn_store_change_split(sn_segment *segment, const uint32_t split[SN_FORMS], uint32_t after, const char *why);

/* The content of a cache, for people. */
typedef struct {
    uint64_t payload_bytes, free_bytes; /* all; what of it no payload takes */
    uint64_t reserved_bytes;            /* what of it has memory so far */
    uint64_t bytes_of[SN_FORMS], budget_of[SN_FORMS];
    uint32_t slots_of[SN_FORMS];
    uint32_t writing, members, processes, jobs;
    uint32_t split[SN_FORMS];      /* shares of the payload space, in 1/10,000 */
    uint32_t n_changes;            /* of the split that are remembered: */
    sn_change changes[SN_CHANGES]; /* the oldest first */
} sn_store_stats;

/* Reap the dead, take note of what was committed, and count. */
void sn_store_read_stats(sn_segment *segment, sn_store_stats *stats);

#endif
