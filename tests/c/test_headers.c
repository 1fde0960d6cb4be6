/*
 * test_headers.c -- what the header of a JPEG says of the picture, and whether the header is a usual one.
 *
 *   a TIFF of one directory, made here --> which way up the picture is, whatever the type of the number
 *   segments of every kind, made here --> usual, or left to Pillow
 *   any of these, cut off or with bits flipped --> some answer, and no byte read beyond the end
 *
 * Each input ends where its memory ends, so that AddressSanitizer sees a read past it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "codec/formats/jpeg_header.h"
#include "codec/formats/orientation.h"
#include "exif.h"
#include "pictures.h"

#define ORIENTATION 274
#define X_RESOLUTION 0x11A
#define COUNT_OF_PICTURES 0xB001
#define PICTURES 0xB002
#define MOST 512

typedef struct {
    uint8_t bytes[MOST];
    size_t length;
} text;

typedef struct {
    uint32_t tag, type, count;
    uint64_t value;  /* in the entry, if it is of four bytes at the most, else behind the directory */
    uint64_t second; /* of a fraction: what it is divided by */
} tag;

static uint64_t seed;

static void add(text *to, const void *bytes, size_t length)
{
    CHECK(to->length + length <= MOST);
    memcpy(to->bytes + to->length, bytes, length);
    to->length += length;
}

static void add_number(text *to, uint64_t number, size_t bytes, int is_big)
{
    for (size_t i = 0; i < bytes; i++) {
        uint8_t byte = (uint8_t)(number >> 8 * (is_big ? bytes - 1 - i : i));
        add(to, &byte, 1);
    }
}

static size_t size_of_type(uint32_t type)
{
    static const uint8_t sizes[] = {0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4, 0, 0, 8};

    return type < sizeof sizes ? sizes[type] : 0;
}

static text tiff_of(const tag *tags, uint32_t n, int is_big)
{
    text made = {.length = 0}, behind = {.length = 0};
    uint32_t at = 8 + 2 + 12 * n + 4;

    add(&made, is_big ? "MM" : "II", 2);
    add_number(&made, 42, 2, is_big);
    add_number(&made, 8, 4, is_big);
    add_number(&made, n, 2, is_big);
    for (uint32_t i = 0; i < n; i++) {
        size_t size = size_of_type(tags[i].type), all = size * tags[i].count;
        add_number(&made, tags[i].tag, 2, is_big);
        add_number(&made, tags[i].type, 2, is_big);
        add_number(&made, tags[i].count, 4, is_big);
        if (all <= 4) {
            add_number(&made, tags[i].value, size, is_big);
            add_number(&made, 0, 4 - size, is_big);
        } else {
            add_number(&made, at + behind.length, 4, is_big);
            if (tags[i].second) {
                add_number(&behind, tags[i].value, 4, is_big);
                add_number(&behind, tags[i].second, 4, is_big);
            } else {
                for (size_t k = 0; k < all; k += size)
                    add_number(&behind, tags[i].value, size, is_big);
            }
        }
    }
    add_number(&made, 0, 4, is_big);
    add(&made, behind.bytes, behind.length);
    return made;
}

/* From memory that ends where they end. */
static uint32_t read_tight(const void *exif, size_t exif_length, const void *xmp, size_t xmp_length)
{
    uint8_t *one = malloc(exif_length), *other = malloc(xmp_length);

    CHECK((one || !exif_length) && (other || !xmp_length));
    if (exif_length)
        memcpy(one, exif, exif_length);
    if (xmp_length)
        memcpy(other, xmp, xmp_length);
    uint32_t orientation = sn_orientation_read(one, exif_length, other, xmp_length);
    CHECK(orientation >= 1 && orientation <= 8);
    free(one);
    free(other);
    return orientation;
}

static uint64_t bits_of(uint32_t type, uint32_t value)
{
    float single = (float)value;
    double real = value;
    uint64_t bits = 0;

    if (type == 11)
        memcpy(&bits, &single, sizeof single); /* of a host whose low bytes come first */
    else if (type == 12)
        memcpy(&bits, &real, sizeof real);
    else
        bits = value;
    return bits;
}

