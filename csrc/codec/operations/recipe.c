#include "recipe.h"

#include <math.h>
#include <string.h>

#include "aug_mix.h"
#include "operation.h"
#include "policies.h"
#include "timm.h"

#define MAX_DEGREES 1e6
#define MAX_SCALE 1e6
#define MAX_FACTOR 1e6
#define MAX_BINS 1024

bool sn_recipe_knows(uint32_t kind)
{
    return SN_OP_RANDOM_ROTATION <= kind && kind < SN_FIRST_GROUP;
}

/* Numbers that rise, within these limits; no NaN. */
static bool rises(const double range[2], double least, double most)
{
    return least <= range[0] && range[0] <= range[1] && range[1] <= most;
}

static bool is_share(double x)
{
    return 0 <= x && x <= 1;
}

static bool is_kernel(uint32_t side)
{
    return side % 2 == 1 && side <= SN_BLUR_MAX_KERNEL;
}

static bool is_sigma(double sigma)
{
    return 1 / MAX_SCALE <= sigma && 8 * sigma + 1 < 2 * SN_GRID_MAX_RADIUS + 2;
}

static bool is_warp(const sn_op *op)
{
    return op->warp <= SN_WARP_BICUBIC && op->has_center <= 1 && fabs(op->center[0]) <= MAX_DEGREES &&
           fabs(op->center[1]) <= MAX_DEGREES;
}

/* The noise of both directions is blurred, or that of none. */
static bool is_elastic(const sn_op *op)
{
    const double *sigma = op->sigma, *alpha = op->alpha;

    return op->warp <= SN_WARP_BILINEAR && fabs(alpha[0]) <= MAX_SCALE && fabs(alpha[1]) <= MAX_SCALE &&
           ((sigma[0] == 0 && sigma[1] == 0) || (is_sigma(sigma[0]) && is_sigma(sigma[1])));
}

bool sn_recipe_check(const sn_op *op)
{
    switch (op->kind) {
    case SN_OP_RANDOM_AFFINE:
        return is_warp(op) && rises(op->degrees, -MAX_DEGREES, MAX_DEGREES) && is_share(op->translate[0]) &&
               is_share(op->translate[1]) && rises(op->scale, 1 / MAX_SCALE, MAX_SCALE) &&
               rises(op->shear, -MAX_DEGREES, MAX_DEGREES) && rises(op->shear + 2, -MAX_DEGREES, MAX_DEGREES);
    case SN_OP_RANDOM_ROTATION:
        return is_warp(op) && rises(op->degrees, -MAX_DEGREES, MAX_DEGREES);
    case SN_OP_GAUSSIAN_BLUR:
        return is_kernel(op->height) && is_kernel(op->width) && rises(op->sigma, 1 / MAX_SCALE, MAX_SCALE);
    case SN_OP_RANDOM_POSTERIZE:
        return is_share(op->probability) && 0 <= op->amount && op->amount <= 8 && rint(op->amount) == op->amount;
    case SN_OP_RANDOM_SOLARIZE:
        return is_share(op->probability) && isfinite(op->amount);
    case SN_OP_RANDOM_SHARPNESS:
        return is_share(op->probability) && 0 <= op->amount && op->amount <= MAX_FACTOR;
    case SN_OP_RANDOM_INVERT:
    case SN_OP_RANDOM_AUTOCONTRAST:
    case SN_OP_RANDOM_EQUALIZE:
        return is_share(op->probability);
    case SN_OP_RAND_AUGMENT:
        return is_warp(op) && op->count <= SN_MAX_COUNT && 2 <= op->bins && op->bins <= MAX_BINS &&
               op->magnitude < op->bins;
    case SN_OP_TRIVIAL_AUGMENT:
        return is_warp(op) && 2 <= op->bins && op->bins <= MAX_BINS;
    case SN_OP_AUTO_AUGMENT:
        return is_warp(op) && op->policy < SN_N_POLICIES;
    case SN_OP_TIMM_AUGMENT:
    case SN_OP_TIMM_AUG_MIX:
        return sn_timm_check(op, SN_RECIPE_MAX);
    case SN_OP_AUG_MIX:
        return sn_aug_mix_check(op, SN_RECIPE_MAX);
    case SN_OP_RANDOM_PERSPECTIVE:
        return is_warp(op) && is_share(op->probability) && is_share(op->amount);
    case SN_OP_ELASTIC:
        return is_elastic(op);
    default:
        return false;
    }
}

