#include "every_call.h"

#include <stdlib.h>

#include "base/sn_status.h"
#include "check.h"
#include "plans.h"

/* It has a reason in words. */
static void check_failure(const sn_codec *codec, int rc)
{
    CHECK(rc == SN_E_FOR_PILLOW || rc == SN_E_DECODE || rc == SN_E_TOO_LARGE || rc == SN_E_PLAN);
    CHECK(*sn_codec_message(codec));
}

static void check_outcome(const sn_codec *codec, int rc, const sn_view *view)
{
    uint64_t sum = 0;

    if (rc != 0) {
        check_failure(codec, rc);
        return;
    }
    CHECK(view->height > 0 && view->width > 0 && (uint64_t)view->height * view->width <= EVERY_CALL_PIXELS);
    for (uint32_t y = 0; y < view->height; y++)
        for (uint32_t x = 0; x < 3 * view->width; x++)
            sum += view->pixels[y * view->stride + x];
    CHECK(sum <= (uint64_t)3 * 255 * view->height * view->width);
}

int every_call(sn_codec *codec, const sn_plan *plan, picture_file file, uint64_t seed, uint32_t number, sn_rng *rng)
{
    uint32_t height = 0, width = 0, out_height, out_width;
    sn_view view;
    sn_rng own;
    int rc = sn_codec_probe(codec, file.bytes, file.length, &height, &width);

    if (rc == 0) {
        uint32_t top = sn_rng_below(rng, height), left = sn_rng_below(rng, width);
        rc = sn_codec_decode_region(codec, file.bytes, file.length, top, left, 1 + sn_rng_below(rng, height - top),
                                    1 + sn_rng_below(rng, width - left), &view);
        check_outcome(codec, rc, &view);
    } else {
        CHECK(*sn_codec_message(codec));
    }
    CHECK(sn_plan_output_size(plan, &out_height, &out_width) == 0);
    uint8_t *pixels = malloc((size_t)3 * out_height * out_width);
    CHECK(pixels);
    sn_rng_start(&own, seed, 0, 0, number, SN_STREAM_AUGMENT);
    rc = sn_codec_augment_encoded(codec, plan, &own, file.bytes, file.length, pixels);
    check_outcome(codec, rc, &(sn_view){pixels, 1, 1, 3, NULL, 0});
    free(pixels);
    rc = sn_codec_decode(codec, plan, file.bytes, file.length, &view);
    check_outcome(codec, rc, &view);
    return rc == 0;
}

static float *floats(size_t n)
{
    float *made = malloc(n * sizeof *made + 1);

    CHECK(made);
    return made;
}

/* A view's frames, close together, in memory that ends with them. */
static sn_view tight(const sn_view *view)
{
    float *frames = floats((size_t)view->height * view->width);

    for (uint32_t channel = 0; channel < view->height; channel++)
        memcpy(frames + (size_t)channel * view->width, view->pixels + channel * view->stride,
               sizeof(float) * view->width);
    return (sn_view){(uint8_t *)frames, view->height, view->width, sizeof(float) * view->width, NULL, 0};
}

int every_call_of_sound(sn_codec *codec, const sn_plan *plan, picture_file file, uint64_t seed, uint32_t number,
                        uint64_t *digest)
{
    uint32_t channels, frames, rate = 0, n_channels = 0;
    uint64_t n_frames = 0;
    sn_view view, decoded;
    sn_rng rng;
    int direct, by_decoded;

    if (sn_codec_probe_sound(codec, file.bytes, file.length, &rate, &n_channels, &n_frames) == 0)
        CHECK(rate > 0 && n_channels > 0 && n_channels <= SN_MAX_CHANNELS);
    CHECK_EQUAL(sn_plan_output_size(plan, &channels, &frames), 0, "%u", number);
    size_t n = (size_t)channels * frames;
    float *one = floats(n), *other = floats(n);
    uint8_t *item = malloc(plan_item_bytes(plan, channels, frames));
    CHECK(item);
    sn_rng_start(&rng, seed, 0, 0, number, SN_STREAM_AUGMENT);
    direct = sn_codec_augment_encoded(codec, plan, &rng, file.bytes, file.length, (uint8_t *)one);
    if (direct != 0)
        check_failure(codec, direct);
    by_decoded = sn_codec_decode(codec, plan, file.bytes, file.length, &view);
    if (by_decoded != 0) {
        check_failure(codec, by_decoded);
    } else {
        decoded = tight(&view);
        sn_rng_start(&rng, seed, 0, 0, number, SN_STREAM_AUGMENT);
        by_decoded = sn_codec_augment_decoded(codec, plan, &rng, &decoded, (uint8_t *)other);
        CHECK_EQUAL(by_decoded, 0, "%s", sn_codec_message(codec));
        free((void *)decoded.pixels);
    }
    if (direct == 0 && by_decoded == 0)
        CHECK(memcmp(one, other, n * sizeof(float)) == 0);
    if (direct == 0) {
        sn_batch_write(plan, (uint8_t *)one, channels, frames, NULL, item);
        for (size_t k = 0; k < plan_item_bytes(plan, channels, frames); k++)
            *digest = sn_mix64(*digest ^ item[k]);
    }
    free(item);
    free(one);
    free(other);
    return direct == 0 && by_decoded == 0;
}
