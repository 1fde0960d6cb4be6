#include "recipe.h"

#include <math.h>

#include "operation.h"
#include "policies.h"

/* The bits that Posterize leaves: 8, down to 8 - `most`. */
static double bits_left(uint32_t most, uint32_t bins, uint32_t k)
{
    return 8 - rint((double)k * most / (bins - 1));
}

/* The magnitude of bin `k`, which is a threshold for Solarize and a number of bits for Posterize. */
static double magnitude_of(bool wide, uint32_t operation, uint32_t bins, uint32_t k, uint32_t height, uint32_t width)
{
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

/* The function of a kind. Not all use everything. */
#define DRAW(kind)                                                                                                     \
    uint32_t sn_draw_##kind(__attribute__((unused)) const sn_op *op, __attribute__((unused)) sn_rng *rng,              \
                            __attribute__((unused)) uint32_t height, __attribute__((unused)) uint32_t width,           \
                            sn_edit *edits)

DRAW(rand_augment)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < op->rand_augment.num_ops; i++) {
        uint32_t operation = sn_rng_below(rng, N_CHOSEN_FROM);
        double m = magnitude_of(false, operation, op->rand_augment.bins, op->rand_augment.magnitude, height, width);

        if (sn_operation_has_sign(operation) && sn_rng_below(rng, 2) == 1)
            m = -m;
        n = sn_operation_add(&op->rand_augment.warp, operation, m, height, width, edits, n);
    }
    return n;
}

DRAW(trivial_augment_wide)
{
    uint32_t operation = sn_rng_below(rng, N_CHOSEN_FROM), bins = op->trivial_augment_wide.bins;
    uint32_t bin = sn_operation_has_magnitudes(operation) ? sn_rng_below(rng, bins) : 0;
    double m = magnitude_of(true, operation, bins, bin, height, width);

    if (sn_operation_has_sign(operation) && sn_rng_below(rng, 2) == 1)
        m = -m;
    return sn_operation_add(&op->trivial_augment_wide.warp, operation, m, height, width, edits, 0);
}

DRAW(auto_augment)
{
    const policy_part *pair = policies[op->auto_augment.policy][sn_rng_below(rng, N_PAIRS)];
    uint32_t n = 0;

    for (const policy_part *part = pair; part < pair + 2; part++) {
        double m = magnitude_of(false, part->operation, 10, part->magnitude, height, width);
        bool happens = sn_rng_double(rng) < part->tenths / 10.0, is_negative = sn_rng_below(rng, 2) == 0;

        if (sn_operation_has_sign(part->operation) && is_negative)
            m = -m;
        if (happens)
            n = sn_operation_add(&op->auto_augment.warp, part->operation, m, height, width, edits, n);
    }
    return n;
}

DRAW(random_affine)
{
    const double *most = op->random_affine.translate, *scales = op->random_affine.scale;
    const double *degrees = op->random_affine.degrees, *shears = op->random_affine.shear;
    double middle[2] = {width * 0.5, height * 0.5};
    double along = most[0] * width, across = most[1] * height;
    double angle = sn_rng_uniform(rng, degrees[0], degrees[1]), away[2], shear[2], scale;

    away[0] = rint(sn_rng_uniform(rng, -along, along));
    away[1] = rint(sn_rng_uniform(rng, -across, across));
    scale = sn_rng_uniform(rng, scales[0], scales[1]);
    shear[0] = sn_rng_uniform(rng, shears[0], shears[1]);
    shear[1] = sn_rng_uniform(rng, shears[2], shears[3]);
    *edits = sn_warp_edit(&op->random_affine.warp);
    sn_warp_affine(edits->warp.matrix, op->random_affine.has_center ? op->random_affine.center : middle, angle, away,
                   scale, shear);
    return 1;
}

DRAW(random_rotation)
{
    const double *degrees = op->random_rotation.degrees;
    double middle[2] = {width * 0.5, height * 0.5};

    *edits = sn_warp_edit(&op->random_rotation.warp);
    sn_warp_rotation(edits->warp.matrix, sn_rng_uniform(rng, degrees[0], degrees[1]),
                     op->random_rotation.has_center ? op->random_rotation.center : middle);
    return 1;
}

/* A whole number of pixels, `most` at the most, inside of either edge. */
static double inside(sn_rng *rng, uint32_t side, double most, bool from_far_edge)
{
    uint32_t way = sn_rng_below(rng, (uint32_t)most + 1);

    return from_far_edge ? (double)side - 1 - way : way;
}

/* None if the corners lie on a line. */
DRAW(random_perspective)
{
    double most = op->random_perspective.distortion, corners[4][2];

    if (sn_rng_double(rng) >= op->random_perspective.p)
        return 0;
    for (int k = 0; k < 4; k++) {
        corners[k][0] = inside(rng, width, most * (width / 2), k == 1 || k == 2);
        corners[k][1] = inside(rng, height, most * (height / 2), k >= 2);
    }
    *edits = sn_warp_edit(&op->random_perspective.warp);
    edits->warp.projective = true;
    return sn_warp_perspective(edits->warp.matrix, corners, height, width);
}

DRAW(elastic_transform)
{
    uint64_t high = sn_rng_u32(rng), low = sn_rng_u32(rng);
    const double *alpha = op->elastic_transform.alpha, *sigma = op->elastic_transform.sigma;
    const sn_warping *warp = &op->elastic_transform.warp;

    *edits = (sn_edit){
        .kind = SN_EDIT_ELASTIC,
        .elastic = {.seed = high << 32 | low,
                    .alpha = {alpha[0], alpha[1]},
                    .sigma = {sigma[0], sigma[1]},
                    .lookup = {warp->filter == SN_WARP_NEAREST, true, {warp->fill[0], warp->fill[1], warp->fill[2]}}}};
    return 1;
}