static void a_number_of_any_type_turns_the_picture(void)
{
    static const uint8_t numbers[] = {3, 4, 5, 6, 8, 9, 10, 11, 12, 13, 16};
    static const uint8_t none[] = {1, 2, 7}; /* bytes and text */

    for (uint32_t value = 0; value < 10; value++)
        for (int is_big = 0; is_big < 2; is_big++) {
            for (uint32_t i = 0; i < sizeof numbers; i++) {
                int is_fraction = numbers[i] == 5 || numbers[i] == 10;
                tag tags[] = {{0x100, 3, 1, 77, 0},
                              {0x101, 99, 1, 0, 0}, /* of no type */
                              {ORIENTATION, numbers[i], 1, is_fraction ? 3 * value : bits_of(numbers[i], value),
                               is_fraction ? 3 : 0}};
                text made = tiff_of(tags, 3, is_big);
                CHECK_EQUAL(read_tight(made.bytes, made.length, "", 0), value >= 2 && value <= 8 ? value : 1,
                            "type %u, %u", numbers[i], value);
            }
            for (uint32_t i = 0; i < sizeof none; i++) {
                text made = tiff_of(&(tag){ORIENTATION, none[i], 1, value, 0}, 1, is_big);
                CHECK_EQUAL(read_tight(made.bytes, made.length, "", 0), 1, "type %u", none[i]);
            }
        }
}

static void the_last_of_several_counts_and_a_head_may_come_twice(void)
{
    const tag tags[] = {{ORIENTATION, 3, 1, 3, 0}, {ORIENTATION, 3, 1, 6, 0}};
    text made = tiff_of(tags, 2, 0), headed = {.length = 0};

    CHECK_EQUAL(read_tight(made.bytes, made.length, "", 0), 6, "the last");
    add(&headed, "Exif\0", 6);
    add(&headed, "Exif\0", 6);
    add(&headed, made.bytes, made.length);
    CHECK_EQUAL(read_tight(headed.bytes, headed.length, "", 0), 6, "behind two heads");
    made.bytes[8] = 9; /* more entries than there are: those up to the end count */
    CHECK_EQUAL(read_tight(made.bytes, 8 + 2 + 24, "", 0), 6, "");
    made.bytes[0] = 'X';
    CHECK_EQUAL(read_tight(made.bytes, made.length, "tiff:Orientation=\"6\"", 20), 1, "Pillow raises");
}

static void xmp_counts_where_exif_says_nothing(void)
{
    static const struct {
        const char *xmp;
        uint32_t orientation;
    } cases[] = {{"<x tiff:Orientation=\"6\"/>", 6}, {"<tiff:Orientation>8</tiff:Orientation>", 8},
                 {"tiff:Orientation=\"9\"", 1},      {"tiff:Orientation=", 1},
                 {"tiff:Orientation=\"", 1},         {"tiff:Orientation", 1},
                 {"tiff:Orientation=\"x\"", 1},      {"tiff:Orientation: tiff:Orientation>3", 3},
                 {"tiff:Orientation>", 1},           {"nothing", 1},
                 {"tiff:Orientation=\"/\"", 1}};
    text nothing = tiff_of(&(tag){0x100, 3, 1, 6, 0}, 1, 1);
    text nowhere = nothing;

    memset(nowhere.bytes + 4, 0xFF, 4); /* the directory is behind the end */
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *xmp = cases[i].xmp;
        CHECK_EQUAL(read_tight("", 0, xmp, strlen(xmp)), cases[i].orientation, "%s", xmp);
        CHECK_EQUAL(read_tight(nothing.bytes, nothing.length, xmp, strlen(xmp)), cases[i].orientation, "%s", xmp);
        CHECK_EQUAL(read_tight(nowhere.bytes, nowhere.length, xmp, strlen(xmp)), cases[i].orientation, "%s", xmp);
    }
    CHECK_EQUAL(read_tight("", 0, "", 0), 1, "nothing");
}

/* Where each pixel of the upright picture comes from, by the eight pictures of orientation.h. */
static void each_orientation_is_turned_upright(void)
{
    enum { HEIGHT = 3, WIDTH = 4, STRIDE = 3 * WIDTH + 5 };
    uint8_t pixels[HEIGHT * STRIDE], out[3 * HEIGHT * WIDTH];
    sn_view stored = {pixels, HEIGHT, WIDTH, STRIDE, NULL, 0};

    for (uint32_t y = 0; y < HEIGHT; y++)
        for (uint32_t x = 0; x < WIDTH; x++)
            for (uint32_t c = 0; c < 3; c++)
                pixels[y * STRIDE + 3 * x + c] = (uint8_t)(100 * c + 10 * y + x);
    for (uint32_t orientation = 1; orientation <= 8; orientation++) {
        uint32_t height = orientation >= 5 ? WIDTH : HEIGHT, width = orientation >= 5 ? HEIGHT : WIDTH;
        sn_orientation_turn(orientation, &stored, out);
        for (uint32_t y = 0; y < height; y++)
            for (uint32_t x = 0; x < width; x++) {
                const uint32_t from[9][2] = {{0, 0},
                                             {y, x},
                                             {y, WIDTH - 1 - x},
                                             {HEIGHT - 1 - y, WIDTH - 1 - x},
                                             {HEIGHT - 1 - y, x},
                                             {x, y},
                                             {HEIGHT - 1 - x, y},
                                             {HEIGHT - 1 - x, WIDTH - 1 - y},
                                             {x, WIDTH - 1 - y}};
                const uint32_t *at = from[orientation];
                sn_rect rect = sn_orientation_stored(orientation, (sn_rect){y, x, 1, 1}, HEIGHT, WIDTH);
                CHECK(rect.top == at[0] && rect.left == at[1] && rect.height == 1 && rect.width == 1);
                for (uint32_t c = 0; c < 3; c++)
                    CHECK_EQUAL(out[3 * (y * width + x) + c], pixels[at[0] * STRIDE + 3 * at[1] + c],
                                "orientation %u, %u %u", orientation, y, x);
            }
    }
}

