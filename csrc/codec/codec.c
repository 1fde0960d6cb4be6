/* codec.c -- sn_codec.h: puts decoder, routes and augmenter together, and words failures. */
#include "sn_codec.h"

#include <stdio.h>
#include <stdlib.h>

#include <jpeglib.h>

#include "../base/sn_status.h"
#include "augment.h"
#include "jpeg.h"
#include "png.h"
#include "route.h"
#include "simd.h"
#include "webp.h"

#define DEFAULT_MAX_PIXELS 64000000
#define JPEG_MAX_PIXELS (65535ull * 65535)

struct sn_codec {
    sn_jpeg *jpeg;
    sn_augmenter augmenter;
    sn_buffer whole; /* a picture that is no JPEG */
    uint64_t max_pixels;
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

int sn_codec_libwebp(void)
{
    return sn_webp_version();
}

sn_codec *sn_codec_new(uint64_t max_pixels)
{
    sn_codec *codec = calloc(1, sizeof *codec);

    if (codec == NULL)
        return NULL;
    if (max_pixels == 0)
        max_pixels = DEFAULT_MAX_PIXELS;
    codec->max_pixels = max_pixels < JPEG_MAX_PIXELS ? max_pixels : JPEG_MAX_PIXELS;
    codec->jpeg = sn_jpeg_new(codec->max_pixels, codec->message);
    if (codec->jpeg == NULL) {
        free(codec);
        return NULL;
    }
    return codec;
}

void sn_codec_free(sn_codec *codec)
{
    if (codec == NULL)
        return;
    sn_jpeg_free(codec->jpeg);
    sn_augmenter_release(&codec->augmenter);
    sn_buffer_release(&codec->whole);
    free(codec);
}

const char *sn_codec_message(const sn_codec *codec)
{
    return codec->message;
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
                 route->misfit->height, route->misfit->width, route->misfit_height,
                 route->misfit_width, height, width);
        return rc;
    }
    if (rc == SN_E_TOO_LARGE && route != NULL) {
        bool by_pixels = (uint64_t)route->misfit_height * route->misfit_width > codec->max_pixels;
        char limit[64] = "sides are too long to compute";

        if (by_pixels)
            snprintf(limit, sizeof limit, "pixels are more than max_pixels=%llu",
                     (unsigned long long)codec->max_pixels);
        snprintf(codec->message, sizeof codec->message,
                 "a picture of %u x %u becomes %u x %u in the pipeline, whose %s: shrink the picture, "
                 "leave it out%s", height, width, route->misfit_height, route->misfit_width, limit,
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

int sn_codec_probe(sn_codec *codec, const uint8_t *bytes, size_t length, uint32_t *height,
                   uint32_t *width)
{
    int rc;

    codec->message[0] = '\0';
    rc = sn_jpeg_open(codec->jpeg, bytes, length, false, height, width);
    sn_jpeg_close(codec->jpeg);
    return rc;
}

int sn_codec_decode_region(sn_codec *codec, const uint8_t *bytes, size_t length, uint32_t top,
                           uint32_t left, uint32_t height, uint32_t width, sn_view *out)
{
    sn_rect region = {top, left, height, width};
    uint32_t h = 0, w = 0;
    int rc;

    codec->message[0] = '\0';
    rc = sn_jpeg_open(codec->jpeg, bytes, length, false, &h, &w);
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

/* Run ops from pixels. */
static int from_view(sn_codec *codec, const sn_op *ops, uint32_t n_ops, sn_rng *rng,
                     const sn_view *picture, uint8_t *out, sn_view *view)
{
    sn_route route;
    int rc = SN_E_PLAN;

    codec->message[0] = '\0';
    route.misfit = NULL;
    if (picture->height == 0 || picture->width == 0)
        goto out;
    rc = sn_route_lay(&route, ops, n_ops, rng, picture->height, picture->width, codec->max_pixels);
    if (rc != SN_OK)
        goto out;
    rc = sn_augment(&codec->augmenter, &route, NULL, false, picture, out, view);
out:
    return explain(codec, rc, &route, picture->height, picture->width);
}

/* The pixels of a picture that is no JPEG. */
static int read_whole(sn_codec *codec, bool upright, const uint8_t *bytes, size_t length, sn_view *out)
{
    int rc = sn_png_read(bytes, length, upright, codec->max_pixels, &codec->whole, out);

    if (rc == SN_E_FOR_PILLOW)
        rc = sn_webp_read(bytes, length, upright, codec->max_pixels, &codec->whole, out);
    if (rc == SN_E_FOR_PILLOW)
        snprintf(codec->message, sizeof codec->message,
                 "no JPEG, and no usual PNG or WebP: Pillow decodes it, or says what is wrong");
    return rc;
}

/* Run the first `n_ops` ops of the plan from a file. */
static int from_bytes(sn_codec *codec, const sn_plan *plan, uint32_t n_ops, bool fast, sn_rng *rng,
                      const uint8_t *bytes, size_t length, uint8_t *out, sn_view *view)
{
    sn_route route;
    sn_view picture;
    uint32_t height = 0, width = 0;
    int rc;

    codec->message[0] = '\0';
    route.misfit = NULL;
    rc = sn_jpeg_open(codec->jpeg, bytes, length, plan->apply_orientation, &height, &width);
    if (rc == SN_E_FOR_PILLOW && read_whole(codec, plan->apply_orientation, bytes, length, &picture) == SN_OK) {
        sn_jpeg_close(codec->jpeg);
        return from_view(codec, plan->ops, n_ops, rng, &picture, out, view);
    }
    if (rc != SN_OK)
        goto out;
    rc = sn_route_lay(&route, plan->ops, n_ops, rng, height, width, codec->max_pixels);
    if (rc != SN_OK)
        goto out;
    rc = sn_augment(&codec->augmenter, &route, codec->jpeg, fast, NULL, out, view);
out:
    sn_jpeg_close(codec->jpeg);
    return explain(codec, rc, &route, height, width);
}

int sn_codec_decode(sn_codec *codec, const sn_plan *plan, const uint8_t *bytes, size_t length,
                    sn_view *out)
{
    /* What is kept in full is decoded exactly: it serves for many epochs, and other jobs too. */
    bool fast = plan->decode == SN_DECODE_FAST && plan->n_head > 0 && plan->ops[0].kind == SN_OP_RESIZE;

    return from_bytes(codec, plan, plan->n_head, fast, NULL, bytes, length, NULL, out);
}

int sn_codec_head(sn_codec *codec, const sn_plan *plan, const sn_view *picture, sn_view *out)
{
    return from_view(codec, plan->ops, plan->n_head, NULL, picture, NULL, out);
}

int sn_codec_augment_encoded(sn_codec *codec, const sn_plan *plan, sn_rng *rng,
                             const uint8_t *bytes, size_t length, uint8_t *out)
{
    bool fast = plan->decode == SN_DECODE_FAST;

    return from_bytes(codec, plan, plan->n_ops, fast, rng, bytes, length, out, NULL);
}

int sn_codec_augment_decoded(sn_codec *codec, const sn_plan *plan, sn_rng *rng,
                             const sn_view *decoded, uint8_t *out)
{
    return from_view(codec, plan->ops + plan->n_head, plan->n_ops - plan->n_head, rng, decoded, out,
                     NULL);
}
