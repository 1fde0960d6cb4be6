#include "sn_space.h"

#include <string.h>

#include "../base/sn_bits.h"
#include "../base/sn_crash.h"
#include "../base/sn_status.h"

/* The first free run of `count` granules in [from, end); SN_NONE without one. *first_free gets
 * the first free granule seen, *longest the longest run, where the search passed them. */
static uint32_t find_run(const uint64_t *map, uint32_t from, uint32_t end, uint32_t count, uint32_t *first_free,
                         uint32_t *longest)
{
    uint64_t at = from;
    while (at < end) {
        uint64_t start = sn_bits_next(map, at, end, 0);
        if (start >= end)
            break;
        if (*first_free == SN_NONE)
            *first_free = (uint32_t)start;
        uint64_t limit = start + count < end ? start + count : end;
        uint64_t stop = sn_bits_next(map, start, limit, 1);
        if (stop - start >= count)
            return (uint32_t)start;
        if (stop - start > *longest)
            *longest = (uint32_t)(stop - start);
        at = stop;
    }
    return SN_NONE;
}

/* Whatever the counts are. */
static uint32_t usable(const sn_segment *segment)
{
    uint32_t end = sn_usable_granules(segment->head);
    return end < segment->n_granules ? end : segment->n_granules;
}

/* How many of these granules are among those that may be given out. */
static uint32_t below_end(const sn_segment *segment, uint32_t start, uint32_t count)
{
    uint32_t end = sn_usable_granules(segment->head);
    if (start >= end)
        return 0;
    return count < end - start ? count : end - start;
}

static void mark_used(sn_segment *segment, enum sn_form form, uint32_t start, uint32_t count)
{
    sn_bits_fill(segment->granules, start, count, 1);
    SN_CRASH_POINT(space_filled);
    segment->head->granules_of[form] += count;
    SN_CRASH_POINT(space_counted);
    segment->head->granules_free -= below_end(segment, start, count);
}

uint32_t sn_space_take(sn_segment *segment, enum sn_form form, uint32_t count)
{
    sn_header *head = segment->head;
    uint32_t end = usable(segment);
    uint32_t first_free = SN_NONE, longest = 0, start;

    if (count == 0 || count > head->granules_free || count > head->largest_run)
        return SN_NONE;

    if (form == SN_AUGMENTED) {
        uint32_t from = head->stage_from < end ? head->stage_from : 0;
        start = find_run(segment->granules, from, end, count, &first_free, &longest);
        head->stage_from = first_free == SN_NONE ? end : first_free;
        SN_CRASH_POINT(space_searched);
        if (start == SN_NONE)
            head->largest_run = longest; /* the whole space was examined */
    } else {
        uint32_t from = head->keep_from < end ? head->keep_from : 0;
        start = find_run(segment->granules, from, end, count, &first_free, &longest);
        if (start == SN_NONE) {
            /* Runs that lie across `from` are seen by the second half alone. */
            uint64_t stop = (uint64_t)from + count;
            start = find_run(segment->granules, 0, stop < end ? (uint32_t)stop : end, count, &first_free, &longest);
        }
        if (start == SN_NONE)
            head->largest_run = longest;
        else
            head->keep_from = start + count;
    }
    SN_CRASH_POINT(space_found);
    if (start != SN_NONE)
        mark_used(segment, form, start, count);
    return start;
}

void sn_space_give(sn_segment *segment, enum sn_form form, uint32_t start, uint32_t count)
{
    sn_header *head = segment->head;

    sn_bits_fill(segment->granules, start, count, 0);
    SN_CRASH_POINT(space_emptied);
    head->granules_of[form] -= count;
    SN_CRASH_POINT(space_uncounted);
    head->granules_free += below_end(segment, start, count);
    SN_CRASH_POINT(space_free);
    head->largest_run = SN_NONE;
    if (start < head->stage_from)
        head->stage_from = start;
}

void sn_space_clear(sn_segment *segment)
{
    sn_header *head = segment->head;

    memset(segment->granules, 0, sn_bits_words(segment->n_granules) * 8);
    SN_CRASH_POINT(space_cleared);
    memset(head->granules_of, 0, sizeof head->granules_of);
    head->granules_free = usable(segment);
    SN_CRASH_POINT(space_all_free);
    head->stage_from = 0;
    head->keep_from = 0;
    head->largest_run = SN_NONE;
}

static uint32_t count_free(const sn_segment *segment, uint64_t from, uint64_t end)
{
    uint32_t n = 0;

    for (uint64_t at = from; (at = sn_bits_next(segment->granules, at, end, 0)) < end;) {
        uint64_t stop = sn_bits_next(segment->granules, at, end, 1);
        n += (uint32_t)(stop - at);
        at = stop;
    }
    return n;
}

void sn_space_resize(sn_segment *segment, uint32_t end_before)
{
    sn_header *head = segment->head;
    uint32_t end = usable(segment);

    end_before = end_before < segment->n_granules ? end_before : segment->n_granules;
    if (end > end_before)
        head->granules_free += count_free(segment, end_before, end);
    else
        head->granules_free -= count_free(segment, end, end_before);
    SN_CRASH_POINT(space_resized);
    head->largest_run = SN_NONE;
}

int sn_space_mark(sn_segment *segment, enum sn_form form, uint32_t start, uint32_t count)
{
    uint64_t end = (uint64_t)start + count;
    /* Behind the limit there may be payloads from before it fell. */
    if (count == 0 || end > segment->n_granules ||
        end > atomic_load_explicit(&segment->head->backed, memory_order_relaxed) ||
        sn_bits_next(segment->granules, start, end, 1) != end)
        return SN_FULL;
    mark_used(segment, form, start, count);
    return 0;
}
