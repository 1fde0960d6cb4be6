#include "blur.h"

#include <math.h>
#include <string.h>

#include "../../base/sn_status.h"

#define SN_LOOP
#define SN_BLUR_TABLE sn_blur_plain

#include "../kernels/blur_loops.h"

#define MAX_RADIUS (SN_BLUR_MAX_KERNEL / 2)
#define SOFTEN_TIMES 3 /* odd */

static const sn_blur_kernels *kernels(void)
{
#ifdef SN_HAVE_AVX2_CODE
    if (sn_simd_usable())
        return &sn_blur_avx2;
#endif
    return &sn_blur_plain;
}

void sn_blur_weigh(double sigma, uint32_t radius, float *weights)
{
    double sum = 0;

    for (uint32_t j = 0; j <= radius; j++)
        sum += (j == 0 ? 1 : 2) * exp(-0.5 * (j / sigma) * (j / sigma));
    for (uint32_t j = 0; j <= radius; j++)
        weights[j] = (float)(exp(-0.5 * (j / sigma) * (j / sigma)) / sum);
}

uint32_t sn_blur_mirrored(int64_t index, uint32_t count)
{
    int64_t period = 2 * ((int64_t)count - 1);

    if (period == 0)
        return 0;
    index %= period;
    index += index < 0 ? period : 0;
    return (uint32_t)(index < count ? index : period - index);
}

int sn_blur_run(const sn_blur *blur, const uint8_t *from, uint8_t *to, uint32_t height, uint32_t width,
                sn_buffer *scratch)
{
    uint32_t vertical = blur->height / 2, horizontal = blur->width / 2;
    size_t stride = (size_t)3 * width, margin = (size_t)3 * horizontal;
    float down_weights[MAX_RADIUS + 1], across_weights[MAX_RADIUS + 1], *row, *sums;
    const uint8_t *above[MAX_RADIUS + 1], *below[MAX_RADIUS + 1];
    int rc = sn_buffer_reserve(scratch, (2 * stride + 2 * margin) * sizeof(float));

    if (rc != SN_OK)
        return rc;
    row = (float *)(void *)scratch->data + margin;
    sums = row + stride + margin;
    sn_blur_weigh(blur->sigma, vertical, down_weights);
    sn_blur_weigh(blur->sigma, horizontal, across_weights);
    for (uint32_t y = 0; y < height; y++, to += stride) {
        for (uint32_t j = 1; j <= vertical; j++) {
            above[j] = from + stride * sn_blur_mirrored((int64_t)y - j, height);
            below[j] = from + stride * sn_blur_mirrored((int64_t)y + j, height);
        }
        kernels()->down(down_weights, vertical, from + stride * y, above, below, row, stride);
        for (uint32_t j = 1; j <= horizontal; j++) {
            memcpy(row - 3 * (size_t)j, row + 3 * (size_t)sn_blur_mirrored(-(int64_t)j, width), 3 * sizeof(float));
            memcpy(row + stride + 3 * (size_t)(j - 1),
                   row + 3 * (size_t)sn_blur_mirrored((int64_t)width - 1 + j, width), 3 * sizeof(float));
        }
        kernels()->across(across_weights, horizontal, row, sums, to, stride);
    }
    return SN_OK;
}

void sn_sharpen(float factor, const uint8_t *from, uint8_t *to, uint32_t height, uint32_t width)
{
    size_t stride = (size_t)3 * width;

    memcpy(to, from, stride * height);
    if (height < 3 || width < 3)
        return;
    for (uint32_t y = 1; y + 1 < height; y++) {
        const uint8_t *row = from + stride * y + 3;

        kernels()->sharpen(factor, row - stride, row, row + stride, to + stride * y + 3, stride - 6);
    }
}

/* A box of whole pixels, with a share of one more on both sides, whose repetition is nearest to the normal
 * distribution: Gwosdek and others (2011), as Pillow computes it in single floats. */
static float box_radius(float deviation)
{
    float of_one = deviation * deviation / SOFTEN_TIMES, length = (float)sqrt(12.0 * (double)of_one + 1.0);
    float whole = (float)floor(((double)length - 1.0) / 2.0);
    float share = (2 * whole + 1) * (whole * (whole + 1) - 3 * of_one);

    return whole + share / (6 * (of_one - (whole + 1) * (whole + 1)));
}

int sn_soften(float deviation, const uint8_t *from, uint8_t *to, uint32_t height, uint32_t width, sn_buffer *scratch)
{
    float radius = box_radius(deviation);
    uint32_t whole = (uint32_t)radius, reach = whole + 1, n_taps = 2 * reach + 1;
    uint32_t inner = (uint32_t)((float)(1 << 24) / (radius * 2 + 1));
    uint32_t outer = ((1 << 24) - (2 * whole + 1) * inner) / 2;
    size_t stride = (size_t)3 * width, margin = (size_t)3 * reach;
    const uint8_t *taps[2 * (SN_SOFTEN_MAX_REACH) + 1];
    uint8_t *padded, *other;
    int rc = sn_buffer_reserve(scratch, stride * height + stride + 2 * margin);

    if (rc != SN_OK)
        return rc;
    other = scratch->data;
    padded = other + stride * height + margin;
    for (uint32_t y = 0; y < height; y++) {
        uint8_t *row = other + stride * y;

        memcpy(row, from + stride * y, stride);
        for (int turn = 0; turn < SOFTEN_TIMES; turn++) {
            memcpy(padded, row, stride);
            for (uint32_t j = 1; j <= reach; j++) {
                memcpy(padded - 3 * (size_t)j, row, 3);
                memcpy(padded + stride + 3 * (size_t)(j - 1), row + stride - 3, 3);
            }
            for (uint32_t k = 0; k < n_taps; k++)
                taps[k] = padded + 3 * (ptrdiff_t)k - (ptrdiff_t)margin;
            kernels()->box(taps, n_taps, inner, outer, row, stride);
        }
    }
    /* There, back and there again. */
    for (int turn = 0; turn < SOFTEN_TIMES; turn++) {
        const uint8_t *source = turn % 2 ? to : other;
        uint8_t *made = turn % 2 ? other : to;

        for (uint32_t y = 0; y < height; y++) {
            for (uint32_t k = 0; k < n_taps; k++) {
                int64_t line = (int64_t)y + k - reach;

                line = line < 0 ? 0 : line < (int64_t)height ? line : (int64_t)height - 1;
                taps[k] = source + stride * (size_t)line;
            }
            kernels()->box(taps, n_taps, inner, outer, made + stride * y, stride);
        }
    }
    return SN_OK;
}
