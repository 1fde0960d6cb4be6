/* batch.c -- sn_batch_write() of sn_codec.h, and its loops in plain C. */
#include <string.h>

#include "batch_kernels.h"
#include "sn_codec.h"

/* A pixel has 256 values: divide for each of them once and look the rest up. */
typedef struct {
    float value[3][256];
} table;

static void fill(table *t, const float mean[3], const float std[3])
{
    for (int c = 0; c < 3; c++)
        for (int pixel = 0; pixel < 256; pixel++)
            t->value[c][pixel] = sn_normalised((uint8_t)pixel, mean[c], std[c]);
}

static void floats_planar(const uint8_t *rgb, size_t n_pixels, const float mean[3],
                          const float std[3], float *out)
{
    table t;

    fill(&t, mean, std);
    for (size_t k = 0; k < n_pixels; k++, rgb += 3) {
        out[k] = t.value[0][rgb[0]];
        out[n_pixels + k] = t.value[1][rgb[1]];
        out[2 * n_pixels + k] = t.value[2][rgb[2]];
    }
}

static void floats_packed(const uint8_t *rgb, size_t n_pixels, const float mean[3],
                          const float std[3], float *out)
{
    table t;

    fill(&t, mean, std);
    for (size_t k = 0; k < n_pixels; k++, rgb += 3, out += 3) {
        out[0] = t.value[0][rgb[0]];
        out[1] = t.value[1][rgb[1]];
        out[2] = t.value[2][rgb[2]];
    }
}

static void bytes_planar(const uint8_t *rgb, size_t n_pixels, uint8_t *out)
{
    for (size_t k = 0; k < n_pixels; k++, rgb += 3) {
        out[k] = rgb[0];
        out[n_pixels + k] = rgb[1];
        out[2 * n_pixels + k] = rgb[2];
    }
}

const sn_batch_kernels sn_batch_plain = {floats_planar, floats_packed, bytes_planar};

void sn_batch_write(const sn_plan *plan, const uint8_t *augmented, uint32_t height, uint32_t width,
                    void *out)
{
    const sn_batch_kernels *kernel = &sn_batch_plain;
    size_t n = (size_t)height * width;

#ifdef SN_HAVE_AVX2_CODE
    if (sn_simd_avx2())
        kernel = &sn_batch_avx2;
#endif
    if (plan->dtype == SN_FLOAT32 && plan->channels_last)
        kernel->floats_packed(augmented, n, plan->mean, plan->std, out);
    else if (plan->dtype == SN_FLOAT32)
        kernel->floats_planar(augmented, n, plan->mean, plan->std, out);
    else if (plan->channels_last)
        memcpy(out, augmented, 3 * n);
    else
        kernel->bytes_planar(augmented, n, out);
}
