/*
 * jpeg.h -- a JPEG in memory, and the pixels of a rectangle of it.
 *
 *   sn_jpeg_open (header, limits) --> [sn_jpeg_shrink] --> sn_jpeg_read (rectangle) --> sn_jpeg_close
 *
 * The pixels are those of Pillow's Image.open(f).convert("RGB") on the same libjpeg-turbo, bit
 * for bit: accurate integer IDCT, smooth chroma upsampling, grey and CMYK converted as Pillow
 * does. A rectangle has the pixels that the whole picture has there.
 *
 * Shrunk, they are those of Pillow's Image.draft.
 *
 * Callers    one thread at a time an sn_jpeg.
 * Blocking   never.
 * Owns       libjpeg's memory, from open to close. `bytes` must live as long.
 * Errors     SN_E_FOR_PILLOW: no JPEG by its first bytes, of an unusual header (jpeg_header.h), or of a
 *            kind that this libjpeg-turbo does not know. SN_E_TOO_LARGE: more pixels, scans or memory than allowed,
 *            found before they are allocated. SN_E_DECODE: what Pillow refuses as well, a file that ends early above
 *            all, also if the damage lies outside the rectangle; damage that libjpeg can bridge is bridged, as there.
 *            After a failure only close (or open, which closes) is left.
 */
#ifndef SN_JPEG_H
#define SN_JPEG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../buffer.h"
#include "../rect.h"
#include "../sn_codec.h"

typedef struct sn_jpeg sn_jpeg;

#define SN_JPEG_MESSAGE 200

/* NULL when memory is short. Reasons of failures are written to `message`. */
sn_jpeg *sn_jpeg_new(uint64_t max_pixels, char message[SN_JPEG_MESSAGE]);
void sn_jpeg_free(sn_jpeg *jpeg);

/* `upright`: turn the picture as its EXIF orientation says. Size and rectangles are those of the turned picture from
 * then on. `payload`, if it is not NULL, is written by sn_jpeg_read() in the same pass; nothing may shrink the picture
 * then. A picture whose EXIF says that it is to be turned has none. */
int sn_jpeg_open(sn_jpeg *jpeg, const uint8_t *bytes, size_t length, bool upright, sn_recoded_payload *payload,
                 uint32_t *height, uint32_t *width);

/* Open the payload of recoded.h, aligned to 4, in place of a JPEG. Nothing shrinks it. SN_E_DECODE: it is damaged. */
int sn_jpeg_open_recoded(sn_jpeg *jpeg, const void *payload, size_t bytes, uint32_t *height, uint32_t *width);

/* The reduction of a picture: row y and column x begin at (lead + y) / denominator. */
typedef struct {
    uint32_t denominator;
    uint32_t lead_top, lead_left; /* 0, except where a mirrored picture ends in part of a sample */
} sn_reduction;

/* Decode to 1 / denominator (1, 2, 4, 8) of the size, rounded up, each sample the mean of as many
 * pixels squared, without computing those. Rectangles are in these samples from then on. */
sn_reduction sn_jpeg_shrink(sn_jpeg *jpeg, uint32_t denominator);

/* Decode `region`, which lies inside the picture and is not empty, into `buffer`; *out is a view
 * of it there. Once an open. */
int sn_jpeg_read(sn_jpeg *jpeg, sn_rect region, sn_buffer *buffer, sn_view *out);

void sn_jpeg_close(sn_jpeg *jpeg);

#endif
