#include "sn_check.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/sn_status.h"
#include "../shm/sn_row.h"
#include "../slots/sn_slots.h"
#include "sn_rebuild.h"
#include "sn_store.h"

/* What a rebuild derives. Beside it in the header and the rows lies what others write without the lock. */
typedef struct {
    uint32_t granules_of[SN_FORMS], budget_of[SN_FORMS], granules_free;
    uint32_t lengths[SN_LISTS];
    struct {
        uint32_t eligible, staged;
    } rows[SN_MAX_ROWS];
    sn_slot *slots;
    uint64_t *eligible, *granules; /* the eligible vectors and counts of all rows that are members */
    uint32_t *blocks;
    uint8_t *wants;
    uint32_t *linked; /* how often a slot is met in its sample's chain */
} snapshot;

static void *copy(const void *from, size_t bytes)
{
    void *to = malloc(bytes ? bytes : 1);
    if (to)
        memcpy(to, from, bytes);
    return to;
}

/* Writers commit without the lock: a state is read as the atomic that it is. */
static sn_slot *copy_slots(const sn_segment *segment)
{
    const size_t rest = offsetof(sn_slot, generation);
    sn_slot *to = malloc(segment->n_slots * sizeof *to);

    for (uint32_t slot = 0; to && slot < segment->n_slots; slot++) {
        const sn_slot *from = &segment->slots[slot];
        atomic_init(&to[slot].state, sn_slot_state(from));
        memcpy((uint8_t *)&to[slot] + rest, (const uint8_t *)from + rest, sizeof *to - rest);
    }
    return to;
}

static int copy_eligible(sn_counted now, uint64_t n_words, uint64_t n_blocks, uint64_t *words, uint32_t *blocks)
{
    memcpy(words, now.words, n_words * sizeof *words);
    memcpy(blocks, now.blocks, n_blocks * sizeof *blocks);
    return 0;
}

static int eligible_differ(sn_counted now, uint64_t n_words, uint64_t n_blocks, uint64_t *words, uint32_t *blocks)
{
    return memcmp(words, now.words, n_words * sizeof *words) != 0 ||
           memcmp(blocks, now.blocks, n_blocks * sizeof *blocks) != 0;
}

/* Of the members alone: other rows have none, and no memory for one. */
static int for_each_eligible(const sn_segment *segment, const snapshot *s,
                             int (*visit)(sn_counted, uint64_t, uint64_t, uint64_t *, uint32_t *))
{
    const uint64_t *members = segment->head->member_rows;
    uint64_t n_words = sn_bits_words(segment->n_stage), n_blocks = sn_bits_blocks(segment->n_stage);

    for (uint32_t row = sn_rows_next(members, 0); row < SN_MAX_ROWS; row = sn_rows_next(members, row + 1))
        if (visit(sn_eligible(segment, row), n_words, n_blocks, s->eligible + row * n_words,
                  s->blocks + row * n_blocks))
            return 1;
    return 0;
}

static int take_snapshot(sn_segment *segment, snapshot *s)
{
    const sn_header *head = segment->head;

    memcpy(s->granules_of, head->granules_of, sizeof s->granules_of);
    memcpy(s->budget_of, head->budget_of, sizeof s->budget_of);
    s->granules_free = head->granules_free;
    for (uint32_t list = 0; list < SN_LISTS; list++)
        s->lengths[list] = head->lists[list].count;
    for (uint32_t row = 0; row < SN_MAX_ROWS; row++) {
        s->rows[row].eligible = segment->rows[row].eligible;
        s->rows[row].staged = segment->rows[row].staged;
    }
    s->slots = copy_slots(segment);
    s->eligible = calloc(SN_MAX_ROWS, sn_bits_words(segment->n_stage) * 8);
    s->blocks = calloc(SN_MAX_ROWS, sn_bits_blocks(segment->n_stage) * 4);
    s->granules = copy(segment->granules, sn_bits_words(segment->n_granules) * 8);
    s->wants = copy(segment->wants, segment->n_stage);
    s->linked = calloc(segment->n_slots, sizeof *s->linked);
    if (!s->slots || !s->eligible || !s->blocks || !s->granules || !s->wants || !s->linked)
        return -1;
    for_each_eligible(segment, s, copy_eligible);
    for (uint32_t sample = 0; sample < segment->n_samples; sample++)
        for (uint32_t slot = segment->first[sample]; slot < segment->n_slots && s->linked[slot] < 2;
             slot = segment->slots[slot].next_of_sample)
            s->linked[slot]++;
    return 0;
}

