/*
 * picture.h -- the targets of pictures: one for each format, which differ by their seeds alone.
 *
 *   plan | file --> every_call.h; and of a JPEG its RECODED payload, written and drawn
 */
#ifndef PICTURE_H
#define PICTURE_H

#include "fuzz.h"

/* fuzz_begin() and fuzz_one() of these targets. */
void picture_begin(void);
void picture_one(const uint8_t *bytes, size_t length);

#endif
