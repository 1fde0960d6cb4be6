/*
 * flac_kernels.h -- the inner loops of reading a FLAC, in plain C and in vectors.
 *
 *   bits --sn_rice--> what the prediction of each sample lacks --sn_predict--> the samples
 *
 *   x[n] = lacks[n] + (sum of weights[k] * x[n - 1 - k]) >> shift          x is zero before the row
 *
 * A sample waits for the one before it. Blocks do not wait for each other: the vectors hold the same sample of as many
 * rows, of the channels of several blocks. All is computed modulo 2^32, so both ways give the same bits.
 *
 * flac_plain.c has the first; flac_avx2.c the other. flac.c chooses; only tests call them otherwise.
 */
#ifndef SN_FLAC_KERNELS_H
#define SN_FLAC_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "simd.h"

#define SN_FLAC_ROWS 8   /* that a vector holds a sample of */
#define SN_FLAC_ORDER 32 /* of a prediction, at most */
#define SN_FLAC_SLACK 16 /* bytes of a stream that sn_rice() may read at once */

/* A row: a channel of a block. */
typedef struct {
    int32_t *samples; /* what the prediction lacks, and then the samples; room for a multiple of SN_FLAC_ROWS */
    uint32_t order, shift;
    bool is_wide; /* sums need 64 bits */
    int32_t weights[SN_FLAC_ORDER];
} sn_flac_row;

/* Bits of a stream, from the most significant one of each byte on. */
typedef struct {
    uint64_t bits;           /* the next ones, from the top. Behind those that count: the ones that follow, or zeros */
    uint32_t n;              /* that count */
    const uint8_t *at, *end; /* the bytes whose bits are not among them */
} sn_bits;

/* Read numbers that have `k` low bits each, behind a quotient in as many zeros and a one, until `n` were read, or the
 * next one is not short, or the bytes come to their end. Returns how many. */
uint32_t sn_rice_plain(sn_bits *bits, uint32_t k, uint32_t n, int32_t *out);

/* Make the samples of some rows, each of them `n` long. */
void sn_predict_plain(const sn_flac_row *rows, uint32_t n_rows, uint32_t n);

#ifdef SN_HAVE_AVX2_CODE
uint32_t sn_rice_simd(sn_bits *bits, uint32_t k, uint32_t n, int32_t *out);

/* Of SN_FLAC_ROWS rows, none of them wide, and up to the next multiple of SN_FLAC_ROWS. */
void sn_predict_simd(const sn_flac_row rows[SN_FLAC_ROWS], uint32_t n);
#endif

#endif
