/*
 * test_stored.c -- a PNG that libdeflate inflates gives the pixels that libpng alone makes of it, and of which files it does.
 *
 *   rows --deflate--> file, as usual ---------------------> stored, libpng -----> pixels
 *                \--> file, a byte behind the stream -----> libpng, by zlib ----> the same pixels
 *
 * A sanitizer sees a read or a write outside of a file or of the buffer.
 */
#include <stdlib.h>
#include <string.h>

#include "base/sn_rng.h"
#include "base/sn_status.h"
#include "check.h"
#include "codec/formats/png.h"
#include "codec/formats/png_chunks.h"
#include "codec/formats/stored.h"
#include "pictures.h"

#if defined SN_HAVE_PNG && defined SN_HAVE_DEFLATE

#include <libdeflate.h>

#define RANDOM_FILES 300
#define MAX_PIXELS 1000000
#define IHDR_AT SN_PNG_SIGNATURE
#define ADLER 4

enum type { GREY = 0, RGB = 2, PALETTE = 3, GREY_ALPHA = 4, RGBA = 6 };

typedef struct {
    uint32_t height, width;
    uint8_t depth, type, interlaced;
} shape;

/* How a file differs from the usual. */
typedef struct {
    size_t behind_stream; /* bytes in the last IDAT that are not of the stream */
    size_t rows;          /* that the stream has; 0: as many as the picture */
    int gap;              /* another chunk between the IDATs */
    int no_idat, no_end;
} oddity;

static void append(picture_file *file, const void *bytes, size_t length)
{
    file->bytes = realloc(file->bytes, file->length + length + 1);
    CHECK(file->bytes);
    memcpy(file->bytes + file->length, bytes, length);
    file->length += length;
}

static void append_number(picture_file *file, uint32_t number)
{
    uint8_t bytes[4] = {(uint8_t)(number >> 24), (uint8_t)(number >> 16), (uint8_t)(number >> 8), (uint8_t)number};

    append(file, bytes, 4);
}

static void append_chunk(picture_file *file, const char *name, const uint8_t *data, size_t length)
{
    size_t at = file->length;

    append_number(file, (uint32_t)length);
    append(file, name, 4);
    if (length)
        append(file, data, length);
    append_number(file, libdeflate_crc32(0, file->bytes + at + 4, length + 4));
}

static size_t row_bytes(shape of)
{
    static const uint8_t channels[] = {[GREY] = 1, [RGB] = 3, [PALETTE] = 1, [GREY_ALPHA] = 2, [RGBA] = 4};

    return 1 + ((size_t)of.width * of.depth * channels[of.type] + 7) / 8;
}

/* The zlib stream of random rows, each with a random filter. */
static picture_file stream_of(shape of, size_t rows, sn_rng *rng)
{
    struct libdeflate_compressor *deflater = libdeflate_alloc_compressor((int)sn_rng_below(rng, 10));
    size_t row = row_bytes(of), length = row * rows, most = libdeflate_zlib_compress_bound(deflater, length);
    uint8_t *raw = malloc(length), mask = sn_rng_below(rng, 2) ? 0xFF : 0x03;
    picture_file stream = {malloc(most), 0};

    CHECK(deflater && raw && stream.bytes);
    for (size_t k = 0; k < length; k++)
        raw[k] = k % row == 0 ? (uint8_t)sn_rng_below(rng, 5) : (uint8_t)(sn_rng_below(rng, 256) & mask);
    stream.length = libdeflate_zlib_compress(deflater, raw, length, stream.bytes, most);
    CHECK(stream.length > 0);
    libdeflate_free_compressor(deflater);
    free(raw);
    return stream;
}

