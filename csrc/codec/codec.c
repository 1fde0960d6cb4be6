/* codec.c -- sn_codec.h: puts decoder, routes and augmenter together, and words failures. */
#include "sn_codec.h"

#include <stdio.h>
#include <stdlib.h>

#include <jpeglib.h>

#include "../base/sn_status.h"
#include "formats/jpeg.h"
#include "formats/png.h"
#include "formats/stored.h"
#include "formats/webp.h"
#include "kernels/simd.h"
#include "operations/augment.h"
#include "operations/mask.h"
#include "operations/route.h"
#include "sound/sound.h"

#define JPEG_MAX_PIXELS (65535ull * 65535)

struct sn_codec {
    sn_jpeg *jpeg;
    sn_augmenter augmenter;
    sn_masker masker;
    sn_buffer whole; /* a picture that is no JPEG */
    sn_sounder sounder;
    uint64_t max_pixels;
    sn_boxes boxes; /* of the next one */
    sn_moves moves; /* of the last run */
    int is_of_mask; /* the last failure */
    char message[SN_JPEG_MESSAGE];
};

const char *sn_codec_simd(void)
{
    if (!sn_simd_usable())
        return NULL;
#ifdef SN_HAVE_AVX2_CODE
    return "AVX2";
#else
    return "NEON";
#endif
}

int sn_codec_libjpeg_turbo(void)
{
    return LIBJPEG_TURBO_VERSION_NUMBER;
}

int sn_codec_libpng(void)
{
    return sn_png_version();
}

int sn_codec_libdeflate(void)
{
    return sn_png_deflate_version();
}

int sn_codec_libwebp(void)
{
    return sn_webp_version();
}

int sn_codec_libsndfile(void)
{
    return sn_sound_version();
}

sn_codec *sn_codec_new(uint64_t max_pixels)
{
    sn_codec *codec = calloc(1, sizeof *codec);

    if (codec == NULL)
        return NULL;
    codec->max_pixels = max_pixels != 0 && max_pixels < JPEG_MAX_PIXELS ? max_pixels : JPEG_MAX_PIXELS;
    codec->jpeg = sn_jpeg_new(codec->max_pixels, codec->message);
    if (codec->jpeg == NULL) {
        free(codec);
        return NULL;
    }
    sn_sounder_begin(&codec->sounder, codec->message);
    return codec;
}

void sn_codec_free(sn_codec *codec)
{
    if (codec == NULL)
        return;
    sn_jpeg_free(codec->jpeg);
    sn_augmenter_release(&codec->augmenter);
    sn_masker_release(&codec->masker);
    sn_buffer_release(&codec->whole);
    sn_sounder_release(&codec->sounder);
    free(codec);
}

const char *sn_codec_message(const sn_codec *codec)
{
    return codec->message;
}

int sn_codec_is_of_mask(const sn_codec *codec)
{
    return codec->is_of_mask;
}

void sn_codec_set_boxes(sn_codec *codec, sn_boxes boxes)
{
    codec->boxes = boxes;
}

const sn_moves *sn_codec_moves(const sn_codec *codec)
{
    return &codec->moves;
}

void sn_pair_begin(uint8_t header[SN_PAIR_HEADER], uint32_t picture_length)
{
    for (int k = 0; k < SN_PAIR_HEADER; k++)
        header[k] = (uint8_t)(picture_length >> 8 * k);
}

/* Of the bytes of a pair: those of the picture are left, and *mask has the others. */
static bool split(const uint8_t **bytes, size_t *length, const uint8_t **mask, size_t *mask_length)
{
    uint32_t picture = 0;

    if (*length < SN_PAIR_HEADER)
        return false;
    for (int k = 0; k < SN_PAIR_HEADER; k++)
        picture |= (uint32_t)(*bytes)[k] << 8 * k;
    *bytes += SN_PAIR_HEADER;
    *length -= SN_PAIR_HEADER;
    if (picture > *length)
        return false;
    *mask = *bytes + picture;
    *mask_length = *length - picture;
    *length = picture;
    return true;
}

/* The decoder words its own failures; those of the steps after it are worded here. `route` may be
 * NULL. */
