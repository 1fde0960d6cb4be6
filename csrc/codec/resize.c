#include "resize.h"

#include <string.h>

#include "../base/sn_status.h"
#include "resize_kernels.h"

static const sn_resize_kernels *kernels(void)
{
#ifdef SN_HAVE_SIMD_CODE
    if (sn_simd_usable())
        return &sn_resize_simd;
#endif
    return &sn_resize_plain;
}

int sn_resizer_prepare(sn_resizer *resizer, const sn_axis *down, const sn_axis *across)
{
    int rc = sn_taps_build(&resizer->down, down);

    if (rc == SN_OK)
        rc = sn_taps_build(&resizer->across, across);
    if (rc == SN_OK && kernels()->wants_blocks)
        rc = sn_taps_build_blocks(&resizer->across);
    return rc;
}

int sn_resizer_run(sn_resizer *resizer, const sn_view *source, uint8_t *out, ptrdiff_t stride)
{
    const sn_resize_kernels *kernel = kernels();
    const sn_taps *down = &resizer->down, *across = &resizer->across;
    uint32_t n_ring = down->width;
    size_t source_bytes = (size_t)source->width * 3, out_bytes = (size_t)across->count * 3;
    size_t ring_stride = (out_bytes + SN_ACROSS_WRITES_PAST + 31) / 32 * 32;
    size_t padded = source_bytes + SN_ACROSS_READS_PAST;
    const uint8_t *source_end = source->pixels + (source->height - 1) * source->stride + source_bytes;
    const int16_t *weight = down->weight;
    const uint8_t **rows;
    uint8_t *ring, *last_row;
    uint32_t ready = 0; /* source rows that are past the ring */
    int rc;

    rc = sn_buffer_reserve(&resizer->ring, n_ring * (sizeof *rows + ring_stride) + padded);
    if (rc != SN_OK)
        return rc;
    rows = (const uint8_t **)resizer->ring.data;
    ring = (uint8_t *)(rows + n_ring);
    last_row = ring + n_ring * ring_stride;

    for (uint32_t y = 0; y < down->count; y++, weight += down->width, out += stride) {
        uint32_t first = down->start[y], n = down->used[y];

        if (ready < first)
            ready = first;
        for (; ready < first + n; ready++) {
            const uint8_t *row = source->pixels + ready * source->stride;

            if ((size_t)(source_end - row) < padded) {
                /* A vector read at the end of the picture would leave the caller's memory. */
                memcpy(last_row, row, source_bytes);
                row = last_row;
            }
            kernel->across(across, row, ring + ready % n_ring * ring_stride);
        }
        for (uint32_t k = 0; k < n; k++)
            rows[k] = ring + (first + k) % n_ring * ring_stride;
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
