/*
 * fuzz_pair.c -- a pair of a picture and its mask, with any bytes.
 *
 *   plan | the picture's length, its file, the mask's file --> pairs.h
 */
#include "check.h"
#include "formats.h"
#include "fuzz.h"
#include "pairs.h"

#define MAX_PIXELS 4096
#define IS_MENDED 64u /* the mask, as in picture.c */

static sn_plan plans[N_PLANS];
static sn_codec *codec;

void fuzz_begin(void)
{
    pairs_make_plans(plans);
    codec = sn_codec_new(MAX_PIXELS);
    CHECK(codec);
}

void fuzz_one(const uint8_t *bytes, size_t length)
{
    uint8_t number = fuzz_byte(&bytes, &length);
    picture_file pair = {malloc(length), length};
    uint32_t picture = 0;

    CHECK(length == 0 || pair.bytes);
    if (length)
        memcpy(pair.bytes, bytes, length);
    if (length >= SN_PAIR_HEADER)
        memcpy(&picture, bytes, sizeof picture);
    if (number & IS_MENDED && length > SN_PAIR_HEADER && picture < length - SN_PAIR_HEADER)
        picture_mend((picture_file){pair.bytes + SN_PAIR_HEADER + picture, length - SN_PAIR_HEADER - picture});
    pair_go_through(codec, &plans[number % N_PLANS], &pair, 1, number);
    picture_free(&pair);
}

picture_file fuzz_seed(uint32_t number, sn_rng *rng)
{
    uint32_t height = 1 + sn_rng_below(rng, 12), width = 1 + sn_rng_below(rng, 12);
    picture_kind kind = {height, width, PICTURE_YCC, 1, 1, 0, 0, 40, 0};
    picture_file picture = picture_make(&kind, rng), mask = pair_make_mask(height, width, rng);
    uint8_t header = (uint8_t)(number % 4 ? 64 | number : number);

    if (!mask.bytes) {
        picture_free(&picture);
        return mask;
    }
    picture_file pair = pair_join(&picture, &mask);
    picture_free(&picture);
    picture_free(&mask);
    return fuzz_with_header(&header, 1, pair);
}
