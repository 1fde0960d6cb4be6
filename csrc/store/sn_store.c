#include "sn_store.h"

#include <string.h>

#include "../base/sn_bits.h"
#include "../base/sn_clock.h"
#include "../base/sn_crash.h"
#include "../base/sn_prefetch.h"
#include "../base/sn_status.h"
#include "../slots/sn_slots.h"
#include "../slots/sn_space.h"
#include "sn_rebuild.h"
#include "sn_rows.h"
#include "sn_want.h"

#define MAX_FAILURES 3
#define PROBE_EVERY 4    /* sections of a process, or in its first of a second: it is a system call */
#define FOLD_AT_ONCE 256 /* so many records are on their way from memory together, and then who wants them */

int sn_store_entered(sn_segment *segment)
{
    sn_header *head = segment->head;

    if (atomic_load(&head->busy) && !atomic_load(&head->abandoned)) {
        /* Counted before it is tried: a rebuild that kills its process counts too. */
        if (atomic_fetch_add(&head->failures, 1) >= MAX_FAILURES) {
            atomic_store(&head->abandoned, SN_BROKEN);
        } else {
            SN_CRASH_POINT(rebuild_counted);
            sn_store_rebuild(segment);
            SN_CRASH_POINT(rebuild_over);
            atomic_store(&head->failures, 0);
        }
    }
    if (atomic_load(&head->abandoned)) {
        sn_lock_leave(segment);
        return SN_E_ABANDONED;
    }
    atomic_store(&head->busy, 1);
    SN_CRASH_POINT(entered);
    return 0;
}

int sn_store_enter(sn_segment *segment, int deadline_ms)
{
    int rc = sn_lock_enter(segment, deadline_ms);
    return rc == 0 ? sn_store_entered(segment) : rc;
}

void sn_store_leave(sn_segment *segment)
{
    if (SN_RARELY(atomic_load_explicit(&segment->is_damaged, memory_order_relaxed)))
        atomic_store_explicit(&segment->is_damaged, 0, memory_order_relaxed); /* and `busy` stays set */
    else
        atomic_store(&segment->head->busy, 0);
    SN_CRASH_POINT(left);
    sn_lock_leave(segment);
}

static void publish(sn_segment *segment, uint32_t slot)
{
    if (slot < segment->n_stage)
        sn_want_publish(segment, slot);
    else
        sn_slot_move(segment, slot, sn_list_of(segment->slots[slot].form));
}

/* From the end of the list backwards: what leaves it is replaced by one that was examined. */
void sn_store_fold(sn_segment *segment)
{
    uint64_t places[SN_MAX_WRITING / 64];
    uint32_t ready[FOLD_AT_ONCE], samples[FOLD_AT_ONCE];

    sn_slots_committed(segment, places);
    SN_CRASH_POINT(fold_took_bits);
    for (uint32_t end, left = sn_slots_written(segment); left > 0; left = end) {
        uint32_t n = 0;
        end = left > FOLD_AT_ONCE ? left - FOLD_AT_ONCE : 0;
        for (uint64_t at = sn_bits_next(places, end, left, 1); at < left; at = sn_bits_next(places, at + 1, left, 1)) {
            uint32_t slot = segment->writing[at];
            if (SN_RARELY(slot >= segment->n_slots) || SN_RARELY(segment->slots[slot].sample >= segment->n_samples)) {
                sn_segment_damaged(segment);
                continue;
            }
            ready[n] = slot;
            samples[n++] = segment->slots[slot].sample;
        }
        sn_want_prefetch(segment, samples, n);
        for (uint32_t i = 0; i < n; i++)
            publish(segment, ready[i]);
        SN_CRASH_POINT(fold_published);
    }
}

/* Whether the next one in turn, of those that are not this process's, has died. */
static int probe(sn_segment *segment)
{
    const uint64_t *live = segment->head->live_rows;
    uint32_t row = sn_rows_next(live, segment->next_probe);

    while (row < SN_MAX_ROWS && sn_row_is_own(segment, row))
        row = sn_rows_next(live, row + 1);
    segment->next_probe = row < SN_MAX_ROWS ? row + 1 : 0;
    return row < SN_MAX_ROWS && !sn_row_is_alive(segment, row);
}

