/*
 * test_rebuild.c -- records that cannot be are dropped by a rebuild, and left alone by all else.
 *
 *   a segment with a payload of each kind --> one field is overwritten --> a rebuild drops that record and no other
 *                                                                      --> or a call finds it, says so, and touches nothing
 *
 * test_flipped_words.c overwrites words at random, and asks that nobody dies of it. Here each check of a field has a case
 * that no other check answers.
 */
#include <stdio.h>
#include <string.h>

#include "base/sn_rng.h"
#include "base/sn_status.h"
#include "cache.h"
#include "check.h"
#include "shm/sn_row.h"
#include "slots/sn_slots.h"
#include "store/sn_check.h"
#include "store/sn_rebuild.h"
#include "store/sn_rows.h"
#include "store/sn_store.h"

#define SAMPLES 40u
#define GRANULES 64u
#define BACKED 48u
#define DEAD 60u /* a row that nobody has */

static const uint32_t split[SN_FORMS] = {0, 2500, 2500, 3000, 2000};
static cache made;
static sn_segment *segment;
static uint32_t row, kept, staged, decoded, writing, n_writing;

static void check(const char *after)
{
    char why[256] = "";

    CHECK_EQUAL(sn_store_check(segment, why, sizeof why), 0, "after %s: %s", after, why);
}

static uint32_t reserve(uint32_t sample, enum sn_form form, uint32_t length)
{
    sn_payload payload = {.sample = sample, .form = form, .length = length};

    if (form == SN_DECODED)
        payload.height = payload.width = 3;
    uint32_t slot = sn_slot_reserve(segment, &payload, row);
    CHECK(slot < segment->n_slots);
    return slot;
}

/* A kept file and a staged copy of sample 3, a picture of sample 4, and one of sample 5 that is being written. */
static void fill(void)
{
    segment->n_writing = n_writing;
    atomic_store(&segment->head->backed, BACKED);
    atomic_store(&segment->head->limit, GRANULES);
    for (uint32_t slot = 0; slot < segment->n_slots; slot++)
        atomic_store(&segment->slots[slot].state, SN_SLOT_EMPTY);
    memset(sn_ledger(segment, row), 0, segment->n_ledger * sizeof(uint32_t));
    sn_store_rebuild(segment);
    kept = reserve(3, SN_ENCODED, 5000);
    staged = reserve(3, SN_AUGMENTED, 100);
    decoded = reserve(4, SN_DECODED, 27);
    writing = reserve(5, SN_ENCODED, 100);
    sn_ledger_hold(segment, row, 0, writing);
    sn_ledger_hold(segment, row, 1, staged); /* nobody wants it: it stays while it is held */
    sn_slot_commit(segment, kept);
    sn_slot_commit(segment, staged);
    sn_slot_commit(segment, decoded);
    sn_store_fold(segment);
    CHECK(kept < decoded && decoded < writing);
    atomic_store(&segment->is_damaged, 0);
    check("filling it");
}

static int is_empty(uint32_t slot)
{
    return sn_slot_state(&segment->slots[slot]) == SN_SLOT_EMPTY;
}

static void check_dropped(uint32_t slot, const char *change)
{
    const uint32_t all[] = {kept, staged, decoded, writing};

    sn_store_rebuild(segment);
    for (uint32_t i = 0; i < 4; i++)
        CHECK_EQUAL(is_empty(all[i]), all[i] == slot, "slot %u, after %s", all[i], change);
    check(change);
    segment->n_writing = n_writing;
}

