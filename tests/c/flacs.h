/*
 * flacs.h -- FLACs in which everything occurs that the format has: libFLAC's encoder uses a part of it.
 *
 * Owns       nothing: the file and the samples are the caller's.
 */
#ifndef FLACS_H
#define FLACS_H

#include <stdbool.h>

#include "pictures.h"

typedef struct {
    uint32_t channels, bits, frames;
    uint32_t block;   /* frames of a block; of the largest, if they vary */
    bool is_variable; /* blocks of different sizes */
} flac_kind;

/* What `rng` names, and in *samples the integers that it holds, frame by frame. */
picture_file flac_make(const flac_kind *kind, sn_rng *rng, int32_t **samples);

#endif