DRAW(gaussian_blur)
{
    const double *sigma = op->gaussian_blur.sigma;
    sn_size kernel = op->gaussian_blur.kernel;

    *edits =
        (sn_edit){.kind = SN_EDIT_BLUR, .blur = {kernel.height, kernel.width, sn_rng_uniform(rng, sigma[0], sigma[1])}};
    return 1;
}

/* The order of the four steps, then a factor, in that of the list, for each whose range changes something. */
DRAW(color_jitter)
{
    const double *ranges[4] = {op->color_jitter.brightness, op->color_jitter.contrast, op->color_jitter.saturation,
                               op->color_jitter.hue};
    uint32_t order[4] = {SN_BRIGHTNESS, SN_CONTRAST, SN_SATURATION, SN_HUE}, n = 0;
    double factors[4];
    bool changes[4];

    for (uint32_t k = 3; k > 0; k--) {
        uint32_t other = sn_rng_below(rng, k + 1), kind = order[k];

        order[k] = order[other];
        order[other] = kind;
    }
    for (uint32_t kind = 0; kind < 4; kind++) {
        double neutral = kind == SN_HUE ? 0 : 1;

        changes[kind] = ranges[kind][0] != neutral || ranges[kind][1] != neutral;
        if (changes[kind])
            factors[kind] = sn_rng_uniform(rng, ranges[kind][0], ranges[kind][1]);
    }
    for (uint32_t k = 0; k < 4; k++)
        if (changes[order[k]])
            edits[n++] = sn_colour_edit(order[k], factors[order[k]]);
    return n;
}

/* Which channel each becomes, all orders alike. */
static sn_edit draw_permutation(sn_rng *rng)
{
    uint32_t red = sn_rng_below(rng, 3), green = (red + 1 + sn_rng_below(rng, 2)) % 3;

    return sn_tone_edit(SN_PERMUTE, red | green << 2 | (3 - red - green) << 4);
}

DRAW(random_channel_permutation)
{
    *edits = draw_permutation(rng);
    return 1;
}

DRAW(random_photometric_distort)
{
    const double *ranges[4] = {op->random_photometric_distort.brightness, op->random_photometric_distort.contrast,
                               op->random_photometric_distort.saturation, op->random_photometric_distort.hue};
    static const uint32_t first[4] = {SN_BRIGHTNESS, SN_CONTRAST, SN_SATURATION, SN_HUE};
    static const uint32_t later[4] = {SN_BRIGHTNESS, SN_SATURATION, SN_HUE, SN_CONTRAST};
    double p = op->random_photometric_distort.p, factors[4];
    const uint32_t *order;
    uint32_t n = 0;
    bool changes[4];

    for (uint32_t kind = 0; kind < 4; kind++) {
        changes[kind] = sn_rng_double(rng) < p;
        factors[kind] = changes[kind] ? sn_rng_uniform(rng, ranges[kind][0], ranges[kind][1]) : 1;
    }
    order = sn_rng_below(rng, 2) ? first : later;
    for (uint32_t k = 0; k < 4; k++)
        if (changes[order[k]])
            edits[n++] = sn_colour_edit(order[k], factors[order[k]]);
    if (sn_rng_double(rng) < p)
        edits[n++] = draw_permutation(rng);
    return n;
}

/* A change that is made with a probability. */
static uint32_t perhaps(double p, sn_rng *rng, sn_edit change, sn_edit *edits)
{
    *edits = change;
    return sn_rng_double(rng) < p;
}

DRAW(grayscale)
{
    *edits = sn_colour_edit(SN_SATURATION, 0);
    return 1;
}

DRAW(random_grayscale)
{
    return perhaps(op->chance.p, rng, sn_colour_edit(SN_SATURATION, 0), edits);
}

DRAW(random_invert)
{
    return perhaps(op->chance.p, rng, sn_tone_edit(SN_INVERT, 0), edits);
}

DRAW(random_autocontrast)
{
    return perhaps(op->chance.p, rng, sn_tone_edit(SN_AUTOCONTRAST, 0), edits);
}

DRAW(random_equalize)
{
    return perhaps(op->chance.p, rng, sn_tone_edit(SN_EQUALIZE, 0), edits);
}

DRAW(random_posterize)
{
    return perhaps(op->random_posterize.p, rng, sn_tone_edit(SN_POSTERIZE, op->random_posterize.bits), edits);
}

DRAW(random_solarize)
{
    return perhaps(op->random_solarize.p, rng, sn_solarize_edit(op->random_solarize.threshold), edits);
}

DRAW(random_adjust_sharpness)
{
    return perhaps(op->random_adjust_sharpness.p, rng, sn_sharpness_edit(op->random_adjust_sharpness.factor), edits);
}

uint32_t sn_recipe_draw(const sn_op *op, sn_rng *rng, uint32_t height, uint32_t width, sn_edit edits[SN_RECIPE_MAX])
{
    static uint32_t (*const draw[SN_N_OPS])(const sn_op *, sn_rng *, uint32_t, uint32_t, sn_edit *) = {
#define LAID(...)
#define SOUND(...)
#define DRAWN(KIND, kind, ...) [SN_OP_##KIND] = sn_draw_##kind,
#include "../ops.def"
    };

    return draw[op->kind] == NULL ? 0 : draw[op->kind](op, rng, height, width, edits);
}