/* A file whose stream is cut into IDATs at random, of which some are empty. Its memory ends where it does. */
static picture_file make(shape of, oddity odd, sn_rng *rng)
{
    uint8_t palette[3 * 256], header[13] = {0,
                                            0,
                                            (uint8_t)(of.width >> 8),
                                            (uint8_t)of.width,
                                            0,
                                            0,
                                            (uint8_t)(of.height >> 8),
                                            (uint8_t)of.height,
                                            of.depth,
                                            of.type,
                                            0,
                                            0,
                                            of.interlaced};
    picture_file stream = stream_of(of, odd.rows ? odd.rows : of.height, rng), file = {0};
    size_t at = 0;

    header[1] = (uint8_t)(of.width >> 16);
    append(&file, "\x89PNG\r\n\x1a\n", SN_PNG_SIGNATURE);
    append_chunk(&file, "IHDR", header, sizeof header);
    for (uint32_t k = 0; k < sizeof palette; k++)
        palette[k] = (uint8_t)sn_rng_below(rng, 256);
    if (of.type == PALETTE) {
        append_chunk(&file, "PLTE", palette, (size_t)3 << of.depth);
        if (sn_rng_below(rng, 2))
            append_chunk(&file, "tRNS", palette, (size_t)1 << of.depth);
    }
    append_chunk(&file, "tEXt", (const uint8_t *)"Title\0before", 12);
    for (size_t k = 0; k < odd.behind_stream; k++)
        append(&stream, "\x55", 1);
    while (!odd.no_idat && at < stream.length) {
        size_t most = stream.length - at, n = sn_rng_below(rng, 4) ? sn_rng_below(rng, (uint32_t)most + 1) : most;
        if (odd.gap && n == most && most > 1)
            n = most / 2;
        append_chunk(&file, "IDAT", stream.bytes + at, n);
        at += n;
        if (odd.gap && at < stream.length)
            append_chunk(&file, "tEXt", (const uint8_t *)"Title\0between", 13);
    }
    if (!odd.no_idat && sn_rng_below(rng, 2))
        append_chunk(&file, "IDAT", NULL, 0);
    append_chunk(&file, "tEXt", (const uint8_t *)"Title\0behind", 12);
    if (!odd.no_end)
        append_chunk(&file, "IEND", NULL, 0);
    picture_free(&stream);
    file.bytes = realloc(file.bytes, file.length);
    CHECK(file.bytes);
    return file;
}

/* Whether libdeflate inflates the file. The one that it makes for libpng then lies behind the room for the picture, and
 * ends where it should. */
static bool is_stored(picture_file file, uint64_t max_pixels)
{
    sn_buffer buffer = {0};
    const uint8_t *stored = NULL;
    size_t length = 0;
    bool is = sn_png_store(file.bytes, file.length, max_pixels, &buffer, &stored, &length);

    if (is) {
        uint64_t pixels = (uint64_t)sn_png_number(file.bytes + IHDR_AT + SN_PNG_DATA) *
                          sn_png_number(file.bytes + IHDR_AT + SN_PNG_DATA + 4);
        CHECK(stored == buffer.data + 3 * pixels && 3 * pixels + length <= buffer.capacity);
        CHECK(memcmp(stored + length - SN_PNG_CHUNK, "\0\0\0\0IEND\xae\x42\x60\x82", SN_PNG_CHUNK) == 0);
    }
    sn_buffer_release(&buffer);
    return is;
}

/* The pixels, a picture's or a mask's, are those that libpng makes of the same rows by itself. */
static void compare(picture_file file, picture_file by_libpng, bool is_mask, uint32_t number)
{
    sn_buffer buffers[2] = {{0}, {0}};
    sn_view views[2] = {{0}, {0}};
    int rc[2];

    for (int k = 0; k < 2; k++) {
        picture_file it = k ? by_libpng : file;
        rc[k] = is_mask ? sn_png_read_mask(it.bytes, it.length, MAX_PIXELS, &buffers[k], &views[k])
                        : sn_png_read(it.bytes, it.length, false, MAX_PIXELS, &buffers[k], &views[k]);
    }
    CHECK_EQUAL(rc[0], rc[1], "file %u", number);
    if (rc[0] == SN_OK) {
        CHECK(views[0].pixels == buffers[0].data);
        CHECK(views[0].height == views[1].height && views[0].width == views[1].width);
        CHECK(views[0].stride == (size_t)(is_mask ? 1 : 3) * views[0].width && views[0].stride == views[1].stride);
        CHECK(memcmp(views[0].pixels, views[1].pixels, views[0].stride * views[0].height) == 0);
    }
    CHECK(is_mask || rc[0] == SN_OK || file.bytes[IHDR_AT + SN_PNG_DATA + 8] == 16);
    for (int k = 0; k < 2; k++)
        sn_buffer_release(&buffers[k]);
}

