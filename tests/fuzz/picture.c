#include "picture.h"

#include "check.h"
#include "every_call.h"
#include "formats.h"
#include "plans.h"

#define IS_MENDED 64u /* lengths and checksums are made to fit, so that what lies behind them is reached */
#define IS_RECODED 128u

static sn_plan plans[N_PLANS];
static sn_codec *codec;

void picture_begin(void)
{
    plans_make(plans);
    codec = sn_codec_new(EVERY_CALL_PIXELS);
    CHECK(codec);
}

/* What was recoded is drawn, unless the plan's operations cannot be. */
static void recode(const sn_plan *plan, picture_file file)
{
    sn_recoded_payload payload = {.room = sn_codec_most_recoded(file.length)};
    sn_view view;

    payload.bytes = malloc(payload.room + 1);
    CHECK(payload.bytes);
    if (sn_codec_recode(codec, file.bytes, file.length, &payload) == 0) {
        void *tight = malloc(payload.length);
        CHECK(tight && payload.length <= payload.room);
        memcpy(tight, payload.bytes, payload.length);
        CHECK_EQUAL(sn_codec_decode_recoded(codec, plan, tight, payload.length, &view), 0, "%s",
                    sn_codec_message(codec));
        free(tight);
    }
    free(payload.bytes);
}

void picture_one(const uint8_t *bytes, size_t length)
{
    uint8_t number = fuzz_byte(&bytes, &length);
    const sn_plan *plan = &plans[number % N_PLANS];
    picture_file file = {malloc(length), length};
    sn_rng rng;

    CHECK(length == 0 || file.bytes);
    if (length)
        memcpy(file.bytes, bytes, length);
    if (number & IS_MENDED)
        picture_mend(file);
    sn_rng_start(&rng, 1, 0, 0, number, SN_STREAM_CHOOSE);
    every_call(codec, plan, file, 1, number, &rng);
    if (number & IS_RECODED)
        recode(plan, file);
    picture_free(&file);
}

picture_file picture_seed(uint32_t number, sn_rng *rng,
                          picture_file (*make)(uint32_t height, uint32_t width, sn_rng *rng))
{
    uint8_t header = (uint8_t)(number % 4 ? IS_MENDED | number : number);

    return fuzz_with_header(&header, 1, make(1 + sn_rng_below(rng, 16), 1 + sn_rng_below(rng, 16), rng));
}
