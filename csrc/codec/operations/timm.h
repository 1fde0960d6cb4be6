/*
 * timm.h -- draws what the recipes of timm's `auto_augment` do to a picture.
 *
 *   chains of parts (operation, probability, magnitude) --random numbers--> edits, in their order
 *
 *   TIMM_AUGMENT   chooses `count` chains by their weights and runs them one after the other:
 *                  RandAugment has chains of one part, AutoAugment one chain of two parts
 *   TIMM_AUG_MIX   runs `count` chains of drawn length beside each other, and blends them
 *
 * Operations, levels and distributions are timm's. Random numbers are drawn in this order: for each chain
 * which, again while one that must be distinct was chosen before; for each part whether, if that is not
 * certain, the magnitude, if it has a deviation, then the sign, the blur's radius or the warp's filter, if
 * it has one. TIMM_AUG_MIX: the weights of the chains, the weight of the blend, and for each chain how long it
 * is, then which parts.
 *
 * Callers    recipe.c; any thread; no state but the caller's.
 */
#ifndef SN_TIMM_H
#define SN_TIMM_H

#include <stdbool.h>

#include "../../base/sn_rng.h"
#include "../sn_plan.h"
#include "edit.h"

/* Whether the numbers of such an op are in range, `most_edits` at most come of it, and its chains end. */
bool sn_timm_check(const sn_op *op, uint32_t most_edits);

/* The edits for a picture of this size; how many there are. */
uint32_t sn_timm_draw(const sn_op *op, sn_rng *rng, uint32_t height, uint32_t width, sn_edit *edits);

#endif