#define IS_DROPPED(slot, change)                                                                                       \
    do {                                                                                                               \
        fill();                                                                                                        \
        sn_slot *record = &segment->slots[slot];                                                                       \
        record->change;                                                                                                \
        check_dropped(slot, #slot ": " #change);                                                                       \
    } while (0)

static void records_of_slots_that_cannot_be_are_dropped(void)
{
    IS_DROPPED(kept, state = SN_SLOT_FAILED + 1);
    IS_DROPPED(kept, form = SN_AUGMENTED);
    IS_DROPPED(staged, form = SN_ENCODED);
    IS_DROPPED(kept, form = SN_STORAGE);
    IS_DROPPED(kept, form = SN_FORMS);
    IS_DROPPED(kept, sample = SAMPLES);
    IS_DROPPED(kept, writer_row = SN_MAX_ROWS);
    IS_DROPPED(kept, length = 0);
    IS_DROPPED(decoded, length = 26);
    IS_DROPPED(kept, granule = GRANULES);
    IS_DROPPED(kept, granule = GRANULES - 1);
    IS_DROPPED(kept, granule = UINT32_MAX);
    IS_DROPPED(kept, granule = BACKED - 1);
    IS_DROPPED(decoded, granule = segment->slots[kept].granule + 1);
    fill();
    segment->n_writing = 0;
    check_dropped(writing, "a writing list without room");
    fill();
    check_dropped(SN_NONE, "nothing");
}

static void what_the_dead_were_writing_is_dropped(void)
{
    fill();
    sn_ledger(segment, row)[0] = 0;
    check_dropped(writing, "its writer is gone");
    fill();
    sn_slot_abort(&segment->slots[writing]);
    sn_store_rebuild(segment);
    CHECK_EQUAL(sn_slot_state(&segment->slots[writing]), SN_SLOT_FAILED, "it is held");
    sn_ledger(segment, row)[0] = 0;
    check_dropped(writing, "its writer had given it up");
}

#define ROW_IS_FREED(change)                                                                                           \
    do {                                                                                                               \
        sn_row *record = &segment->rows[DEAD];                                                                         \
        *record = (sn_row){.state = SN_ROW_LIVE, .kind = SN_ROW_HOLDER, .job = 7};                                     \
        sn_store_rebuild(segment);                                                                                     \
        CHECK_EQUAL(atomic_load(&record->state), SN_ROW_LIVE, "a rebuild asks nobody who lives");                      \
        record->change;                                                                                                \
        sn_store_rebuild(segment);                                                                                     \
        CHECK_EQUAL(atomic_load(&record->state), SN_ROW_FREE, "%s", #change);                                          \
        CHECK(!sn_bit_get(segment->head->live_rows, DEAD));                                                            \
        check(#change);                                                                                                \
    } while (0)

static void records_of_rows_that_cannot_be_are_freed(void)
{
    fill();
    ROW_IS_FREED(state = SN_ROW_LIVE + 1);
    ROW_IS_FREED(job = SN_MAX_JOBS);
    ROW_IS_FREED(kind = 0);
    ROW_IS_FREED(kind = SN_ROW_SUBSET + 1);
}

static void lines_of_ledgers_that_lead_nowhere_are_cleared(void)
{
    uint32_t *ledger = sn_ledger(segment, row), nobody = 0;

    fill();
    while (!is_empty(nobody))
        nobody++;
    ledger[2] = segment->n_slots + 1;
    ledger[3] = 1 + nobody;
    ledger[4] = UINT32_MAX;
    ledger[5] = 1 + kept;
    sn_store_rebuild(segment);
    CHECK(ledger[2] == 0 && ledger[3] == 0 && ledger[4] == 0);
    CHECK_EQUAL(ledger[5], 1 + kept, "it is held");
    CHECK_EQUAL(segment->slots[kept].pins, 1, "once");
    check("lines of the ledger");
}

static void tables_forget_the_dead(void)
{
    sn_digest_table *table = &segment->head->tables[1];
    const uint32_t takers[] = {0, 1 + row, 1 + DEAD, SN_MAX_ROWS + 1, UINT32_MAX};

    fill();
    for (uint32_t i = 0; i < 5; i++) {
        sn_bit_set(table->users, DEAD);
        sn_bit_set(table->users, row);
        table->taker = takers[i];
        sn_store_rebuild(segment);
        CHECK_EQUAL(table->taker, i < 2 ? takers[i] : 0, "taker %u", takers[i]);
        CHECK(!sn_bit_get(table->users, DEAD) && sn_bit_get(table->users, row));
    }
    memset(table, 0, sizeof *table);
}

/* -- What a call finds -- */

#define FINDS(change, call)                                                                                            \
    do {                                                                                                               \
        fill();                                                                                                        \
        change;                                                                                                        \
        call;                                                                                                          \
        CHECK_EQUAL(atomic_load(&segment->is_damaged), 1, "%s", #change);                                              \
        sn_store_rebuild(segment);                                                                                     \
        check(#change);                                                                                                \
    } while (0)

static uint32_t try_to_reserve(uint32_t length)
{
    sn_payload payload = {.sample = 9, .form = SN_ENCODED, .length = length};

    return sn_slot_reserve(segment, &payload, row);
}

static void links_that_lead_nowhere_are_found(void)
{
    sn_slot *slots = segment->slots;
    sn_list_head *lists = segment->head->lists;

    FINDS(segment->writing[lists[SN_LIST_WRITING].count - 1] = segment->n_slots, sn_slot_free(segment, writing));
    FINDS(slots[writing].list_prev = 1, sn_slot_free(segment, writing));
    FINDS(lists[SN_LIST_WRITING].count = 0, sn_slot_free(segment, writing));
    FINDS(slots[kept].list = SN_LISTS, sn_slot_move(segment, kept, SN_LIST_DECODED));
    FINDS(segment->first[3] = segment->n_slots, sn_slot_free(segment, kept));
    FINDS(segment->first[3] = slots[staged].next_of_sample = staged, sn_slot_free(segment, kept));
    FINDS(slots[kept].sample = SAMPLES, sn_slot_free(segment, kept));
    FINDS(slots[kept].form = SN_FORMS, sn_slot_free(segment, kept));
    FINDS(slots[kept].granule = GRANULES, sn_slot_free(segment, kept));
    FINDS(lists[SN_LIST_FREE_KEEP].head = segment->n_slots + 5, CHECK_EQUAL(try_to_reserve(10), SN_NONE, ""));
    FINDS(lists[SN_LIST_FREE_KEEP].head = kept, CHECK_EQUAL(try_to_reserve(10), SN_NONE, "it is READY"));
    FINDS(lists[SN_LIST_WRITING].count = n_writing + 1, CHECK_EQUAL(sn_slots_written(segment), 0, ""));
    FINDS(slots[writing].list_prev = 1, sn_slot_commit(segment, writing); sn_store_fold(segment));
    FINDS(segment->writing[0] = segment->n_slots, sn_slot_commit(segment, writing); sn_store_fold(segment));
    FINDS(slots[writing].sample = SAMPLES, sn_slot_commit(segment, writing); sn_store_fold(segment));
}

/* A link that is out of bounds counts as the end of a list where another slot is put beside it. */
static void links_out_of_bounds_are_ends(void)
{
    sn_list_head *lists = segment->head->lists;

    fill();
    lists[SN_LIST_DECODED].tail = segment->n_slots + 9;
    sn_slot_move(segment, kept, SN_LIST_DECODED);
    CHECK_EQUAL(lists[SN_LIST_DECODED].head, kept, "");
    fill();
    lists[SN_LIST_FREE_KEEP].head = SN_NONE;
    sn_slot_free(segment, kept);
    CHECK(lists[SN_LIST_FREE_KEEP].head == kept && lists[SN_LIST_FREE_KEEP].tail == kept);
    sn_store_rebuild(segment);
    check("ends of lists");
}

static void hints_of_slots_that_are_none_are_nothing(void)
{
    uint32_t groups = (uint32_t)(((uint64_t)segment->n_slots + SN_GROUP - 1) / SN_GROUP);

    fill();
    for (uint32_t word = 0; word < groups * (SN_GROUP / 64); word++)
        atomic_store(&segment->committed[word], ~(uint64_t)0);
    for (uint32_t word = 0; word < sn_bits_words(groups); word++)
        atomic_store(&segment->groups[word], ~(uint64_t)0);
    sn_store_fold(segment);
    CHECK_EQUAL(atomic_load(&segment->is_damaged), 0, "hints");
    CHECK_EQUAL(segment->slots[writing].list, SN_LIST_WRITING, "it is still written");
    sn_slot_commit(segment, writing);
    sn_store_fold(segment);
    CHECK_EQUAL(segment->slots[writing].list, SN_LIST_ENCODED, "it is folded in");
    check("hints");
}

static void what_has_no_room_is_not_reserved(void)
{
    fill();
    CHECK_EQUAL(try_to_reserve(GRANULES * SN_GRANULE), SN_NONE, "larger than all");
    CHECK_EQUAL(try_to_reserve(0), SN_NONE, "nothing");
    segment->n_writing = segment->head->lists[SN_LIST_WRITING].count;
    CHECK_EQUAL(try_to_reserve(10), SN_NONE, "the writing list is full");
    segment->n_writing = n_writing;
    uint32_t head = segment->head->lists[SN_LIST_FREE_KEEP].head;
    segment->head->lists[SN_LIST_FREE_KEEP].head = SN_NONE;
    CHECK_EQUAL(try_to_reserve(10), SN_NONE, "no slot is free");
    segment->head->lists[SN_LIST_FREE_KEEP].head = head;
    CHECK_EQUAL(atomic_load(&segment->is_damaged), 0, "all that may be");
    CHECK(try_to_reserve(10) < segment->n_slots);
}

/* -- Room -- */

static uint32_t count_free(void)
{
    uint32_t end = sn_usable_granules(segment->head), n = 0;

    end = end < GRANULES ? end : GRANULES;
    for (uint32_t granule = 0; granule < end; granule++)
        n += !sn_bit_get(segment->granules, granule);
    return n;
}

static void check_free(const char *after)
{
    CHECK_EQUAL(segment->head->granules_free, count_free(), "after %s", after);
}

/* Whatever the order in which runs are taken and given back. */
static void runs_are_taken_and_given_back(uint64_t seed)
{
    struct {
        uint32_t start, count;
        enum sn_form form;
    } runs[GRANULES];
    uint32_t n = 0, refused = 0;
    sn_rng rng;

    sn_rng_start(&rng, seed, 0, 0, 0, SN_STREAM_ORDER);
    fill();
    sn_space_clear(segment);
    for (uint32_t i = 0; i < 5000; i++) {
        uint32_t count = 1 + sn_rng_below(&rng, 9), end = sn_usable_granules(segment->head);
        enum sn_form form = sn_rng_below(&rng, 2) ? SN_AUGMENTED : SN_ENCODED;
        if (n < GRANULES && sn_rng_below(&rng, 2)) {
            uint32_t start = sn_space_take(segment, form, count);
            refused += start == SN_NONE;
            if (start != SN_NONE) {
                CHECK(start + count <= end);
                for (uint32_t k = 0; k < n; k++)
                    CHECK(start >= runs[k].start + runs[k].count || start + count <= runs[k].start);
                runs[n].start = start;
                runs[n].count = count;
                runs[n++].form = form;
            }
        } else if (n > 0) {
            uint32_t k = sn_rng_below(&rng, n);
            sn_space_give(segment, runs[k].form, runs[k].start, runs[k].count);
            runs[k] = runs[--n];
        }
        if (sn_rng_below(&rng, 40) == 0) {
            atomic_store(&segment->head->limit, 1 + sn_rng_below(&rng, GRANULES + 8));
            sn_space_resize(segment, end);
        }
        check_free("a step");
    }
    CHECK(refused > 0);
    atomic_store(&segment->head->limit, GRANULES);
}

/* A free run is found that ends where the search began. */
static void a_run_across_the_beginning_of_the_search_is_found(void)
{
    fill();
    sn_space_clear(segment);
    CHECK_EQUAL(sn_space_take(segment, SN_ENCODED, BACKED), 0, "all of it");
    CHECK_EQUAL(sn_space_take(segment, SN_ENCODED, 1), SN_NONE, "");
    sn_space_give(segment, SN_ENCODED, 10, 6);
    segment->head->keep_from = 13;
    CHECK_EQUAL(sn_space_take(segment, SN_ENCODED, 5), 10, "");
    sn_space_give(segment, SN_ENCODED, 20, 1);
    CHECK_EQUAL(sn_space_take(segment, SN_ENCODED, 2), SN_NONE, "two, but apart");
    CHECK_EQUAL(segment->head->largest_run, 1, "");
    CHECK_EQUAL(sn_space_take(segment, SN_ENCODED, 2), SN_NONE, "without a search");
    segment->head->stage_from = segment->head->keep_from = GRANULES + 3; /* beyond the end: from the beginning */
    CHECK_EQUAL(sn_space_take(segment, SN_AUGMENTED, 1), 15, "");
    sn_space_give(segment, SN_AUGMENTED, 15, 1);
    segment->head->keep_from = GRANULES + 3;
    CHECK_EQUAL(sn_space_take(segment, SN_ENCODED, 1), 15, "");
    CHECK_EQUAL(sn_space_mark(segment, SN_ENCODED, 20, 0), SN_FULL, "no granule");
    sn_space_give(segment, SN_ENCODED, 40, 8);
    atomic_store(&segment->head->limit, 44); /* what lies across the end is free below it alone */
    sn_space_resize(segment, BACKED);
    check_free("a lower limit");
    CHECK_EQUAL(sn_space_mark(segment, SN_ENCODED, 42, 4), 0, "what was written before the limit fell");
    check_free("a run across the end");
    CHECK_EQUAL(sn_space_mark(segment, SN_ENCODED, 46, 2), 0, "and behind it");
    check_free("a run behind the end");
    atomic_store(&segment->head->backed, GRANULES + 9); /* an overwritten word */
    atomic_store(&segment->head->limit, GRANULES + 9);
    sn_space_resize(segment, GRANULES + 9);
    sn_space_clear(segment);
    CHECK_EQUAL(segment->head->granules_free, GRANULES, "there are no more");
    fill();
}

int main(int argc, char **argv)
{
    const uint64_t job_key = 5, seed = check_seed(argc, argv);

    cache_make_part(&made, 1, &job_key, SAMPLES, GRANULES * SN_GRANULE, BACKED, split);
    segment = made.handles[0];
    row = made.rows[0];
    n_writing = segment->n_writing;
    CHECK_EQUAL(sn_store_enter(segment, CACHE_PATIENCE_MS), 0, "nobody else is here");
    records_of_slots_that_cannot_be_are_dropped();
    what_the_dead_were_writing_is_dropped();
    records_of_rows_that_cannot_be_are_freed();
    lines_of_ledgers_that_lead_nowhere_are_cleared();
    tables_forget_the_dead();
    links_that_lead_nowhere_are_found();
    links_out_of_bounds_are_ends();
    hints_of_slots_that_are_none_are_nothing();
    what_has_no_room_is_not_reserved();
    runs_are_taken_and_given_back(seed);
    a_run_across_the_beginning_of_the_search_is_found();
    fill();
    sn_store_leave(segment);
    cache_close(&made);
    return 0;
}
