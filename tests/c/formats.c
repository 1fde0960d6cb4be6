#include "formats.h"

#include <stdlib.h>
#include <string.h>

#include "check.h"

#define SIGNATURE_BYTES 8 /* of a PNG */
#define PNG_CHUNK_BYTES 12
#define RIFF_BYTES 12
#define MOST_EXTRA 64 /* bytes that one blow adds */
#define MOST_BLOWS 8

static picture_file with_room(size_t length)
{
    picture_file file = {malloc(length ? length : 1), length};

    CHECK(file.bytes);
    return file;
}

static uint8_t *noise(size_t length, sn_rng *rng)
{
    uint8_t *bytes = malloc(length);
    uint32_t mask = sn_rng_below(rng, 2) ? 0xFF : 0x1F; /* flat pictures have other blocks */

    CHECK(bytes);
    for (size_t i = 0; i < length; i++)
        bytes[i] = (uint8_t)(sn_rng_below(rng, 256) & mask);
    return bytes;
}

#ifdef SN_HAVE_PNG

#include <png.h>

static void append(png_structp png, png_bytep bytes, size_t length)
{
    picture_file *file = png_get_io_ptr(png);

    file->bytes = realloc(file->bytes, file->length + length);
    CHECK(file->bytes);
    memcpy(file->bytes + file->length, bytes, length);
    file->length += length;
}

static void flush(png_structp png)
{
    (void)png;
}

picture_file png_make(uint32_t height, uint32_t width, sn_rng *rng)
{
    static const int types[] = {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB, PNG_COLOR_TYPE_RGBA,
                                PNG_COLOR_TYPE_PALETTE};
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    picture_file file = {0};
    int type = types[sn_rng_below(rng, 5)], depth = 8;

    CHECK(png && info);
    if (type == PNG_COLOR_TYPE_PALETTE || (type == PNG_COLOR_TYPE_GRAY && sn_rng_below(rng, 2)))
        depth = 1 << sn_rng_below(rng, 4);
    else if (type != PNG_COLOR_TYPE_GRAY && sn_rng_below(rng, 3) == 0)
        depth = 16;
    png_set_write_fn(png, &file, append, flush);
    png_set_IHDR(png, info, width, height, depth, type,
                 sn_rng_below(rng, 3) == 0 ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
                 PNG_FILTER_TYPE_DEFAULT);
    if (type == PNG_COLOR_TYPE_PALETTE) {
        png_color palette[256];
        for (int i = 0; i < 256; i++)
            palette[i] = (png_color){(png_byte)i, (png_byte)(3 * i), (png_byte)(255 - i)};
        png_set_PLTE(png, info, palette, 1 << depth);
        if (sn_rng_below(rng, 2))
            png_set_tRNS(png, info, (png_bytep) "\0\x40\xff", 1 + (depth > 1), NULL);
    }
    png_write_info(png, info);
    size_t stride = png_get_rowbytes(png, info);
    uint8_t *pixels = noise(stride * height, rng);
    png_bytepp rows = malloc(height * sizeof *rows);
    CHECK(rows);
    for (uint32_t y = 0; y < height; y++)
        rows[y] = pixels + y * stride;
    png_write_image(png, rows);
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
    free(rows);
    free(pixels);
    return file;
}

#else

picture_file png_make(uint32_t height, uint32_t width, sn_rng *rng)
{
    (void)height;
    (void)width;
    (void)rng;
    return (picture_file){0};
}

#endif

static void put_little_endian(uint8_t *at, uint32_t number)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(number >> 8 * i);
}

#ifdef SN_HAVE_WEBP

#include <webp/encode.h>

/* The same picture in the container that has room for more: VP8X, what may lie around it, its own chunks. */
static picture_file extended(picture_file bare, uint32_t height, uint32_t width, sn_rng *rng)
{
    static const char *extra[] = {"ICCP", "EXIF", "XMP "};
    uint32_t which = sn_rng_below(rng, 4), before = which == 0 ? 12 : 0, after = which == 1 || which == 2 ? 12 : 0;
    int is_extended = memcmp(bare.bytes + RIFF_BYTES, "VP8X", 4) == 0;
    uint32_t header = is_extended ? 0 : 18;
    picture_file file = with_room(bare.length + header + (is_extended ? 0 : before) + after);
    uint8_t *at = file.bytes + RIFF_BYTES;

    memcpy(file.bytes, bare.bytes, RIFF_BYTES);
    if (header) {
        memcpy(at, "VP8X\x0a\0\0\0\x10\0\0", 11); /* and one byte more, which is 0 */
        at[11] = 0;
        for (int i = 0; i < 3; i++) {
            at[12 + i] = (uint8_t)((width - 1) >> 8 * i);
            at[15 + i] = (uint8_t)((height - 1) >> 8 * i);
        }
        at += header;
        if (before) {
            memcpy(at, "ICCP\x04\0\0\0ABCD", 12);
            at += before;
        }
    }
    memcpy(at, bare.bytes + RIFF_BYTES, bare.length - RIFF_BYTES);
    at += bare.length - RIFF_BYTES;
    if (after) {
        memcpy(at, extra[which], 4);
        memcpy(at + 4, "\x04\0\0\0MM\0*", 8);
    }
    put_little_endian(file.bytes + 4, (uint32_t)file.length - 8);
    return file;
}

