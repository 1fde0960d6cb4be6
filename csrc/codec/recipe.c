#include "recipe.h"

#include <math.h>
#include <string.h>

#include "policies.h"

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

static bool is_warp(const sn_op *op)
{
    return op->warp <= SN_WARP_BICUBIC && op->has_center <= 1 && fabs(op->center[0]) <= MAX_DEGREES &&
           fabs(op->center[1]) <= MAX_DEGREES;
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
    default:
        return false;
    }
}

/* One of `bins` numbers from `first` to `last`. torch.linspace() has single floats, whose last digit
 * depends on how wide the processor's vectors are; a whole number here is whole. */
static double spaced(double first, double last, uint32_t bins, uint32_t k)
{
    return (first * (bins - 1 - k) + last * k) / (bins - 1);
}

/* The bits that Posterize leaves: 8, down to 8 - `most`. */
static double bits_left(uint32_t most, uint32_t bins, uint32_t k)
{
    return 8 - rint((double)k * most / (bins - 1));
}

static bool has_magnitudes(uint32_t operation)
{
    return operation != IDENTITY && operation < AUTO_CONTRAST;
}

static bool has_sign(uint32_t operation)
{
    return operation != IDENTITY && operation < POSTERIZE;
}

/* The magnitude of bin `k`, which is a threshold for Solarize and a number of bits for Posterize. */
static double magnitude_of(const sn_op *op, uint32_t operation, uint32_t bins, uint32_t k, uint32_t height,
                           uint32_t width)
{
    bool wide = op->kind == SN_OP_TRIVIAL_AUGMENT;

    switch (operation) {
    case SHEAR_X:
    case SHEAR_Y:
        return spaced(0, wide ? 0.99 : 0.3, bins, k);
    case TRANSLATE_X:
        return spaced(0, wide ? 32 : 150.0 / 331.0 * width, bins, k);
    case TRANSLATE_Y:
        return spaced(0, wide ? 32 : 150.0 / 331.0 * height, bins, k);
    case ROTATE:
        return spaced(0, wide ? 135 : 30, bins, k);
    case POSTERIZE:
        return bits_left(wide ? 6 : 4, bins, k);
    case SOLARIZE:
        return spaced(255, 0, bins, k);
    default:
        return spaced(0, wide ? 0.99 : 0.9, bins, k);
    }
}

static sn_edit colour(uint32_t kind, double factor)
{
    return (sn_edit){.kind = SN_EDIT_COLOUR, .colour = {kind, (float)factor, 0}};
}

static sn_edit tone(uint32_t kind, uint32_t amount)
{
    return (sn_edit){.kind = SN_EDIT_TONE, .tone = {kind, amount}};
}

/* From the first whole value on that is no less: all that a threshold tells of bytes. */
static sn_edit solarize(double threshold)
{
    return tone(SN_SOLARIZE, (uint32_t)fmax(0, fmin(256, ceil(threshold))));
}

static sn_edit warp(const sn_op *op)
{
    return (sn_edit){.kind = SN_EDIT_WARP,
                       .warp = {.filter = op->warp, .fill = {op->fill[0], op->fill[1], op->fill[2]},
                                .mask_fill = op->mask_fill}};
}

/* One operation of a recipe, added to the changes; how many there are then. What changes nothing is left
 * out. */
