/*
 * grid_kernels.h -- the inner loops of grid.c, for the platform's baseline and for AVX2.
 *
 * grid_loops.h writes them once; each of grid.c and grid_avx2.c compiles that for its target. No step is fused
 * or reordered, so both give the same bits. grid.c chooses; only tests call them otherwise.
 */
#ifndef SN_GRID_KERNELS_H
#define SN_GRID_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "simd.h"

typedef struct {
    /* `n` numbers in [-1, 1), of a key; a multiple of SN_NOISE_BLOCK of them may be written. */
    void (*noise)(const uint32_t key[2], float *numbers, size_t n);

    /* Sums of a row and its neighbours `radius` rows above and below, each with its weight. */
    void (*down)(const float *weights, uint32_t radius, const float *middle, const float *const *above,
                 const float *const *below, float *restrict sums, size_t n);

    /* Sums of numbers and their neighbours `radius` to the left and right, which are readable. */
    void (*across)(const float *weights, uint32_t radius, const float *row, float *restrict sums, size_t n);

    /* A row of `n` pixels, at these places, in units of pixels from the first one's middle. `fill`: NULL for
     * zeros, which are not blended. `from` may be read four bytes beyond its end. */
    void (*look_up)(int nearest, const uint8_t *fill, const float *xs, const float *ys, const uint8_t *from,
                    uint32_t height, uint32_t width, uint8_t *to, size_t n);
} sn_grid_kernels;

#define SN_NOISE_BLOCK 32 /* numbers */

extern const sn_grid_kernels sn_grid_plain;
#ifdef SN_HAVE_AVX2_CODE
extern const sn_grid_kernels sn_grid_avx2;
#endif

#endif
