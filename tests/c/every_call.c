#include "every_call.h"

#include <stdlib.h>

#include "base/sn_status.h"
#include "check.h"

/* A failure has a reason in words; what succeeds has pixels. */
static void check_outcome(const sn_codec *codec, int rc, const sn_view *view)
{
    uint64_t sum = 0;

    if (rc != 0) {
        CHECK(rc == SN_E_FOR_PILLOW || rc == SN_E_DECODE || rc == SN_E_TOO_LARGE || rc == SN_E_PLAN);
        CHECK(*sn_codec_message(codec));
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
