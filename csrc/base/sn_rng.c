#include "sn_rng.h"

#include <math.h>

#define PHILOX_M0 0xD2511F53u
#define PHILOX_M1 0xCD9E8D57u
#define PHILOX_W0 0x9E3779B9u
#define PHILOX_W1 0xBB67AE85u

void sn_philox(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4])
{
    uint32_t k0 = key[0], k1 = key[1];
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];

    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)PHILOX_M0 * c0;
        uint64_t p1 = (uint64_t)PHILOX_M1 * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        uint32_t n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += PHILOX_W0;
        k1 += PHILOX_W1;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

uint64_t sn_mix64(uint64_t x)
{
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

void sn_rng_start(sn_rng *rng, uint64_t seed, uint64_t nonce, uint32_t epoch, uint32_t index, enum sn_stream stream)
{
    uint64_t key = sn_mix64(seed) ^ (nonce ? sn_mix64(sn_mix64(nonce)) : 0);

    rng->key[0] = (uint32_t)key;
    rng->key[1] = (uint32_t)(key >> 32);
    rng->counter[0] = 0;
    rng->counter[1] = index;
    rng->counter[2] = epoch;
    rng->counter[3] = (uint32_t)stream;
    rng->left = 0;
}

uint32_t sn_rng_u32(sn_rng *rng)
{
    if (rng->left == 0) {
        sn_philox(rng->key, rng->counter, rng->block);
        rng->counter[0]++;
        rng->left = 4;
    }
    return rng->block[4 - rng->left--];
}

double sn_rng_double(sn_rng *rng)
{
    uint64_t high = sn_rng_u32(rng), low = sn_rng_u32(rng);
    return (double)((high << 32 | low) >> 11) * 0x1.0p-53;
}

double sn_rng_uniform(sn_rng *rng, double low, double high)
{
    return low + (high - low) * sn_rng_double(rng);
}

uint32_t sn_rng_below(sn_rng *rng, uint32_t n)
{
    /* Lemire (2019): a multiplication, and a rejection that is rarely needed. */
    uint64_t product = (uint64_t)sn_rng_u32(rng) * n;
    if ((uint32_t)product < n) {
        uint32_t threshold = (0u - n) % n;
        while ((uint32_t)product < threshold)
            product = (uint64_t)sn_rng_u32(rng) * n;
    }
    return (uint32_t)(product >> 32);
}

double sn_rng_normal(sn_rng *rng)
{
    /* Box and Muller (1958), without the second number. The first is in (0, 1]: it has a logarithm. */
    double radius = sqrt(-2 * log(1 - sn_rng_double(rng)));

    return radius * cos(2 * M_PI * sn_rng_double(rng));
}

double sn_rng_gamma(sn_rng *rng, double shape)
{
    /* Marsaglia and Tsang (2000): a normal number's cube, and a rejection that is rarely needed. Below 1
     * it is the shape above, times a power of a uniform number. */
    double d = (shape < 1 ? shape + 1 : shape) - 1.0 / 3, c = 1 / sqrt(9 * d), x, v, u;

    do {
        do {
            x = sn_rng_normal(rng);
            v = 1 + c * x;
        } while (v <= 0);
        v = v * v * v;
        u = 1 - sn_rng_double(rng);
    } while (log(u) >= 0.5 * x * x + d * (1 - v + log(v)));
    return shape < 1 ? d * v * pow(1 - sn_rng_double(rng), 1 / shape) : d * v;
}