static uint32_t add(const sn_op *op, uint32_t operation, double m, uint32_t height, uint32_t width,
                    sn_edit *edits, uint32_t n)
{
    double middle[2] = {width * 0.5, height * 0.5}, corner[2] = {0, 0}, away[2] = {0, 0}, shear[2] = {0, 0};
    sn_edit edit = {0};

    switch (operation) {
    case SHEAR_X:
    case SHEAR_Y:
        shear[operation == SHEAR_Y] = atan(m) * (180.0 / M_PI);
        edit = warp(op);
        sn_warp_affine(edit.warp.matrix, corner, 0, away, 1, shear);
        break;
    case TRANSLATE_X:
    case TRANSLATE_Y:
        m = trunc(m);
        away[operation == TRANSLATE_Y] = m;
        edit = warp(op);
        sn_warp_affine(edit.warp.matrix, middle, 0, away, 1, shear);
        break;
    case ROTATE:
        edit = warp(op);
        sn_warp_rotation(edit.warp.matrix, m, middle);
        break;
    case BRIGHTNESS:
        edit = colour(SN_BRIGHTNESS, 1 + m);
        break;
    case COLOR:
        edit = colour(SN_SATURATION, 1 + m);
        break;
    case CONTRAST:
        edit = colour(SN_CONTRAST, 1 + m);
        break;
    case SHARPNESS:
        edit = (sn_edit){.kind = SN_EDIT_SHARPNESS, .sharpness = (float)(1 + m)};
        break;
    case POSTERIZE:
        edit = tone(SN_POSTERIZE, (uint32_t)m);
        break;
    case SOLARIZE:
        edit = solarize(m);
        break;
    case AUTO_CONTRAST:
        edit = tone(SN_AUTOCONTRAST, 0);
        break;
    case EQUALIZE:
        edit = tone(SN_EQUALIZE, 0);
        break;
    case INVERT:
        edit = tone(SN_INVERT, 0);
        break;
    default:
        return n;
    }
    if (has_sign(operation) && m == 0)
        return n;
    edits[n] = edit;
    return n + 1;
}

static uint32_t rand_augment(const sn_op *op, sn_rng *rng, uint32_t height, uint32_t width, sn_edit *edits)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < op->count; i++) {
        uint32_t operation = sn_rng_below(rng, N_CHOSEN_FROM);
        double m = magnitude_of(op, operation, op->bins, op->magnitude, height, width);

        if (has_sign(operation) && sn_rng_below(rng, 2) == 1)
            m = -m;
        n = add(op, operation, m, height, width, edits, n);
    }
    return n;
}

static uint32_t trivial_augment(const sn_op *op, sn_rng *rng, uint32_t height, uint32_t width,
                                sn_edit *edits)
{
    uint32_t operation = sn_rng_below(rng, N_CHOSEN_FROM);
    uint32_t bin = has_magnitudes(operation) ? sn_rng_below(rng, op->bins) : 0;
    double m = magnitude_of(op, operation, op->bins, bin, height, width);

    if (has_sign(operation) && sn_rng_below(rng, 2) == 1)
        m = -m;
    return add(op, operation, m, height, width, edits, 0);
}

static uint32_t auto_augment(const sn_op *op, sn_rng *rng, uint32_t height, uint32_t width, sn_edit *edits)
{
    const policy_part *pair = policies[op->policy][sn_rng_below(rng, N_PAIRS)];
    uint32_t n = 0;

    for (const policy_part *part = pair; part < pair + 2; part++) {
        double m = magnitude_of(op, part->operation, 10, part->magnitude, height, width);
        bool happens = sn_rng_double(rng) < part->tenths / 10.0, is_negative = sn_rng_below(rng, 2) == 0;

        if (has_sign(part->operation) && is_negative)
            m = -m;
        if (happens)
            n = add(op, part->operation, m, height, width, edits, n);
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
    *edit = warp(op);
    sn_warp_affine(edit->warp.matrix, op->has_center ? op->center : middle, angle, away, scale, shear);
}

static void random_rotation(const sn_op *op, sn_rng *rng, uint32_t height, uint32_t width, sn_edit *edit)
{
    double middle[2] = {width * 0.5, height * 0.5};

    *edit = warp(op);
    sn_warp_rotation(edit->warp.matrix, sn_rng_uniform(rng, op->degrees[0], op->degrees[1]),
                     op->has_center ? op->center : middle);
}

/* What RANDOM_<change> does where it does anything. */
static sn_edit change_of(const sn_op *op)
{
    switch (op->kind) {
    case SN_OP_RANDOM_POSTERIZE:
        return tone(SN_POSTERIZE, (uint32_t)op->amount);
    case SN_OP_RANDOM_SOLARIZE:
        return solarize(op->amount);
    case SN_OP_RANDOM_SHARPNESS:
        return (sn_edit){.kind = SN_EDIT_SHARPNESS, .sharpness = (float)op->amount};
    case SN_OP_RANDOM_AUTOCONTRAST:
        return tone(SN_AUTOCONTRAST, 0);
    case SN_OP_RANDOM_EQUALIZE:
        return tone(SN_EQUALIZE, 0);
    default:
        return tone(SN_INVERT, 0);
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
    default:
        if (sn_rng_double(rng) >= op->probability)
            return 0;
        *edits = change_of(op);
        return 1;
    }
}
