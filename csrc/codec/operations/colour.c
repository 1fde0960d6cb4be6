#include "colour.h"

#define SN_LOOP
#define SN_COLOUR_TABLE sn_colour_plain

#include "../kernels/colour_loops.h"

static const sn_colour_kernels *kernels(void)
{
#ifdef SN_HAVE_AVX2_CODE
    if (sn_simd_usable())
        return &sn_colour_avx2;
#endif
    return &sn_colour_plain;
}

/* A byte has 256 values: blend each of them once and look the rest up. */
static void blend(uint8_t *bytes, size_t n, float toward, float factor)
{
    uint8_t table[256];

    for (int value = 0; value < 256; value++)
        table[value] = sn_blended(toward, (float)value, factor);
    for (size_t k = 0; k < n; k++)
        bytes[k] = table[bytes[k]];
}

void sn_colour_run(const sn_colour *colour, uint8_t *rgb, size_t n_pixels)
{
    double mean;

    switch (colour->kind) {
    case SN_BRIGHTNESS:
        blend(rgb, 3 * n_pixels, 0, colour->factor);
        break;
    case SN_CONTRAST:
        mean = (double)kernels()->grey_sum(rgb, n_pixels) / (double)n_pixels;
        blend(rgb, 3 * n_pixels, (float)(int)(mean + 0.5), colour->factor);
        break;
    case SN_SATURATION:
        kernels()->saturate(rgb, n_pixels, colour->factor);
        break;
    case SN_HUE:
        kernels()->turn_hue(rgb, n_pixels, colour->turn);
        break;
    }
}
