/*
 * recipe.h -- draws what random changes do to a picture that has its size, from jitter to AutoAugment.
 *
 *   op, random numbers, size --> up to SN_RECIPE_MAX edits, in their order
 *
 * Distributions and magnitudes are torchvision's, those of TIMM_<recipe> timm's. Random numbers are drawn in the order in
 * which sn_draw_<kind>() asks for them: pixels of a seed depend on it.
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
#define SOUND(...)
#define DRAWN(KIND, kind, ...)                                                                                         \
    uint32_t sn_draw_##kind(const sn_op *op, sn_rng *rng, uint32_t height, uint32_t width, sn_edit *edits);
#include "../ops.def"

/* Whether at most SN_RECIPE_MAX edits come of such an op, and its chains end. */
bool sn_timm_check(const sn_op *op);
bool sn_aug_mix_check(const sn_op *op);

#endif
