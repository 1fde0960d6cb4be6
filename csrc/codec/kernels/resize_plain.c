#include "resize_kernels.h"

static inline uint8_t clip(int32_t value)
{
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

static void across_one(const sn_taps *taps, const uint8_t *row, uint8_t *out)
{
    const int16_t *weight = taps->weight;
    int32_t half = 1 << (taps->shift - 1);

    for (uint32_t i = 0; i < taps->count; i++, weight += taps->width, out += 3) {
        const uint8_t *in = row + (size_t)taps->start[i] * 3;
        int32_t r = half, g = half, b = half;

        for (uint32_t k = 0; k < taps->used[i]; k++, in += 3) {
            r += weight[k] * in[0];
            g += weight[k] * in[1];
            b += weight[k] * in[2];
        }
        out[0] = clip(r >> taps->shift);
        out[1] = clip(g >> taps->shift);
        out[2] = clip(b >> taps->shift);
    }
}

static void across(const sn_taps *taps, const uint8_t *const *rows, uint8_t *const *outs, uint32_t n_rows)
{
    for (uint32_t i = 0; i < n_rows; i++)
        across_one(taps, rows[i], outs[i]);
}

/* A strip at a time, so that the sums stay in registers or at worst in the first-level cache and
 * the compiler can vectorise the loop over the strip. */
#define STRIP 64

static void down(const uint8_t *const *rows, const int16_t *weight, uint32_t n_rows, int shift, uint8_t *out,
                 size_t n_bytes)
{
    int32_t sums[STRIP];

    for (size_t at = 0; at < n_bytes; at += STRIP) {
        size_t n = n_bytes - at < STRIP ? n_bytes - at : STRIP;

        for (size_t k = 0; k < n; k++)
            sums[k] = 1 << (shift - 1);
        for (uint32_t i = 0; i < n_rows; i++)
            for (size_t k = 0; k < n; k++)
                sums[k] += weight[i] * rows[i][at + k];
        for (size_t k = 0; k < n; k++)
            out[at + k] = clip(sums[k] >> shift);
    }
}

const sn_resize_kernels sn_resize_plain = {across, down, NULL};
