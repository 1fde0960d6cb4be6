/*
 * taps.h -- one axis of a resize: which source samples each output sample is made of.
 *
 *   source samples   . . . . . . . . . . .        output = (sum weight * sample + half) >> shift
 *   taps of output 0   \_|_/                      weights are a triangle as wide as the shrinking
 *   taps of output 1       \_|_/                  asks for, cut at the edges, summing to 1
 *
 * The arithmetic is Pillow's (Image.resize, BILINEAR): the same support, the same bounds, weights
 * in fixed point with as many bits as fit 16. That is Pillow-SIMD to the bit. Plain Pillow has 22
 * bits, and one pixel in a hundred differs by 1; where its version 13 resizes down before across
 * (a picture that gets lower and wider), one in four. Tests hold both to what is said here.
 *
 * Lives in   a codec, reused.
 * Errors     -ENOMEM.
 */
#ifndef SN_TAPS_H
#define SN_TAPS_H

#include <stdbool.h>
#include <stdint.h>

#include "buffer.h"

/* What is asked: `source` samples are resized to `full`, of which the `count` from `first` on are
 * wanted; `flip` gives them last to first. */
typedef struct {
    uint32_t source, full;
    uint32_t first, count;
    bool flip;
} sn_axis;

/* Starts are relative to the span, the source samples that any output needs. */
typedef struct {
    uint32_t span_first, span_count;
    uint32_t count;         /* outputs */
    uint32_t width;         /* weights an output, a multiple of 4; those not used are 0 */
    int shift;              /* 1.0 is 1 << shift */
    const uint32_t *start;  /* [count] first sample; start + width > span_count only if the span
                               is narrower than width. Zeros up to a multiple of 4. */
    const uint32_t *used;   /* [count] weights from the first on, the rest being 0 */
    const int16_t *weight;  /* [count][width] */
    const int16_t *blocks;  /* sn_taps_build_blocks(), else NULL */

    sn_buffer exact, store, block_store;
} sn_taps;

/* Fill *taps; the buffers in it are reused from call to call (all zero at first). */
int sn_taps_build(sn_taps *taps, const sn_axis *axis);

/* Lay the weights out for four RGB outputs at a time, see resize_avx2.c. */
int sn_taps_build_blocks(sn_taps *taps);

void sn_taps_release(sn_taps *taps);

#endif
