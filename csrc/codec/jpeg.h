/*
 * jpeg.h -- a JPEG in memory, and the pixels of a rectangle of it.
 *
 *   sn_jpeg_open (header, limits) --> sn_jpeg_read (rectangle) --> sn_jpeg_close
 *
 * The pixels are those of Pillow's Image.open(f).convert("RGB") on the same libjpeg-turbo, bit
 * for bit: accurate integer IDCT, smooth chroma upsampling, grey and CMYK converted as Pillow
 * does. A rectangle has the pixels that the whole picture has there.
 *
 * Callers    one thread at a time an sn_jpeg.
 * Blocking   never.
 * Owns       libjpeg's memory, from open to close. `bytes` must live as long.
 * Errors     SN_E_NOT_JPEG: no JPEG by its first bytes. SN_E_TOO_LARGE: more pixels, scans or
 *            memory than allowed, told before they are allocated. SN_E_DECODE: what Pillow
 *            refuses as well, a file that ends early above all; damage that libjpeg can bridge
 *            is bridged, as there. After a failure only close (or open, which closes) is left.
 */
#ifndef SN_JPEG_H
#define SN_JPEG_H

#include <stddef.h>
#include <stdint.h>

#include "buffer.h"
#include "sn_codec.h"

typedef struct sn_jpeg sn_jpeg;

typedef struct {
    uint32_t top, left, height, width;
} sn_rect;

#define SN_JPEG_MESSAGE 200

/* NULL when memory is short. Reasons of failures are written to `message`. */
sn_jpeg *sn_jpeg_new(uint64_t max_pixels, char message[SN_JPEG_MESSAGE]);
void sn_jpeg_free(sn_jpeg *jpeg);

int sn_jpeg_open(sn_jpeg *jpeg, const uint8_t *bytes, size_t length, uint32_t *height,
                 uint32_t *width);

/* Decode `region`, which lies inside the picture and is not empty, into `buffer`; *out is a view
 * of it there. Once an open. */
int sn_jpeg_read(sn_jpeg *jpeg, sn_rect region, sn_buffer *buffer, sn_view *out);

void sn_jpeg_close(sn_jpeg *jpeg);

#endif
