#include "sn_rows.h"

#include <string.h>
#include <unistd.h>

#include "../base/sn_crash.h"
#include "../base/sn_status.h"
#include "../slots/sn_slots.h"
#include "sn_want.h"

#define WHOLE 10000u /* a split's shares are in 1/10,000 */

static uint64_t live_jobs(const sn_segment *segment)
{
    const uint64_t *live = segment->head->live_rows;
    uint64_t jobs = 0;
    for (uint32_t row = sn_rows_next(live, 0); row < SN_MAX_ROWS; row = sn_rows_next(live, row + 1))
        jobs |= (uint64_t)1 << segment->rows[row].job % SN_MAX_JOBS;
    return jobs;
}

/* Keep these bits alone in the uses of every copy, written or being written. */
static void forget_uses(sn_segment *segment, uint64_t keep)
{
    const sn_list_head *lists = segment->head->lists;
    uint32_t left = segment->n_slots; /* of all lists */

    for (uint32_t i = 0; i < sn_slots_written(segment); i++)
        if (segment->writing[i] < segment->n_slots)
            segment->slots[segment->writing[i]].uses &= keep;
    SN_CRASH_POINT(uses_of_written);
    for (uint32_t list = SN_LIST_WANT; list < SN_LISTS; list++)
        for (uint32_t slot = sn_walk_list(segment, lists[list].head, &left); slot != SN_NONE;
             slot = sn_walk_list(segment, segment->slots[slot].list_next, &left))
            segment->slots[slot].uses &= keep;
}

uint32_t sn_rows_of_job(const sn_segment *segment, uint64_t key)
{
    const uint64_t *live = segment->head->live_rows;
    for (uint32_t row = sn_rows_next(live, 0); row < SN_MAX_ROWS; row = sn_rows_next(live, row + 1))
        if (segment->rows[row].job_key == key)
            return row;
    return SN_NONE;
}

/* The bit of this job; a new one is cleared in every record before it is given out. A death in between steps its
 * generation once more, which does no harm. */
static int job_bit(sn_segment *segment, uint64_t key, uint32_t *bit)
{
    uint32_t row = sn_rows_of_job(segment, key);
    if (row != SN_NONE) {
        *bit = segment->rows[row].job % SN_MAX_JOBS;
        return 0;
    }
    uint64_t jobs = live_jobs(segment);
    if (jobs == ~(uint64_t)0)
        return SN_E_JOBS_FULL;
    *bit = (uint32_t)__builtin_ctzll(~jobs);
    forget_uses(segment, ~((uint64_t)1 << *bit));
    SN_CRASH_POINT(job_uses_forgotten);
    atomic_fetch_add_explicit(&segment->head->job_generations[*bit], 1, memory_order_relaxed);
    SN_CRASH_POINT(job_generation);
    for (uint32_t table = 0; table < SN_DIGEST_TABLES; table++)
        atomic_store_explicit(&segment->head->tables[table].compared[*bit], 0, memory_order_relaxed);
    SN_CRASH_POINT(job_compared);
    return 0;
}

/* Members are given the last rows, whose row areas are the first to have memory, and processes the first. */
static uint32_t lock_free_row(sn_segment *segment, enum sn_row_kind kind)
{
    for (uint32_t i = 0; i < SN_MAX_ROWS; i++) {
        uint32_t row = kind == SN_ROW_HOLDER ? i : SN_MAX_ROWS - 1 - i;
        if (atomic_load(&segment->rows[row].state) == SN_ROW_FREE && sn_row_lock(segment, row) == 0)
            return row;
    }
    return SN_NONE;
}

