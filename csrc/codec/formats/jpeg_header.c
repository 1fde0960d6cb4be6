#include "jpeg_header.h"

#include <string.h>

#include "tiff.h"

#define SOS 0xDA
#define APP0 0xE0
#define APP1 0xE1
#define APP2 0xE2
#define APP13 0xED
#define APP14 0xEE
#define COM 0xFE

#define TAG_X_RESOLUTION 0x011A
#define TAG_COUNT_OF_PICTURES 0xB001
#define TAG_PICTURES 0xB002
#define BYTES_OF_PICTURE 16 /* its entry in the index */

#define LEAST_JFIF 7  /* with its version */
#define LEAST_ADOBE 7 /* with its version */
#define LEAST_ICC 14  /* with the part's number, and how many there are */
#define NAME_8BIM 4

/* Whether the content of a segment begins with a name. The zero that ends `name` counts if `size` says so. */
static bool begins(const uint8_t *content, size_t length, const char *name, size_t size)
{
    return length >= size && memcmp(content, name, size) == 0;
}

/* Photoshop's blocks: Pillow fails where one ends before the length of its name. */
static bool are_usual_blocks(const uint8_t *content, size_t length)
{
    uint64_t at = sizeof "Photoshop 3.0";

    while (at < length && begins(content + at, length - at, "8BIM", NAME_8BIM)) {
        at += NAME_8BIM + 2;
        if (at >= length)
            return false;
        at += 1 + content[at];
        at += at & 1;
        if (at + 4 > length)
            break;
        at += 4 + ((uint64_t)content[at] << 24 | (uint64_t)content[at + 1] << 16 | (uint64_t)content[at + 2] << 8 |
                   content[at + 3]);
        at += at & 1;
    }
    return true;
}

/* Of a resolution that is text or bytes Pillow takes the second character, whether there is one or not. */
static bool is_usual_exif(const uint8_t *content, size_t length)
{
    sn_tiff_entry entry;
    sn_tiff file;

    if (!sn_tiff_open(&file, content, length) || !sn_tiff_find(&file, TAG_X_RESOLUTION, &entry))
        return true;
    return entry.type != SN_TIFF_BYTE && entry.type != SN_TIFF_ASCII && entry.type != SN_TIFF_UNDEFINED;
}

/* Pillow fails where the index (MPF) has fewer pictures than it says. */
static bool is_usual_index(const uint8_t *content, size_t length)
{
    sn_tiff_entry count, pictures;
    sn_tiff file;

    return sn_tiff_open(&file, content, length) && sn_tiff_find(&file, TAG_COUNT_OF_PICTURES, &count) &&
           sn_tiff_find(&file, TAG_PICTURES, &pictures) && count.type == SN_TIFF_LONG && count.size == 4 &&
           pictures.type == SN_TIFF_UNDEFINED && sn_tiff_number(&file, count.at, 4) == pictures.size / BYTES_OF_PICTURE;
}

/* How often a file has what it should have once. */
typedef struct {
    int exif, indexes;
} seen;

static bool is_usual(uint8_t marker, const uint8_t *content, size_t length, seen *before)
{
    switch (marker) {
    case 0xC0:
    case 0xC1:
    case 0xC2:
    case 0xC9:
    case 0xCA: /* frames that libjpeg-turbo knows */
    case 0xC4:
    case 0xCC:
    case 0xDB:
    case 0xDD:
    case COM: /* tables, restart interval */
        return true;
    case APP0:
        return !begins(content, length, "JFIF", 4) || length >= LEAST_JFIF;
    case APP1:
        if (!begins(content, length, "Exif\0", 6))
            return true;
        return before->exif++ == 0 && is_usual_exif(content + 6, length - 6);
    case APP2:
        if (begins(content, length, "ICC_PROFILE", 12))
            return length >= LEAST_ICC;
        if (!begins(content, length, "MPF", 4))
            return true;
        return before->indexes++ == 0 && is_usual_index(content + 4, length - 4);
    case APP13:
        return !begins(content, length, "Photoshop 3.0", 14) || are_usual_blocks(content, length);
    case APP14:
        return !begins(content, length, "Adobe", 5) || length >= LEAST_ADOBE;
    default:
        return APP0 <= marker && marker <= 0xEF;
    }
}

bool sn_jpeg_header_is_usual(const uint8_t *bytes, size_t length)
{
    size_t at = 2, size;
    seen before = {0};
    uint8_t marker;

    while (length - at >= 4 && bytes[at] == 0xFF) {
        marker = bytes[at + 1];
        if (marker == SOS)
            return true;
        if (marker == 0xFF) { /* it may be written several times */
            at++;
            continue;
        }
        size = (size_t)bytes[at + 2] << 8 | bytes[at + 3];
        if (size < 2 || size > length - at - 2 || !is_usual(marker, bytes + at + 4, size - 2, &before))
            return false;
        at += 2 + size;
    }
    return false;
}
