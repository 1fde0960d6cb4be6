/*
 * fuzz_recoded.c -- a RECODED payload of any bytes: it is drawn within them, or refused.
 *
 *   plan | payload --> decoded, and augmented
 */
#include "base/sn_status.h"
#include "check.h"
#include "codec/sn_codec.h"
#include "every_call.h"
#include "fuzz.h"
#include "plans.h"
#include "recoded_files.h"

static sn_plan plans[N_PLANS];
static sn_codec *codec;

void fuzz_begin(void)
{
    plans_make(plans);
    codec = sn_codec_new(EVERY_CALL_PIXELS);
    CHECK(codec);
}

void fuzz_one(const uint8_t *bytes, size_t length)
{
    uint8_t number = fuzz_byte(&bytes, &length);
    const sn_plan *plan = &plans[number % N_PLANS];
    uint32_t height, width;
    sn_view view;
    sn_rng rng;

    CHECK_EQUAL(sn_plan_output_size(plan, &height, &width), 0, "plan %u", number);
    uint8_t *payload = malloc(length ? length : 1), *pixels = malloc((size_t)3 * height * width);
    CHECK(payload && pixels);
    if (length)
        memcpy(payload, bytes, length);
    sn_rng_start(&rng, 1, 0, 0, number, SN_STREAM_AUGMENT);
    int rc = sn_codec_augment_recoded(codec, plan, &rng, payload, length, pixels);
    CHECK(rc == 0 || rc == SN_E_DECODE || rc == SN_E_FOR_PILLOW || rc == SN_E_TOO_LARGE || rc == SN_E_PLAN);
    rc = sn_codec_decode_recoded(codec, plan, payload, length, &view);
    CHECK(rc == 0 || rc == SN_E_DECODE || rc == SN_E_FOR_PILLOW || rc == SN_E_TOO_LARGE || rc == SN_E_PLAN);
    if (rc == 0)
        CHECK((uint64_t)view.height * view.width <= EVERY_CALL_PIXELS);
    free(payload);
    free(pixels);
}

picture_file fuzz_seed(uint32_t number, sn_rng *rng)
{
    uint8_t header = (uint8_t)number;

    return fuzz_with_header(&header, 1, recoded_file(number % 32, rng));
}