static int rows_differ(const sn_segment *segment, const snapshot *s, char *why, size_t size)
{
    for (uint32_t row = 0; row < SN_MAX_ROWS; row++) {
        const sn_row *made = &segment->rows[row];
        if (atomic_load(&made->state) == SN_ROW_LIVE &&
            (s->rows[row].eligible != made->eligible || s->rows[row].staged != made->staged)) {
            snprintf(why, size, "row %u: kept %u eligible, %u staged; rebuilt %u, %u", row, s->rows[row].eligible,
                     s->rows[row].staged, made->eligible, made->staged);
            return 1;
        }
    }
    return 0;
}

static int difference(const sn_segment *segment, const snapshot *s, char *why, size_t size)
{
    const sn_header *now = segment->head;

#define DIFFERS(what, kept, made)                                                                                      \
    do {                                                                                                               \
        snprintf(why, size, "%s: kept %llu, rebuilt %llu", what, (unsigned long long)(kept),                           \
                 (unsigned long long)(made));                                                                          \
        return 1;                                                                                                      \
    } while (0)

    /* Writers commit without the lock: what was committed since the fold is on another list in
     * all innocence, and so are the sums that it is part of. */
    uint32_t committed = 0;
    for (uint32_t slot = 0; slot < segment->n_slots; slot++) {
        const sn_slot *kept = &s->slots[slot], *made = &segment->slots[slot];
        char what[64];
        /* A writer lets go when it has said that it committed, and a fold came since. */
        if (kept->list == SN_LIST_WRITING && kept->pins == 0 && sn_slot_state(kept) == SN_SLOT_READY)
            DIFFERS("committed, and found by no fold, slot", slot, slot);
        if (kept->list == SN_LIST_WRITING && made->list != SN_LIST_WRITING) {
            committed++;
            continue;
        }
        snprintf(what, sizeof what, "slot %u, ", slot);
        if (kept->list != made->list)
            DIFFERS(strcat(what, "list"), kept->list, made->list);
        if (kept->list >= SN_LIST_WANT && s->wants[slot] != kept->list - SN_LIST_WANT)
            DIFFERS(strcat(what, "want"), s->wants[slot], kept->list - SN_LIST_WANT);
        if (kept->pins != made->pins)
            DIFFERS(strcat(what, "pins"), kept->pins, made->pins);
        uint32_t expected = sn_slot_state(kept) != SN_SLOT_EMPTY;
        if (expected && kept->alone && (segment->first[made->sample] != slot || made->next_of_sample != SN_NONE))
            DIFFERS(strcat(what, "alone, first of its sample"), slot, segment->first[made->sample]);
        if (s->linked[slot] != expected)
            DIFFERS(strcat(what, "times in its chain"), s->linked[slot], expected);
    }
    for (int form = 0; form < SN_FORMS; form++)
        if (s->budget_of[form] != now->budget_of[form])
            DIFFERS("budget of a form", s->budget_of[form], now->budget_of[form]);
    if (committed)
        return 0;
    for (uint32_t list = 0; list < SN_LISTS; list++)
        if (s->lengths[list] != now->lists[list].count)
            DIFFERS("length of a list", s->lengths[list], now->lists[list].count);
    for (int form = 0; form < SN_FORMS; form++)
        if (s->granules_of[form] != now->granules_of[form])
            DIFFERS("granules of a form", s->granules_of[form], now->granules_of[form]);
    if (s->granules_free != now->granules_free)
        DIFFERS("free granules", s->granules_free, now->granules_free);
    if (memcmp(s->granules, segment->granules, sn_bits_words(segment->n_granules) * 8) != 0)
        DIFFERS("granule map", 0, 1);
    if (for_each_eligible(segment, s, eligible_differ))
        DIFFERS("eligible bits or their counts", 0, 1);
    return rows_differ(segment, s, why, size);
#undef DIFFERS
}

int sn_store_check(sn_segment *segment, char *why, size_t size)
{
    snapshot s = {0};
    int rc = -ENOMEM;

    sn_store_fold(segment);
    if (take_snapshot(segment, &s) == 0) {
        sn_store_rebuild(segment);
        rc = difference(segment, &s, why, size) ? SN_E_CORRUPT : 0;
    }
    free(s.slots);
    free(s.eligible);
    free(s.blocks);
    free(s.granules);
    free(s.wants);
    free(s.linked);
    return rc;
}
