#include "sn_hints.h"

#include "../base/sn_crash.h"
#include "../base/sn_rng.h"

static uint16_t name_of(uint64_t pipeline)
{
    return (uint16_t)(sn_mix64(pipeline) | 1); /* two of one name cost a job the order of its seed, no more */
}

static int is_process(const sn_row *row)
{
    return atomic_load(&row->state) == SN_ROW_LIVE && row->kind == SN_ROW_HOLDER;
}

void sn_hint_exchange(sn_segment *segment, uint32_t row, uint64_t pipeline)
{
    atomic_store(&segment->rows[row].exchanges, name_of(pipeline));
}

int sn_hints_others_exchange(const sn_segment *segment, uint64_t job_key, uint64_t pipeline)
{
    for (uint32_t row = 0; row < SN_MAX_ROWS; row++) {
        const sn_row *other = &segment->rows[row];
        if (is_process(other) && other->job_key != job_key && atomic_load(&other->exchanges) == name_of(pipeline) &&
            sn_row_is_alive(segment, row))
            return 1;
    }
    return 0;
}

void sn_hint_pace(sn_segment *segment, uint32_t row, uint32_t second, uint32_t pace)
{
    if (atomic_load(&segment->forked))
        return;
    atomic_store(&segment->rows[row].pace, pace);
    SN_CRASH_POINT(pace_published);
    atomic_store(&segment->rows[row].published_at, second);
}

uint32_t sn_hints_paces(const sn_segment *segment, sn_pace paces[SN_MAX_ROWS])
{
    uint32_t n = 0;

    for (uint32_t row = 0; row < SN_MAX_ROWS; row++) {
        const sn_row *record = &segment->rows[row];
        uint32_t second = is_process(record) ? atomic_load(&record->published_at) : 0;
        if (second != 0)
            paces[n++] = (sn_pace){record->job_key, row, second, atomic_load(&record->pace)};
    }
    return n;
}

uint32_t sn_hints_without_payload(const sn_segment *segment, uint32_t *samples, uint32_t n)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < n; i++)
        if (*(const volatile uint32_t *)&segment->first[samples[i]] == SN_NONE)
            samples[kept++] = samples[i];
    return kept;
}

uint32_t sn_hints_attachments(const sn_segment *segment, uint32_t row, uint64_t attachments[SN_MAX_ROWS])
{
    uint64_t job_key = segment->rows[row].job_key;
    uint32_t n = 0;

    attachments[n++] = (uint64_t)row << 32 | segment->rows[row].generation;
    for (uint32_t other = 0; other < SN_MAX_ROWS; other++)
        if (other != row && is_process(&segment->rows[other]) && segment->rows[other].job_key == job_key)
            attachments[n++] = (uint64_t)other << 32 | segment->rows[other].generation;
    return n;
}
