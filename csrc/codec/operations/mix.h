/*
 * mix.h -- a picture blended with changed copies of itself, as AugMix makes it.
 *
 *   MIX_BEGIN  keeps the picture; sum = weight * picture
 *      edits of the first chain
 *   MIX_ADD    sum += weight * picture; the picture is the kept one again
 *      edits of the next chain, MIX_ADD, ...
 *   MIX_END    the sum, cut to 0 ... 255 and rounded down, blended with the kept picture: `weight` of it is
 *              the sum's, and the result is rounded down again
 *
 * Sums are single floats, as torch and NumPy add them.
 *
 * Callers    one thread at a time an sn_mix.
 * Owns       the kept picture and the sum, until it is released.
 * Errors     -ENOMEM.
 */
#ifndef SN_MIX_H
#define SN_MIX_H

#include <stddef.h>
#include <stdint.h>

#include "../../base/sn_rng.h"
#include "../buffer.h"

typedef struct {
    sn_buffer kept, sum;
} sn_mix;

/* `n` bytes of a picture each time, from one MIX_BEGIN to its MIX_END. */
int sn_mix_begin(sn_mix *mix, float weight, const uint8_t *rgb, size_t n);
void sn_mix_add(sn_mix *mix, float weight, uint8_t *rgb, size_t n);
void sn_mix_end(sn_mix *mix, float weight, uint8_t *rgb, size_t n);

void sn_mix_release(sn_mix *mix);

#define SN_MAX_CHAINS 15 /* as many as a route has edits for */

/* `n` weights, SN_MAX_CHAINS at most, that add up to 1, of Dirichlet's distribution with `alpha` for each. */
void sn_mix_weights(sn_rng *rng, double alpha, uint32_t n, double *weights);

#endif