static int is_time_to_probe(sn_segment *segment)
{
    int64_t now_s = sn_now_ms(CLOCK_MONOTONIC_COARSE) / 1000;

    if (segment->sections++ % PROBE_EVERY != 0 && segment->probed_at == now_s)
        return 0;
    segment->probed_at = now_s;
    return 1;
}

uint32_t sn_store_reap(sn_segment *segment, int all)
{
    const uint64_t *live = segment->head->live_rows;
    uint32_t dead = 0;

    if (!all && (!is_time_to_probe(segment) || !probe(segment)))
        return 0;
    /* Jobs die together: examine everybody, and rebuild once. */
    for (uint32_t row = sn_rows_next(live, 0); row < SN_MAX_ROWS; row = sn_rows_next(live, row + 1)) {
        if (sn_row_is_alive(segment, row))
            continue;
        atomic_store_explicit(&segment->rows[row].state, SN_ROW_FREE, memory_order_release);
        SN_CRASH_POINT(reap_freed);
        dead++;
    }
    /* Deaths are rare: the one answer to a crash serves here too. */
    if (dead)
        sn_store_rebuild(segment);
    return dead;
}

int sn_store_change_split(sn_segment *segment, const uint32_t split[SN_FORMS], uint32_t after, const char *why)
{
    sn_header *head = segment->head;
    sn_change *change = &head->changes[after % SN_CHANGES];

    if (head->n_changes != after)
        return SN_MISS;
    memset(change, 0, sizeof *change);
    change->when = (uint64_t)time(NULL);
    memcpy(change->split, split, sizeof change->split);
    SN_CRASH_POINT(split_written);
    strncpy(change->why, why, sizeof change->why - 1);
    SN_CRASH_POINT(split_explained);
    atomic_store_explicit(&head->n_changes, after + 1, memory_order_release);
    SN_CRASH_POINT(split_counted);
    sn_rows_derive_budgets(segment);
    return 0;
}

static uint32_t count(const uint64_t *set)
{
    uint32_t n = 0;
    for (uint32_t row = sn_rows_next(set, 0); row < SN_MAX_ROWS; row = sn_rows_next(set, row + 1))
        n++;
    return n;
}

void sn_store_read_stats(sn_segment *segment, sn_store_stats *stats)
{
    const sn_header *head = segment->head;
    const uint64_t *live = head->live_rows;
    uint64_t jobs = 0, taken = 0;

    sn_store_reap(segment, 1);
    sn_store_fold(segment);
    *stats = (sn_store_stats){
        .payload_bytes = (uint64_t)atomic_load(&head->limit) * SN_GRANULE,
        .reserved_bytes = (uint64_t)sn_usable_granules(head) * SN_GRANULE,
        .writing = head->lists[SN_LIST_WRITING].count,
        .members = count(head->member_rows),
    };
    for (int form = 0; form < SN_FORMS; form++) {
        stats->bytes_of[form] = (uint64_t)head->granules_of[form] * SN_GRANULE;
        stats->budget_of[form] = (uint64_t)head->budget_of[form] * SN_GRANULE;
        taken += stats->bytes_of[form];
    }
    stats->free_bytes = taken < stats->payload_bytes ? stats->payload_bytes - taken : 0;
    for (int k = 0; k < SN_KEPT_FORMS; k++)
        stats->slots_of[sn_kept_forms[k]] = head->lists[sn_list_of(sn_kept_forms[k])].count;
    for (uint32_t want = 0; want <= SN_MAX_ROWS; want++)
        stats->slots_of[SN_AUGMENTED] += head->lists[SN_LIST_WANT + want].count;
    for (uint32_t row = sn_rows_next(live, 0); row < SN_MAX_ROWS; row = sn_rows_next(live, row + 1)) {
        jobs |= (uint64_t)1 << segment->rows[row].job;
        stats->processes += segment->rows[row].kind == SN_ROW_HOLDER;
    }
    stats->jobs = (uint32_t)__builtin_popcountll(jobs);

    uint32_t changes = atomic_load(&head->n_changes);
    stats->n_changes = changes < SN_CHANGES ? changes : SN_CHANGES;
    memcpy(stats->split, sn_split(head), sizeof stats->split);
    for (uint32_t i = 0; i < stats->n_changes; i++)
        stats->changes[i] = head->changes[(changes - stats->n_changes + i) % SN_CHANGES];
}
