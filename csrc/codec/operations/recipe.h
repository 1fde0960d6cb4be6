/*
 * recipe.h -- draws what random changes do to a picture that has its size, from jitter to AutoAugment.
 *
 *   op, random numbers, size --> up to SN_RECIPE_MAX edits, in their order
 *
 * Distributions and magnitudes are torchvision's, those of TIMM_<recipe> timm's. Random numbers are drawn in this order:
 *   RANDOM_ROTATION     the angle
 *   RANDOM_AFFINE       the angle, the way along x and y, the scale, the shear along x and y
 *   GAUSSIAN_BLUR       sigma
 *   RANDOM_<change>     one: whether
 *   COLOR_JITTER        the order: the steps are brightness, contrast, saturation, hue, of which the last changes
 *                       places with one of the 4, the third with one of the first 3, the second with one of 2; then
 *                       a factor in that list's order for each whose range is not the one that does nothing
 *   RAND_AUGMENT        for each operation which, and if it has a sign, that
 *   TRIVIAL_AUGMENT     which operation, then if it has magnitudes which, and if it has a sign, that
 *   RANDOM_PHOTOMETRIC_DISTORT   for brightness, contrast, saturation and hue each whether, and if so the factor; whether
 *                       contrast comes second; whether channels change places, and if so which becomes red, then green
 *   RANDOM_PERSPECTIVE  whether, then x and y of each corner: left top, right top, right bottom, left bottom
 *   ELASTIC             the seed of its noise, which is 64 bits
 *   TIMM_<recipe>       see timm.c
 *   AUG_MIX             see aug_mix.c
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

/* The edits of an op for a picture of this size; how many there are. */
uint32_t sn_recipe_draw(const sn_op *op, sn_rng *rng, uint32_t height, uint32_t width, sn_edit edits[SN_RECIPE_MAX]);

/* The same of one kind: for each DRAWN of ops.def. */
#define LAID(...)
#define DRAWN(KIND, kind, ...)                                                                                         \
    uint32_t sn_draw_##kind(const sn_op *op, sn_rng *rng, uint32_t height, uint32_t width, sn_edit *edits);
#include "../ops.def"

/* Whether at most SN_RECIPE_MAX edits come of such an op, and its chains end. */
bool sn_timm_check(const sn_op *op);
bool sn_aug_mix_check(const sn_op *op);

#endif
