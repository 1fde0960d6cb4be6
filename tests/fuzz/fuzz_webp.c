/*
 * fuzz_webp.c -- see picture.h.
 */
#include "picture.h"
#include "formats.h"

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
    uint8_t header = (uint8_t)(number % 4 ? 64 | number : number);

    return fuzz_with_header(&header, 1, webp_make(1 + sn_rng_below(rng, 16), 1 + sn_rng_below(rng, 16), rng));
}
