/*
 * policies.h -- what AutoAugment has learned: 25 pairs of operations for each of three datasets, each with
 * a probability in tenths and a magnitude of ten.
 *
 * The numbers are those of "AutoAugment: Learning Augmentation Strategies from Data" (Cubuk et al.), as
 * torchvision 0.28 has them. Only recipe.c includes this.
 */
#ifndef SN_POLICIES_H
#define SN_POLICIES_H

#include <stdint.h>

#include "../sn_plan.h"
#include "operation.h"

typedef struct {
    uint8_t operation, tenths, magnitude;
} policy_part;

#define N_PAIRS 25

static const policy_part policies[SN_N_POLICIES][N_PAIRS][2] = {
    [SN_POLICY_IMAGENET] =
        {
            {{POSTERIZE, 4, 8}, {ROTATE, 6, 9}},  {{SOLARIZE, 6, 5}, {AUTO_CONTRAST, 6, 0}},
            {{EQUALIZE, 8, 0}, {EQUALIZE, 6, 0}}, {{POSTERIZE, 6, 7}, {POSTERIZE, 6, 6}},
            {{EQUALIZE, 4, 0}, {SOLARIZE, 2, 4}}, {{EQUALIZE, 4, 0}, {ROTATE, 8, 8}},
            {{SOLARIZE, 6, 3}, {EQUALIZE, 6, 0}}, {{POSTERIZE, 8, 5}, {EQUALIZE, 10, 0}},
            {{ROTATE, 2, 3}, {SOLARIZE, 6, 8}},   {{EQUALIZE, 6, 0}, {POSTERIZE, 4, 6}},
            {{ROTATE, 8, 8}, {COLOR, 4, 0}},      {{ROTATE, 4, 9}, {EQUALIZE, 6, 0}},
            {{EQUALIZE, 0, 0}, {EQUALIZE, 8, 0}}, {{INVERT, 6, 0}, {EQUALIZE, 10, 0}},
            {{COLOR, 6, 4}, {CONTRAST, 10, 8}},   {{ROTATE, 8, 8}, {COLOR, 10, 2}},
            {{COLOR, 8, 8}, {SOLARIZE, 8, 7}},    {{SHARPNESS, 4, 7}, {INVERT, 6, 0}},
            {{SHEAR_X, 6, 5}, {EQUALIZE, 10, 0}}, {{COLOR, 4, 0}, {EQUALIZE, 6, 0}},
            {{EQUALIZE, 4, 0}, {SOLARIZE, 2, 4}}, {{SOLARIZE, 6, 5}, {AUTO_CONTRAST, 6, 0}},
            {{INVERT, 6, 0}, {EQUALIZE, 10, 0}},  {{COLOR, 6, 4}, {CONTRAST, 10, 8}},
            {{EQUALIZE, 8, 0}, {EQUALIZE, 6, 0}},
        },
    [SN_POLICY_CIFAR10] =
        {
            {{INVERT, 1, 0}, {CONTRAST, 2, 6}},           {{ROTATE, 7, 2}, {TRANSLATE_X, 3, 9}},
            {{SHARPNESS, 8, 1}, {SHARPNESS, 9, 3}},       {{SHEAR_Y, 5, 8}, {TRANSLATE_Y, 7, 9}},
            {{AUTO_CONTRAST, 5, 0}, {EQUALIZE, 9, 0}},    {{SHEAR_Y, 2, 7}, {POSTERIZE, 3, 7}},
            {{COLOR, 4, 3}, {BRIGHTNESS, 6, 7}},          {{SHARPNESS, 3, 9}, {BRIGHTNESS, 7, 9}},
            {{EQUALIZE, 6, 0}, {EQUALIZE, 5, 0}},         {{CONTRAST, 6, 7}, {SHARPNESS, 6, 5}},
            {{COLOR, 7, 7}, {TRANSLATE_X, 5, 8}},         {{EQUALIZE, 3, 0}, {AUTO_CONTRAST, 4, 0}},
            {{TRANSLATE_Y, 4, 3}, {SHARPNESS, 2, 6}},     {{BRIGHTNESS, 9, 6}, {COLOR, 2, 8}},
            {{SOLARIZE, 5, 2}, {INVERT, 0, 0}},           {{EQUALIZE, 2, 0}, {AUTO_CONTRAST, 6, 0}},
            {{EQUALIZE, 2, 0}, {EQUALIZE, 6, 0}},         {{COLOR, 9, 9}, {EQUALIZE, 6, 0}},
            {{AUTO_CONTRAST, 8, 0}, {SOLARIZE, 2, 8}},    {{BRIGHTNESS, 1, 3}, {COLOR, 7, 0}},
            {{SOLARIZE, 4, 5}, {AUTO_CONTRAST, 9, 0}},    {{TRANSLATE_Y, 9, 9}, {TRANSLATE_Y, 7, 9}},
            {{AUTO_CONTRAST, 9, 0}, {SOLARIZE, 8, 3}},    {{EQUALIZE, 8, 0}, {INVERT, 1, 0}},
            {{TRANSLATE_Y, 7, 9}, {AUTO_CONTRAST, 9, 0}},
        },
    [SN_POLICY_SVHN] =
        {
            {{SHEAR_X, 9, 4}, {INVERT, 2, 0}},       {{SHEAR_Y, 9, 8}, {INVERT, 7, 0}},
            {{EQUALIZE, 6, 0}, {SOLARIZE, 6, 6}},    {{INVERT, 9, 0}, {EQUALIZE, 6, 0}},
            {{EQUALIZE, 6, 0}, {ROTATE, 9, 3}},      {{SHEAR_X, 9, 4}, {AUTO_CONTRAST, 8, 0}},
            {{SHEAR_Y, 9, 8}, {INVERT, 4, 0}},       {{SHEAR_Y, 9, 5}, {SOLARIZE, 2, 6}},
            {{INVERT, 9, 0}, {AUTO_CONTRAST, 8, 0}}, {{EQUALIZE, 6, 0}, {ROTATE, 9, 3}},
            {{SHEAR_X, 9, 4}, {SOLARIZE, 3, 3}},     {{SHEAR_Y, 8, 8}, {INVERT, 7, 0}},
            {{EQUALIZE, 9, 0}, {TRANSLATE_Y, 6, 6}}, {{INVERT, 9, 0}, {EQUALIZE, 6, 0}},
            {{CONTRAST, 3, 3}, {ROTATE, 8, 4}},      {{INVERT, 8, 0}, {TRANSLATE_Y, 0, 2}},
            {{SHEAR_Y, 7, 6}, {SOLARIZE, 4, 8}},     {{INVERT, 6, 0}, {ROTATE, 8, 4}},
            {{SHEAR_Y, 3, 7}, {TRANSLATE_X, 9, 3}},  {{SHEAR_X, 1, 6}, {INVERT, 6, 0}},
            {{SOLARIZE, 7, 2}, {TRANSLATE_Y, 6, 7}}, {{SHEAR_Y, 8, 4}, {INVERT, 8, 0}},
            {{SHEAR_X, 7, 9}, {TRANSLATE_Y, 8, 3}},  {{SHEAR_Y, 8, 5}, {AUTO_CONTRAST, 7, 0}},
            {{SHEAR_X, 7, 2}, {INVERT, 1, 0}},
        },
};

#endif
