#include "sn_backing.h"

#include "../base/sn_crash.h"
#include "../base/sn_status.h"
#include "../slots/sn_space.h"
#include "sn_rows.h"
#include "sn_store.h"

static uint32_t load(const _Atomic uint32_t *count)
{
    return atomic_load_explicit(count, memory_order_relaxed);
}

/* Under the lock: what is given out ends elsewhere. The count is truth and changes first, in one store. */
static void set(sn_segment *segment, _Atomic uint32_t *count, uint32_t granules)
{
    uint32_t before = sn_usable_granules(segment->head);

    atomic_store_explicit(count, granules, memory_order_relaxed);
    SN_CRASH_POINT(backing_counted);
    sn_space_resize(segment, before);
    SN_CRASH_POINT(backing_resized);
    sn_rows_derive_budgets(segment);
}

int sn_backing_grow(sn_segment *segment, uint32_t granules)
{
    sn_header *head = segment->head;
    uint32_t from = load(&head->backed), limit = load(&head->limit);
    limit = limit < segment->n_granules ? limit : segment->n_granules;

    if (from >= limit)
        return SN_MISS;
    uint32_t to = limit - from > granules ? from + granules : limit;
    int rc = sn_segment_back(segment, from, to);
    SN_CRASH_POINT(backing_has_memory);
    if (rc == 0)
        rc = sn_store_enter(segment, SN_LOCK_DEADLINE_MS);
    if (rc != 0)
        return rc;

    uint32_t now = load(&head->backed), least = load(&head->limit);
    least = least < segment->n_granules ? least : segment->n_granules;
    uint32_t end = to < least ? to : least;
    if (now == from && end > from)
        set(segment, &head->backed, end);
    else
        rc = SN_BUSY;
    now = load(&head->backed);
    sn_store_leave(segment);

    /* The limit fell meanwhile. The space behind it and behind the count was never given out, nor will it be. */
    uint32_t unused = least > now ? least : now;
    if (unused < to)
        sn_segment_punch(segment, unused, to);
    return rc;
}

void sn_backing_set_limit(sn_segment *segment, uint32_t granules)
{
    set(segment, &segment->head->limit, granules);
}

int sn_backing_stop(sn_segment *segment)
{
    sn_header *head = segment->head;
    int rc = sn_store_enter(segment, SN_LOCK_DEADLINE_MS);

    if (rc != 0)
        return rc;
    uint32_t backed = load(&head->backed);
    if (backed < load(&head->limit))
        sn_backing_set_limit(segment, backed);
    else
        rc = SN_MISS;
    sn_store_leave(segment);
    return rc;
}
