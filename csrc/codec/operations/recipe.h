/*
 * recipe.h -- draws what RandAugment, AutoAugment and other random changes do to a picture.
 *
 *   op, random numbers, size --> up to SN_RECIPE_MAX edits, in their order
 *
 * Distributions and magnitudes are torchvision's, those of TIMM_<recipe> timm's. Random numbers are drawn in this order:
 *   RANDOM_ROTATION     the angle
 *   RANDOM_AFFINE       the angle, the way along x and y, the scale, the shear along x and y
 *   GAUSSIAN_BLUR       sigma
 *   RANDOM_<change>     one: whether
 *   RAND_AUGMENT        for each operation which, and if it has a sign, that
 *   TRIVIAL_AUGMENT     which operation, then if it has magnitudes which, and if it has a sign, that
 *   RANDOM_PERSPECTIVE  whether, then x and y of each corner: left top, right top, right bottom, left bottom
 *   ELASTIC             the seed of its noise, which is 64 bits
 *   TIMM_<recipe>       see timm.h
 *   AUG_MIX             see aug_mix.h
 *   AUTO_AUGMENT        which pair, then for each part whether and the sign
 *
 * Callers    any thread; no state but the caller's.
 */
#ifndef SN_RECIPE_H
#define SN_RECIPE_H

#include "../../base/sn_rng.h"
#include "../sn_plan.h"
#include "edit.h"

#define SN_RECIPE_MAX 32

/* Whether an op is one of these. */
bool sn_recipe_knows(uint32_t kind);

/* Whether the numbers of such an op are in range. */
bool sn_recipe_check(const sn_op *op);

/* The edits for a picture of this size; how many there are. */
uint32_t sn_recipe_draw(const sn_op *op, sn_rng *rng, uint32_t height, uint32_t width,
                        sn_edit edits[SN_RECIPE_MAX]);

#endif
