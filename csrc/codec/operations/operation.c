#include "operation.h"

#include <math.h>

double sn_spaced(double first, double last, uint32_t bins, uint32_t k)
{
    return (first * (bins - 1 - k) + last * k) / (bins - 1);
}

bool sn_operation_has_magnitudes(uint32_t operation)
{
    return operation != IDENTITY && operation < AUTO_CONTRAST;
}

bool sn_operation_has_sign(uint32_t operation)
{
    return operation != IDENTITY && operation < POSTERIZE;
}

sn_edit sn_solarize_edit(double threshold)
{
    return sn_tone_edit(SN_SOLARIZE, (uint32_t)fmax(0, fmin(256, ceil(threshold))));
}

uint32_t sn_operation_add(const sn_warping *warping, uint32_t operation, double m, uint32_t height, uint32_t width,
                          sn_edit *edits, uint32_t n)
{
    double middle[2] = {width * 0.5, height * 0.5}, corner[2] = {0, 0}, away[2] = {0, 0}, shear[2] = {0, 0};
    sn_edit edit = {0};

    switch (operation) {
    case SHEAR_X:
    case SHEAR_Y:
        shear[operation == SHEAR_Y] = atan(m) * (180.0 / M_PI);
        edit = sn_warp_edit(warping);
        sn_warp_affine(edit.warp.matrix, corner, 0, away, 1, shear);
        break;
    case TRANSLATE_X:
    case TRANSLATE_Y:
        m = trunc(m);
        away[operation == TRANSLATE_Y] = m;
        edit = sn_warp_edit(warping);
        sn_warp_affine(edit.warp.matrix, middle, 0, away, 1, shear);
        break;
    case ROTATE:
        edit = sn_warp_edit(warping);
        sn_warp_rotation(edit.warp.matrix, m, middle);
        break;
    case BRIGHTNESS:
        edit = sn_colour_edit(SN_BRIGHTNESS, 1 + m);
        break;
    case COLOR:
        edit = sn_colour_edit(SN_SATURATION, 1 + m);
        break;
    case CONTRAST:
        edit = sn_colour_edit(SN_CONTRAST, 1 + m);
        break;
    case SHARPNESS:
        edit = sn_sharpness_edit(1 + m);
        break;
    case POSTERIZE:
        edit = sn_tone_edit(SN_POSTERIZE, (uint32_t)m);
        break;
    case SOLARIZE:
        edit = sn_solarize_edit(m);
        break;
    case AUTO_CONTRAST:
        edit = sn_tone_edit(SN_AUTOCONTRAST, 0);
        break;
    case EQUALIZE:
        edit = sn_tone_edit(SN_EQUALIZE, 0);
        break;
    case INVERT:
        edit = sn_tone_edit(SN_INVERT, 0);
        break;
    default:
        return n;
    }
    if (sn_operation_has_sign(operation) && m == 0)
        return n;
    edits[n] = edit;
    return n + 1;
}
