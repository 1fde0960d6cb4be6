/*
 * recode.h -- the payload of recoded.h from a JPEG's file.
 *
 *   jpeg_read_header --> sn_recode --> payload
 *
 * Callers    one thread at a time a decompressor, which no other call has begun. Errors of libjpeg leave by its own
 *            handler.
 * Blocking   never.
 */
#ifndef SN_RECODE_H
#define SN_RECODE_H

#include <stddef.h>

#include "../buffer.h"
#include "huffman.h"
#include "recoded.h"

/* Write the payload of the picture whose header has been read, in `room` bytes at `payload`, aligned to 4. `rows` is
 * memory for its coefficients.
 *   0                 *bytes is its length
 *   SN_E_FOR_PILLOW   it is of a kind that has no payload: its colours, its sampling, its codes, quantisers of more than
 *                     8 bits, or scans that end before every coefficient has its last bit
 *   SN_E_DECODE       it is damaged, or has products beyond SN_MOST_PRODUCT
 *   SN_FULL           there is no room
 *   -ENOMEM           memory is short */
int sn_recode(struct jpeg_decompress_struct *info, sn_huffman *huffman, sn_buffer *rows, sn_recoding *recoding,
              void *payload, size_t room, size_t *bytes);

#endif
