/*
 * timm.c -- draws what the recipes of timm's `auto_augment` do to a picture.
 *
 *   chains of parts (operation, probability, magnitude) --random numbers--> edits, in their order
 *
 *   TIMM_AUGMENT   chooses `num_layers` chains by their weights and runs them one after the other:
 *                  RandAugment has chains of one part, AutoAugment one chain of two parts
 *   TIMM_AUG_MIX   runs as many chains of drawn length beside each other, and blends them
 *
 * Operations, levels and distributions are timm's. Random numbers are drawn in this order: for each chain
 * which, again while one that must be distinct was chosen before; for each part whether, if that is not
 * certain, the magnitude, if it has a deviation, then the sign, the blur's radius or the warp's filter, if
 * it has one. TIMM_AUG_MIX: the weights of the chains, the weight of the blend, and for each chain how long it
 * is, then which parts.
 */
#include <math.h>
#include <string.h>

#include "recipe.h"

#define LEVELS 10.0 /* the magnitude at which an operation does all that it may */
#define MAX_DEPTH 3 /* of a chain of AugMix, if it is drawn */

/* Numbers in range, and no NaN. */
static bool is_part(const sn_part *part)
{
    return part->operation < SN_N_TIMM_OPERATIONS && part->ends <= 1 && 0 <= part->weight && part->weight <= 1 &&
           0 <= part->probability && part->probability <= 1 && 0 <= part->magnitude && part->magnitude <= SN_TIMM_MOST;
}

bool sn_timm_check(const sn_op *op)
{
    const sn_chains *chains = &op->timm.chains;
    uint32_t n_chains = 0, length = 0, longest = 0, most = SN_RECIPE_MAX;
    double sum = 0;

    if (chains->count == 0 || chains->count > SN_MAX_PARTS || !chains->parts[chains->count - 1].ends)
        return false;
    for (uint32_t k = 0; k < chains->count; k++) {
        const sn_part *part = &chains->parts[k];

        if (!is_part(part))
            return false;
        if (length++ == 0) {
            sum += (double)part->weight;
            n_chains += part->weight > 0;
        }
        longest = length > longest ? length : longest;
        length = part->ends ? 0 : length;
    }
    if (fabs(sum - 1) > 1e-4 || (op->timm.distinct && op->timm.num_layers > n_chains))
        return false;
    if (op->kind == SN_OP_TIMM_AUGMENT)
        return op->timm.num_layers * longest <= most;
    if (longest > 1 || op->timm.num_layers == 0)
        return false;
    longest = op->timm.depth == 0 ? MAX_DEPTH : op->timm.depth;
    return op->timm.num_layers * (longest + 1) + 2 <= most;
}

/* The part that begins the chain: the first up to which the weights add up to more than a random number. */
static const sn_part *choose(const sn_op *op, sn_rng *rng)
{
    const sn_part *chosen = op->timm.chains.parts, *past = chosen + op->timm.chains.count;
    double left = sn_rng_double(rng);
    bool begins = true;

    for (const sn_part *next = chosen; next < past && left >= 0; next++) {
        if (begins && next->weight > 0)
            chosen = next; /* the last of them where the sum is rounded to less than 1 */
        left -= begins ? (double)next->weight : 0;
        begins = next->ends;
    }
    return chosen;
}

static double signed_by(sn_rng *rng, double level)
{
    return sn_rng_below(rng, 2) ? -level : level;
}

/* A factor that moves away from 1 either way. */
static double either_way(sn_rng *rng, double share)
{
    return fmax(0.1, 1 + signed_by(rng, share * 0.9));
}

static double one_way(double share)
{
    return share * 1.8 + 0.1;
}

static sn_edit shear_or_shift(const sn_op *op, sn_rng *rng, const double matrix[6])
{
    sn_edit edit = sn_warp_edit(&op->timm.warp);

    memcpy(edit.warp.matrix, matrix, 6 * sizeof *matrix);
    if (op->timm.warp.filter == SN_WARP_EITHER)
        edit.warp.filter = sn_rng_below(rng, 2) ? SN_WARP_BICUBIC : SN_WARP_BILINEAR;
    return edit;
}

static sn_edit rotate(const sn_op *op, sn_rng *rng, double degrees, uint32_t height, uint32_t width)
{
    double matrix[6], middle[2] = {width * 0.5, height * 0.5};

    sn_warp_rotation(matrix, degrees, middle);
    return shear_or_shift(op, rng, matrix);
}

static sn_edit box_blur(double radius)
{
    return (sn_edit){.kind = SN_EDIT_SOFTEN, .soften = (float)radius};
}