/* -- Usual headers -- */

static void add_segment(text *to, uint8_t marker, const void *content, size_t length)
{
    const uint8_t head[] = {0xFF, marker, (uint8_t)((length + 2) >> 8), (uint8_t)(length + 2)};

    add(to, head, sizeof head);
    add(to, content, length);
}

static int is_usual(const void *bytes, size_t length)
{
    uint8_t *tight = malloc(length);

    CHECK(tight);
    memcpy(tight, bytes, length);
    int answer = sn_jpeg_header_is_usual(tight, length);
    free(tight);
    return answer;
}

/* A header with this segment, n times. */
static int is_usual_with(uint8_t marker, const void *content, size_t length, int n)
{
    text header = {.bytes = {0xFF, 0xD8}, .length = 2};

    for (int i = 0; i < n; i++)
        add_segment(&header, marker, content, length);
    add_segment(&header, 0xC0, "\x08\0\1\0\1\1\1\x11", 9);
    add_segment(&header, 0xDA, "", 0);
    return is_usual(header.bytes, header.length);
}

static text named(const char *name, size_t name_length, text content)
{
    text both = {.length = 0};

    add(&both, name, name_length);
    add(&both, content.bytes, content.length);
    return both;
}

static void segments_that_pillow_reads_are_usual(void)
{
    static const uint8_t frames[] = {0xC0, 0xC1, 0xC2, 0xC9, 0xCA, 0xC4, 0xCC, 0xDB, 0xDD, 0xFE, 0xE3, 0xEF};
    static const uint8_t others[] = {0xC3, 0xC5, 0xC8, 0xD8, 0xD9, 0xDC, 0xF0, 0x01};
    text blocks = {.length = 0};

    for (uint32_t i = 0; i < sizeof frames; i++)
        CHECK_EQUAL(is_usual_with(frames[i], "abc", 3, 1), 1, "marker %x", frames[i]);
    for (uint32_t i = 0; i < sizeof others; i++)
        CHECK_EQUAL(is_usual_with(others[i], "abc", 3, 1), 0, "marker %x", others[i]);
    CHECK(is_usual_with(0xE0, "JFIF\0\1\2", 7, 2) && !is_usual_with(0xE0, "JFIF\0\1", 6, 1));
    CHECK(is_usual_with(0xE0, "JFXX", 4, 1) && is_usual_with(0xE0, "JF", 2, 1));
    CHECK(is_usual_with(0xEE, "Adobe\0\1", 7, 1) && !is_usual_with(0xEE, "Adobe\0", 6, 1));
    CHECK(is_usual_with(0xEE, "Adob", 4, 1));
    CHECK(is_usual_with(0xE2, "ICC_PROFILE\0\1\1", 14, 1) && !is_usual_with(0xE2, "ICC_PROFILE\0\1", 13, 1));
    CHECK(is_usual_with(0xE2, "FPXR", 4, 2));
    CHECK(is_usual_with(0xED, "Photoshop 2.5", 13, 1) && is_usual_with(0xED, "Photoshop 3.0", 14, 1));
    add(&blocks, "Photoshop 3.0", 14);
    add(&blocks, "8BIM\4\4\1x\0\0\0\3abc\0", 16);
    CHECK(is_usual_with(0xED, blocks.bytes, blocks.length, 1));
    add(&blocks, "8BIM\4\4\0\0\0", 9); /* its length is cut off: Pillow reads no further */
    CHECK(is_usual_with(0xED, blocks.bytes, blocks.length, 1));
    add(&blocks, "\0\0\0", 3);
    add(&blocks, "8BIM\4\4", 6); /* its name is cut off: Pillow fails */
    CHECK(!is_usual_with(0xED, blocks.bytes, blocks.length, 1));
}

