/*
 * raster.h -- the pixels of a rectangle of a JPEG from its coefficients, in place of libjpeg-turbo's own way to them.
 *
 *   sn_raster_begin --> sn_raster_draw (down to the rectangle's last row) --> [sn_raster_skip (the rows below)]
 *                   --> sn_raster_draw_recoded
 *
 *   coefficients of a row of MCUs --> samples of each component, of two rows of MCUs at a time --> rows of RGB
 *                                 --> [the payload of recoded.h]
 *
 * The pixels are libjpeg-turbo's, to the bit. What is not drawn here: what jpeg_frame.h does not have, and coefficients
 * beyond SN_MOST_PRODUCT.
 *
 * Callers    one thread at a time an sn_raster.
 * Blocking   never.
 * Owns       its memory, which is kept from picture to picture.
 */
#ifndef SN_RASTER_H
#define SN_RASTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../rect.h"
#include "huffman.h"
#include "jpeg_frame.h"
#include "recoded.h"

typedef struct sn_raster sn_raster;

/* NULL when memory is short. */
sn_raster *sn_raster_new(void);
void sn_raster_free(sn_raster *raster);

/* Begin a rectangle of a picture, inside which it lies. `recoding`, if it is not NULL, has begun: drawing and skipping
 * put all rows of blocks there in the same pass. False: memory is short. */
bool sn_raster_begin(sn_raster *raster, const sn_jpeg_frame *frame, sn_rect region, sn_recoding *recoding);

/* Put the rectangle's pixels at `rgb`, where SN_RGB_PAST bytes behind the last may be written too. False: the file is
 * not what it should be here, as of sn_huffman_decode(), or has coefficients beyond SN_MOST_PRODUCT. */
bool sn_raster_draw(sn_raster *raster, sn_huffman *huffman, uint8_t *rgb, size_t stride);

/* The same of a payload. False: it is damaged. */
bool sn_raster_draw_recoded(sn_raster *raster, sn_recoded *recoded, uint8_t *rgb, size_t stride);

/* Whether codes are left below the rectangle. */
bool sn_raster_has_more(const sn_raster *raster);

/* Pass over them. False: as above. */
bool sn_raster_skip(sn_raster *raster, sn_huffman *huffman);

/* Whether the recoding has got all rows up to now. Once it has refused one, it gets no more. */
bool sn_raster_is_recoding(const sn_raster *raster);

#endif
