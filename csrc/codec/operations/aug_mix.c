/*
 * aug_mix.c -- draws what torchvision's AugMix does to a picture.
 *
 * torchvision turns a picture into a tensor for it. Therefore warps look colours up as tensors' do (grid.h).
 *
 * Random numbers, in this order: the weights of the picture and of the mix, the weights of the chains; for each
 * chain how long it is, if that is drawn, then for each of its operations which, the magnitude, the sign.
 */
#include <math.h>

#include "operation.h"
#include "recipe.h"

#define BINS 10     /* of magnitudes, of which the first `severity` are drawn */
#define MAX_DEPTH 3 /* of a chain, if it is drawn */

/* Those of a recipe that leaves colours as they are come first. */
static const uint8_t operations[] = {SHEAR_X,       SHEAR_Y,  TRANSLATE_X, TRANSLATE_Y, ROTATE,   POSTERIZE, SOLARIZE,
                                     AUTO_CONTRAST, EQUALIZE, BRIGHTNESS,  COLOR,       CONTRAST, SHARPNESS};

#define N_OPERATIONS (sizeof operations / sizeof *operations)
#define N_WITHOUT_COLOURS 9

bool sn_aug_mix_check(const sn_op *op)
{
    uint32_t longest = op->aug_mix.depth == 0 ? MAX_DEPTH : op->aug_mix.depth;

    return op->aug_mix.width * (longest + 1) + 2 <= SN_RECIPE_MAX;
}

static double magnitude_of(uint32_t operation, uint32_t k, uint32_t height, uint32_t width)
{
    switch (operation) {
    case SHEAR_X:
    case SHEAR_Y:
        return sn_spaced(0, 0.3, BINS, k);
    case TRANSLATE_X:
        return sn_spaced(0, width / 3.0, BINS, k);
    case TRANSLATE_Y:
        return sn_spaced(0, height / 3.0, BINS, k);
    case ROTATE:
        return sn_spaced(0, 30, BINS, k);
    case POSTERIZE:
        return 4 - rint(k * 4.0 / (BINS - 1));
    case SOLARIZE:
        return sn_spaced(255, 0, BINS, k);
    default:
        return sn_spaced(0, 0.9, BINS, k);
    }
}

static uint32_t add(const sn_op *op, sn_rng *rng, uint32_t height, uint32_t width, sn_edit *edits, uint32_t n)
{
    uint32_t operation = operations[sn_rng_below(rng, op->aug_mix.all_ops ? N_OPERATIONS : N_WITHOUT_COLOURS)], past;
    double m = 0;

    if (sn_operation_has_magnitudes(operation))
        m = magnitude_of(operation, sn_rng_below(rng, op->aug_mix.severity), height, width);
    if (sn_operation_has_sign(operation) && sn_rng_below(rng, 2) == 1)
        m = -m;
    past = sn_operation_add(&op->aug_mix.warp, operation, m, height, width, edits, n);
    if (past > n && edits[n].kind == SN_EDIT_WARP) {
        edits[n].warp.on_tensor = true;
        edits[n].warp.has_fill = op->aug_mix.has_fill;
    }
    return past;
}

uint32_t sn_draw_aug_mix(const sn_op *op, sn_rng *rng, uint32_t height, uint32_t width, sn_edit *edits)
{
    double weights[SN_MAX_CHAINS], parts[2];
    uint32_t n = 0;

    sn_mix_weights(rng, op->aug_mix.alpha, 2, parts);
    sn_mix_weights(rng, op->aug_mix.alpha, op->aug_mix.width, weights);
    edits[n++] = sn_mix_edit(SN_EDIT_MIX_BEGIN, parts[0]);
    for (uint32_t k = 0; k < op->aug_mix.width; k++) {
        uint32_t depth = op->aug_mix.depth > 0 ? op->aug_mix.depth : 1 + sn_rng_below(rng, MAX_DEPTH);

        while (depth-- > 0)
            n = add(op, rng, height, width, edits, n);
        edits[n++] = sn_mix_edit(SN_EDIT_MIX_ADD, weights[k] * parts[1]);
    }
    edits[n++] = sn_mix_edit(SN_EDIT_MIX_END, 1);
    return n;
}
