/*
 * resize_kernels.h -- the two inner loops of a resize, in plain C and in vectors.
 *
 * resize_plain.c has the first; resize_avx2.c or resize_neon.c the other, which gives the same bits.
 * resize.c chooses; nobody else but tests calls them.
 */
#ifndef SN_RESIZE_KERNELS_H
#define SN_RESIZE_KERNELS_H

#include "simd.h"
#include "taps.h"

/* Past the last pixel, `across` may read this many bytes of `row` ... */
#define SN_ACROSS_READS_PAST 16
/* ... and write this many of `out`. */
#define SN_ACROSS_WRITES_PAST 16

typedef struct {
    /* One row of RGB triples, from taps->span_count wide to taps->count wide. */
    void (*across)(const sn_taps *taps, const uint8_t *row, uint8_t *out);

    /* out[k] = sum of weight[i] * rows[i][k] for k < n_bytes; writes nothing past them. */
    void (*down)(const uint8_t *const *rows, const int16_t *weight, uint32_t n_rows, int shift,
                 uint8_t *out, size_t n_bytes);

    bool wants_blocks; /* `across` reads taps->blocks */
} sn_resize_kernels;

extern const sn_resize_kernels sn_resize_plain;
#ifdef SN_HAVE_SIMD_CODE
extern const sn_resize_kernels sn_resize_simd;
#endif

#endif
