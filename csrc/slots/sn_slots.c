#include "sn_slots.h"

#include <string.h>

#include "../base/sn_bits.h"
#include "../base/sn_crash.h"
#include "sn_space.h"

#define AT_ONCE 256 /* so many records are on their way from memory together */

static void writing_append(sn_segment *segment, uint32_t slot)
{
    uint32_t *count = &segment->head->lists[SN_LIST_WRITING].count;
    segment->slots[slot].list = SN_LIST_WRITING;
    segment->slots[slot].list_prev = *count;
    SN_CRASH_POINT(writing_placed);
    segment->writing[*count] = slot;
    SN_CRASH_POINT(writing_listed);
    ++*count;
}

static void writing_remove(sn_segment *segment, uint32_t slot)
{
    uint32_t left = segment->head->lists[SN_LIST_WRITING].count - 1, place = segment->slots[slot].list_prev;
    uint32_t last = left < segment->n_writing ? segment->writing[left] : SN_NONE;

    if (SN_RARELY(last >= segment->n_slots) || SN_RARELY(place > left)) {
        sn_segment_damaged(segment);
        return;
    }
    segment->head->lists[SN_LIST_WRITING].count = left;
    SN_CRASH_POINT(writing_shorter);
    segment->writing[place] = last;
    SN_CRASH_POINT(writing_moved);
    segment->slots[last].list_prev = place;
}

/* A link that leads to no slot counts as the end here. Whoever walks to it finds out whether it is SN_NONE: one compare
 * less for each of these. */
static void list_append(sn_segment *segment, uint32_t slot, uint32_t list)
{
    sn_list_head *head = &segment->head->lists[list];
    sn_slot *record = &segment->slots[slot];

    if (list == SN_LIST_WRITING) {
        writing_append(segment, slot);
        return;
    }
    record->list = (uint8_t)list;
    record->list_next = SN_NONE;
    record->list_prev = head->tail;
    SN_CRASH_POINT(append_placed);
    if (head->tail < segment->n_slots)
        segment->slots[head->tail].list_next = slot;
    else
        head->head = slot;
    SN_CRASH_POINT(append_linked);
    head->tail = slot;
    SN_CRASH_POINT(append_tail);
    head->count++;
}

/* Free records are used again soonest first: those in use stay few and near each other. */
static void list_prepend(sn_segment *segment, uint32_t slot, uint32_t list)
{
    sn_list_head *head = &segment->head->lists[list];
    sn_slot *record = &segment->slots[slot];

    record->list = (uint8_t)list;
    record->list_prev = SN_NONE;
    record->list_next = head->head;
    SN_CRASH_POINT(prepend_placed);
    if (head->head < segment->n_slots)
        segment->slots[head->head].list_prev = slot;
    else
        head->tail = slot;
    SN_CRASH_POINT(prepend_linked);
    head->head = slot;
    SN_CRASH_POINT(prepend_head);
    head->count++;
}

static void list_remove(sn_segment *segment, uint32_t slot)
{
    sn_slot *record = &segment->slots[slot];
    uint32_t next = record->list_next, prev = record->list_prev;

    if (record->list == SN_LIST_WRITING) {
        writing_remove(segment, slot);
        return;
    }
    if (SN_RARELY(record->list >= SN_LISTS)) {
        sn_segment_damaged(segment);
        return;
    }
    sn_list_head *head = &segment->head->lists[record->list];
    if (prev < segment->n_slots)
        segment->slots[prev].list_next = next;
    else
        head->head = next;
    SN_CRASH_POINT(unlinked_forwards);
    if (next < segment->n_slots)
        segment->slots[next].list_prev = prev;
    else
        head->tail = prev;
    SN_CRASH_POINT(unlinked_backwards);
    head->count--;
}

static void chain_insert(sn_segment *segment, uint32_t slot)
{
    sn_slot *record = &segment->slots[slot];
    uint32_t first = segment->first[record->sample];

    record->next_of_sample = first;
    record->alone = first == SN_NONE;
    if (first < segment->n_slots)
        segment->slots[first].alone = 0; /* those behind it are not since it came */
    SN_CRASH_POINT(chain_not_alone);
    segment->first[record->sample] = slot;
}

