/*
 * sn_rng.h -- randomness that depends on what is asked, never on who asks or when.
 *
 *      (seed, nonce) --key-->  Philox4x32-10  <--counter-- (draw, index, epoch, stream)
 *
 * A counter-based generator (Salmon et al., SC '11): the numbers of sample `index` in
 * epoch `epoch` are the same whatever the threads, the workers or a resume.
 *
 * Lives in   private memory, a struct a sample.
 * Callers    one thread at a time a struct.
 * Blocking   never.
 */
#ifndef SN_RNG_H
#define SN_RNG_H

#include <stdint.h>

typedef struct {
    uint32_t key[2];
    uint32_t counter[4];
    uint32_t block[4];
    uint32_t left; /* numbers of `block` not yet given out */
} sn_rng;

/* The use of the numbers; different streams of one sample are independent. */
enum sn_stream {
    SN_STREAM_AUGMENT = 0,
    SN_STREAM_ORDER = 1,
    SN_STREAM_CHOOSE = 2,
    SN_STREAM_ERASE = 3, /* drawn for each delivery, so its nonce is always 0 */
    SN_STREAM_REST = 4
};

/* One Philox4x32-10 block. Known-answer tests hold it to the reference vectors. */
void sn_philox(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4]);

/* A bijective mix of 64 bits (splitmix64's finaliser). */
uint64_t sn_mix64(uint64_t x);

/* Start the stream of one sample. `nonce` is 0 for what a job prepares for itself and
 * the job's own random number for what it stages for others. */
void sn_rng_start(sn_rng *rng, uint64_t seed, uint64_t nonce, uint32_t epoch, uint32_t index, enum sn_stream stream);

uint32_t sn_rng_u32(sn_rng *rng);

/* Uniform in [0, 1), 53 bits. */
double sn_rng_double(sn_rng *rng);

/* Uniform in [low, high). */
double sn_rng_uniform(sn_rng *rng, double low, double high);

/* Uniform in {0, ..., n - 1}, without bias; n > 0. */
uint32_t sn_rng_below(sn_rng *rng, uint32_t n);

/* A number of the standard normal distribution. */
double sn_rng_normal(sn_rng *rng);

/* A number of the gamma distribution of this shape, above 0, and scale 1. */
double sn_rng_gamma(sn_rng *rng, double shape);

#endif
