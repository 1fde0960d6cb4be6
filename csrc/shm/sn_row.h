/*
 * sn_row.h -- a row's own memory, and sets of rows.
 *
 *   ledger | seen | eligible, counts | timetable      of one row, in its row area; see sn_layout.h
 *
 * This header only says where things are. What they mean, and who may write them, the files say that change them:
 * sn_rows.h the ledger, sn_want.h the seen bits and the eligible vector, sn_next_use.h the timetable.
 *
 * Lives in   the segment; the functions answer pointers into the mapping, which are good as long as the handle is.
 * Callers    the lock holder, and whoever may read that memory without the lock.
 * Blocking   never.
 */
#ifndef SN_ROW_H
#define SN_ROW_H

#include "../base/sn_bits.h"
#include "sn_segment.h"

/* Walk the rows in a set: for (r = sn_rows_next(set, 0); r < SN_MAX_ROWS; r = sn_rows_next(set, r + 1)) */
static inline uint32_t sn_rows_next(const uint64_t set[SN_MAX_ROWS / 64], uint32_t from)
{
    for (; from < SN_MAX_ROWS; from = (from | 63) + 1) {
        uint64_t bits = set[from / 64] >> (from % 64);
        if (bits)
            return from + (uint32_t)__builtin_ctzll(bits);
    }
    return SN_MAX_ROWS;
}

/* Its n_ledger lines: 0, or 1 + the slot that the row holds. */
static inline uint32_t *sn_ledger(const sn_segment *segment, uint32_t row)
{
    return (uint32_t *)(segment->areas + row * segment->area_bytes);
}

/* A bit a sample: taken by this member, or not its dataset's. Not there for a row of kind SN_ROW_HOLDER. */
static inline uint64_t *sn_seen(const sn_segment *segment, uint32_t row)
{
    return (uint64_t *)(segment->areas + row * segment->area_bytes + segment->seen_in);
}

/* A bit a staged slot: this member can use the copy in it. Likewise. */
static inline sn_counted sn_eligible(const sn_segment *segment, uint32_t row)
{
    uint8_t *area = segment->areas + row * segment->area_bytes;
    return (sn_counted){.words = (uint64_t *)(area + segment->eligible_in),
                        .blocks = (uint32_t *)(area + segment->blocks_in),
                        .total = &segment->rows[row].eligible,
                        .n_blocks = (uint32_t)sn_bits_blocks(segment->n_stage)};
}

/* Memory only where the member has made one. */
static inline sn_timetable *sn_timetable_of(const sn_segment *segment, uint32_t row)
{
    return (sn_timetable *)(segment->areas + row * segment->area_bytes + segment->timetable_in);
}

#endif
