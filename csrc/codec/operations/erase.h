/*
 * erase.h -- torchvision's RandomErasing, and timm's, which has several boxes, on a picture in its place in
 * the batch.
 *
 *     +--------------+
 *     |    +-------+ |      a box of random area and ratio, smaller than the picture on both
 *     |    | value | |      sides; ten tries, and if none fits the picture stays as it is
 *     |    +-------+ |
 *     +--------------+
 *
 * Several boxes share the area.
 *
 * Random numbers, in this order: whether; how many boxes, if that is not certain. For each box: ten times
 * at most area, log of the ratio, and if the box fits top, left; for noise, four for a colour, or two for
 * each two values of the box, in the order of rows, columns and channels whatever the layout.
 *
 * Callers    any thread; no state but the caller's.
 */
#ifndef SN_ERASE_H
#define SN_ERASE_H

#include "../../base/sn_rng.h"
#include "../sn_plan.h"

/* `out`: the picture's 3 * height * width elements, written already. */
void sn_erase_run(const sn_plan *plan, sn_rng *rng, uint32_t height, uint32_t width, void *out);

/* The same rectangles and numbers, for others to erase with: one after the other from `erasures` on. */
void sn_erase_draw(const sn_plan *plan, sn_rng *rng, uint32_t height, uint32_t width, sn_erasure *erasures);

#endif
