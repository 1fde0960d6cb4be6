/*
 * orientation.h -- which way up a picture is, by its EXIF, and how to turn it upright.
 *
 *   stored     1 F.  2 .F  3 .j  4 j.  5 ..  6 ..  7 ..  8 ..      upright: 5 to 8 swap
 *                                                                   height and width
 * The choice of what is applied and what is ignored is Pillow's (ImageOps.exif_transpose), broken EXIF
 * included: the orientation tag of any numeric type, else what XMP says; anything but 2 ... 8 is 1,
 * which leaves the picture as it is. Where Pillow raises (a header that is no TIFF's), it is 1 too.
 *
 * Callers    any thread; no state.
 * Errors     none: hostile bytes are read within their bounds and give some orientation.
 */
#ifndef SN_ORIENTATION_H
#define SN_ORIENTATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../rect.h"
#include "../sn_codec.h"

/* 1 ... 8, from the contents of the Exif segment and of the XMP segment; either may be empty. */
uint32_t sn_orientation_read(const uint8_t *exif, size_t exif_length, const uint8_t *xmp, size_t xmp_length);

/* To turn upright: mirror the stored rows, the stored columns, then swap rows and columns. */
static inline bool sn_orientation_mirrors_rows(uint32_t orientation)
{
    return orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
}

static inline bool sn_orientation_mirrors_columns(uint32_t orientation)
{
    return orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
}

static inline bool sn_orientation_swaps(uint32_t orientation)
{
    return orientation >= 5;
}

/* Where a rectangle of the upright picture lies in the stored one, which has this size. */
sn_rect sn_orientation_stored(uint32_t orientation, sn_rect upright, uint32_t height, uint32_t width);

/* Turn `stored` upright into `out`, rows close together. */
void sn_orientation_turn(uint32_t orientation, const sn_view *stored, uint8_t *out);

#endif
