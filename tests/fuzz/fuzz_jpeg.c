/*
 * fuzz_jpeg.c -- see picture.h.
 */
#include "picture.h"
#include "pictures.h"

void fuzz_begin(void)
{
    picture_begin();
}

void fuzz_one(const uint8_t *bytes, size_t length)
{
    picture_one(bytes, length);
}

picture_file fuzz_seed(uint32_t number, sn_rng *rng)
{
    picture_kind kind = {.height = 1 + sn_rng_below(rng, 24), .width = 1 + sn_rng_below(rng, 24), .quality = 50};
    uint8_t header = (uint8_t)(number * 5);

    kind.colour = number % PICTURE_COLOURS;
    kind.progressive = number % 3 == 0;
    kind.restart = (uint8_t)sn_rng_below(rng, 3);
    kind.across = kind.colour == PICTURE_YCC ? 1 + (uint8_t)sn_rng_below(rng, 2) : 1;
    kind.down = kind.across;
    return fuzz_with_header(&header, 1, picture_make(&kind, rng));
}
