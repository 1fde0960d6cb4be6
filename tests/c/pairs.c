#include "pairs.h"

#include <stdlib.h>
#include <string.h>

#include "base/sn_status.h"
#include "check.h"
#include "codec/operations/mask.h"

static uint8_t *room(size_t bytes)
{
    uint8_t *made = malloc(bytes ? bytes : 1);

    CHECK(made);
    return made;
}

#ifdef SN_HAVE_PNG

#include <png.h>

picture_file pair_make_mask(uint32_t height, uint32_t width, sn_rng *rng)
{
    png_image image = {.version = PNG_IMAGE_VERSION, .width = width, .height = height, .format = PNG_FORMAT_GRAY};
    uint8_t *classes = room((size_t)height * width);
    png_alloc_size_t length = 0;
    picture_file file;

    for (size_t k = 0; k < (size_t)height * width; k++)
        classes[k] = (uint8_t)sn_rng_below(rng, 256);
    CHECK(png_image_write_to_memory(&image, NULL, &length, 0, classes, 0, NULL));
    file.bytes = room(length);
    CHECK(png_image_write_to_memory(&image, file.bytes, &length, 0, classes, 0, NULL));
    file.length = length;
    free(classes);
    return file;
}

#else

picture_file pair_make_mask(uint32_t height, uint32_t width, sn_rng *rng)
{
    (void)height;
    (void)width;
    (void)rng;
    return (picture_file){0};
}

#endif

picture_file pair_join(const picture_file *picture, const picture_file *mask)
{
    picture_file pair = {room(SN_PAIR_HEADER + picture->length + mask->length),
                         SN_PAIR_HEADER + picture->length + mask->length};

    sn_pair_begin(pair.bytes, (uint32_t)picture->length);
    memcpy(pair.bytes + SN_PAIR_HEADER, picture->bytes, picture->length);
    memcpy(pair.bytes + SN_PAIR_HEADER + picture->length, mask->bytes, mask->length);
    return pair;
}

/* A view in memory that ends with it. */
static sn_view tight(const sn_view *view)
{
    size_t row = (size_t)3 * view->width, n = (size_t)view->height * view->width;
    uint8_t *pixels = room(row * view->height), *mask = room(n);

    for (uint32_t y = 0; y < view->height; y++)
        memcpy(pixels + y * row, view->pixels + y * view->stride, row);
    memcpy(mask, view->mask, n);
    return (sn_view){pixels, view->height, view->width, row, mask, 0};
}

int pair_go_through(sn_codec *codec, const sn_plan *plan, const picture_file *pair, uint64_t seed, uint32_t number)
{
    uint32_t height, width;
    sn_view view, decoded;
    sn_rng rng;
    int rc, is_whole;

    CHECK_EQUAL(sn_plan_output_size(plan, &height, &width), 0, "pair %u", number);
    size_t n = (size_t)height * width;
    uint8_t *straight = room(sn_plan_pixel_bytes(plan) * n), *later = room(sn_plan_pixel_bytes(plan) * n);
    uint8_t *batch = room(sn_plan_mask_bytes(plan) * n);

    sn_rng_start(&rng, seed, 0, 0, number, SN_STREAM_AUGMENT);
    is_whole = sn_codec_augment_encoded(codec, plan, &rng, pair->bytes, pair->length, straight) == 0;
    CHECK(is_whole || *sn_codec_message(codec) || plan->is_pair);
    rc = sn_codec_decode(codec, plan, pair->bytes, pair->length, &view);
    if (rc == 0) {
        CHECK(view.mask);
        decoded = tight(&view);
        sn_rng_start(&rng, seed, 0, 0, number, SN_STREAM_AUGMENT);
        rc = sn_codec_augment_decoded(codec, plan, &rng, &decoded, later);
        if (rc == 0 && is_whole)
            CHECK(memcmp(straight + 3 * n, later + 3 * n, n) == 0);
        if (rc == 0)
            sn_batch_write_mask(plan, later + 3 * n, height, width, batch);
        for (size_t k = 0; k < n && rc == 0; k++)
            CHECK((plan->mask_dtype == SN_MASK_UINT8 ? batch[k] : ((int64_t *)(void *)batch)[k]) == later[3 * n + k]);
        free((uint8_t *)decoded.pixels);
        free((uint8_t *)decoded.mask);
    }
    free(straight);
    free(later);
    free(batch);
    return is_whole && rc == 0;
}

static void fill_masks(sn_op *op, uint8_t fill)
{
    for (const sn_argument *argument = sn_kinds[op->kind].arguments; argument->name != NULL; argument++)
        if (strcmp(argument->name, "mask_fill") == 0)
            *((uint8_t *)op + argument->at) = fill;
}

void pairs_make_plans(sn_plan plans[N_PLANS])
{
    plans_make(plans);
    for (uint32_t i = 0; i < N_PLANS; i++) {
        plans[i].is_pair = 1;
        plans[i].apply_orientation = 0;
        plans[i].mask_dtype = i % 2;
        for (uint32_t k = 0; k < plans[i].n_ops; k++)
            fill_masks(&plans[i].ops[k], (uint8_t)(250 + k));
        CHECK_EQUAL(sn_plan_check(&plans[i]), 0, "plan %u", i);
    }
}