static int explain(sn_codec *codec, int rc, const sn_route *route, uint32_t height, uint32_t width)
{
    const char *reason = NULL;

    if (codec->message[0] != '\0')
        return rc;
    if (rc == SN_E_PLAN && route != NULL && route->misfit != NULL) {
        snprintf(codec->message, sizeof codec->message,
                 "Required crop size (%u, %u) is larger than input image size (%u, %u): crop less, "
                 "resize before it, or set pad_if_needed (picture %u x %u)",
                 route->misfit->size.height, route->misfit->size.width, route->misfit_height, route->misfit_width,
                 height, width);
        return rc;
    }
    if (rc == SN_E_TOO_LARGE && route != NULL) {
        bool by_pixels = codec->max_pixels < JPEG_MAX_PIXELS &&
                         (uint64_t)route->misfit_height * route->misfit_width > codec->max_pixels;
        char limit[64] = "sides are too long to compute";

        if (by_pixels)
            snprintf(limit, sizeof limit, "pixels are more than max_pixels=%llu",
                     (unsigned long long)codec->max_pixels);
        snprintf(codec->message, sizeof codec->message,
                 "a picture of %u x %u becomes %u x %u in the pipeline, whose %s: shrink the picture, "
                 "leave it out%s",
                 height, width, route->misfit_height, route->misfit_width, limit,
                 by_pixels ? ", or allow more" : ", or resize less");
        return rc;
    }
    if (rc == SN_E_PLAN)
        reason = "the pipeline does not fit the picture";
    else if (rc == -ENOMEM)
        reason = "no memory for the picture";
    if (reason != NULL)
        snprintf(codec->message, sizeof codec->message, "%s (picture %u x %u)", reason, height, width);
    return rc;
}

int sn_codec_probe(sn_codec *codec, const uint8_t *bytes, size_t length, uint32_t *height, uint32_t *width)
{
    int rc;

    codec->message[0] = '\0';
    rc = sn_jpeg_open(codec->jpeg, bytes, length, false, NULL, height, width);
    sn_jpeg_close(codec->jpeg);
    return rc;
}

int sn_codec_probe_sound(sn_codec *codec, const uint8_t *bytes, size_t length, uint32_t *rate, uint32_t *channels,
                         uint64_t *frames)
{
    return sn_sounder_probe(&codec->sounder, bytes, length, rate, channels, frames);
}

int sn_codec_decode_region(sn_codec *codec, const uint8_t *bytes, size_t length, uint32_t top, uint32_t left,
                           uint32_t height, uint32_t width, sn_view *out)
{
    sn_rect region = {top, left, height, width};
    uint32_t h = 0, w = 0;
    int rc;

    codec->message[0] = '\0';
    rc = sn_jpeg_open(codec->jpeg, bytes, length, false, NULL, &h, &w);
    if (rc != SN_OK)
        goto out;
    if (height == 0 || width == 0 || top >= h || left >= w || height > h - top || width > w - left) {
        rc = SN_E_PLAN;
        goto out;
    }
    rc = sn_jpeg_read(codec->jpeg, region, &codec->augmenter.decoded, out);
out:
    sn_jpeg_close(codec->jpeg);
    return explain(codec, rc, NULL, h, w);
}

/* Run ops on a picture that is decoded, or with NULL on the open JPEG, and on its mask, if it has one. */
static int run(sn_codec *codec, const sn_op *ops, uint32_t n_ops, bool fast, sn_rng *rng, const sn_view *picture,
               uint32_t height, uint32_t width, const uint8_t *mask, uint8_t *out, sn_view *view)
{
    const uint8_t *of_mask = NULL;
    sn_route route;
    const sn_pass *last;
    int rc;

    route.misfit = NULL;
    rc = sn_route_lay(&route, ops, n_ops, rng, height, width, &codec->boxes, codec->max_pixels);
    codec->moves = route.moves;
    if (rc == SN_OK)
        rc = sn_augment(&codec->augmenter, &route, picture ? NULL : codec->jpeg, fast, picture, out, view);
    if (rc == SN_OK && mask != NULL) {
        last = &route.passes[route.n_passes - 1];
        rc = sn_mask_run(&codec->masker, &route, width, mask, out ? out + (size_t)3 * last->height * last->width : NULL,
                         &of_mask);
    }
    if (view != NULL)
        view->mask = of_mask;
    return explain(codec, rc, &route, height, width);
}

