#define _GNU_SOURCE /* memmem */
#include "orientation.h"

#include <string.h>

#include "tiff.h"

#define TAG_ORIENTATION 274

/* The value as a number, 0 if it is no number: text and bytes never equal an orientation. */
static double value_of(const sn_tiff *file, const sn_tiff_entry *entry)
{
    uint64_t bits = sn_tiff_number(file, entry->at, sn_tiff_type_size(entry->type));
    uint32_t low_bits = (uint32_t)bits;
    double real;
    float single;

    switch (entry->type) {
    case 3:
    case 4:
    case 13:
    case 16: /* unsigned, of 2, 4, 4 and 8 bytes */
        return (double)bits;
    case 6:
        return (int8_t)bits;
    case 8:
        return (int16_t)bits;
    case 9:
        return (int32_t)bits;
    case 5: /* a fraction; x / 0 is no orientation in C either */
        return (double)sn_tiff_number(file, entry->at, 4) / (double)sn_tiff_number(file, entry->at + 4, 4);
    case 10:
        return (double)(int32_t)sn_tiff_number(file, entry->at, 4) / (int32_t)sn_tiff_number(file, entry->at + 4, 4);
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

/* tiff:Orientation="6" or <tiff:Orientation>6 */
static uint32_t from_xmp(const uint8_t *xmp, size_t length)
{
    static const char name[] = "tiff:Orientation";
    if (length == 0)
        return 1; /* there may be no memory */
    const uint8_t *end = xmp + length, *at = xmp;

    while ((at = memmem(at, (size_t)(end - at), name, sizeof name - 1)) != NULL) {
        at += sizeof name - 1;
        size_t mark = end - at >= 2 && memcmp(at, "=\"", 2) == 0 ? 2 : end - at >= 1 && *at == '>';

        if (mark > 0 && (size_t)(end - at) > mark && '0' <= at[mark] && at[mark] <= '9')
            return at[mark] - '0';
    }
    return 1;
}

uint32_t sn_orientation_read(const uint8_t *exif, size_t exif_length, const uint8_t *xmp, size_t xmp_length)
{
    sn_tiff_entry entry;
    sn_tiff file;
    double value;

    while (exif_length >= 6 && memcmp(exif, "Exif\0", 6) == 0) {
        exif += 6;
        exif_length -= 6;
    }
    if (exif_length > 0 && !sn_tiff_open(&file, exif, exif_length))
        return 1;
    if (exif_length > 0 && sn_tiff_find(&file, TAG_ORIENTATION, &entry))
        value = value_of(&file, &entry);
    else
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
