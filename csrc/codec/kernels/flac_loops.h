/*
 * flac_loops.h -- the loop over Rice's numbers, which flac_plain.c and flac_avx2.c compile each for its own target.
 *
 * A load brings at least 56 bits, which are enough for two short numbers. No branch depends on their values.
 */
#ifndef SN_FLAC_LOOPS_H
#define SN_FLAC_LOOPS_H

#include <string.h>

#include "flac_kernels.h"

#define SHORT 28 /* bits of a number that is short */

static inline __attribute__((always_inline)) uint64_t load_bits(const uint8_t *at)
{
    uint64_t word;

    memcpy(&word, at, sizeof word);
    return __builtin_bswap64(word);
}

static inline __attribute__((always_inline)) uint32_t read_rice(sn_bits *bits, uint32_t k, uint32_t n, int32_t *out)
{
    uint64_t next = bits->bits;
    uint32_t left = bits->n, done = 0;
    const uint8_t *at = bits->at;

    if (k >= SHORT)
        return 0;
    while (n - done >= 2 && bits->end - at >= SN_FLAC_SLACK) {
        uint32_t quotients[2], j;

        next |= load_bits(at) >> left;
        at += (63 - left) >> 3;
        left |= 56;
        for (j = 0; j < 2; j++) {
            uint32_t quotient = quotients[j] = (uint32_t)__builtin_clzll(next | 1), number;

            if (__builtin_expect(quotient + k >= SHORT, 0))
                break;
            /* The one behind the zeros is the lowest bit of the quotient that is one too much. */
            number = ((quotient - 1) << k) + (uint32_t)(next << quotient >> (63 - k));
            out[done + j] = (int32_t)(number >> 1 ^ -(number & 1));
            next <<= quotient + 1 + k;
            left -= quotient + 1 + k;
        }
        done += j;
        if (__builtin_expect(j < 2, 0))
            break;
    }
    *bits = (sn_bits){next, left, at, bits->end};
    return done;
}

#endif
