/*
 * pictures.h -- JPEG files of every make, whole and damaged, written by libjpeg itself.
 *
 * Owns       nothing: the bytes of a file are the caller's, to be freed, and end where their
 *            memory ends, so that AddressSanitizer sees a read past them.
 */
#ifndef PICTURES_H
#define PICTURES_H

#include <stddef.h>
#include <stdint.h>

#include "base/sn_rng.h"

enum picture_colour { PICTURE_GREY, PICTURE_YCC, PICTURE_RGB, PICTURE_CMYK, PICTURE_YCCK, PICTURE_COLOURS };

typedef struct {
    uint32_t height, width;
    enum picture_colour colour;
    uint8_t across, down; /* luma samples for one of chroma, 1 ... 4 */
    uint8_t progressive;
    uint8_t restart; /* blocks between restart markers; 0: none */
    uint8_t quality;
    uint8_t optimised; /* codes of its own */
} picture_kind;

typedef struct {
    uint8_t *bytes;
    size_t length;
} picture_file;

/* Gradients and noise that `rng` names. */
picture_file picture_make(const picture_kind *kind, sn_rng *rng);

/* Another with its end cut off, or with some bits flipped. */
picture_file picture_truncated(picture_file whole, sn_rng *rng);
picture_file picture_flipped(picture_file whole, sn_rng *rng);

void picture_free(picture_file *file);

#endif
