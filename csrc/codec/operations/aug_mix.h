/*
 * aug_mix.h -- draws what torchvision's AugMix does to a picture.
 *
 * torchvision turns a picture into a tensor for it. Therefore warps look colours up as tensors' do (grid.h).
 *
 * Random numbers, in this order: the weights of the picture and of the mix, the weights of the chains; for each
 * chain how long it is, if that is drawn, then for each of its operations which, the magnitude, the sign.
 *
 * Callers    recipe.c; any thread; no state but the caller's.
 */
#ifndef SN_AUG_MIX_H
#define SN_AUG_MIX_H

#include <stdbool.h>

#include "../../base/sn_rng.h"
#include "../sn_plan.h"
#include "edit.h"

/* Whether the numbers of such an op are in range, and `most_edits` at most come of it. */
bool sn_aug_mix_check(const sn_op *op, uint32_t most_edits);

/* The edits for a picture of this size; how many there are. */
uint32_t sn_aug_mix_draw(const sn_op *op, sn_rng *rng, uint32_t height, uint32_t width, sn_edit *edits);

#endif