/* One part, added to the edits; how many there are then. */
static uint32_t add(const sn_op *op, const sn_part *part, sn_rng *rng, uint32_t height, uint32_t width, sn_edit *edits,
                    uint32_t n)
{
    double level = (double)part->magnitude, share, level_of_four;
    uint32_t bits;
    sn_edit *edit = edits + n;

    if (part->probability < 1 && sn_rng_double(rng) >= (double)part->probability)
        return n;
    if (isinf(op->timm.deviation))
        level = sn_rng_uniform(rng, 0, level);
    else if (op->timm.deviation > 0)
        level += op->timm.deviation * sn_rng_normal(rng);
    share = fmax(0, fmin(level, op->timm.most)) / LEVELS;
    level_of_four = trunc(share * 4);

    switch (part->operation) {
    case SN_TIMM_AUTO_CONTRAST:
        *edit = sn_tone_edit(SN_AUTOCONTRAST, 0);
        break;
    case SN_TIMM_EQUALIZE:
        *edit = sn_tone_edit(SN_EQUALIZE, 0);
        break;
    case SN_TIMM_INVERT:
        *edit = sn_tone_edit(SN_INVERT, 0);
        break;
    case SN_TIMM_ROTATE:
        *edit = rotate(op, rng, signed_by(rng, share * 30), height, width);
        break;
    case SN_TIMM_POSTERIZE:
    case SN_TIMM_POSTERIZE_INCREASING:
    case SN_TIMM_POSTERIZE_ORIGINAL:
        level_of_four = part->operation == SN_TIMM_POSTERIZE_INCREASING ? 4 - level_of_four : level_of_four;
        level_of_four += part->operation == SN_TIMM_POSTERIZE_ORIGINAL ? 4 : 0;
        bits = (uint32_t)fmax(0, fmin(8, level_of_four));
        *edit = sn_tone_edit(SN_POSTERIZE, bits);
        break;
    case SN_TIMM_SOLARIZE:
        *edit = sn_tone_edit(SN_SOLARIZE, (uint32_t)fmin(256, share * 256));
        break;
    case SN_TIMM_SOLARIZE_INCREASING:
        *edit = sn_tone_edit(SN_SOLARIZE, 256 - (uint32_t)fmin(256, share * 256));
        break;
    case SN_TIMM_SOLARIZE_ADD:
        *edit = sn_tone_edit(SN_SOLARIZE_ADD, (uint32_t)fmin(128, share * 110));
        break;
    case SN_TIMM_COLOR:
        *edit = sn_colour_edit(SN_SATURATION, one_way(share));
        break;
    case SN_TIMM_COLOR_INCREASING:
        *edit = sn_colour_edit(SN_SATURATION, either_way(rng, share));
        break;
    case SN_TIMM_CONTRAST:
        *edit = sn_colour_edit(SN_CONTRAST, one_way(share));
        break;
    case SN_TIMM_CONTRAST_INCREASING:
        *edit = sn_colour_edit(SN_CONTRAST, either_way(rng, share));
        break;
    case SN_TIMM_BRIGHTNESS:
        *edit = sn_colour_edit(SN_BRIGHTNESS, one_way(share));
        break;
    case SN_TIMM_BRIGHTNESS_INCREASING:
        *edit = sn_colour_edit(SN_BRIGHTNESS, either_way(rng, share));
        break;
    case SN_TIMM_SHARPNESS:
        *edit = sn_sharpness_edit(one_way(share));
        break;
    case SN_TIMM_SHARPNESS_INCREASING:
        *edit = sn_sharpness_edit(either_way(rng, share));
        break;
    case SN_TIMM_SHEAR_X:
        *edit = shear_or_shift(op, rng, (double[6]){1, signed_by(rng, share * 0.3), 0, 0, 1, 0});
        break;
    case SN_TIMM_SHEAR_Y:
        *edit = shear_or_shift(op, rng, (double[6]){1, 0, 0, signed_by(rng, share * 0.3), 1, 0});
        break;
    case SN_TIMM_TRANSLATE_X_REL:
        *edit = shear_or_shift(op, rng, (double[6]){1, 0, signed_by(rng, share * op->timm.share) * width, 0, 1, 0});
        break;
    case SN_TIMM_TRANSLATE_Y_REL:
        *edit = shear_or_shift(op, rng, (double[6]){1, 0, 0, 0, 1, signed_by(rng, share * op->timm.share) * height});
        break;
    case SN_TIMM_DESATURATE:
        *edit = sn_colour_edit(SN_SATURATION, 1 - fmin(1, 0.5 + 0.5 * share));
        break;
    case SN_TIMM_GAUSSIAN_BLUR:
        *edit = box_blur(fmin(2, 0.1 + 1.9 * share));
        break;
    default: /* SN_TIMM_GAUSSIAN_BLUR_RAND */
        *edit = box_blur(sn_rng_uniform(rng, 0.1, 2 * fmin(1, share)));
    }
    return n + 1;
}

uint32_t sn_draw_timm_augment(const sn_op *op, sn_rng *rng, uint32_t height, uint32_t width, sn_edit *edits)
{
    uint64_t chosen_before = 0;
    uint32_t n = 0;

    for (uint32_t k = 0; k < op->timm.num_layers;) {
        const sn_part *part = choose(op, rng);
        uint64_t bit = (uint64_t)1 << (part - op->timm.chains.parts);

        if (op->timm.distinct && (chosen_before & bit))
            continue;
        chosen_before |= bit;
        do
            n = add(op, part, rng, height, width, edits, n);
        while (!(part++)->ends);
        k++;
    }
    return n;
}

uint32_t sn_draw_timm_aug_mix(const sn_op *op, sn_rng *rng, uint32_t height, uint32_t width, sn_edit *edits)
{
    uint32_t n = 0;
    double weights[SN_MAX_CHAINS], blend[2];

    sn_mix_weights(rng, op->timm.alpha, op->timm.num_layers, weights);
    sn_mix_weights(rng, op->timm.alpha, 2, blend);
    edits[n++] = sn_mix_edit(SN_EDIT_MIX_BEGIN, 0);
    for (uint32_t k = 0; k < op->timm.num_layers; k++) {
        uint32_t depth = op->timm.depth > 0 ? op->timm.depth : 1 + sn_rng_below(rng, MAX_DEPTH);

        while (depth-- > 0)
            n = add(op, choose(op, rng), rng, height, width, edits, n);
        edits[n++] = sn_mix_edit(SN_EDIT_MIX_ADD, weights[k]);
    }
    edits[n++] = sn_mix_edit(SN_EDIT_MIX_END, blend[0]);
    return n;
}
