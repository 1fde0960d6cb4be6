/*
 * sn_hints.h -- what processes publish to each other in their rows, without the lock.
 *
 *   each process  --writes-->  its own row: which copies it exchanges, how fast its training step is
 *   the others    --read---->  all rows of kind SN_ROW_HOLDER
 *
 * Only speed and what people are shown depend on a hint: it may be old. So may be what this says of payloads, whose
 * lists the lock holder changes. And a row that is read while another
 * process claims it may be half its own and half its predecessor's.
 *
 * Lives in   the segment's row table.
 * Callers    any thread of a process that is attached. A row's hints are written by its owner alone.
 * Blocking   never.
 * Ordering   the state of a row is read before its fields and pairs with the release store in sn_row_claim(): who sees
 *            a row LIVE sees who it is. The pace is stored before the second in which it was published, and read
 *            after it.
 * Crash      the hints of the dead stay until their row is reaped; sn_hints_others_exchange() asks who lives.
 */
#ifndef SN_HINTS_H
#define SN_HINTS_H

#include "../shm/sn_segment.h"

/* The process that has this row takes part with others in copies of a pipeline; the last that it published counts. */
void sn_hint_exchange(sn_segment *segment, uint32_t row, uint64_t pipeline);

/* Whether a process of another job that does so is here, alive, be it between two epochs. */
int sn_hints_others_exchange(const sn_segment *segment, uint64_t job_key, uint64_t pipeline);

/* The process that has this row takes so many samples a second, published in this second of CLOCK_MONOTONIC (not 0).
 * In a forked child it does nothing: the row is the parent's. */
void sn_hint_pace(sn_segment *segment, uint32_t row, uint32_t second, uint32_t pace);

typedef struct {
    uint64_t job_key;
    uint32_t row, second, pace;
} sn_pace;

/* Of each process that has published its pace, in the order of rows; how many. */
uint32_t sn_hints_paces(const sn_segment *segment, sn_pace paces[SN_MAX_ROWS]);

/* Keep of these samples those of which there is no payload; how many. They exist in the dataset. */
uint32_t sn_hints_without_payload(const sn_segment *segment, uint32_t *samples, uint32_t n);

/* Row << 32 | generation of the row, of each process that the job of `row` has here, that of `row` first; how many.
 * These numbers distinguish this job's attachments from its earlier ones, for the audit's log. */
uint32_t sn_hints_attachments(const sn_segment *segment, uint32_t row, uint64_t attachments[SN_MAX_ROWS]);

#endif
