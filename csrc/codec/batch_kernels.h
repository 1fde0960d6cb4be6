/*
 * batch_kernels.h -- the inner loops of sn_batch_write(), in plain C and for AVX2.
 *
 *   RGBRGBRGB...  -->  planes RRR... GGG... BBB...   or   RGBRGBRGB... in floats
 *
 * Both give the same bits: (pixel / 255 - mean) / std, each step rounded to float, which is what
 * torchvision's ToTensor and Normalize compute. batch.c chooses; nobody else calls them.
 */
#ifndef SN_BATCH_KERNELS_H
#define SN_BATCH_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "simd.h"

typedef struct {
    void (*floats_planar)(const uint8_t *rgb, size_t n_pixels, const float mean[3],
                          const float std[3], float *out);
    void (*floats_packed)(const uint8_t *rgb, size_t n_pixels, const float mean[3],
                          const float std[3], float *out);
    void (*bytes_planar)(const uint8_t *rgb, size_t n_pixels, uint8_t *out);
} sn_batch_kernels;

extern const sn_batch_kernels sn_batch_plain;
#ifdef SN_HAVE_AVX2_CODE
extern const sn_batch_kernels sn_batch_avx2;
#endif

/* The one definition of a float of the batch. */
static inline float sn_normalised(uint8_t pixel, float mean, float std)
{
    return ((float)pixel / 255.0f - mean) / std;
}

#endif
