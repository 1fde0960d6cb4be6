#include "sn_subsets.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../base/sn_rng.h"

uint32_t sn_subsets_key(const uint32_t *samples, uint32_t n)
{
    uint64_t sum = n;
    for (uint32_t i = 0; i < n; i++)
        sum += sn_mix64(samples[i] + 1ull);
    return (uint32_t)sn_mix64(sum);
}

static int is_known(const sn_subsets *subsets, uint32_t key)
{
    for (uint32_t i = 0; i < subsets->n; i++)
        if (subsets->keys[i] == key)
            return 1;
    return 0;
}

int sn_subsets_update(sn_subsets *subsets, const sn_segment *segment, uint64_t pipeline)
{
    const uint64_t *live = segment->head->live_rows;
    int met = 0;

    for (uint32_t row = sn_rows_next(live, 0); row < SN_MAX_ROWS && subsets->n < SN_MAX_SUBSETS;
         row = sn_rows_next(live, row + 1)) {
        const sn_row *record = &segment->rows[row];
        if (record->kind != SN_ROW_SUBSET || record->pipeline != pipeline || is_known(subsets, record->subset))
            continue;
        uint64_t *seen = malloc(segment->row_words * sizeof *seen);
        if (!seen)
            return -ENOMEM;
        memcpy(seen, sn_seen(segment, row), segment->row_words * sizeof *seen);
        subsets->keys[subsets->n] = record->subset;
        subsets->seen[subsets->n++] = seen;
        met++;
    }
    return met;
}

void sn_subsets_free(sn_subsets *subsets)
{
    while (subsets->n > 0)
        free(subsets->seen[--subsets->n]);
}
