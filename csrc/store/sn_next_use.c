#include "sn_next_use.h"

#include "../base/sn_prefetch.h"
#include "../slots/sn_slots.h"

#define RECORDS_FOR_EACH 8u /* records that are scanned at the most, for each candidate */

int sn_next_use_is_known(const sn_segment *segment)
{
    const uint64_t *members = segment->head->member_rows;
    uint64_t jobs = 0;

    for (uint32_t row = sn_rows_next(members, 0); row < SN_MAX_ROWS; row = sn_rows_next(members, row + 1)) {
        if (!segment->rows[row].has_timetable)
            return 0;
        jobs |= (uint64_t)1 << segment->rows[row].job % SN_MAX_JOBS;
    }
    return (jobs & (jobs - 1)) != 0;
}

/* How many samples this member draws until it comes to `sample`; SN_NONE: never. */
static uint32_t next_use_of(const sn_segment *segment, uint32_t row, uint32_t sample)
{
    const sn_timetable *timetable = sn_timetable_of(segment, row);
    uint32_t drawn = atomic_load_explicit(&segment->rows[row].drawn, memory_order_relaxed);
    uint32_t places = timetable->places, part = timetable->part_of[sample];

    if (part == SN_NEVER)
        return SN_NONE;
    if (sn_bit_get(sn_seen(segment, row), sample))
        return places - drawn + places / 2;
    uint32_t place = (uint32_t)((uint64_t)part * places / SN_PARTS);
    return place > drawn ? place - drawn : 0;
}

static int can_use(const sn_segment *segment, uint32_t row, uint64_t pipeline)
{
    return pipeline == 0 || pipeline == sn_timetable_of(segment, row)->decoded_pipeline;
}

static uint32_t next_use(const sn_segment *segment, uint64_t pipeline, uint32_t sample)
{
    const uint64_t *members = segment->head->member_rows;
    uint32_t first = SN_NONE;

    for (uint32_t row = sn_rows_next(members, 0); row < SN_MAX_ROWS; row = sn_rows_next(members, row + 1)) {
        uint32_t next = can_use(segment, row, pipeline) ? next_use_of(segment, row, sample) : SN_NONE;
        first = next < first ? next : first;
    }
    return first;
}

/* Prefetch the memory that next_use() will read of these. */
static void prefetch(const sn_segment *segment, const uint32_t *slots, uint32_t n)
{
    const uint64_t *members = segment->head->member_rows;

    for (uint32_t row = sn_rows_next(members, 0); row < SN_MAX_ROWS; row = sn_rows_next(members, row + 1))
        for (uint32_t i = 0; i < n; i++) {
            uint32_t sample = segment->slots[slots[i]].sample;
            sn_prefetch(&sn_timetable_of(segment, row)->part_of[sample]);
            sn_prefetch(&sn_seen(segment, row)[sample / 64]);
        }
}

/* Payloads of this form that nobody holds, from where the last search ended. Records that are in use are near each
 * other (sn_slots.c), and those that never were are behind them. */
static uint32_t find_candidates(sn_segment *segment, enum sn_form form, uint32_t most, uint32_t *slots)
{
    uint32_t list = sn_list_of(form), n = 0;
    uint32_t slot = segment->head->candidates_from;

    for (uint32_t scanned = 0; scanned < RECORDS_FOR_EACH * most && n < most; scanned++, slot++) {
        if (slot < segment->n_stage || slot >= segment->n_slots || segment->slots[slot].generation == 0)
            slot = segment->n_stage;
        if (segment->slots[slot].list == list && segment->slots[slot].pins == 0 &&
            segment->slots[slot].sample < segment->n_samples)
            slots[n++] = slot;
    }
    segment->head->candidates_from = slot;
    return n;
}

uint32_t sn_next_use_later(sn_segment *segment, enum sn_form form, uint64_t pipeline, uint32_t sample,
                           uint32_t candidates)
{
    uint32_t slots[SN_CANDIDATES], most = candidates < SN_CANDIDATES ? candidates : SN_CANDIDATES;
    uint32_t n = find_candidates(segment, form, most, slots);
    uint32_t latest = next_use(segment, pipeline, sample), victim = SN_NONE;

    prefetch(segment, slots, n);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t next = next_use(segment, segment->slots[slots[i]].pipeline, segment->slots[slots[i]].sample);
        if (next > latest) {
            latest = next;
            victim = slots[i];
        }
    }
    return victim;
}