/* Run these ops of the plan from pixels. */
static int from_view(sn_codec *codec, const sn_plan *plan, const sn_op *ops, uint32_t n_ops, sn_rng *rng,
                     const sn_view *picture, uint8_t *out, sn_view *view)
{
    codec->message[0] = '\0';
    codec->is_of_mask = 0;
    if (plan->is_sound)
        return sn_sound_from_view(&codec->sounder, plan, ops, n_ops, rng, picture, out, view);
    if (picture->height == 0 || picture->width == 0)
        return explain(codec, SN_E_PLAN, NULL, picture->height, picture->width);
    return run(codec, ops, n_ops, false, rng, picture, picture->height, picture->width, picture->mask, out, view);
}

/* The most pixels of a picture that is decoded here. */
static uint64_t most_pixels(const sn_codec *codec, const sn_plan *plan)
{
    return plan->leaves_above != 0 && plan->leaves_above < codec->max_pixels ? plan->leaves_above : codec->max_pixels;
}

/* The pixels of a picture that is no JPEG. */
static int read_whole(sn_codec *codec, const sn_plan *plan, const uint8_t *bytes, size_t length, sn_view *out)
{
    uint64_t most = most_pixels(codec, plan);
    int rc = sn_png_read(bytes, length, plan->apply_orientation, most, &codec->whole, out);

    if (rc == SN_E_FOR_PILLOW)
        rc = sn_webp_read(bytes, length, plan->apply_orientation, most, &codec->whole, out);
    if (rc == SN_E_FOR_PILLOW)
        snprintf(codec->message, sizeof codec->message,
                 "no usual JPEG, PNG or WebP: Pillow decodes it, or says what is wrong");
    return rc;
}

static int refuse_mask(sn_codec *codec, const sn_view *mask, uint32_t height, uint32_t width)
{
    codec->is_of_mask = 1;
    snprintf(codec->message, sizeof codec->message,
             "the mask has %u x %u pixels and its picture %u x %u: give it the picture's size, or leave the pair out",
             mask->height, mask->width, height, width);
    return SN_E_DECODE;
}

/* Damage is Pillow's work if Pillow is set to go on from it. */
static int left_to_pillow(const sn_plan *plan, int rc)
{
    return rc == SN_E_DECODE && plan->leaves_damaged ? SN_E_FOR_PILLOW : rc;
}

/* Run the first `n_ops` ops of the plan from a file, or from the two of a pair. `payload` may be NULL. */
static int from_bytes(sn_codec *codec, const sn_plan *plan, uint32_t n_ops, bool fast, sn_rng *rng,
                      const uint8_t *bytes, size_t length, sn_recoded_payload *payload, uint8_t *out, sn_view *view)
{
    sn_view picture, mask = {0}, *whole = NULL;
    const uint8_t *of_mask = NULL;
    size_t mask_length = 0;
    uint32_t height = 0, width = 0;
    int rc;

    codec->message[0] = '\0';
    codec->is_of_mask = 0;
    if (plan->is_sound)
        return sn_sound_from_file(&codec->sounder, plan, n_ops, rng, bytes, length, out, view);
    if (plan->is_pair) {
        if (!split(&bytes, &length, &of_mask, &mask_length)) {
            snprintf(codec->message, sizeof codec->message, "the bytes of a pair are cut off");
            return SN_E_DECODE;
        }
        rc = sn_png_read_mask(of_mask, mask_length, most_pixels(codec, plan), &codec->masker.png, &mask);
        if (rc != SN_OK)
            return explain(codec, rc, NULL, height, width);
    }
    rc = sn_jpeg_open(codec->jpeg, bytes, length, plan->apply_orientation, payload, &height, &width);
    if (rc == SN_OK && (uint64_t)height * width > most_pixels(codec, plan))
        rc = SN_E_FOR_PILLOW;
    else if (rc == SN_E_FOR_PILLOW && read_whole(codec, plan, bytes, length, &picture) == SN_OK) {
        codec->message[0] = '\0';
        whole = &picture;
        height = picture.height;
        width = picture.width;
        rc = SN_OK;
    }
    if (rc == SN_OK && plan->is_pair && (mask.height != height || mask.width != width))
        rc = refuse_mask(codec, &mask, height, width);
    else if (rc == SN_OK)
        rc = left_to_pillow(
            plan, run(codec, plan->ops, n_ops, fast && !whole, rng, whole, height, width, mask.pixels, out, view));
    else
        rc = left_to_pillow(plan, explain(codec, rc, NULL, height, width));
    sn_jpeg_close(codec->jpeg);
    return rc;
}

