/*
 * colour.h -- changes of colour, in place, as Pillow makes them.
 *
 *   BRIGHTNESS   0      + factor * (value - 0)
 *   CONTRAST     mean   + factor * (value - mean)      mean: of the picture's grey, rounded
 *   SATURATION   grey   + factor * (value - grey)      grey: of the pixel; 0 makes a grey picture
 *   HUE          RGB -> HSV, the hue moved on by `turn` of 256 steps, -> RGB
 *
 * The first three are PIL.ImageEnhance's (Image.blend: single floats, cut to 0 ... 255, rounded
 * down), the last is what torchvision does to a PIL image: the same bytes. One thing differs. Grey
 * is Pillow-SIMD's, with weights of 15 bits. Pillow-SIMD itself has weights of 16 bits, plain
 * Pillow's, for the last few columns of a picture whose width is no multiple of 4; there, and from
 * plain Pillow everywhere, one grey in 770 differs by 1. A mirrored picture gets the same here.
 *
 * Callers    any thread; no state but the caller's.
 */
#ifndef SN_COLOUR_H
#define SN_COLOUR_H

#include <stddef.h>
#include <stdint.h>

enum sn_colour_kind { SN_BRIGHTNESS = 0, SN_CONTRAST = 1, SN_SATURATION = 2, SN_HUE = 3 };

typedef struct {
    uint32_t kind; /* enum sn_colour_kind */
    float factor;  /* not for HUE */
    uint8_t turn;  /* for HUE */
} sn_colour;

/* Change a whole picture, `n_pixels` RGB triples close together. */
void sn_colour_run(const sn_colour *colour, uint8_t *rgb, size_t n_pixels);

#endif