static void exif_and_indexes_are_usual_once(void)
{
    const tag other = {0x100, 3, 1, 6, 0};
    text exif = named("Exif\0", 6, tiff_of(&other, 1, 0)), none = {.length = 0};

    CHECK(is_usual_with(0xE1, exif.bytes, exif.length, 1) && !is_usual_with(0xE1, exif.bytes, exif.length, 2));
    CHECK(is_usual_with(0xE1, "http://ns.adobe.com/xap/1.0/", 28, 2));
    exif = named("Exif\0", 6, none);
    CHECK(is_usual_with(0xE1, exif.bytes, exif.length, 1));
    for (uint32_t type = 1; type < 8; type++) {
        exif = named("Exif\0", 6, tiff_of(&(tag){X_RESOLUTION, type, 1, 72, type == 5}, 1, 1));
        CHECK_EQUAL(is_usual_with(0xE1, exif.bytes, exif.length, 1), type != 1 && type != 2 && type != 7, "type %u",
                    type);
    }
    for (uint32_t n = 0; n < 4; n++)
        for (uint32_t wrong = 0; wrong < 6; wrong++) {
            const tag tags[] = {{COUNT_OF_PICTURES, wrong == 1 ? 3 : 4, wrong == 2 ? 2 : 1, n + (wrong == 3), 0},
                                {PICTURES, wrong == 4 ? 1 : 7, 16 * 2, 0, 0}};
            text index = named("MPF", 4, tiff_of(tags + (wrong == 5), 2 - (wrong == 5), n % 2));
            int fits = wrong == 3 ? n == 1 : wrong == 0 && n == 2;
            CHECK_EQUAL(is_usual_with(0xE2, index.bytes, index.length, 1), fits, "%u, %u", n, wrong);
            CHECK(!is_usual_with(0xE2, index.bytes, index.length, 2));
        }
    text empty = named("MPF", 4, tiff_of(&(tag){COUNT_OF_PICTURES, 4, 1, 2, 0}, 1, 0));
    CHECK(!is_usual_with(0xE2, empty.bytes, empty.length, 1) && !is_usual_with(0xE2, "MPF\0xx", 6, 1));
}

static void a_header_that_breaks_off_is_not_usual(void)
{
    CHECK(is_usual("\xFF\xD8\xFF\xFF\xFF\xDA\0\2", 8) && !is_usual("\xFF\xD8\xFF\xD9\0\2", 6));
    CHECK(!is_usual("\xFF\xD8\xFF\xE0\0\1\0\0", 8) && !is_usual("\xFF\xD8\xFF\xE0\0\7\0\0", 8));
    CHECK(!is_usual("\xFF\xD8\xFF\xE0\0\2", 6) && !is_usual("\xFF\xD8xxxxxx", 8) && !is_usual("\xFF\xD8\xFF", 3));
}

static void damaged_ones_have_some_answer(void)
{
    picture_kind kind = {.height = 8, .width = 8, .colour = PICTURE_YCC, .across = 1, .down = 1, .quality = 50};
    uint32_t usual = 0, turned = 0;
    sn_rng rng;

    sn_rng_start(&rng, seed, 0, 0, 0, SN_STREAM_CHOOSE);
    for (uint32_t number = 0; number < 3000; number++) {
        picture_file file = picture_make(&kind, &rng), exif = exif_make(number, &rng), xmp = xmp_make(number);
        CHECK(is_usual(file.bytes, file.length));
        picture_file damaged = number % 2 ? picture_flipped(file, &rng) : picture_truncated(file, &rng);
        usual += damaged.length >= 2 && (uint32_t)is_usual(damaged.bytes, damaged.length);
        turned += read_tight(exif.bytes, exif.length, xmp.bytes, xmp.length) != 1;
        exif.bytes[sn_rng_below(&rng, (uint32_t)exif.length)] ^= (uint8_t)(1u << sn_rng_below(&rng, 8));
        read_tight(exif.bytes, sn_rng_below(&rng, (uint32_t)exif.length + 1), xmp.bytes,
                   sn_rng_below(&rng, (uint32_t)xmp.length + 1));
        picture_free(&file);
        picture_free(&damaged);
        picture_free(&exif);
        picture_free(&xmp);
    }
    CHECK(usual > 0 && usual < 3000 && turned > 0);
}

int main(int argc, char **argv)
{
    seed = check_seed(argc, argv);
    a_number_of_any_type_turns_the_picture();
    the_last_of_several_counts_and_a_head_may_come_twice();
    xmp_counts_where_exif_says_nothing();
    each_orientation_is_turned_upright();
    segments_that_pillow_reads_are_usual();
    exif_and_indexes_are_usual_once();
    a_header_that_breaks_off_is_not_usual();
    damaged_ones_have_some_answer();
    printf("test_headers: 8 cases\n");
    return 0;
}
