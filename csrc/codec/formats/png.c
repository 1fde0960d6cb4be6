#include "png.h"

#include "../../base/sn_status.h"

#ifdef SN_HAVE_PNG

#include <png.h>
#include <string.h>
#include <zlib.h>

#include "png_chunks.h"
#include "stored.h"

int sn_png_version(void)
{
    return PNG_LIBPNG_VER;
}

/* Pillow refuses more than so much of a text or a profile, and so many texts. */
#define MOST_INFLATED (1u << 20)
#define MOST_TEXTS 64
#define SURELY_LITTLE 1016 /* deflate makes at most 1032 bytes of one */

/* Whether Pillow inflates it whole. Damage ends it, and is no error to Pillow either. */
static bool inflates_to_little(const uint8_t *data, size_t length)
{
    uint8_t scratch[4096];
    z_stream stream = {.next_in = (Bytef *)data, .avail_in = (uInt)length};
    int rc = Z_OK;

    if (length <= SURELY_LITTLE)
        return true;
    if (inflateInit(&stream) != Z_OK)
        return false;
    while (rc == Z_OK && stream.total_out <= MOST_INFLATED) {
        stream.next_out = scratch;
        stream.avail_out = sizeof scratch;
        rc = inflate(&stream, Z_NO_FLUSH);
    }
    inflateEnd(&stream);
    return stream.total_out <= MOST_INFLATED;
}

/* Of a chunk that has a name, a method and compressed data: Pillow knows no method but 0. */
static bool is_usual_compressed(const uint8_t *data, size_t length)
{
    const uint8_t *zero = memchr(data, 0, length);

    if (zero == NULL || zero + 1 == data + length || zero[1] != 0)
        return false;
    return inflates_to_little(zero + 2, (size_t)(data + length - zero) - 2);
}

/* Of text in any language: whatever is compressed within it is less than the rest. */
static bool is_usual_international(const uint8_t *data, size_t length)
{
    const uint8_t *zero = memchr(data, 0, length);
    bool is_compressed = zero != NULL && zero + 1 < data + length && zero[1] != 0;

    return length <= (is_compressed ? SURELY_LITTLE : MOST_INFLATED);
}

/* Whether Pillow reads a chunk without an error, as libpng does, which overlooks damage in chunks that it does
 * not need. `colour`: the type of the pixels. Most chunks mean nothing to Pillow. */
static bool is_usual(const uint8_t *chunk, size_t length, uint8_t colour, uint32_t *texts)
{
    const uint8_t *data = chunk + SN_PNG_DATA;

    if (sn_png_is_named(chunk, "gAMA"))
        return length >= 4;
    if (sn_png_is_named(chunk, "cHRM"))
        return length % 4 == 0;
    if (sn_png_is_named(chunk, "sRGB"))
        return length >= 1;
    if (sn_png_is_named(chunk, "pHYs"))
        return length >= 9;
    if (sn_png_is_named(chunk, "tRNS"))
        return length >= (colour == 2 ? 6 : colour == 0 ? 2 : 0);
    if (sn_png_is_named(chunk, "iCCP"))
        return is_usual_compressed(data, length);
    if (sn_png_is_named(chunk, "zTXt"))
        return ++*texts <= MOST_TEXTS && is_usual_compressed(data, length);
    if (sn_png_is_named(chunk, "iTXt"))
        return ++*texts <= MOST_TEXTS && is_usual_international(data, length);
    if (sn_png_is_named(chunk, "tEXt"))
        return ++*texts <= MOST_TEXTS && length <= MOST_INFLATED;
    return !sn_png_is_named(chunk, "acTL") && !sn_png_is_named(chunk, "fcTL") && !sn_png_is_named(chunk, "fdAT");
}

/* Whether a chunk says something that only Pillow heeds, or that Pillow may refuse. */
static bool is_for_pillow(const uint8_t *bytes, size_t length, bool upright)
{
    size_t at = SN_PNG_SIGNATURE;
    uint32_t texts = 0;
    size_t of_colour = SN_PNG_SIGNATURE + SN_PNG_DATA + 9;
    uint8_t colour = length > of_colour ? bytes[of_colour] : 0;

    while (length - at >= SN_PNG_CHUNK) {
        const uint8_t *chunk = bytes + at;
        uint32_t data = sn_png_number(chunk);

        if (sn_png_is_named(chunk, "IEND"))
            return false;
        if (upright && (sn_png_is_named(chunk, "eXIf") || sn_png_is_named(chunk, "tEXt") ||
                        sn_png_is_named(chunk, "zTXt") || sn_png_is_named(chunk, "iTXt")))
            return true;
        if (data > length - at - SN_PNG_CHUNK || !is_usual(chunk, data, colour, &texts))
            return true;
        at += SN_PNG_CHUNK + data;
    }
    return true;
}

typedef struct {
    const uint8_t *bytes;
    size_t left;
} source;

static void read_bytes(png_structp png, png_bytep out, size_t length)
{
    source *from = png_get_io_ptr(png);

    if (length > from->left)
        png_error(png, "it ends early");
    memcpy(out, from->bytes, length);
    from->bytes += length;
    from->left -= length;
}

