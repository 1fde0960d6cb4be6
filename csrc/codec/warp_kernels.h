/*
 * warp_kernels.h -- the inner loops of sn_warp_run() that weigh pixels, for the platform's baseline and
 * for AVX2.
 *
 * warp_loops.h writes them once; each of warp.c and warp_avx2.c compiles that for its target. No step is
 * fused or reordered, so both give the same bits. warp.c chooses; nobody else but tests calls them.
 */
#ifndef SN_WARP_KERNELS_H
#define SN_WARP_KERNELS_H

#include <stdint.h>

#include "simd.h"

/* `from` may be read four bytes beyond its end; nothing else is. */
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