static void same_pixels(shape of, uint32_t number, uint64_t seed)
{
    sn_rng rng;
    picture_file files[2];

    for (int k = 0; k < 2; k++) { /* the same rows, because the numbers are drawn anew */
        sn_rng_start(&rng, seed, 0, 0, number, SN_STREAM_CHOOSE);
        files[k] = make(of, (oddity){.behind_stream = k}, &rng);
    }
    CHECK(is_stored(files[0], (uint64_t)of.height * of.width));
    CHECK(!is_stored(files[1], MAX_PIXELS));
    compare(files[0], files[1], false, number);
    compare(files[0], files[1], true, number);
    append(&files[0], "behind IEND", 11);
    CHECK(is_stored(files[0], MAX_PIXELS));
    compare(files[0], files[1], false, number);
    picture_free(&files[0]);
    picture_free(&files[1]);
}

static void all_kinds(uint64_t seed)
{
    static const uint8_t kinds[][2] = {{1, GREY},    {2, GREY},       {4, GREY},        {8, GREY},    {16, GREY},
                                       {8, RGB},     {16, RGB},       {1, PALETTE},     {2, PALETTE}, {4, PALETTE},
                                       {8, PALETTE}, {8, GREY_ALPHA}, {16, GREY_ALPHA}, {8, RGBA},    {16, RGBA}};
    /* Their rows have 65,534 to 65,536 and 131,068 to 131,071 bytes: a stored block ends there. */
    static const shape edges[] = {{1, 65533, 8, GREY, 0},    {1, 65534, 8, GREY, 0}, {1, 65535, 8, GREY, 0},
                                  {257, 254, 8, PALETTE, 0}, {1, 43689, 8, RGB, 0},  {1, 32767, 8, RGBA, 0},
                                  {2, 65534, 8, GREY, 0},    {1, 43690, 8, RGB, 0},  {256, 255, 8, GREY, 0}};
    const uint32_t n_kinds = sizeof kinds / sizeof *kinds, n_edges = sizeof edges / sizeof *edges;
    sn_rng rng;

    sn_rng_start(&rng, seed, 0, 0, 0, SN_STREAM_ORDER);
    for (uint32_t number = 0; number < RANDOM_FILES; number++) {
        const uint8_t *kind = kinds[number % n_kinds];
        uint32_t most = sn_rng_below(&rng, 20) ? 40 : 300;
        uint32_t height = 1 + sn_rng_below(&rng, most), width = 1 + sn_rng_below(&rng, most);
        same_pixels((shape){height, width, kind[0], kind[1], 0}, number, seed);
    }
    for (uint32_t k = 0; k < n_edges; k++)
        same_pixels(edges[k], RANDOM_FILES + k, seed);
}

static size_t find(picture_file file, const char *name)
{
    size_t at = SN_PNG_SIGNATURE;

    while (!sn_png_is_named(file.bytes + at, name) || sn_png_number(file.bytes + at) == 0) {
        at += SN_PNG_CHUNK + sn_png_number(file.bytes + at);
        CHECK(at < file.length);
    }
    return at;
}

/* Of a file with one byte changed: whether libdeflate inflates it, and what reading it answers. */
static void struck(picture_file file, size_t at, bool stored, int read, const char *what)
{
    sn_buffer buffer = {0};
    sn_view view;

    file.bytes[at] ^= 1;
    CHECK_EQUAL(is_stored(file, MAX_PIXELS), stored, "%s", what);
    CHECK_EQUAL(sn_png_read(file.bytes, file.length, false, MAX_PIXELS, &buffer, &view), read, "%s", what);
    file.bytes[at] ^= 1;
    CHECK(is_stored(file, MAX_PIXELS));
    sn_buffer_release(&buffer);
}

static void check_crc(picture_file file, size_t chunk)
{
    size_t data = sn_png_number(file.bytes + chunk);
    uint32_t crc = libdeflate_crc32(0, file.bytes + chunk + 4, data + 4);

    for (int k = 0; k < 4; k++)
        file.bytes[chunk + SN_PNG_DATA + data + k] = (uint8_t)(crc >> (24 - 8 * k));
}

