/*
 * fuzz.h -- what a target of `make fuzz` is made of: three functions, that libFuzzer calls by way of fuzz.c.
 *
 *   fuzz_begin()     once
 *   fuzz_seed()      the first inputs, which are made anew each time
 *   fuzz_one()       each input: it ends in a sanitizer's report, in a CHECK() that fails, or well
 *
 * A target is a program. `build/fuzz/fuzz_jpeg FILE` repeats an input, `--seeds FOLDER` writes the first ones.
 * What a target does depends on the input alone: it draws its random numbers from constant seeds.
 *
 * Callers    one thread.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include "pictures.h"

void fuzz_begin(void);

/* `bytes` end where their memory ends. */
void fuzz_one(const uint8_t *bytes, size_t length);

/* One of FUZZ_SEEDS; empty: there is none of this number. */
#define FUZZ_SEEDS 64u
picture_file fuzz_seed(uint32_t number, sn_rng *rng);

/* A copy with these bytes before it. Frees the file. */
picture_file fuzz_with_header(const void *header, size_t length, picture_file file);

/* The next byte of an input; 0 behind its end. */
static inline uint8_t fuzz_byte(const uint8_t **bytes, size_t *length)
{
    if (*length == 0)
        return 0;
    --*length;
    return *(*bytes)++;
}

#endif
