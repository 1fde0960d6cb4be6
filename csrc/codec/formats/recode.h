/*
 * recode.h -- the payload of recoded.h from a JPEG of several scans, whose codes libjpeg-turbo reads.
 *
 *   jpeg_read_header --> sn_recode_scans --> payload
 *
 * That of a JPEG of one scan is written where it is drawn: raster.h.
 *
 * Callers    one thread at a time a decompressor, which no other call has begun. Errors of libjpeg leave by its own
 *            handler.
 * Blocking   never.
 */
#ifndef SN_RECODE_H
#define SN_RECODE_H

#include "../sn_codec.h"
#include "recoded.h"

struct jpeg_decompress_struct;

/* Write the payload of the picture whose header has been read.
 *   0                 to->length is set
 *   SN_E_FOR_PILLOW   it is of a kind that has no payload: its colours, its sampling, its codes, quantisers of more than
 *                     8 bits, or scans that end before every coefficient has its last bit
 *   SN_E_DECODE       it is damaged, or has products beyond SN_MOST_PRODUCT
 *   SN_FULL           there is no room */
int sn_recode_scans(struct jpeg_decompress_struct *info, sn_recoding *recoding, sn_recoded_payload *to);

#endif