static void damaged(uint64_t seed)
{
    sn_rng rng;

    sn_rng_start(&rng, seed, 0, 0, 1, SN_STREAM_ORDER);
    picture_file file = make((shape){20, 30, 8, PALETTE, 0}, (oddity){0}, &rng);
    size_t palette = find(file, "PLTE"), pixels = find(file, "IDAT"), text = find(file, "tEXt");

    struck(file, palette + SN_PNG_DATA, false, SN_E_FOR_PILLOW, "the checksum of PLTE");
    struck(file, pixels + SN_PNG_DATA + 3, false, SN_E_FOR_PILLOW, "the checksum of IDAT");
    struck(file, text + SN_PNG_DATA, true, SN_E_FOR_PILLOW, "the checksum of what is not critical");
    struck(file, file.length - 1, false, SN_E_FOR_PILLOW, "the checksum of IEND");
    for (size_t length = 0; length < file.length; length++) {
        picture_file cut = {malloc(length ? length : 1), length};
        CHECK(cut.bytes);
        memcpy(cut.bytes, file.bytes, length);
        CHECK(!is_stored(cut, MAX_PIXELS));
        picture_free(&cut);
    }
    picture_free(&file);
}

static void wrong_adler(uint64_t seed)
{
    shape of = {20, 30, 8, RGB, 0};
    sn_rng rng;

    for (uint32_t number = 0; number < 100; number++) {
        sn_rng_start(&rng, seed, 0, 0, number, SN_STREAM_CHOOSE);
        picture_file file = make(of, (oddity){0}, &rng);
        size_t last = 0, at = SN_PNG_SIGNATURE;
        for (; at < file.length; at += SN_PNG_CHUNK + sn_png_number(file.bytes + at))
            if (sn_png_is_named(file.bytes + at, "IDAT") && sn_png_number(file.bytes + at) > 0)
                last = at;
        size_t data = sn_png_number(file.bytes + last);
        if (data >= ADLER) { /* else it lies in several chunks */
            CHECK(is_stored(file, MAX_PIXELS));
            file.bytes[last + SN_PNG_DATA + data - 1] ^= 1;
            check_crc(file, last);
            CHECK(!is_stored(file, MAX_PIXELS));
        }
        picture_free(&file);
    }
}

static void unusual(uint64_t seed)
{
    static const struct {
        shape of;
        oddity odd;
        const char *what;
        bool is_stored;
    } files[] = {
        {{20, 30, 8, RGB, 0}, {0}, "usual", true},
        {{20, 30, 8, RGB, 1}, {0}, "interlaced", false},
        {{20, 30, 8, RGB, 0}, {.rows = 19}, "a row is missing", false},
        {{20, 30, 8, RGB, 0}, {.rows = 21}, "a row too many", false},
        {{20, 30, 8, RGB, 0}, {.behind_stream = 1}, "a byte behind the stream", false},
        {{20, 30, 8, RGB, 0}, {.behind_stream = 5000}, "bytes behind the stream", false},
        {{20, 30, 8, RGB, 0}, {.gap = 1}, "several runs of IDATs", false},
        {{20, 30, 8, RGB, 0}, {.no_idat = 1}, "no IDAT", false},
        {{20, 30, 8, RGB, 0}, {.no_end = 1}, "no IEND", false},
        {{1, 65536, 1, GREY, 0}, {0}, "too wide", false},
        {{1001, 1000, 8, GREY, 0}, {0}, "too many pixels", false},
    };
    sn_rng rng;

    for (size_t k = 0; k < sizeof files / sizeof *files; k++) {
        sn_rng_start(&rng, seed, 0, 0, k, SN_STREAM_CHOOSE);
        picture_file file = make(files[k].of, files[k].odd, &rng);
        CHECK_EQUAL(is_stored(file, MAX_PIXELS), files[k].is_stored, "%s", files[k].what);
        picture_free(&file);
    }
}

int main(int argc, char **argv)
{
    uint64_t seed = check_seed(argc, argv);

    CHECK(sn_png_deflate_version() > 0);
    all_kinds(seed);
    damaged(seed);
    wrong_adler(seed);
    unusual(seed);
    return 0;
}

#else

int main(void)
{
    CHECK(sn_png_deflate_version() == 0);
    printf("test_stored: built without libpng or libdeflate\n");
    return 0;
}

#endif
