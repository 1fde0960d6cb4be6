/*
 * fuzz_png.c -- see picture.h.
 */
#include "picture.h"
#include "formats.h"

PICTURE_TARGET

picture_file fuzz_seed(uint32_t number, sn_rng *rng)
{
    return picture_seed(number, rng, png_make);
}
