#include "records.h"

#include <stddef.h>

#include "base/sn_bits.h"
#include "base/sn_status.h"
#include "check.h"
#include "shm/sn_row.h"
#include "store/sn_check.h"
#include "store/sn_store.h"

#define ROWS_LOOKED_AT 16u /* of the row areas: members have the last */
#define PATIENCE_MS 5000

uint32_t records_find(const sn_segment *segment, region found[RECORDS_MOST])
{
    const sn_header *head = segment->head;
    size_t areas = head->areas_at + (SN_MAX_ROWS - ROWS_LOOKED_AT) * head->area_bytes;
    const struct {
        const char *name;
        size_t at, end;
    } all[] = {
        {"the plan", 0, offsetof(sn_header, busy)},
        {"the header", offsetof(sn_header, busy), offsetof(sn_header, lists)},
        {"lists", offsetof(sn_header, lists), offsetof(sn_header, n_changes)},
        {"choices", offsetof(sn_header, n_changes), sizeof *head},
        {"rows", head->rows_at, head->rows_at + SN_MAX_ROWS * sizeof(sn_row)},
        {"telemetry", head->telemetry_at, head->slots_at},
        {"slots", head->slots_at, head->slots_at + segment->n_slots * sizeof(sn_slot)},
        {"first slots", head->first_at, head->wants_at},
        {"wants", head->wants_at, head->writing_at},
        {"the writing list", head->writing_at, head->committed_at},
        {"committed bits", head->committed_at, head->granules_at},
        {"the granule map", head->granules_at, head->granules_at + sn_bits_words(segment->n_granules) * 8},
        {"row areas of members", areas, areas + ROWS_LOOKED_AT * head->area_bytes},
        {"row areas of processes", head->areas_at, head->areas_at + 4 * head->area_bytes},
    };
    uint32_t n = sizeof all / sizeof *all;

    _Static_assert(sizeof all / sizeof *all <= RECORDS_MOST, "there is room for all");
    for (uint32_t i = 0; i < n; i++) {
        CHECK(all[i].end > all[i].at);
        found[i] = (region){all[i].name, all[i].at, all[i].end - all[i].at};
    }
    return n;
}

void records_check_rebuilt(sn_segment *segment)
{
    char why[256] = "";

    atomic_store(&segment->head->busy, 1);
    int rc = sn_store_enter(segment, PATIENCE_MS);
    CHECK(rc == 0 || (rc == SN_E_ABANDONED && atomic_load(&segment->head->abandoned) != 0));
    if (rc != 0)
        return;
    CHECK_EQUAL(sn_store_check(segment, why, sizeof why), 0, "%s", why);
    sn_store_leave(segment);
}
