#include "sn_rng.h"

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

void sn_rng_start(sn_rng *rng, uint64_t seed, uint64_t nonce, uint32_t epoch, uint32_t index,
                  enum sn_stream stream)
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