int sn_row_claim(sn_segment *segment, const sn_participant *who, uint32_t *out)
{
    sn_header *head = segment->head;
    uint32_t bit;

    int rc = job_bit(segment, who->job_key, &bit);
    if (rc != 0)
        return rc;
    uint32_t row = lock_free_row(segment, who->kind);
    if (row == SN_NONE)
        return SN_E_ROWS_FULL;
    SN_CRASH_POINT(claim_locked);

    rc = sn_segment_reserve_area(segment, row, who->kind);
    if (rc != 0) {
        sn_row_unlock(segment, row);
        return rc;
    }

    sn_row *record = &segment->rows[row];
    memset(sn_ledger(segment, row), 0, segment->n_ledger * sizeof(uint32_t));
    SN_CRASH_POINT(claim_ledger);
    if (who->kind != SN_ROW_HOLDER) {
        memset(sn_seen(segment, row), 0xFF, segment->row_words * sizeof(uint64_t));
        SN_CRASH_POINT(claim_seen);
        sn_want_clear(segment, row);
    }
    atomic_fetch_add_explicit(&record->generation, 1, memory_order_relaxed);
    SN_CRASH_POINT(claim_generation);
    atomic_store_explicit(&record->kind, (uint16_t)who->kind, memory_order_relaxed);
    SN_CRASH_POINT(claim_kind);
    atomic_store_explicit(&record->exchanges, (uint16_t)who->exchanges, memory_order_relaxed);
    record->job = bit;
    atomic_store_explicit(&record->job_key, who->job_key, memory_order_relaxed);
    SN_CRASH_POINT(claim_job);
    record->pipeline = who->pipeline;
    record->stage_need = who->stage_need;
    record->copy_bytes = 0;
    record->subset = who->subset;
    SN_CRASH_POINT(claim_subset);
    if (who->kind == SN_ROW_MEMBER) {
        record->expects = who->expects != 0;
        record->has_timetable = 0;
        atomic_store_explicit(&segment->telemetry[row].waits, 0, memory_order_relaxed);
    }
    record->pid = (int32_t)getpid();
    record->staged = 0;
    SN_CRASH_POINT(claim_pid);
    atomic_store_explicit(&record->published_at, who->order, memory_order_relaxed); /* of a process nothing yet: 0 */
    atomic_store_explicit(&record->pace, who->drawn, memory_order_relaxed);
    SN_CRASH_POINT(claim_whole);
    atomic_store_explicit(&record->state, SN_ROW_LIVE, memory_order_release);
    SN_CRASH_POINT(claim_live);

    sn_bit_set(head->live_rows, row);
    SN_CRASH_POINT(claim_in_live_rows);
    if (who->kind == SN_ROW_MEMBER) {
        sn_bit_set(head->member_rows, row);
        SN_CRASH_POINT(claim_in_member_rows);
        sn_bit_set(head->members_of_job[bit], row);
    }
    SN_CRASH_POINT(claim_in_sets);
    sn_rows_derive_budgets(segment);
    *out = row;
    return 0;
}

/* A death on the way leaves a dead row, whatever its kind, and that is reaped. */
void sn_row_retire(sn_segment *segment, uint32_t row)
{
    sn_row *record = &segment->rows[row];

    sn_want_leave(segment, row);
    atomic_store_explicit(&record->kind, SN_ROW_HOLDER, memory_order_relaxed);
    SN_CRASH_POINT(retire_holder);
    record->pipeline = 0;
    record->stage_need = 0;
    atomic_store_explicit(&record->published_at, 0, memory_order_relaxed); /* not its order: it has published no pace */
    SN_CRASH_POINT(retire_no_order);
    atomic_store_explicit(&record->pace, 0, memory_order_relaxed);
    sn_bit_clear(segment->head->member_rows, row);
    SN_CRASH_POINT(retire_no_member);
    sn_bit_clear(segment->head->members_of_job[record->job % SN_MAX_JOBS], row);
    sn_rows_derive_budgets(segment);
}

/* The process of this row compares nothing any more. */
static void close_digests(sn_header *head, uint32_t row)
{
    for (uint32_t i = 0; i < SN_DIGEST_TABLES; i++) {
        sn_bit_clear(head->tables[i].users, row);
        SN_CRASH_POINT(digests_closed);
        if (head->tables[i].taker == row + 1)
            head->tables[i].taker = 0;
    }
}

