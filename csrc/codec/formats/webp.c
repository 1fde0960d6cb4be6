#include "webp.h"

#include "../../base/sn_status.h"

#ifdef SN_HAVE_WEBP

#include <string.h>
#include <webp/decode.h>

#define RIFF_BYTES 12 /* RIFF, a length, WEBP */
#define CHUNK_BYTES 8 /* of a chunk without data: name, length */
#define EXTENDED_BYTES 10
#define NOT_OF_ONE_PICTURE 0xC3 /* flags in the first byte of VP8X: is animated; those that libwebp refuses */

int sn_webp_version(void)
{
    return WebPGetDecoderVersion();
}

static uint32_t little_endian(const uint8_t *bytes)
{
    return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

static bool is_named(const uint8_t *chunk, const char *name)
{
    return memcmp(chunk, name, 4) == 0;
}

static uint32_t side(const uint8_t *bytes)
{
    return 1 + (bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16);
}

/* The chunks of the picture's own. */
typedef struct {
    const uint8_t *bytes;
    size_t length;
    uint32_t height, width; /* that the header says; 0: there is none */
} picture;

/* Find the picture, if the chunks are just those of one, each in its place, and end where the file does. Pillow demands
 * less, but hands the picture's own chunks alone to libwebp, which otherwise reads on in the next ones. */
static bool is_one_picture(const uint8_t *bytes, size_t length, bool upright, picture *out)
{
    bool is_extended = false, is_found = false, has_alpha = false;
    size_t at = RIFF_BYTES;

    *out = (picture){0};

    if (length < RIFF_BYTES || !is_named(bytes, "RIFF") || !is_named(bytes + 8, "WEBP") ||
        little_endian(bytes + 4) != length - 8)
        return false;
    while (length - at >= CHUNK_BYTES) {
        const uint8_t *chunk = bytes + at;
        size_t data = little_endian(chunk + 4), left = length - at - CHUNK_BYTES;

        if (data > left || (data & 1) > left - data)
            return false;
        if (is_named(chunk, "VP8X")) {
            if (at != RIFF_BYTES || data != EXTENDED_BYTES || (chunk[CHUNK_BYTES] & NOT_OF_ONE_PICTURE))
                return false;
            is_extended = true;
            out->width = side(chunk + CHUNK_BYTES + 4);
            out->height = side(chunk + CHUNK_BYTES + 7);
        } else if (is_named(chunk, "VP8 ") || is_named(chunk, "VP8L")) {
            if (is_found || (has_alpha && chunk[3] == 'L'))
                return false;
            is_found = true;
            if (!has_alpha)
                out->bytes = chunk;
            out->length = (size_t)(chunk - out->bytes) + CHUNK_BYTES + data + (data & 1);
        } else if (is_named(chunk, "ALPH")) {
            if (!is_extended || is_found || has_alpha)
                return false;
            has_alpha = true;
            out->bytes = chunk;
        } else if (is_named(chunk, "EXIF") || is_named(chunk, "XMP ")) {
            if (!is_extended || upright)
                return false;
        } else if (!is_named(chunk, "ICCP") || !is_extended || is_found || has_alpha) {
            return false;
        }
        at += CHUNK_BYTES + data + (data & 1);
    }
    return is_found && at == length;
}

int sn_webp_read(const uint8_t *bytes, size_t length, bool upright, uint64_t max_pixels, sn_buffer *buffer,
                 sn_view *out)
{
    WebPDecoderConfig config;
    picture own;

    if (!is_one_picture(bytes, length, upright, &own) || !WebPInitDecoderConfig(&config) ||
        WebPGetFeatures(own.bytes, own.length, &config.input) != VP8_STATUS_OK)
        return SN_E_FOR_PILLOW;
    uint32_t height = (uint32_t)config.input.height, width = (uint32_t)config.input.width;
    size_t stride = (size_t)3 * width;
    if ((own.height && (height != own.height || width != own.width)) || (uint64_t)height * width > max_pixels)
        return SN_E_FOR_PILLOW;
    if (sn_buffer_reserve(buffer, stride * height) != 0)
        return -ENOMEM;
    config.output.colorspace = MODE_RGB;
    config.output.is_external_memory = 1;
    config.output.u.RGBA = (WebPRGBABuffer){buffer->data, (int)stride, stride * height};
    VP8StatusCode status = WebPDecode(own.bytes, own.length, &config);
    WebPFreeDecBuffer(&config.output);
    if (status != VP8_STATUS_OK)
        return status == VP8_STATUS_OUT_OF_MEMORY ? -ENOMEM : SN_E_FOR_PILLOW;
    *out = (sn_view){buffer->data, height, width, stride, NULL, 0};
    return SN_OK;
}

#else

int sn_webp_version(void)
{
    return 0;
}

int sn_webp_read(const uint8_t *bytes, size_t length, bool upright, uint64_t max_pixels, sn_buffer *buffer,
                 sn_view *out)
{
    (void)bytes;
    (void)length;
    (void)upright;
    (void)max_pixels;
    (void)buffer;
    (void)out;
    return SN_E_FOR_PILLOW;
}

#endif
