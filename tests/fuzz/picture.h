/*
 * picture.h -- the targets of pictures: one for each format, which differ by their seeds alone.
 *
 *   plan | file --> every_call.h; and of a JPEG its RECODED payload, written and drawn
 */
#ifndef PICTURE_H
#define PICTURE_H

#include "fuzz.h"

void picture_begin(void);
void picture_one(const uint8_t *bytes, size_t length);

/* A small picture by a function of formats.h, with a plan; most of them are mended after they were damaged. */
picture_file picture_seed(uint32_t number, sn_rng *rng,
                          picture_file (*make)(uint32_t height, uint32_t width, sn_rng *rng));

/* What these targets have in common: a program has one of each name. */
#define PICTURE_TARGET                                                                                                 \
    void fuzz_begin(void)                                                                                              \
    {                                                                                                                  \
        picture_begin();                                                                                               \
    }                                                                                                                  \
                                                                                                                       \
    void fuzz_one(const uint8_t *bytes, size_t length)                                                                 \
    {                                                                                                                  \
        picture_one(bytes, length);                                                                                    \
    }

#endif