static void give_up(png_structp png, png_const_charp why)
{
    (void)why; /* Pillow says why, in its own words */
    png_longjmp(png, 1);
}

static void ignore(png_structp png, png_const_charp what)
{
    (void)png;
    (void)what;
}

/* Have libpng make RGB, 8 bits each. Returns false for what Pillow makes in another way. */
static bool ask_for_rgb(png_structp png, png_infop info)
{
    int type = png_get_color_type(png, info), depth = png_get_bit_depth(png, info);

    if (type == PNG_COLOR_TYPE_GRAY && depth == 16)
        return false;
    if (depth == 16)
        png_set_strip_16(png);
    if (type == PNG_COLOR_TYPE_PALETTE)
        png_set_palette_to_rgb(png);
    if (type == PNG_COLOR_TYPE_GRAY && depth < 8)
        png_set_expand_gray_1_2_4_to_8(png);
    if (type == PNG_COLOR_TYPE_GRAY || type == PNG_COLOR_TYPE_GRAY_ALPHA)
        png_set_gray_to_rgb(png);
    png_set_strip_alpha(png); /* also what tRNS would make of a palette */
    return true;
}

/* Have libpng make one byte a pixel. Returns false for what Pillow makes in another way. */
static bool ask_for_indices(png_structp png, png_infop info)
{
    int type = png_get_color_type(png, info), depth = png_get_bit_depth(png, info);

    if (type == PNG_COLOR_TYPE_PALETTE) {
        png_set_packing(png);
        return true;
    }
    if (type != PNG_COLOR_TYPE_GRAY || depth == 1 || depth == 16) /* Pillow's modes "1" and "I;16" */
        return false;
    png_set_expand_gray_1_2_4_to_8(png);
    return true;
}

/* The scope that libpng's errors jump out of. Nothing that is set here is used after a jump. */
static int decode(png_structp png, png_infop info, bool is_mask, uint64_t max_pixels, sn_buffer *buffer, sn_view *out)
{
    if (setjmp(png_jmpbuf(png)))
        return SN_E_FOR_PILLOW;
    png_read_info(png, info);
    uint32_t height = png_get_image_height(png, info), width = png_get_image_width(png, info);
    if ((uint64_t)height * width > max_pixels || !(is_mask ? ask_for_indices : ask_for_rgb)(png, info))
        return SN_E_FOR_PILLOW;
    int passes = png_set_interlace_handling(png);
    png_read_update_info(png, info);
    size_t stride = (size_t)(is_mask ? 1 : 3) * width;
    if (png_get_rowbytes(png, info) != stride)
        return SN_E_FOR_PILLOW;
    if (sn_buffer_reserve(buffer, stride * height) != 0) /* it does not move: a stored file left this room */
        return -ENOMEM;
    while (passes-- > 0)
        for (uint32_t y = 0; y < height; y++)
            png_read_row(png, buffer->data + y * stride, NULL);
    png_read_end(png, NULL); /* Pillow, too, refuses a file whose end is damaged */
    *out = (sn_view){buffer->data, height, width, stride, NULL, 0};
    return SN_OK;
}

static int read_as(bool is_mask, const uint8_t *bytes, size_t length, bool upright, uint64_t max_pixels,
                   sn_buffer *buffer, sn_view *out)
{
    if (length < SN_PNG_SIGNATURE || png_sig_cmp(bytes, 0, SN_PNG_SIGNATURE) != 0 ||
        is_for_pillow(bytes, length, upright))
        return SN_E_FOR_PILLOW;

    source from = {bytes, length};
    bool is_stored = sn_png_store(bytes, length, max_pixels, buffer, &from.bytes, &from.left);
    png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, NULL, give_up, ignore);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    int rc = -ENOMEM;

    if (info) {
        png_set_read_fn(png, &from, read_bytes);
        png_set_user_limits(png, SN_PNG_MOST_SIDE, SN_PNG_MOST_SIDE);
        /* Of a stored file the checksums of critical chunks, the first action's, were checked in the original. */
        png_set_crc_action(png, is_stored ? PNG_CRC_QUIET_USE : PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
        rc = decode(png, info, is_mask, max_pixels, buffer, out);
    }
    png_destroy_read_struct(&png, &info, NULL);
    return rc;
}

#else

int sn_png_version(void)
{
    return 0;
}

static int read_as(bool is_mask, const uint8_t *bytes, size_t length, bool upright, uint64_t max_pixels,
                   sn_buffer *buffer, sn_view *out)
{
    (void)is_mask;
    (void)bytes;
    (void)length;
    (void)upright;
    (void)max_pixels;
    (void)buffer;
    (void)out;
    return SN_E_FOR_PILLOW;
}

#endif

int sn_png_read(const uint8_t *bytes, size_t length, bool upright, uint64_t max_pixels, sn_buffer *buffer, sn_view *out)
{
    return read_as(false, bytes, length, upright, max_pixels, buffer, out);
}

int sn_png_read_mask(const uint8_t *bytes, size_t length, uint64_t max_pixels, sn_buffer *buffer, sn_view *out)
{
    return read_as(true, bytes, length, false, max_pixels, buffer, out);
}
