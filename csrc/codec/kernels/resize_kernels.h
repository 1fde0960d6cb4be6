/*
 * resize_kernels.h -- the two inner loops of a resize, in plain C and in vectors.
 *
 * resize_plain.c has the first; resize_avx2.c or resize_neon.c the other, which gives the same bits.
 * resize.c chooses; only tests call them otherwise.
 */
#ifndef SN_RESIZE_KERNELS_H
#define SN_RESIZE_KERNELS_H

#include "simd.h"
#include "taps.h"

/* As many rows at most go across at once. */
#define SN_ACROSS_ROWS 4

/* Past the last pixel, `across` may read as many bytes of a row ... */
static inline size_t sn_across_reads_past(const sn_taps *taps)
{
    return (size_t)taps->width * 3 + 16;
}
/* ... and write this many of what it makes. */
#define SN_ACROSS_WRITES_PAST 16

typedef struct {
    /* Rows of RGB triples, each from taps->span_count wide to taps->count wide. */
    void (*across)(const sn_taps *taps, const uint8_t *const *rows, uint8_t *const *outs, uint32_t n_rows);

    /* out[k] = sum of weight[i] * rows[i][k] for k < n_bytes; writes nothing past them. After an odd
     * number of rows comes one more, with a weight of 0, that may be read. */
    void (*down)(const uint8_t *const *rows, const int16_t *weight, uint32_t n_rows, int shift, uint8_t *out,
                 size_t n_bytes);

    /* Make taps->layout, which `across` reads, of the rest; -ENOMEM. NULL: `across` reads none. */
    int (*lay_out)(sn_taps *taps);
} sn_resize_kernels;

extern const sn_resize_kernels sn_resize_plain;
#ifdef SN_HAVE_SIMD_CODE
extern const sn_resize_kernels sn_resize_simd;
#endif

#endif