void sn_row_leave(sn_segment *segment, uint32_t row)
{
    sn_header *head = segment->head;
    uint32_t *ledger = sn_ledger(segment, row);

    for (uint32_t entry = 0; entry < segment->n_ledger; entry++)
        if (ledger[entry])
            sn_ledger_let_go(segment, row, entry);
    sn_want_leave(segment, row);
    SN_CRASH_POINT(leave_wants_nothing);
    close_digests(head, row);
    atomic_store_explicit(&segment->rows[row].state, SN_ROW_FREE, memory_order_release);
    SN_CRASH_POINT(leave_free);
    sn_bit_clear(head->live_rows, row);
    SN_CRASH_POINT(leave_not_live);
    sn_bit_clear(head->member_rows, row);
    SN_CRASH_POINT(leave_no_member);
    sn_bit_clear(head->members_of_job[segment->rows[row].job % SN_MAX_JOBS], row);
    sn_rows_derive_budgets(segment);
    SN_CRASH_POINT(leave_budgets);
    sn_row_unlock(segment, row);
}

void sn_ledger_hold(sn_segment *segment, uint32_t row, uint32_t entry, uint32_t slot)
{
    sn_ledger(segment, row)[entry] = slot + 1;
    SN_CRASH_POINT(hold_line);
    segment->slots[slot].pins++;
}

void sn_ledger_let_go(sn_segment *segment, uint32_t row, uint32_t entry)
{
    uint32_t *line = &sn_ledger(segment, row)[entry];
    uint32_t slot = *line - 1;
    sn_slot *record = &segment->slots[slot];

    if (SN_RARELY(slot >= segment->n_slots)) {
        if (*line != 0)
            sn_segment_damaged(segment);
        *line = 0;
        return; /* a rebuild found that the slot could not stand */
    }
    *line = 0;
    SN_CRASH_POINT(let_go_line);
    if (--record->pins > 0)
        return; /* of one without pins it is a large number */
    switch (sn_slot_state(record)) {
    case SN_SLOT_READY:
        if (record->list == SN_LIST_WANT)
            sn_slot_free(segment, slot);
        break; /* on the writing list still: the next fold decides */
    default:   /* failed, or never finished: its writer is who lets go */
        sn_slot_free(segment, slot);
    }
}

/* Whether another job's member can use its copies, or will: else it stages none. */
static int has_company(const sn_segment *segment, uint32_t row)
{
    const uint64_t *members = segment->head->member_rows;
    const sn_row *self = &segment->rows[row];

    if (self->expects)
        return 1;
    for (uint32_t other = sn_rows_next(members, 0); other < SN_MAX_ROWS; other = sn_rows_next(members, other + 1))
        if (segment->rows[other].pipeline == self->pipeline && segment->rows[other].job != self->job)
            return 1;
    return 0;
}

uint32_t sn_rows_stage_need(const sn_segment *segment)
{
    const uint64_t *members = segment->head->member_rows;
    uint64_t need = 0;

    for (uint32_t row = sn_rows_next(members, 0); row < SN_MAX_ROWS; row = sn_rows_next(members, row + 1))
        if (has_company(segment, row))
            need += segment->rows[row].stage_need;
    return need < segment->n_granules ? (uint32_t)need : segment->n_granules;
}

void sn_rows_derive_budgets(sn_segment *segment)
{
    sn_header *head = segment->head;
    const uint32_t *split = sn_split(head);
    uint64_t space = sn_usable_granules(head), need = sn_rows_stage_need(segment);

    uint64_t stage = space * split[SN_AUGMENTED] / WHOLE;
    if (stage < need)
        stage = need < space ? need : space;
    uint64_t kept = split[SN_ENCODED] + split[SN_RECODED] + split[SN_DECODED];
    head->budget_of[SN_AUGMENTED] = (uint32_t)stage;
    SN_CRASH_POINT(budget_of_stage);
    for (int k = 0; k < SN_KEPT_FORMS; k++)
        head->budget_of[sn_kept_forms[k]] = kept ? (uint32_t)((space - stage) * split[sn_kept_forms[k]] / kept) : 0;
}
