/*
 * cmyk.h -- four inks as Adobe stores them, to RGB as Pillow makes it.
 *
 * No JPEG says whether 255 is all ink or none. Pillow takes Adobe's way, none, for every file of
 * four components, and multiplies: what comes out is not what a printer's profile would give,
 * but it is what torchvision has always trained on.
 */
#ifndef SN_CMYK_H
#define SN_CMYK_H

#include <stdint.h>

/* Rewrite a row of `width` CMYK quadruples in place as RGB triples. */
static inline void sn_cmyk_to_rgb(uint8_t *row, uint32_t width)
{
    const uint8_t *in = row;
    uint8_t *out = row;

    for (uint32_t x = 0; x < width; x++, in += 4, out += 3) {
        uint32_t light = in[3];
        uint8_t rgb[3];

        for (int c = 0; c < 3; c++) {
            uint32_t product = (255u - in[c]) * light + 128;

            /* The nearest integer to (255 - ink) * light / 255, without a division. */
            rgb[c] = (uint8_t)(light - ((product + (product >> 8)) >> 8));
        }
        out[0] = rgb[0];
        out[1] = rgb[1];
        out[2] = rgb[2];
    }
}

#endif
