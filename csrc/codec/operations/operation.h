/*
 * operation.h -- the operations of torchvision's recipes: what one of them does to a picture.
 *
 *   operation, magnitude, size --> an edit
 *
 * Callers    recipe.c and aug_mix.c; any thread; no state but the caller's.
 */
#ifndef SN_OPERATION_H
#define SN_OPERATION_H

#include <stdbool.h>

#include "../sn_plan.h"
#include "edit.h"

/* In the order in which RandAugment and TrivialAugmentWide choose from the first 14. */
enum operation {
    IDENTITY,
    SHEAR_X,
    SHEAR_Y,
    TRANSLATE_X,
    TRANSLATE_Y,
    ROTATE,
    BRIGHTNESS,
    COLOR,
    CONTRAST,
    SHARPNESS,
    POSTERIZE,
    SOLARIZE,
    AUTO_CONTRAST,
    EQUALIZE,
    N_CHOSEN_FROM,
    INVERT = N_CHOSEN_FROM
};

bool sn_operation_has_magnitudes(uint32_t operation);
bool sn_operation_has_sign(uint32_t operation);

/* One of `bins` numbers from `first` to `last`. torch.linspace() has single floats, whose last digit
 * depends on how wide the processor's vectors are; a whole number here is whole. */
double sn_spaced(double first, double last, uint32_t bins, uint32_t k);

/* From the first whole value on that is no less: all that a threshold means for bytes. */
sn_edit sn_solarize_edit(double threshold);

/* One operation, added to the `n` edits; how many there are then. What changes nothing is left out. */
uint32_t sn_operation_add(const sn_warping *warping, uint32_t operation, double m, uint32_t height, uint32_t width,
                          sn_edit *edits, uint32_t n);

#endif