static void chain_remove(sn_segment *segment, uint32_t slot)
{
    sn_slot *record = &segment->slots[slot];
    uint32_t *at = &segment->first[record->sample];
    uint32_t left = segment->n_slots;
    while (!record->alone && *at != slot) { /* where it is alone nothing is waited for */
        if (SN_RARELY(*at >= segment->n_slots) || SN_RARELY(--left == 0)) {
            sn_segment_damaged(segment);
            return;
        }
        at = &segment->slots[*at].next_of_sample;
    }
    *at = record->next_of_sample;
}

static uint32_t free_list(const sn_segment *segment, uint32_t slot)
{
    return slot < segment->n_stage ? SN_LIST_FREE_STAGE : SN_LIST_FREE_KEEP;
}

/* Count the granules that a participant's copies fill in the stage; a row's next owner is another participant. */
static void count_staged(sn_segment *segment, const sn_slot *record, int sign)
{
    sn_row *writer = &segment->rows[record->writer_row % SN_MAX_ROWS];
    if (record->form == SN_AUGMENTED && writer->generation == record->writer_generation)
        writer->staged += (uint32_t)sign * sn_granules_for(record->length);
}

void sn_slot_move(sn_segment *segment, uint32_t slot, uint32_t list)
{
    list_remove(segment, slot);
    SN_CRASH_POINT(move_on_no_list);
    list_append(segment, slot, list);
}

uint32_t sn_slot_reserve(sn_segment *segment, const sn_payload *payload, uint32_t row)
{
    uint32_t list = payload->form == SN_AUGMENTED ? SN_LIST_FREE_STAGE : SN_LIST_FREE_KEEP;
    uint32_t slot = segment->head->lists[list].head;
    if (slot >= segment->n_slots || segment->head->lists[SN_LIST_WRITING].count >= segment->n_writing) {
        if (SN_RARELY(slot >= segment->n_slots && slot != SN_NONE))
            sn_segment_damaged(segment);
        return SN_NONE;
    }
    if (SN_RARELY(sn_slot_state(&segment->slots[slot]) != SN_SLOT_EMPTY)) {
        sn_segment_damaged(segment);
        return SN_NONE;
    }
    uint32_t granule = sn_space_take(segment, payload->form, sn_granules_for(payload->length));
    if (granule == SN_NONE)
        return SN_NONE;
    SN_CRASH_POINT(reserve_has_room);

    sn_slot *record = &segment->slots[slot];
    record->generation++;
    SN_CRASH_POINT(reserve_generation);
    record->sample = payload->sample;
    record->form = payload->form;
    record->writer_row = (uint16_t)row;
    record->writer_generation = segment->rows[row].generation;
    SN_CRASH_POINT(reserve_writer);
    record->granule = granule;
    record->length = payload->length;
    record->files_name = payload->files_name; /* or height and width */
    record->pipeline = payload->pipeline;
    SN_CRASH_POINT(reserve_pipeline);
    record->uses = payload->uses;
    record->in_order = payload->in_order;
    record->pins = 0;
    SN_CRASH_POINT(reserve_whole);
    atomic_store_explicit(&record->state, SN_SLOT_WRITING, memory_order_release);
    SN_CRASH_POINT(reserve_writing);

    chain_insert(segment, slot);
    SN_CRASH_POINT(reserve_chained);
    sn_slot_move(segment, slot, SN_LIST_WRITING);
    SN_CRASH_POINT(reserve_listed);
    count_staged(segment, record, 1);
    return slot;
}

/* A bit may be of a slot that a rebuild has taken off the list, or of none: they are no more than hints. */
static void note_places(const sn_segment *segment, const uint32_t *slots, uint32_t n, uint32_t end, uint64_t *places)
{
    for (uint32_t i = 0; i < n; i++) {
        const sn_slot *record = &segment->slots[slots[i]];
        if (slots[i] < segment->n_slots && record->list == SN_LIST_WRITING && sn_slot_state(record) == SN_SLOT_READY) {
            if (SN_RARELY(record->list_prev >= end))
                sn_segment_damaged(segment);
            else
                sn_bit_set(places, record->list_prev);
        }
    }
}