/* The bits that Posterize leaves: 8, down to 8 - `most`. */
static double bits_left(uint32_t most, uint32_t bins, uint32_t k)
{
    return 8 - rint((double)k * most / (bins - 1));
}

/* The magnitude of bin `k`, which is a threshold for Solarize and a number of bits for Posterize. */
static double magnitude_of(const sn_op *op, uint32_t operation, uint32_t bins, uint32_t k, uint32_t height,
                           uint32_t width)
{
    bool wide = op->kind == SN_OP_TRIVIAL_AUGMENT;

    switch (operation) {
    case SHEAR_X:
    case SHEAR_Y:
        return sn_spaced(0, wide ? 0.99 : 0.3, bins, k);
    case TRANSLATE_X:
        return sn_spaced(0, wide ? 32 : 150.0 / 331.0 * width, bins, k);
    case TRANSLATE_Y:
        return sn_spaced(0, wide ? 32 : 150.0 / 331.0 * height, bins, k);
    case ROTATE:
        return sn_spaced(0, wide ? 135 : 30, bins, k);
    case POSTERIZE:
        return bits_left(wide ? 6 : 4, bins, k);
    case SOLARIZE:
        return sn_spaced(255, 0, bins, k);
    default:
        return sn_spaced(0, wide ? 0.99 : 0.9, bins, k);
    }
}

static uint32_t rand_augment(const sn_op *op, sn_rng *rng, uint32_t height, uint32_t width, sn_edit *edits)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < op->count; i++) {
        uint32_t operation = sn_rng_below(rng, N_CHOSEN_FROM);
        double m = magnitude_of(op, operation, op->bins, op->magnitude, height, width);

        if (sn_operation_has_sign(operation) && sn_rng_below(rng, 2) == 1)
            m = -m;
        n = sn_operation_add(op, operation, m, height, width, edits, n);
    }
    return n;
}

static uint32_t trivial_augment(const sn_op *op, sn_rng *rng, uint32_t height, uint32_t width,
                                sn_edit *edits)
{
    uint32_t operation = sn_rng_below(rng, N_CHOSEN_FROM);
    uint32_t bin = sn_operation_has_magnitudes(operation) ? sn_rng_below(rng, op->bins) : 0;
    double m = magnitude_of(op, operation, op->bins, bin, height, width);

    if (sn_operation_has_sign(operation) && sn_rng_below(rng, 2) == 1)
        m = -m;
    return sn_operation_add(op, operation, m, height, width, edits, 0);
}

static uint32_t auto_augment(const sn_op *op, sn_rng *rng, uint32_t height, uint32_t width, sn_edit *edits)
{
    const policy_part *pair = policies[op->policy][sn_rng_below(rng, N_PAIRS)];
    uint32_t n = 0;

    for (const policy_part *part = pair; part < pair + 2; part++) {
        double m = magnitude_of(op, part->operation, 10, part->magnitude, height, width);
        bool happens = sn_rng_double(rng) < part->tenths / 10.0, is_negative = sn_rng_below(rng, 2) == 0;

        if (sn_operation_has_sign(part->operation) && is_negative)
            m = -m;
        if (happens)
            n = sn_operation_add(op, part->operation, m, height, width, edits, n);
    }
    return n;
}

static void random_affine(const sn_op *op, sn_rng *rng, uint32_t height, uint32_t width, sn_edit *edit)
{
    double middle[2] = {width * 0.5, height * 0.5};
    double along = op->translate[0] * width, across = op->translate[1] * height;
    double angle = sn_rng_uniform(rng, op->degrees[0], op->degrees[1]), away[2], shear[2], scale;

    away[0] = rint(sn_rng_uniform(rng, -along, along));
    away[1] = rint(sn_rng_uniform(rng, -across, across));
    scale = sn_rng_uniform(rng, op->scale[0], op->scale[1]);
    shear[0] = sn_rng_uniform(rng, op->shear[0], op->shear[1]);
    shear[1] = sn_rng_uniform(rng, op->shear[2], op->shear[3]);
    *edit = sn_warp_edit(op);
    sn_warp_affine(edit->warp.matrix, op->has_center ? op->center : middle, angle, away, scale, shear);
}

