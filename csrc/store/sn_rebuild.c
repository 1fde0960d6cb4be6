#include "sn_rebuild.h"

#include <string.h>

#include "../base/sn_crash.h"
#include "../slots/sn_slots.h"
#include "../slots/sn_space.h"
#include "sn_rows.h"
#include "sn_want.h"

static uint64_t rebuild_rows(sn_segment *segment)
{
    sn_header *head = segment->head;
    uint64_t jobs = 0;

    memset(head->live_rows, 0, sizeof head->live_rows);
    SN_CRASH_POINT(rebuild_no_rows);
    memset(head->member_rows, 0, sizeof head->member_rows);
    memset(head->members_of_job, 0, sizeof head->members_of_job);
    for (uint32_t row = 0; row < SN_MAX_ROWS; row++) {
        sn_row *record = &segment->rows[row];
        record->eligible = 0;
        SN_CRASH_POINT(rebuild_row_cleared);
        record->staged = 0;
        if (atomic_load(&record->state) == SN_ROW_FREE)
            continue;
        if (atomic_load(&record->state) != SN_ROW_LIVE || record->job >= SN_MAX_JOBS ||
            (record->kind != SN_ROW_HOLDER && record->kind != SN_ROW_MEMBER && record->kind != SN_ROW_SUBSET)) {
            atomic_store_explicit(&record->state, SN_ROW_FREE, memory_order_release);
            continue;
        }
        sn_bit_set(head->live_rows, row);
        SN_CRASH_POINT(rebuild_row_live);
        if (record->kind == SN_ROW_MEMBER) {
            sn_bit_set(head->member_rows, row);
            SN_CRASH_POINT(rebuild_row_member);
            sn_bit_set(head->members_of_job[record->job], row);
            sn_want_clear(segment, row);
        }
        jobs |= (uint64_t)1 << record->job;
    }
    return jobs;
}

static int stands(sn_segment *segment, uint32_t slot)
{
    const sn_slot *record = &segment->slots[slot];
    const sn_list_head *writing = &segment->head->lists[SN_LIST_WRITING];
    int staged = record->form == SN_AUGMENTED;

    return sn_slot_state(record) <= SN_SLOT_FAILED && staged == (slot < segment->n_stage) &&
           record->form > SN_STORAGE && record->form < SN_FORMS && record->sample < segment->n_samples &&
           record->writer_row < SN_MAX_ROWS && record->length > 0 &&
           (sn_slot_state(record) == SN_SLOT_READY || writing->count < segment->n_writing) &&
           (staged ||
            record->length >= (uint64_t)3 * record->height * record->width) && /* behind the pixels may be more */
           sn_space_mark(segment, record->form, record->granule, sn_granules_for(record->length)) == 0;
}

static void rebuild_slots(sn_segment *segment, uint64_t jobs)
{
    sn_slots_clear(segment);
    sn_space_clear(segment);
    SN_CRASH_POINT(rebuild_cleared);
    for (uint32_t slot = 0; slot < segment->n_slots; slot++) {
        sn_slot *record = &segment->slots[slot];
        if (sn_slot_state(record) != SN_SLOT_EMPTY && !stands(segment, slot))
            atomic_store_explicit(&record->state, SN_SLOT_EMPTY, memory_order_release);
        SN_CRASH_POINT(rebuild_slot_stands);
        record->uses &= jobs; /* the bits of jobs that are gone may be given out again */
        SN_CRASH_POINT(rebuild_slot_used);
        sn_slot_adopt(segment, slot);
    }
}

static void rebuild_pins(sn_segment *segment)
{
    const uint64_t *live = segment->head->live_rows;
    for (uint32_t row = sn_rows_next(live, 0); row < SN_MAX_ROWS; row = sn_rows_next(live, row + 1)) {
        uint32_t *ledger = sn_ledger(segment, row);
        for (uint32_t entry = 0; entry < segment->n_ledger; entry++) {
            uint32_t slot = ledger[entry] - 1;
            if (ledger[entry] == 0)
                continue;
            SN_CRASH_POINT(rebuild_line);
            if (slot < segment->n_slots && sn_slot_state(&segment->slots[slot]) != SN_SLOT_EMPTY)
                segment->slots[slot].pins++;
            else
                ledger[entry] = 0;
        }
    }
}

/* Which table is of which kind is truth. Who has it open is a set of rows, out of which the dead are struck. */
static void rebuild_digests(sn_segment *segment)
{
    const uint64_t *live = segment->head->live_rows;

    for (uint32_t i = 0; i < SN_DIGEST_TABLES; i++) {
        sn_digest_table *table = &segment->head->tables[i];
        for (uint32_t word = 0; word < SN_MAX_ROWS / 64; word++)
            table->users[word] &= live[word];
        SN_CRASH_POINT(rebuild_table);
        if (table->taker > SN_MAX_ROWS || (table->taker != 0 && !sn_bit_get(live, table->taker - 1)))
            table->taker = 0;
    }
}

void sn_store_rebuild(sn_segment *segment)
{
    uint64_t jobs = rebuild_rows(segment);
    SN_CRASH_POINT(rebuild_has_rows);
    rebuild_digests(segment);
    SN_CRASH_POINT(rebuild_has_tables);
    rebuild_slots(segment, jobs);
    SN_CRASH_POINT(rebuild_has_slots);
    rebuild_pins(segment);
    SN_CRASH_POINT(rebuild_pinned);
    sn_rows_derive_budgets(segment);
    SN_CRASH_POINT(rebuild_has_pins);

    for (uint32_t slot = 0; slot < segment->n_slots; slot++) {
        sn_slot *record = &segment->slots[slot];
        if (record->list == SN_LIST_WANT)
            sn_want_publish(segment, slot);
        else if (record->list == SN_LIST_WRITING && record->pins == 0)
            sn_slot_free(segment, slot); /* whoever wrote it holds it no more: it died */
        SN_CRASH_POINT(rebuild_published);
    }
    SN_CRASH_POINT(rebuild_done);
}
