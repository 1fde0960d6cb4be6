/*
 * blur_loops.h -- the bodies of blur_kernels.h, written so that a compiler makes vectors of them.
 *
 * Included by each file that compiles them, which says for which target:
 *   SN_LOOP            what stands before each function
 *   SN_BLUR_TABLE      the name of the table of functions
 */
#include "blur_kernels.h"
#include "colour_kernels.h"

#define BLOCK 512 /* bytes */

SN_LOOP static void down(const float *weights, uint32_t radius, const uint8_t *middle, const uint8_t *const *above,
                         const uint8_t *const *below, float *restrict sums, size_t n)
{
    for (size_t k = 0; k < n; k++)
        sums[k] = weights[0] * (float)middle[k];
    for (uint32_t j = 1; j <= radius; j++) {
        const uint8_t *a = above[j], *b = below[j];
        float weight = weights[j];

        for (size_t k = 0; k < n; k++)
            sums[k] += weight * (float)(a[k] + b[k]);
    }
}

SN_LOOP static void across(const float *weights, uint32_t radius, const float *row, float *restrict sums,
                           uint8_t *restrict out, size_t n)
{
    for (size_t k = 0; k < n; k++)
        sums[k] = weights[0] * row[k] + 0.5f;
    for (uint32_t j = 1; j <= radius; j++) {
        const float *a = row - 3 * (size_t)j, *b = row + 3 * (size_t)j;
        float weight = weights[j];

        for (size_t k = 0; k < n; k++)
            sums[k] += weight * (a[k] + b[k]);
    }
    for (size_t k = 0; k < n; k++) {
        int rounded = (int)sums[k];

        out[k] = (uint8_t)(rounded < 255 ? rounded : 255);
    }
}

/* Weights of 1 and 5 thirteenths in 8192ths, as Pillow-SIMD rounds them: 630 and 3151. */
SN_LOOP static void sharpen(float factor, const uint8_t *above, const uint8_t *row, const uint8_t *below,
                            uint8_t *restrict out, size_t n)
{
    for (size_t done = 0; done < n; done += BLOCK) {
        size_t count = n - done < BLOCK ? n - done : BLOCK;
        const uint8_t *a = above + done, *r = row + done, *b = below + done;
        uint16_t columns[BLOCK + 6];

        for (size_t k = 0; k < count + 6; k++) /* from three before the first to three behind the last */
            columns[k] = (uint16_t)(a[(ptrdiff_t)k - 3] + r[(ptrdiff_t)k - 3] + b[(ptrdiff_t)k - 3]);
        for (size_t k = 0; k < count; k++) {
            int nine = columns[k] + columns[k + 3] + columns[k + 6];
            int mean = (630 * nine + (3151 - 630) * r[k] + (1 << 12)) >> 13;

            out[done + k] = sn_blended((float)mean, (float)r[k], factor);
        }
    }
}

SN_LOOP static void box(const uint8_t *const *taps, uint32_t n_taps, uint32_t inner, uint32_t outer, uint8_t *out,
                        size_t n)
{
    const uint8_t *first = taps[0], *last = taps[n_taps - 1];

    for (size_t done = 0; done < n; done += BLOCK) {
        size_t count = n - done < BLOCK ? n - done : BLOCK;
        uint16_t sums[BLOCK] = {0};

        for (uint32_t j = 1; j + 1 < n_taps; j++) {
            const uint8_t *tap = taps[j] + done;

            for (size_t k = 0; k < count; k++)
                sums[k] = (uint16_t)(sums[k] + tap[k]);
        }
        for (size_t k = 0; k < count; k++) {
            uint32_t ends = (uint32_t)first[done + k] + last[done + k];

            out[done + k] = (uint8_t)((sums[k] * inner + ends * outer + (1u << 23)) >> 24);
        }
    }
}

const sn_blur_kernels SN_BLUR_TABLE = {down, across, sharpen, box};
