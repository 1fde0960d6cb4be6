#include "sn_want.h"

#include <string.h>

#include "../base/sn_crash.h"
#include "../base/sn_prefetch.h"
#include "../slots/sn_slots.h"

/* A few copies are held (being read) at any time; pass these, but not for long. */
#define MOST_PASSED 64

void sn_want_prefetch(const sn_segment *segment, const uint32_t *samples, uint32_t n)
{
    const uint64_t *members = segment->head->member_rows;

    for (uint32_t row = sn_rows_next(members, 0); n > 0 && row < SN_MAX_ROWS; row = sn_rows_next(members, row + 1)) {
        const uint64_t *seen = sn_seen(segment, row);
        for (uint32_t i = 0; i < n; i++)
            sn_fetch(&seen[samples[i] >> 6]);
    }
}

void sn_want_clear(sn_segment *segment, uint32_t row)
{
    sn_counted eligible = sn_eligible(segment, row);
    memset(eligible.words, 0, sn_bits_words(segment->n_stage) * sizeof *eligible.words);
    SN_CRASH_POINT(want_words);
    memset(eligible.blocks, 0, sn_bits_blocks(segment->n_stage) * sizeof *eligible.blocks);
    SN_CRASH_POINT(want_blocks);
    *eligible.total = 0;
}

static int exchanges(const sn_row *member)
{
    return atomic_load_explicit(&member->exchanges, memory_order_relaxed) != 0;
}

static inline __attribute__((always_inline)) int can_use(const sn_segment *segment, uint32_t row, const sn_slot *copy)
{
    const sn_row *member = &segment->rows[row];
    return copy->pipeline == member->pipeline && !(copy->uses >> member->job % SN_MAX_JOBS & 1) &&
           !(copy->in_order && exchanges(member)) && !sn_bit_get(sn_seen(segment, row), copy->sample);
}

static int is_published(const sn_slot *slot)
{
    return slot->list >= SN_LIST_WANT;
}

static void set_want(sn_segment *segment, uint32_t slot, uint32_t want)
{
    if (SN_RARELY(want > SN_MAX_ROWS) || SN_RARELY(slot >= segment->n_stage)) {
        sn_segment_damaged(segment);
        return;
    }
    segment->wants[slot] = (uint8_t)want;
    SN_CRASH_POINT(want_set);
    if (want == 0 && segment->slots[slot].pins == 0)
        sn_slot_free(segment, slot);
    else
        sn_slot_move(segment, slot, SN_LIST_WANT + want);
}

void sn_want_publish(sn_segment *segment, uint32_t slot)
{
    const uint64_t *members = segment->head->member_rows;
    uint32_t want = 0;

    for (uint32_t row = sn_rows_next(members, 0); row < SN_MAX_ROWS; row = sn_rows_next(members, row + 1))
        if (can_use(segment, row, &segment->slots[slot]) && sn_counted_set(sn_eligible(segment, row), slot))
            want++;
    SN_CRASH_POINT(want_published);
    set_want(segment, slot, want);
}

void sn_want_drop(sn_segment *segment, uint32_t row, uint32_t slot)
{
    if (slot >= segment->n_stage || !sn_counted_clear(sn_eligible(segment, row), slot))
        return;
    SN_CRASH_POINT(want_dropped);
    set_want(segment, slot, segment->wants[slot] - 1u);
}

void sn_want_use(sn_segment *segment, uint32_t job, uint32_t slot)
{
    const uint64_t *members = segment->head->members_of_job[job % SN_MAX_JOBS];

    segment->slots[slot].uses |= (uint64_t)1 << job % SN_MAX_JOBS;
    SN_CRASH_POINT(want_used);
    for (uint32_t row = sn_rows_next(members, 0); row < SN_MAX_ROWS; row = sn_rows_next(members, row + 1))
        sn_want_drop(segment, row, slot);
}

void sn_want_taken(sn_segment *segment, uint32_t row, uint32_t sample)
{
    sn_bit_set(sn_seen(segment, row), sample);
    SN_CRASH_POINT(want_seen);
    uint32_t left = segment->n_slots, slot = sn_walk(segment, segment->first[sample], &left);
    while (slot != SN_NONE) {
        uint32_t next = segment->slots[slot].next_of_sample; /* dropping may free it */
        if (is_published(&segment->slots[slot]))
            sn_want_drop(segment, row, slot);
        slot = sn_walk(segment, next, &left);
    }
}

void sn_want_join(sn_segment *segment, uint32_t row)
{
    for (uint32_t want = 0; want < SN_MAX_ROWS; want++) {
        /* A copy that gains a want moves to a longer list, which has still to be walked: it is
         * met again there and not set twice. */
        uint32_t left = segment->n_slots;
        uint32_t slot = sn_walk_list(segment, segment->head->lists[SN_LIST_WANT + want].head, &left);
        while (slot != SN_NONE) {
            uint32_t next = segment->slots[slot].list_next;
            if (slot < segment->n_stage && segment->slots[slot].sample < segment->n_samples &&
                can_use(segment, row, &segment->slots[slot]) && sn_counted_set(sn_eligible(segment, row), slot))
                set_want(segment, slot, want + 1);
            SN_CRASH_POINT(want_joined);
            slot = sn_walk_list(segment, next, &left);
        }
    }
}

void sn_want_leave(sn_segment *segment, uint32_t row)
{
    sn_counted eligible = sn_eligible(segment, row);
    uint64_t slot = 0;
    while (*eligible.total > 0 && (slot = sn_bits_next(eligible.words, slot, segment->n_stage, 1)) < segment->n_stage)
        sn_want_drop(segment, row, (uint32_t)slot);
}