static uint64_t take_bits(_Atomic uint64_t *word)
{
    if (atomic_load_explicit(word, memory_order_relaxed) == 0)
        return 0; /* most are: not written to */
    return atomic_exchange_explicit(word, 0, memory_order_acquire);
}

void sn_slots_committed(sn_segment *segment, uint64_t *places)
{
    uint32_t slots[AT_ONCE + 64], n = 0, n_groups = (uint32_t)(((uint64_t)segment->n_slots + SN_GROUP - 1) / SN_GROUP);

    uint32_t written = sn_slots_written(segment);

    memset(places, 0, sn_bits_words(written) * sizeof *places);
    for (uint32_t group_word = 0; group_word < sn_bits_words(n_groups); group_word++) {
        for (uint64_t groups = take_bits(&segment->groups[group_word]); groups; groups &= groups - 1) {
            SN_CRASH_POINT(fold_took_group);
            uint32_t group = group_word * 64 + (uint32_t)__builtin_ctzll(groups);
            uint32_t first = group * (SN_GROUP / 64), end = group < n_groups ? first + SN_GROUP / 64 : first;
            for (uint32_t word = first; word < end; word++) {
                for (uint64_t bits = take_bits(&segment->committed[word]); bits; bits &= bits - 1) {
                    slots[n] = word * 64 + (uint32_t)__builtin_ctzll(bits);
                    sn_prefetch(&segment->slots[slots[n++]]);
                }
                if (n >= AT_ONCE) {
                    note_places(segment, slots, n, written, places);
                    n = 0;
                }
            }
        }
    }
    note_places(segment, slots, n, written, places);
}

uint32_t sn_slots_written(const sn_segment *segment)
{
    uint32_t count = segment->head->lists[SN_LIST_WRITING].count;

    if (SN_RARELY(count > segment->n_writing)) {
        sn_segment_damaged(segment);
        return 0;
    }
    return count;
}

/* Whether all that freeing trusts is in its bounds. */
static int is_sound(const sn_segment *segment, const sn_slot *record)
{
    return record->sample < segment->n_samples && record->form < SN_FORMS && sn_slot_fits(segment, record);
}

void sn_slot_free(sn_segment *segment, uint32_t slot)
{
    sn_slot *record = &segment->slots[slot];

    if (SN_RARELY(!is_sound(segment, record))) {
        sn_segment_damaged(segment);
        return;
    }
    atomic_store_explicit(&record->state, SN_SLOT_EMPTY, memory_order_release);
    SN_CRASH_POINT(free_empty);
    chain_remove(segment, slot);
    SN_CRASH_POINT(free_unchained);
    count_staged(segment, record, -1);
    SN_CRASH_POINT(free_uncounted);
    sn_space_give(segment, record->form, record->granule, sn_granules_for(record->length));
    SN_CRASH_POINT(free_given);
    list_remove(segment, slot);
    SN_CRASH_POINT(free_on_no_list);
    list_prepend(segment, slot, free_list(segment, slot));
}

void sn_slots_clear(sn_segment *segment)
{
    for (uint32_t list = 0; list < SN_LISTS; list++)
        segment->head->lists[list] = (sn_list_head){SN_NONE, SN_NONE, 0};
    SN_CRASH_POINT(clear_lists);
    memset(segment->first, 0xFF, (size_t)segment->n_samples * sizeof *segment->first);
}

void sn_slot_adopt(sn_segment *segment, uint32_t slot)
{
    sn_slot *record = &segment->slots[slot];

    record->pins = 0;
    switch (sn_slot_state(record)) {
    case SN_SLOT_EMPTY:
        list_append(segment, slot, free_list(segment, slot));
        SN_CRASH_POINT(adopt_empty);
        return;
    case SN_SLOT_READY:
        if (record->form == SN_AUGMENTED)
            list_append(segment, slot, SN_LIST_WANT);
        else
            list_append(segment, slot, sn_list_of(record->form));
        break;
    default: /* being written, or failed and not yet let go of */
        list_append(segment, slot, SN_LIST_WRITING);
    }
    SN_CRASH_POINT(adopt_listed);
    chain_insert(segment, slot);
    SN_CRASH_POINT(adopt_chained);
    count_staged(segment, record, 1);
}
