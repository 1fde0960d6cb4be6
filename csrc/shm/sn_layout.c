#include "sn_layout.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "../base/sn_bits.h"
#include "../base/sn_status.h"

#define MAX_SAMPLES 0x7FFFFFFFu
#define PLANNED_BYTES (offsetof(sn_header, busy) - offsetof(sn_header, geometry))
#define MAX_PAYLOAD_BYTES ((uint64_t)0x7FFFFFFF * SN_GRANULE)

static uint64_t place(uint64_t *at, uint64_t bytes, uint64_t alignment)
{
    uint64_t start = (*at + alignment - 1) / alignment * alignment;
    *at = start + bytes;
    return start;
}

static uint32_t least(uint64_t a, uint64_t b)
{
    return (uint32_t)(a < b ? a : b);
}

int sn_layout_compute(const sn_geometry *geometry, sn_header *layout)
{
    uint64_t n = geometry->n_samples;
    uint64_t granules = (geometry->payload_bytes + SN_GRANULE - 1) / SN_GRANULE;
    if (n == 0 || n > MAX_SAMPLES || granules == 0 || geometry->payload_bytes > MAX_PAYLOAD_BYTES)
        return -EINVAL;

    memset(layout, 0, sizeof *layout);
    layout->layout_version = SN_LAYOUT_VERSION;
    layout->geometry = *geometry;
    layout->n_granules = (uint32_t)granules;
    /* No payload is smaller than a granule, so more slots than granules are of no use. Of a
     * sample there is at most one staged copy a pipeline that someone still wants, and two
     * kept payloads (jobs with different heads). */
    layout->n_stage = least(granules, n);
    layout->n_slots = layout->n_stage + least(granules, 2 * n);
    layout->n_ledger = least(SN_MAX_LEDGER, layout->n_slots);
    layout->n_writing = least(SN_MAX_WRITING, layout->n_slots);
    layout->row_words = (uint32_t)sn_bits_words(n);

    uint64_t at = sizeof(sn_header);
    layout->rows_at = place(&at, SN_MAX_ROWS * sizeof(sn_row), 64);
    layout->telemetry_at = place(&at, SN_MAX_ROWS * sizeof(sn_telemetry), 64);
    layout->traits_at = place(&at, SN_MAX_ROWS * sizeof(sn_traits), 64);
    layout->slots_at = place(&at, (uint64_t)layout->n_slots * sizeof(sn_slot), 64);
    layout->first_at = place(&at, n * 4, 64);
    layout->wants_at = place(&at, layout->n_stage, 64);
    layout->writing_at = place(&at, (uint64_t)layout->n_writing * 4, 64);
    uint64_t groups = ((uint64_t)layout->n_slots + SN_GROUP - 1) / SN_GROUP;
    layout->committed_at = place(&at, groups * SN_GROUP / 8, 64);
    layout->groups_at = place(&at, sn_bits_words(groups) * 8, 64);
    layout->granules_at = place(&at, sn_bits_words(granules) * 8, 64);
    layout->payload_at = place(&at, granules * SN_GRANULE, SN_GRANULE);
    layout->backed = geometry->first_granules ? least(geometry->first_granules, granules) : (uint32_t)granules;
    layout->limit = (uint32_t)granules;

    uint64_t in = (uint64_t)layout->n_ledger * 4; /* the ledger */
    layout->seen_in = place(&in, (uint64_t)layout->row_words * 8, 64);
    layout->eligible_in = place(&in, sn_bits_words(layout->n_stage) * 8, 64);
    layout->blocks_in = place(&in, sn_bits_blocks(layout->n_stage) * 4, 64);
    layout->timetable_in = place(&in, sizeof(sn_timetable) + n, 64);
    uint64_t page = layout->timetable_in < SN_HUGE_PAGE / 2 ? SN_GRANULE : SN_HUGE_PAGE;
    layout->area_bytes = (in + page - 1) / page * page;
    layout->areas_at = place(&at, SN_MAX_ROWS * layout->area_bytes, page);
    layout->digests_bytes = (n * sizeof(uint64_t) + SN_GRANULE - 1) / SN_GRANULE * SN_GRANULE;
    layout->digests_at = place(&at, SN_DIGEST_TABLES * layout->digests_bytes, SN_GRANULE);
    layout->segment_bytes = at;
    return 0;
}

int sn_layout_validate(const sn_header *found, uint64_t file_bytes)
{
    sn_header planned;

    if (file_bytes < sizeof(sn_header) || atomic_load(&found->magic) != SN_MAGIC)
        return SN_E_MAGIC;
    if (found->layout_version != SN_LAYOUT_VERSION)
        return SN_E_VERSION;
    if (sn_layout_compute(&found->geometry, &planned) != 0 || planned.segment_bytes != file_bytes)
        return SN_E_CORRUPT;
    planned.boot = found->boot;
    /* All that is planned is in one piece, from the geometry to the end of a row area, with no padding in it. */
    if (found->row_words != planned.row_words || memcmp(&found->geometry, &planned.geometry, PLANNED_BYTES) != 0)
        return SN_E_CORRUPT;
    if (atomic_load(&found->backed) > planned.n_granules || atomic_load(&found->limit) > planned.n_granules)
        return SN_E_CORRUPT;
    return 0;
}
