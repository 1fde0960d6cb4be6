#include "resize.h"

#include <string.h>

#include "../../base/sn_status.h"
#include "../kernels/resize_kernels.h"

static const sn_resize_kernels *kernels(void)
{
#ifdef SN_HAVE_SIMD_CODE
    if (sn_simd_usable())
        return &sn_resize_simd;
#endif
    return &sn_resize_plain;
}

/* So many rows before they are used, rows are asked for: they may come from memory, which the
 * processor foresees within a row but not from row to row. Fewer or more made no difference. */
#define ROWS_AHEAD 8

/* From row `next` on; what to begin with the next time. */
static uint32_t fetch_rows(const sn_view *source, uint32_t next, uint32_t end)
{
    for (; next < end && next < source->height; next++)
        for (size_t at = 0; at < (size_t)source->width * 3; at += 64)
            __builtin_prefetch(source->pixels + next * source->stride + at);
    return next;
}

int sn_resizer_prepare(sn_resizer *resizer, const sn_axis *down, const sn_axis *across)
{
    int rc = sn_taps_build(&resizer->down, down);

    if (rc == SN_OK)
        rc = sn_taps_build(&resizer->across, across);
    if (rc == SN_OK && kernels()->lay_out != NULL)
        rc = kernels()->lay_out(&resizer->across);
    return rc;
}

/* The end of the source rows, `most` at most, that output rows from `y` on want without a gap. */
static uint32_t end_of_run(const sn_taps *down, uint32_t y, uint32_t begin, uint32_t most)
{
    uint32_t end = down->start[y] + down->used[y];

    while (++y < down->count && end < begin + most && down->start[y] <= end)
        if (down->start[y] + down->used[y] > end)
            end = down->start[y] + down->used[y];
    return end < begin + most ? end : begin + most;
}

int sn_resizer_run(sn_resizer *resizer, const sn_view *source, uint8_t *out, ptrdiff_t stride)
{
    const sn_resize_kernels *kernel = kernels();
    const sn_taps *down = &resizer->down, *across = &resizer->across;
    uint32_t n_ring = down->width + SN_ACROSS_ROWS - 1; /* rows that come early stay */
    size_t source_bytes = (size_t)source->width * 3, out_bytes = (size_t)across->count * 3;
    size_t ring_stride = (out_bytes + SN_ACROSS_WRITES_PAST + 31) / 32 * 32;
    size_t padded = source_bytes + sn_across_reads_past(across);
    const uint8_t *source_end = source->pixels + (source->height - 1) * source->stride + source_bytes;
    const int16_t *weight = down->weight;
    const uint8_t **rows;
    uint8_t *ring, *copies;
    uint32_t ready = 0, fetched = 0; /* source rows that are past the ring, past the fetching */
    int rc;

    rc = sn_buffer_reserve(&resizer->ring, n_ring * (sizeof *rows + ring_stride) + SN_ACROSS_ROWS * padded);
    if (rc != SN_OK)
        return rc;
    rows = (const uint8_t **)resizer->ring.data;
    ring = (uint8_t *)(rows + n_ring);
    copies = ring + n_ring * ring_stride;

    for (uint32_t y = 0; y < down->count; y++, weight += down->width, out += stride) {
        uint32_t first = down->start[y], n = down->used[y];

        if (ready < first)
            ready = first;
        fetched = fetch_rows(source, fetched < ready ? ready : fetched, first + n + ROWS_AHEAD);
        while (ready < first + n) {
            uint32_t end = end_of_run(down, y, ready, SN_ACROSS_ROWS);
            const uint8_t *from[SN_ACROSS_ROWS];
            uint8_t *to[SN_ACROSS_ROWS];
            uint32_t i;

            for (i = 0; ready < end; i++, ready++) {
                from[i] = source->pixels + ready * source->stride;
                /* A vector read at the end of the picture would leave the caller's memory. */
                if ((size_t)(source_end - from[i]) < padded)
                    from[i] = memcpy(copies + i * padded, from[i], source_bytes);
                to[i] = ring + ready % n_ring * ring_stride;
            }
            kernel->across(across, from, to, i);
        }
        for (uint32_t k = 0; k < n; k++)
            rows[k] = ring + (first + k) % n_ring * ring_stride;
        rows[n] = rows[n - 1]; /* if n is odd, which `down` asks for */
        kernel->down(rows, weight, n, down->shift, out, out_bytes);
    }
    return SN_OK;
}

void sn_resizer_release(sn_resizer *resizer)
{
    sn_taps_release(&resizer->down);
    sn_taps_release(&resizer->across);
    sn_buffer_release(&resizer->ring);
}