static int from_recoded(sn_codec *codec, const sn_plan *plan, uint32_t n_ops, sn_rng *rng, const void *payload,
                        size_t bytes, uint8_t *out, sn_view *view)
{
    uint32_t height = 0, width = 0;
    int rc;

    codec->message[0] = '\0';
    codec->is_of_mask = 0;
    rc = sn_jpeg_open_recoded(codec->jpeg, payload, bytes, &height, &width);
    if (rc == SN_OK && (uint64_t)height * width > most_pixels(codec, plan))
        rc = SN_E_FOR_PILLOW;
    if (rc == SN_OK)
        rc = run(codec, plan->ops, n_ops, false, rng, NULL, height, width, NULL, out, view);
    sn_jpeg_close(codec->jpeg);
    return rc;
}

int sn_codec_recode(sn_codec *codec, const uint8_t *bytes, size_t length, sn_recoded_payload *payload)
{
    uint32_t height, width;
    sn_view any;

    codec->message[0] = '\0';
    payload->rc = sn_jpeg_open(codec->jpeg, bytes, length, false, payload, &height, &width);
    if (payload->rc == SN_OK) {
        payload->rc = SN_E_FOR_PILLOW;
        sn_jpeg_read(codec->jpeg, (sn_rect){0, 0, 1, 1}, &codec->augmenter.decoded, &any);
    }
    sn_jpeg_close(codec->jpeg);
    return payload->rc;
}

int sn_codec_decode_recoded(sn_codec *codec, const sn_plan *plan, const void *payload, size_t bytes, sn_view *out)
{
    return from_recoded(codec, plan, plan->n_head, NULL, payload, bytes, NULL, out);
}

int sn_codec_augment_recoded(sn_codec *codec, const sn_plan *plan, sn_rng *rng, const void *payload, size_t bytes,
                             uint8_t *out)
{
    return from_recoded(codec, plan, plan->n_ops, rng, payload, bytes, out, NULL);
}

int sn_codec_decode(sn_codec *codec, const sn_plan *plan, const uint8_t *bytes, size_t length, sn_view *out)
{
    /* What is kept in full is decoded exactly: it serves for many epochs, and other jobs too. */
    bool fast = plan->decode == SN_DECODE_FAST && plan->n_head > 0 && plan->ops[0].kind == SN_OP_RESIZE;

    return from_bytes(codec, plan, plan->n_head, fast, NULL, bytes, length, NULL, NULL, out);
}

int sn_codec_head(sn_codec *codec, const sn_plan *plan, const sn_view *picture, sn_view *out)
{
    return from_view(codec, plan, plan->ops, plan->n_head, NULL, picture, NULL, out);
}

int sn_codec_augment_encoded(sn_codec *codec, const sn_plan *plan, sn_rng *rng, const uint8_t *bytes, size_t length,
                             uint8_t *out)
{
    bool fast = plan->decode == SN_DECODE_FAST;

    return from_bytes(codec, plan, plan->n_ops, fast, rng, bytes, length, NULL, out, NULL);
}

int sn_codec_augment_and_recode(sn_codec *codec, const sn_plan *plan, sn_rng *rng, const uint8_t *bytes, size_t length,
                                sn_recoded_payload *payload, uint8_t *out)
{
    payload->rc = SN_E_FOR_PILLOW; /* of whatever does not come to be read as a JPEG */
    return from_bytes(codec, plan, plan->n_ops, false, rng, bytes, length, payload, out, NULL);
}

int sn_codec_augment_decoded(sn_codec *codec, const sn_plan *plan, sn_rng *rng, const sn_view *decoded, uint8_t *out)
{
    return from_view(codec, plan, plan->ops + plan->n_head, plan->n_ops - plan->n_head, rng, decoded, out, NULL);
}
