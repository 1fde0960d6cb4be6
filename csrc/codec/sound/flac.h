/*
 * flac.h -- the samples of a FLAC that is as the format wants it.
 *
 *   block ... block --bits--> rows of up to 8 channels --predict--> --part from left and right--> float32, or their mean
 *
 * What this does not read, libsndfile reads: it knows what to make of damage. Here each bit of a block must be as
 * RFC 9639 has it, its sums must agree, its samples must fit their width, and the next block must follow at once. Then
 * the samples are libFLAC's, bit for bit: the format loses nothing. It takes half of libFLAC's time.
 *
 * Lives in   a codec.
 * Callers    the one thread that uses the codec.
 * Owns       the rows, which it keeps.
 */
#ifndef SN_FLAC_H
#define SN_FLAC_H

#include "flac_blocks.h"
#include "planes.h"

/* All zero: nothing is open. */
typedef struct {
    sn_flac_sums sums;
    sn_flac_stream stream;
    sn_flac_places places;
    sn_buffer rows;
} sn_flac;

void sn_flac_release(sn_flac *flac);

/* Whether it is one that this may read, by its header. */
bool sn_flac_open(sn_flac *flac, const uint8_t *bytes, size_t length);

/* Whether all of it is there: see sn_flac_find_blocks(). A part of it can be read from then on without what is before. */
bool sn_flac_is_whole(sn_flac *flac);

/* Read the frames [first, end) into `planes`: those of each channel, or with `mono` of their mean.
 *
 * SN_OK, -ENOMEM; SN_MISS: libsndfile is to read it, and `planes` has anything. */
int sn_flac_read(sn_flac *flac, bool mono, int64_t first, int64_t end, const sn_planes *planes);

#endif
