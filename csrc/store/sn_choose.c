#include "sn_choose.h"

#include "../slots/sn_slots.h"
#include "sn_want.h"

#define READ_AHEAD (SN_CHOSEN / 2)

static void choose(sn_segment *segment, uint32_t row, sn_rng *rng, sn_chosen *chosen)
{
    sn_counted eligible = sn_eligible(segment, row);
    uint32_t slot = sn_counted_select(eligible, sn_rng_below(rng, *eligible.total));

    sn_counted_clear(eligible, slot);
    __builtin_prefetch(&segment->slots[slot]);
    chosen->slots[chosen->last++ % SN_CHOSEN] = slot;
}

/* The record has arrived: ask for what serving the copy touches. */
static void foresee(const sn_segment *segment, uint32_t row, const uint64_t *taken, uint32_t slot)
{
    uint32_t sample = segment->slots[slot].sample;

    sn_slot_foresee(segment, slot);
    __builtin_prefetch(&sn_seen(segment, row)[sample >> 6]);
    __builtin_prefetch(&taken[sample >> 6]);
}

/* The oldest chosen; SN_NONE where another copy of its sample was served meanwhile. */
static uint32_t put_back(sn_segment *segment, uint32_t row, sn_chosen *chosen)
{
    uint32_t slot = chosen->slots[chosen->first++ % SN_CHOSEN];
    return sn_want_restore(segment, row, slot) ? slot : SN_NONE;
}

uint32_t sn_choose_next(sn_segment *segment, uint32_t row, const uint64_t *taken, sn_rng *rng, uint32_t wanted,
                        sn_chosen *chosen)
{
    uint32_t most = wanted < SN_CHOSEN ? wanted : SN_CHOSEN;
    uint32_t slot = SN_NONE;

    while (slot == SN_NONE) {
        while (chosen->last - chosen->first < most && *sn_eligible(segment, row).total > 0)
            choose(segment, row, rng, chosen);
        if (chosen->first == chosen->last)
            return SN_NONE;
        while (chosen->foreseen < chosen->last && chosen->foreseen <= chosen->first + READ_AHEAD)
            foresee(segment, row, taken, chosen->slots[chosen->foreseen++ % SN_CHOSEN]);
        slot = put_back(segment, row, chosen);
    }
    return slot;
}

void sn_choose_end(sn_segment *segment, uint32_t row, sn_chosen *chosen)
{
    while (chosen->first < chosen->last)
        put_back(segment, row, chosen);
    chosen->foreseen = chosen->last;
}
