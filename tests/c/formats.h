/*
 * formats.h -- small PNG and WebP files of every kind, written by their own libraries, and a JPEG, PNG or WebP damaged.
 *
 * Owns       nothing: as pictures.h.
 */
#ifndef FORMATS_H
#define FORMATS_H

#include "pictures.h"

/* Grey, RGB and palettes, with alpha or without, 8 or 16 bits, in rows or interlaced. Empty: built without libpng. */
picture_file png_make(uint32_t height, uint32_t width, sn_rng *rng);

/* Lossy or lossless, with alpha or without, bare or in the container that has room for more. Empty: built without libwebp. */
picture_file webp_make(uint32_t height, uint32_t width, sn_rng *rng);

/* Another with some bits flipped, numbers overwritten, parts cut out, doubled or lost at the end. Often lengths and
 * checksums are made to fit again, so that what lies behind them is reached. */
picture_file picture_damaged(picture_file whole, sn_rng *rng);

/* Make them fit, in place. */
void picture_mend(picture_file file);

#endif
