/*
 * colour_kernels.h -- the inner loops of sn_colour_run(), for the platform's baseline and for AVX2.
 *
 * colour_loops.h writes them once; each of colour.c and colour_avx2.c compiles that for its target.
 * No step is fused or reordered, so both give the same bits. colour.c chooses; only tests call them
 * otherwise. On ARM the baseline has NEON, and compilers make its vectors of these loops already.
 */
#ifndef SN_COLOUR_KERNELS_H
#define SN_COLOUR_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "simd.h"

typedef struct {
    uint64_t (*grey_sum)(const uint8_t *rgb, size_t n_pixels);
    void (*saturate)(uint8_t *rgb, size_t n_pixels, float factor);
    void (*turn_hue)(uint8_t *rgb, size_t n_pixels, uint8_t turn);
} sn_colour_kernels;

extern const sn_colour_kernels sn_colour_plain;
#ifdef SN_HAVE_AVX2_CODE
extern const sn_colour_kernels sn_colour_avx2;
#endif

/* Image.blend's arithmetic: from `toward`, with factor 0, to `value`, with factor 1, and beyond. */
static inline uint8_t sn_blended(float toward, float value, float factor)
{
    float x = toward + factor * (value - toward);

    x = x > 0 ? x : 0;
    return (uint8_t)(x < 255 ? x : 255);
}

#endif
