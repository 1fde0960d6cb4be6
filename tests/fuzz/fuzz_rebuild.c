/*
 * fuzz_rebuild.c -- the holder of the lock has died, and of the records any may be wrong: the next process rebuilds.
 *
 *   act | edits of a valid segment --> enter, which rebuilds --> what is derived agrees --> act --> it agrees again
 */
#include "base/sn_status.h"
#include "check.h"
#include "fuzz.h"
#include "records.h"
#include "segment.h"
#include "store/sn_check.h"
#include "store/sn_store.h"

#define PATIENCE_MS 5000
#define STEPS 10

void fuzz_begin(void)
{
    segment_begin();
}

void fuzz_one(const uint8_t *bytes, size_t length)
{
    uint8_t act = fuzz_byte(&bytes, &length);
    sn_segment *segment = segment_world.hosts[0].segment;
    char why[256] = "";
    sn_store_stats stats;

    segment_edit(bytes, length);
    atomic_store(&segment->head->busy, 1);
    int rc = sn_store_enter(segment, PATIENCE_MS);
    CHECK(rc == 0 || (rc == SN_E_ABANDONED && atomic_load(&segment->head->abandoned) != 0));
    if (rc == 0) {
        CHECK_EQUAL(sn_store_check(segment, why, sizeof why), 0, "%s", why);
        sn_store_reap(segment, 1);
        CHECK_EQUAL(sn_store_check(segment, why, sizeof why), 0, "after the dead are reaped: %s", why);
        sn_store_read_stats(segment, &stats);
        CHECK(stats.free_bytes <= stats.payload_bytes);
        sn_store_leave(segment);
        guest host = segment_host(act / GUEST_ACTS % WORLD_HANDLES, act);
        guest_act(&host, act % GUEST_ACTS, STEPS);
        records_check_rebuilt(segment);
    }
    segment_restore();
}

picture_file fuzz_seed(uint32_t number, sn_rng *rng)
{
    uint8_t header = (uint8_t)number;

    return segment_seed(&header, 1, number, rng);
}
