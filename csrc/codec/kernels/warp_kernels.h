/*
 * warp_kernels.h -- the inner loops of sn_warp_run() that weigh pixels, for the platform's baseline and
 * for AVX2.
 *
 * warp.c has the first, which weighs each pixel in doubles (warp_loops.h). warp_avx2.c has the other, which weighs
 * in single floats the pixels whose bytes these decide for certain, and the rest in doubles too. Therefore both give
 * the same bytes. warp.c chooses; only tests call them otherwise.
 */
#ifndef SN_WARP_KERNELS_H
#define SN_WARP_KERNELS_H

#include <stdint.h>

#include "simd.h"

/* `from` may be read SN_WARP_SLACK bytes beyond its end (warp.h), and no further; nothing beyond other ends is. */
typedef void sn_warp_kernel(const double matrix[8], const uint8_t fill[3], const uint8_t *from, uint8_t *to,
                            uint32_t height, uint32_t width);

typedef struct {
    sn_warp_kernel *bilinear, *bicubic, *bilinear_perspective, *bicubic_perspective;
} sn_warp_kernels;

extern const sn_warp_kernels sn_warp_plain;
#ifdef SN_HAVE_AVX2_CODE
extern const sn_warp_kernels sn_warp_avx2;
#endif

#endif
