/*
 * mask.h -- the mask of a pair, along the route that was laid for its picture.
 *
 *   route:  box -> resize -> flip -> border -> edits            the picture's (augment.h)
 *   mask:   for each row and column of a pass, the row and column of the source, or the border: one look-up a pixel
 *
 * A mask has a byte a pixel, a class. Classes do not mix: of each place the nearest pixel is taken. The pixels are
 * those of torchvision's kernels for tv_tensors.Mask:
 *   a resize takes pixel floor(k * scale) for k, with single floats, as torch's interpolate(mode="nearest") does
 *   a border has the mask's own fill, or goes on as the picture's
 *   a warp takes the pixel in which the place lies; torchvision rounds in single floats, and may take its neighbour
 *   all other edits leave a mask alone
 *
 * Callers    one thread at a time an sn_masker.
 * Owns       two buffers in turn and the look-ups, until it is released; a mask given back points into one of them,
 *            or is the source.
 * Errors     -ENOMEM.
 */
#ifndef SN_MASK_H
#define SN_MASK_H

#include "route.h"

typedef struct {
    sn_buffer turns[2], lookup;
    sn_buffer png; /* a whole mask, as it was decoded */
} sn_masker;

/* Run `route` on a mask of the size that the route was laid for, rows close together. *result has the last pass's size;
 * with `out` it is stored there. */
int sn_mask_run(sn_masker *masker, const sn_route *route, uint32_t width, const uint8_t *mask, uint8_t *out,
                const uint8_t **result);

void sn_masker_release(sn_masker *masker);

#endif
