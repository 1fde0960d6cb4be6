/*
 * sn_rows.h -- participants: who is here, and what they hold.
 *
 *   claim --> LIVE, its byte locked --> [hold / let go of slots] --> leave
 *                      |
 *                      +-- owner dies: the kernel unlocks the byte, sn_store_reap() finds it
 *
 * Lives in   the segment's row table and ledgers.
 * Callers    the lock holder; a row and its ledger are written by its owner, and by whoever
 *            reaps it.
 * Blocking   never.
 * Crash      state is written last when a row is claimed and first when it is left.
 */
#ifndef SN_ROWS_H
#define SN_ROWS_H

#include "../shm/sn_row.h"

typedef struct {
    enum sn_row_kind kind;
    uint64_t job_key;    /* the training run: equal keys share a bit */
    uint64_t pipeline;   /* of the AUGMENTED copies that it can use; 0: none */
    uint32_t stage_need; /* granules */
    uint32_t subset;     /* of SN_ROW_SUBSET: names its samples */
    uint32_t order;      /* of SN_ROW_MEMBER: names its order, see sn_exact_share.h; 0: none */
    uint32_t drawn;      /* how much of it was drawn before */
    uint32_t expects;    /* whether others of its pipeline are expected */
    uint32_t exchanges;  /* of SN_ROW_MEMBER: whether it lets copies of others take the places of its samples */
} sn_participant;

/* A living row of this job; SN_NONE: it has none. */
uint32_t sn_rows_of_job(const sn_segment *segment, uint64_t key);

/* A row for this participant, all of the dataset seen (nothing is wanted yet).
 * 0, SN_E_ROWS_FULL, SN_E_JOBS_FULL, -ENOSPC and others where its row area has no memory. */
int sn_row_claim(sn_segment *segment, const sn_participant *who, uint32_t *row);

/* A member's row from now on holds slots and no more, as its process's own row does. */
void sn_row_retire(sn_segment *segment, uint32_t row);

/* Give back the row, whatever it holds, and its proof of life. */
void sn_row_leave(sn_segment *segment, uint32_t row);

/* Ledger: hold a slot (a pin), let go of it. `entry` is the owner's to choose, below n_ledger.
 * Letting go frees a slot that nobody wants any more. */
void sn_ledger_hold(sn_segment *segment, uint32_t row, uint32_t entry, uint32_t slot);
void sn_ledger_let_go(sn_segment *segment, uint32_t row, uint32_t entry);

/* Granules that the members need for their staged copies, at the least: those whose copies another job's member can
 * use, or is expected to use soon. */
uint32_t sn_rows_stage_need(const sn_segment *segment);

/* Members and their shares of the space have changed. */
void sn_rows_derive_budgets(sn_segment *segment);

#endif
