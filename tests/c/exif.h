/*
 * exif.h -- contents of Exif and XMP segments that say how a picture is turned.
 *
 * Owns       nothing: as pictures.h.
 */
#ifndef EXIF_H
#define EXIF_H

#include "pictures.h"

picture_file exif_make(uint32_t number, sn_rng *rng);
picture_file xmp_make(uint32_t number);

#endif
