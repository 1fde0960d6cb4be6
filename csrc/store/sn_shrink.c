#include "sn_shrink.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../base/sn_bits.h"
#include "../base/sn_crash.h"
#include "../base/sn_status.h"
#include "../slots/sn_slots.h"
#include "../slots/sn_space.h"
#include "sn_backing.h"
#include "sn_rows.h"
#include "sn_store.h"
#include "sn_want.h"

#define SLOTS_AT_ONCE 4096 /* are examined with the lock held: some tens of microseconds */
#define ATTACH_WAIT_MS 200 /* one try, as for who joins */

/* With the lock held. Answers whether the slot is in somebody's hands. */
static int evict(sn_segment *segment, uint32_t slot, uint32_t limit)
{
    const sn_slot *record = &segment->slots[slot];

    if (sn_slot_state(record) == SN_SLOT_EMPTY || record->granule + sn_granules_for(record->length) <= limit)
        return 0;
    if (record->list == SN_LIST_WRITING || record->pins > 0)
        return 1;
    if (record->list >= SN_LIST_WANT)
        sn_want_evict(segment, slot);
    else
        sn_slot_free(segment, slot);
    return 0;
}

static int evict_all(sn_segment *segment, uint32_t limit, uint32_t *left)
{
    *left = 0;
    for (uint32_t slot = 0; slot < segment->n_slots;) {
        int rc = sn_store_enter(segment, SN_LOCK_DEADLINE_MS);
        if (rc != 0)
            return rc;
        sn_store_fold(segment);
        for (uint32_t i = 0; i < SLOTS_AT_ONCE && slot < segment->n_slots; i++, slot++) {
            *left += (uint32_t)evict(segment, slot, limit);
            SN_CRASH_POINT(shrink_evicted);
        }
        sn_store_leave(segment);
    }
    return 0;
}

static int punch_free(sn_segment *segment, uint32_t limit)
{
    uint64_t first = limit / 64, words = sn_bits_words(segment->n_granules) - first;
    uint64_t *taken = malloc(words * sizeof *taken + 1);

    if (!taken)
        return -ENOMEM;
    int rc = sn_store_enter(segment, SN_LOCK_DEADLINE_MS);
    if (rc == 0) {
        memcpy(taken, segment->granules + first, words * sizeof *taken);
        sn_store_leave(segment);
        uint64_t end = segment->n_granules - first * 64;
        for (uint64_t at = limit - first * 64; (at = sn_bits_next(taken, at, end, 0)) < end;) {
            uint64_t stop = sn_bits_next(taken, at, end, 1);
            sn_segment_punch(segment, (uint32_t)(first * 64 + at), (uint32_t)(first * 64 + stop));
            SN_CRASH_POINT(shrink_punched);
            at = stop;
        }
    }
    free(taken);
    return rc;
}

int sn_shrink_pass(sn_segment *segment, uint32_t granules, sn_shrunk *found)
{
    int rc = sn_store_enter(segment, SN_LOCK_DEADLINE_MS);

    if (rc != 0)
        return rc;
    uint32_t limit = atomic_load_explicit(&segment->head->limit, memory_order_relaxed);
    limit = limit < segment->n_granules ? limit : segment->n_granules;
    *found = (sn_shrunk){.before = limit, .least = sn_rows_stage_need(segment)};
    if (granules < limit && granules < found->least) {
        rc = SN_FULL;
    } else if (granules < limit) {
        limit = granules;
        sn_backing_set_limit(segment, limit);
        SN_CRASH_POINT(shrink_limited);
    }
    sn_store_leave(segment);
    if (rc == 0)
        rc = evict_all(segment, limit, &found->left);
    if (rc == 0)
        rc = punch_free(segment, limit);
    return rc;
}

int sn_shrink(int fd, const char *path, uint32_t granules, sn_shrunk *found)
{
    sn_segment *segment;
    int rc = sn_segment_attach(fd, path, NULL, 0, ATTACH_WAIT_MS, NULL, NULL, &segment);

    if (rc == SN_ATTACH_JOINED) {
        rc = sn_store_entered(segment); /* the lock is held since it was attached */
        if (rc == 0) {
            sn_store_leave(segment);
            rc = sn_shrink_pass(segment, granules, found);
        }
    }
    sn_segment_close(segment);
    return rc;
}
