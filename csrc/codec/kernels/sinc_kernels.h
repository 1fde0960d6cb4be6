/*
 * sinc_kernels.h -- the inner loop of a resampling, in plain C and in vectors.
 *
 *   frames  ... x x x x x x x x x x ...        `taps` of them for each frame that is made
 *               * * * * * * * *                the weights of its phase
 *               0 1 2 ... 7 0 1 ...            eight partial sums, each in order
 *               ((0+4)+(2+6)) + ((1+5)+(3+7))  which are added in this order
 *
 * sinc_plain.c has the first; sinc_avx2.c or sinc_neon.c the other. No product is fused with its sum, so both give the
 * same bits. sinc.c chooses; only tests call them otherwise.
 */
#ifndef SN_SINC_KERNELS_H
#define SN_SINC_KERNELS_H

#include <stdint.h>

#include "simd.h"

#define SN_SINC_LANES 8

/* A resampling from `from` frames to `to`, which have no common divisor. Frame q * to + phase is made of the frames
 * from q * from + start[phase] on. */
typedef struct {
    uint32_t from, to;
    uint32_t taps;        /* of each phase; a multiple of SN_SINC_LANES, the last of them may be zero */
    const int32_t *start; /* of each of the `to` phases, which do not fall */
    const float *weights; /* `taps` of each phase */
} sn_sinc;

/* Make `n` frames, the first of which has this phase. `block` is where frame q * from would be. */
void sn_sinc_plain(const sn_sinc *sinc, uint32_t phase, const float *block, uint64_t n, float *out);
#ifdef SN_HAVE_SIMD_CODE
void sn_sinc_simd(const sn_sinc *sinc, uint32_t phase, const float *block, uint64_t n, float *out);
#endif

#endif