static void random_rotation(const sn_op *op, sn_rng *rng, uint32_t height, uint32_t width, sn_edit *edit)
{
    double middle[2] = {width * 0.5, height * 0.5};

    *edit = sn_warp_edit(op);
    sn_warp_rotation(edit->warp.matrix, sn_rng_uniform(rng, op->degrees[0], op->degrees[1]),
                     op->has_center ? op->center : middle);
}

/* A whole number of pixels, `most` at the most, inside of either edge. */
static double inside(sn_rng *rng, uint32_t side, double most, bool from_far_edge)
{
    uint32_t way = sn_rng_below(rng, (uint32_t)most + 1);

    return from_far_edge ? (double)side - 1 - way : way;
}

/* Whether there is one: the corners may lie on a line. */
static bool random_perspective(const sn_op *op, sn_rng *rng, uint32_t height, uint32_t width, sn_edit *edit)
{
    double corners[4][2];

    for (int k = 0; k < 4; k++) {
        corners[k][0] = inside(rng, width, op->amount * (width / 2), k == 1 || k == 2);
        corners[k][1] = inside(rng, height, op->amount * (height / 2), k >= 2);
    }
    *edit = sn_warp_edit(op);
    edit->warp.projective = true;
    return sn_warp_perspective(edit->warp.matrix, corners, height, width);
}

static void elastic(const sn_op *op, sn_rng *rng, sn_edit *edit)
{
    uint64_t high = sn_rng_u32(rng), low = sn_rng_u32(rng);

    *edit = (sn_edit){.kind = SN_EDIT_ELASTIC,
                      .elastic = {.seed = high << 32 | low,
                                  .alpha = {op->alpha[0], op->alpha[1]},
                                  .sigma = {op->sigma[0], op->sigma[1]},
                                  .lookup = {op->warp == SN_WARP_NEAREST, true,
                                             {op->fill[0], op->fill[1], op->fill[2]}}}};
}

/* What RANDOM_<change> does where it does anything. */
static sn_edit change_of(const sn_op *op)
{
    switch (op->kind) {
    case SN_OP_RANDOM_POSTERIZE:
        return sn_tone_edit(SN_POSTERIZE, (uint32_t)op->amount);
    case SN_OP_RANDOM_SOLARIZE:
        return sn_solarize_edit(op->amount);
    case SN_OP_RANDOM_SHARPNESS:
        return sn_sharpness_edit(op->amount);
    case SN_OP_RANDOM_AUTOCONTRAST:
        return sn_tone_edit(SN_AUTOCONTRAST, 0);
    case SN_OP_RANDOM_EQUALIZE:
        return sn_tone_edit(SN_EQUALIZE, 0);
    default:
        return sn_tone_edit(SN_INVERT, 0);
    }
}

uint32_t sn_recipe_draw(const sn_op *op, sn_rng *rng, uint32_t height, uint32_t width,
                        sn_edit edits[SN_RECIPE_MAX])
{
    switch (op->kind) {
    case SN_OP_RANDOM_ROTATION:
        random_rotation(op, rng, height, width, edits);
        return 1;
    case SN_OP_RANDOM_AFFINE:
        random_affine(op, rng, height, width, edits);
        return 1;
    case SN_OP_GAUSSIAN_BLUR:
        *edits = (sn_edit){.kind = SN_EDIT_BLUR,
                               .blur = {op->height, op->width, sn_rng_uniform(rng, op->sigma[0], op->sigma[1])}};
        return 1;
    case SN_OP_RAND_AUGMENT:
        return rand_augment(op, rng, height, width, edits);
    case SN_OP_TRIVIAL_AUGMENT:
        return trivial_augment(op, rng, height, width, edits);
    case SN_OP_AUTO_AUGMENT:
        return auto_augment(op, rng, height, width, edits);
    case SN_OP_TIMM_AUGMENT:
    case SN_OP_TIMM_AUG_MIX:
        return sn_timm_draw(op, rng, height, width, edits);
    case SN_OP_AUG_MIX:
        return sn_aug_mix_draw(op, rng, height, width, edits);
    case SN_OP_RANDOM_PERSPECTIVE:
        return sn_rng_double(rng) < op->probability && random_perspective(op, rng, height, width, edits);
    case SN_OP_ELASTIC:
        elastic(op, rng, edits);
        return 1;
    default:
        if (sn_rng_double(rng) >= op->probability)
            return 0;
        *edits = change_of(op);
        return 1;
    }
}