picture_file webp_make(uint32_t height, uint32_t width, sn_rng *rng)
{
    int has_alpha = (int)sn_rng_below(rng, 2), is_lossless = (int)sn_rng_below(rng, 2);
    int stride = (has_alpha ? 4 : 3) * (int)width;
    uint8_t *pixels = noise((size_t)stride * height, rng), *encoded = NULL;
    float quality = (float)sn_rng_below(rng, 101);
    size_t length;

    if (is_lossless)
        length = (has_alpha ? WebPEncodeLosslessRGBA : WebPEncodeLosslessRGB)(pixels, (int)width, (int)height, stride,
                                                                              &encoded);
    else
        length =
            (has_alpha ? WebPEncodeRGBA : WebPEncodeRGB)(pixels, (int)width, (int)height, stride, quality, &encoded);
    CHECK(length > 0);
    picture_file file = with_room(length);
    memcpy(file.bytes, encoded, length);
    WebPFree(encoded);
    free(pixels);
    if (sn_rng_below(rng, 2)) {
        picture_file bare = file;
        file = extended(bare, height, width, rng);
        picture_free(&bare);
    }
    return file;
}

#else

picture_file webp_make(uint32_t height, uint32_t width, sn_rng *rng)
{
    (void)height;
    (void)width;
    (void)rng;
    return (picture_file){0};
}

#endif

static uint32_t checksum(const uint8_t *bytes, size_t length)
{
    uint32_t crc = 0xFFFFFFFF;

    for (size_t i = 0; i < length; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (0xEDB88320 & (0 - (crc & 1)));
    }
    return ~crc;
}

/* Give each chunk of a PNG the checksum of its content, as far as chunks follow each other. */
static void mend_png(picture_file file)
{
    size_t at = SIGNATURE_BYTES;

    while (at < file.length && file.length - at >= PNG_CHUNK_BYTES) {
        uint8_t *chunk = file.bytes + at;
        uint32_t data = (uint32_t)chunk[0] << 24 | (uint32_t)chunk[1] << 16 | (uint32_t)chunk[2] << 8 | chunk[3];
        if (data > file.length - at - PNG_CHUNK_BYTES)
            return;
        uint32_t crc = checksum(chunk + 4, data + 4);
        for (int i = 0; i < 4; i++)
            chunk[8 + data + i] = (uint8_t)(crc >> (24 - 8 * i));
        at += PNG_CHUNK_BYTES + data;
    }
}

void picture_mend(picture_file file)
{
    if (file.length > SIGNATURE_BYTES && memcmp(file.bytes, "\x89PNG", 4) == 0)
        mend_png(file);
    else if (file.length > RIFF_BYTES && memcmp(file.bytes, "RIFF", 4) == 0)
        put_little_endian(file.bytes + 4, (uint32_t)file.length - 8);
}

/* In memory that has room for MOST_EXTRA bytes more. */
static void strike(picture_file *file, sn_rng *rng)
{
    static const uint32_t numbers[] = {0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x00010000, 0x0000FFFF, 0x3FFF3FFF};
    uint32_t at = sn_rng_below(rng, (uint32_t)file->length);
    size_t left = file->length - at, n;

    switch (sn_rng_below(rng, 5)) {
    case 0:
        file->bytes[at] ^= (uint8_t)(1 << sn_rng_below(rng, 8));
        break;
    case 1:
        file->length = at > SIGNATURE_BYTES ? at : file->length;
        break;
    case 2: /* a number of 2 or 4 bytes */
        n = sn_rng_below(rng, 2) ? 4 : 2;
        memcpy(file->bytes + at, &numbers[sn_rng_below(rng, 8)], left < n ? left : n);
        break;
    case 3: /* what is there comes twice */
        n = 1 + sn_rng_below(rng, MOST_EXTRA);
        n = n < left ? n : left;
        memmove(file->bytes + at + n, file->bytes + at, left);
        file->length += n;
        break;
    default: /* ... or not at all */
        n = 1 + sn_rng_below(rng, MOST_EXTRA);
        n = n < left ? n : left;
        n = n < file->length - SIGNATURE_BYTES ? n : 0;
        memmove(file->bytes + at, file->bytes + at + n, left - n);
        file->length -= n;
    }
}

picture_file picture_damaged(picture_file whole, sn_rng *rng)
{
    uint32_t blows = sn_rng_below(rng, 3) ? 1 : 1 + sn_rng_below(rng, MOST_BLOWS);
    picture_file roomy = with_room(whole.length + (size_t)blows * MOST_EXTRA), tight;

    memcpy(roomy.bytes, whole.bytes, whole.length);
    roomy.length = whole.length;
    while (blows--)
        strike(&roomy, rng);
    if (sn_rng_below(rng, 4))
        picture_mend(roomy);
    tight = with_room(roomy.length);
    memcpy(tight.bytes, roomy.bytes, roomy.length);
    picture_free(&roomy);
    return tight;
}
