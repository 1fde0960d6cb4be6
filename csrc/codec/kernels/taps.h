/*
 * taps.h -- one axis of a resize: which source samples each output sample is made of.
 *
 *   source samples   . . . . . . . . . . .        output = (sum weight * sample + half) >> shift
 *   taps of output 0   \_|_/                      weights are the filter's, summing to 1
 *   taps of output 1       \_|_/
 *
 * SN_BILINEAR, a triangle, and SN_BICUBIC, a = -0.5, reach 1 and 2 samples to each side, and as
 * many times more as the picture shrinks; what would lie beyond the edges is left out. The
 * arithmetic is Pillow's (Image.resize): the same support, the same bounds, weights in fixed point
 * with as many bits as let the largest fit 16, the negative ones of the cubic rounded away from
 * zero like the others. What overshoots is cut to 0 ... 255, between the two directions as well.
 * That is Pillow-SIMD to the bit. Plain Pillow has 22 bits, and one pixel in a hundred differs by 1;
 * where its version 13 resizes down before across (a picture that gets lower and wider), one in
 * four. Tests hold both to what is said here.
 *
 * SN_PLAIN_BILINEAR and SN_PLAIN_BICUBIC, a = -0.75, never reach further than 1 and 2, so that a
 * picture that shrinks skips samples; beyond the edges, the sample at the edge counts again. That
 * is torch.nn.functional.interpolate without antialias on uint8 tensors (what torchvision calls),
 * to the bit where torch has its AVX2 code. On floats it differs by 1, the cubic by more where it
 * overshoots in the first direction, which floats keep and bytes cannot.
 *
 * Lives in   a codec, reused.
 * Errors     -ENOMEM.
 */
#ifndef SN_TAPS_H
#define SN_TAPS_H

#include <stdbool.h>
#include <stdint.h>

#include "../buffer.h"

/* The request: of `source` samples, the box that begins at `origin` and is `extent` long, either
 * of which may fall between two of them, is resized to `full` samples, of which the `count` from
 * `first` on are wanted; `flip` gives them last to first. Samples beside the box are seen by the
 * filter, as by Pillow's resize(box=...): leave out of `source` what must not be. */
typedef struct {
    uint32_t source;
    double origin, extent;
    uint32_t full;
    uint32_t first, count;
    bool flip;
    uint32_t filter; /* enum sn_filter */
} sn_axis;

/* Starts are relative to the span, the source samples that any output needs. */
typedef struct {
    uint32_t span_first, span_count;
    uint32_t count;        /* outputs */
    uint32_t width;        /* weights an output, a multiple of 4; those not used are 0 */
    int shift;             /* 1.0 is 1 << shift */
    const uint32_t *start; /* [count] first sample, of each output no earlier than of the one
                               before (flipped: no later) */
    const uint32_t *used;  /* [count] weights from the first on, the rest being 0 and, it may be,
                               past the span */
    const int16_t *weight; /* [count][width] */

    sn_buffer exact, store;
    sn_buffer layout; /* of resize_kernels.h */
    size_t layout_bytes;
} sn_taps;

/* Fill *taps; the buffers in it are reused from call to call (all zero at first). */
int sn_taps_build(sn_taps *taps, const sn_axis *axis);

void sn_taps_release(sn_taps *taps);

#endif