uint32_t sn_want_expected(const sn_segment *segment, uint32_t job, uint64_t pipeline, uint32_t sample, int in_order)
{
    const uint64_t *members = segment->head->member_rows;
    uint32_t want = 0;

    for (uint32_t r = sn_rows_next(members, 0); r < SN_MAX_ROWS; r = sn_rows_next(members, r + 1)) {
        if (segment->rows[r].job == job || segment->rows[r].pipeline != pipeline ||
            (in_order && exchanges(&segment->rows[r])) || sn_bit_get(sn_seen(segment, r), sample))
            continue;
        int served = 0; /* by a copy that is there already */
        SN_EACH_OF_SAMPLE (segment, sample, s)
            served |= is_published(&segment->slots[s]) && s < segment->n_stage &&
                      sn_bit_get(sn_eligible(segment, r).words, s);
        want += !served;
    }
    return want;
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* The copies that `row` is eligible for in slots begin .. end - 1, at most `most`; `slots` has room for
 * ANY_WORD more. Where few are eligible a word has none, one or two, and which it is cannot be
 * predicted: so that many are written down without asking. */
#define ANY_WORD 64
static uint32_t list_eligible(const sn_segment *segment, uint32_t row, uint32_t begin, uint32_t end, uint32_t *slots,
                              uint32_t most)
{
    const uint64_t *words = sn_eligible(segment, row).words;
    const uint64_t last = (uint64_t)1 << 63; /* for the processor, which cannot find a bit in 0 */
    uint64_t mask = ~(uint64_t)0 << (begin & 63);
    uint32_t n = 0;

    for (uint32_t first = begin & ~63u; n < most && first < end; first += 64, mask = ~(uint64_t)0) {
        uint64_t bits = words[first / 64] & mask;
        /* Asked next: a line has those of the slots of a word. Of an empty word none is; asking for the first
         * line once more takes less time than a branch that cannot be predicted. */
        sn_prefetch(&segment->wants[bits ? first : 0]);
        if (end - first < 64)
            bits &= ((uint64_t)1 << (end - first)) - 1;
        for (int i = 0; i < 2; i++, bits &= bits - 1) {
            slots[n] = first + (uint32_t)__builtin_ctzll(bits | last);
            n += bits != 0;
        }
        for (; bits; bits &= bits - 1)
            slots[n++] = first + (uint32_t)__builtin_ctzll(bits);
    }
    return least(n, most);
}

uint32_t sn_want_pick(const sn_segment *segment, uint32_t row, uint32_t k, uint32_t wanted, uint32_t *slots)
{
    sn_counted eligible = sn_eligible(segment, row);
    /* A want is a byte: of one that cannot be there is a counter too. */
    uint32_t among[SN_PICK_AMONG + ANY_WORD], sorted[SN_PICK_MOST + 1], count[UINT8_MAX + 1] = {0};
    uint8_t wants[SN_PICK_AMONG];

    wanted = least(wanted, SN_PICK_MOST);
    uint32_t from = sn_counted_select(eligible, k), behind = *eligible.total - k;
    if (SN_RARELY(from >= segment->n_stage)) {
        sn_segment_damaged(segment);
        return 0;
    }
    uint32_t n = list_eligible(segment, row, from, segment->n_stage, among, least(behind, SN_PICK_AMONG));
    n += list_eligible(segment, row, 0, from, among + n, least(k, SN_PICK_AMONG - n));

    /* A counting sort by want. */
    for (uint32_t i = 0; i < n; i++) {
        wants[i] = segment->wants[among[i]];
        count[wants[i]]++;
    }
    uint32_t begins = 0;
    for (uint32_t want = 0; want <= SN_MAX_ROWS; want++) {
        uint32_t begin = begins;
        begins += count[want];
        count[want] = begin;
    }
    if (SN_RARELY(begins != n)) {
        sn_segment_damaged(segment);
        return 0;
    }
    for (uint32_t i = 0; i < n; i++)
        sorted[least(count[wants[i]]++, wanted)] = among[i]; /* those that are too many all go behind the last */
    wanted = least(wanted, n);
    for (uint32_t i = 0; i < wanted; i++) {
        slots[i] = sorted[i];
        sn_prefetch(&segment->slots[slots[i]]);
    }
    return wanted;
}

uint32_t sn_want_lowest(const sn_segment *segment, uint32_t most, uint64_t pipeline, int is_newest)
{
    uint32_t passed = 0;

    /* An unwanted copy is there only because it is held. */
    for (uint32_t want = 1; want <= most; want++) {
        const sn_list_head *list = &segment->head->lists[SN_LIST_WANT + want];
        uint32_t next = is_newest ? list->tail : list->head;
        while (next < segment->n_slots) {
            const sn_slot *copy = &segment->slots[next];
            uint32_t slot = next;
            next = is_newest ? copy->list_prev : copy->list_next;
            if (copy->pins == 0 && (pipeline == 0 || copy->pipeline == pipeline))
                return slot;
            if (++passed == MOST_PASSED)
                return SN_NONE;
        }
    }
    return SN_NONE;
}

void sn_want_evict(sn_segment *segment, uint32_t slot)
{
    const uint64_t *members = segment->head->member_rows;

    if (SN_RARELY(slot >= segment->n_stage)) {
        sn_segment_damaged(segment);
        return;
    }
    for (uint32_t row = sn_rows_next(members, 0); row < SN_MAX_ROWS; row = sn_rows_next(members, row + 1))
        sn_counted_clear(sn_eligible(segment, row), slot);
    SN_CRASH_POINT(want_evicted);
    set_want(segment, slot, 0);
}
