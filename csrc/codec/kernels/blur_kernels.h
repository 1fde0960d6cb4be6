/*
 * blur_kernels.h -- the inner loops of blur.h, for the platform's baseline and for AVX2.
 *
 * blur_loops.h writes them once; each of blur.c and blur_avx2.c compiles that for its target. No step is
 * fused or reordered, so both give the same bits. blur.c chooses; only tests call them otherwise.
 */
#ifndef SN_BLUR_KERNELS_H
#define SN_BLUR_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "simd.h"

typedef struct {
    /* sums[k] = weights[0] * middle[k] + weights[j] * (above[j][k] + below[j][k]), j from 1 to radius */
    void (*down)(const float *weights, uint32_t radius, const uint8_t *middle, const uint8_t *const *above,
                 const uint8_t *const *below, float *sums, size_t n);
    /* The same along a row, whose neighbours are 3 apart and of which 3 * radius stand on both sides of
     * `row`; rounded. `sums`, of n floats, is overwritten. */
    void (*across)(const float *weights, uint32_t radius, const float *row, float *sums, uint8_t *out, size_t n);
    /* n bytes of a row, each of which has three neighbours on both sides, and rows above and below. */
    void (*sharpen)(float factor, const uint8_t *above, const uint8_t *row, const uint8_t *below, uint8_t *out,
                    size_t n);
    /* n sums of taps, the first and the last times `outer`, the others times `inner`, in 24ths of bits, rounded. */
    void (*box)(const uint8_t *const *taps, uint32_t n_taps, uint32_t inner, uint32_t outer, uint8_t *out, size_t n);
} sn_blur_kernels;

extern const sn_blur_kernels sn_blur_plain;
#ifdef SN_HAVE_AVX2_CODE
extern const sn_blur_kernels sn_blur_avx2;
#endif

#endif
