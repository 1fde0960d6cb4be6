#include "blur.h"

#include <math.h>
#include <string.h>

#include "../base/sn_status.h"

#define SN_LOOP
#define SN_BLUR_TABLE sn_blur_plain

#include "blur_loops.h"

#define MAX_RADIUS (SN_BLUR_MAX_KERNEL / 2)

static const sn_blur_kernels *kernels(void)
{
#ifdef SN_HAVE_AVX2_CODE
    if (sn_simd_usable())
        return &sn_blur_avx2;
#endif
    return &sn_blur_plain;
}

/* The weight of the middle, and of the neighbours at each distance; all of them add up to 1. */
static void weigh(double sigma, uint32_t radius, float *weights)
{
    double sum = 0;

    for (uint32_t j = 0; j <= radius; j++)
        sum += (j == 0 ? 1 : 2) * exp(-0.5 * (j / sigma) * (j / sigma));
    for (uint32_t j = 0; j <= radius; j++)
        weights[j] = (float)(exp(-0.5 * (j / sigma) * (j / sigma)) / sum);
}

/* The index in 0 ... count - 1 that a mirrored one stands for. */
static uint32_t mirrored(int64_t index, uint32_t count)
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
    weigh(blur->sigma, vertical, down_weights);
    weigh(blur->sigma, horizontal, across_weights);
    for (uint32_t y = 0; y < height; y++, to += stride) {
        for (uint32_t j = 1; j <= vertical; j++) {
            above[j] = from + stride * mirrored((int64_t)y - j, height);
            below[j] = from + stride * mirrored((int64_t)y + j, height);
        }
        kernels()->down(down_weights, vertical, from + stride * y, above, below, row, stride);
        for (uint32_t j = 1; j <= horizontal; j++) {
            memcpy(row - 3 * (size_t)j, row + 3 * (size_t)mirrored(-(int64_t)j, width), 3 * sizeof(float));
            memcpy(row + stride + 3 * (size_t)(j - 1),
                   row + 3 * (size_t)mirrored((int64_t)width - 1 + j, width), 3 * sizeof(float));
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
