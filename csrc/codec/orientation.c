#define _GNU_SOURCE /* memmem */
#include "orientation.h"

#include <string.h>

#define TAG_ORIENTATION 274

/* What EXIF is: a TIFF without a picture, of either byte order. */
typedef struct {
    const uint8_t *bytes;
    size_t length;
    bool big_endian;
} tiff;

static bool holds(const tiff *file, uint64_t at, uint64_t count)
{
    return at <= file->length && count <= file->length - at;
}

/* A number of `count` bytes, which the file holds. */
static uint64_t number(const tiff *file, size_t at, size_t count)
{
    uint64_t value = 0;

    for (size_t k = 0; k < count; k++)
        value = value << 8 | file->bytes[file->big_endian ? at + k : at + count - 1 - k];
    return value;
}

/* Bytes that a value of each type takes; 0: no type that Pillow knows. */
static const uint8_t type_size[] = {0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4, 0, 0, 8};

/* The value as a number, 0 if it is none: text and bytes never equal an orientation. */
static double value_of(const tiff *file, size_t at, uint32_t type)
{
    uint64_t bits = number(file, at, type_size[type]);
    uint32_t low_bits = (uint32_t)bits;
    double real;
    float single;

    switch (type) {
    case 3: case 4: case 13: case 16: /* unsigned, of 2, 4, 4 and 8 bytes */
        return (double)bits;
    case 6:
        return (int8_t)bits;
    case 8:
        return (int16_t)bits;
    case 9:
        return (int32_t)bits;
    case 5: /* a fraction; x / 0 is no orientation in C either */
        return (double)number(file, at, 4) / (double)number(file, at + 4, 4);
    case 10:
        return (double)(int32_t)number(file, at, 4) / (int32_t)number(file, at + 4, 4);
    case 11:
        memcpy(&single, &low_bits, sizeof single);
        return single;
    case 12:
        memcpy(&real, &bits, sizeof real);
        return real;
    default:
        return 0;
    }
}

/* The orientation tag in the first directory, the last where there are several. False if there is
 * none up to where the directory breaks. */
static bool find_tag(const tiff *file, double *value)
{
    uint64_t at = number(file, 4, 4), entries;
    bool found = false;

    if (!holds(file, at, 2))
        return false;
    entries = number(file, at, 2);
    at += 2;
    for (; entries > 0 && holds(file, at, 12); entries--, at += 12) {
        uint64_t tag = number(file, at, 2), type = number(file, at + 2, 2), where = at + 8, size;

        if (type >= sizeof type_size || type_size[type] == 0)
            continue;
        size = number(file, at + 4, 4) * type_size[type];
        if (size > 4)
            where = number(file, at + 8, 4);
        if (!holds(file, where, size))
            break; /* Pillow reads no further, whatever tag it is */
        if (tag == TAG_ORIENTATION && size > 0) {
            *value = value_of(file, where, (uint32_t)type);
            found = true;
        }
    }
    return found;
}

/* tiff:Orientation="6" or <tiff:Orientation>6 */
static uint32_t from_xmp(const uint8_t *xmp, size_t length)
{
    static const char name[] = "tiff:Orientation";
    const uint8_t *end = xmp + length, *at = xmp;

    if (length == 0)
        return 1;
    while ((at = memmem(at, (size_t)(end - at), name, sizeof name - 1)) != NULL) {
        at += sizeof name - 1;
        size_t mark = end - at >= 2 && memcmp(at, "=\"", 2) == 0 ? 2 : end - at >= 1 && *at == '>';

        if (mark > 0 && (size_t)(end - at) > mark && '0' <= at[mark] && at[mark] <= '9')
            return at[mark] - '0';
    }
    return 1;
}

/* The heads that Pillow reads as a TIFF's: two are, two have the bytes of 42 swapped, one is a
 * big TIFF's, whose directory it takes for a TIFF's. */
static bool is_tiff(const tiff *file)
{
    static const char heads[5][4] = {
        {'M', 'M', 0, 42}, {'I', 'I', 42, 0}, {'M', 'M', 42, 0}, {'I', 'I', 0, 42}, {'M', 'M', 0, 43}};

    for (int k = 0; k < 5; k++)
        if (holds(file, 0, 8) && memcmp(file->bytes, heads[k], 4) == 0)
            return true;
    return false;
}

uint32_t sn_orientation_read(const uint8_t *exif, size_t exif_length, const uint8_t *xmp,
                             size_t xmp_length)
{
    tiff file = {exif, exif_length, false};
    double value;

    while (holds(&file, 0, 6) && memcmp(file.bytes, "Exif\0", 6) == 0) {
        file.bytes += 6;
        file.length -= 6;
    }
    if (file.length > 0 && !is_tiff(&file))
        return 1;
    file.big_endian = file.length > 0 && file.bytes[0] == 'M';
    if (file.length == 0 || !find_tag(&file, &value))
        value = from_xmp(xmp, xmp_length);
    for (uint32_t orientation = 2; orientation <= 8; orientation++)
        if (value == orientation)
            return orientation;
    return 1;
}

sn_rect sn_orientation_stored(uint32_t orientation, sn_rect upright, uint32_t height, uint32_t width)
{
    sn_rect stored = upright;

    if (sn_orientation_swaps(orientation))
        stored = (sn_rect){upright.left, upright.top, upright.width, upright.height};
    if (sn_orientation_mirrors_rows(orientation))
        stored.top = height - stored.top - stored.height;
    if (sn_orientation_mirrors_columns(orientation))
        stored.left = width - stored.left - stored.width;
    return stored;
}

void sn_orientation_turn(uint32_t orientation, const sn_view *stored, uint8_t *out)
{
    bool swaps = sn_orientation_swaps(orientation);
    uint32_t height = swaps ? stored->width : stored->height;
    uint32_t width = swaps ? stored->height : stored->width;
    ptrdiff_t down = (ptrdiff_t)stored->stride, across = 3;
    const uint8_t *first = stored->pixels;

    if (sn_orientation_mirrors_rows(orientation)) {
        first += (stored->height - 1) * stored->stride;
        down = -down;
    }
    if (sn_orientation_mirrors_columns(orientation)) {
        first += (size_t)(stored->width - 1) * 3;
        across = -across;
    }
    for (uint32_t y = 0; y < height; y++, first += swaps ? across : down) {
        const uint8_t *in = first;

        for (uint32_t x = 0; x < width; x++, in += swaps ? down : across, out += 3) {
            out[0] = in[0];
            out[1] = in[1];
            out[2] = in[2];
        }
    }
}
