#include "sn_perm.h"

#include <errno.h>
#include <stdlib.h>

#include "../base/sn_rng.h"

int sn_perm_init(sn_perm *perm, uint32_t n, uint64_t seed, uint32_t epoch)
{
    sn_rng rng;
    sn_rng_start(&rng, seed, 0, epoch, n, SN_STREAM_ORDER);

    perm->n = n;
    perm->table = NULL;
    if (n <= SN_PERM_TABLE) {
        perm->table = malloc((n ? n : 1) * sizeof *perm->table);
        if (!perm->table)
            return -ENOMEM;
        for (uint32_t i = 0; i < n; i++) {
            uint32_t j = sn_rng_below(&rng, i + 1);
            perm->table[i] = perm->table[j];
            perm->table[j] = i;
        }
        return 0;
    }

    uint32_t bits = 32 - (uint32_t)__builtin_clz(n - 1);
    perm->low_bits = bits / 2;
    perm->high_bits = bits - perm->low_bits;
    for (int round = 0; round < SN_PERM_ROUNDS; round++)
        perm->keys[round] = sn_rng_u32(&rng);
    return 0;
}

void sn_perm_free(sn_perm *perm)
{
    free(perm->table);
    perm->table = NULL;
}

static uint32_t mix(uint32_t x, uint32_t key)
{
    x ^= key;
    x *= 0x85EBCA6Bu;
    x ^= x >> 13;
    x *= 0xC2B2AE35u;
    return x ^ x >> 16;
}

uint32_t sn_perm_at(const sn_perm *perm, uint32_t place)
{
    if (perm->table)
        return perm->table[place];

    uint32_t low_mask = ((uint32_t)1 << perm->low_bits) - 1;
    uint32_t high_mask = ((uint32_t)1 << perm->high_bits) - 1;
    do { /* fewer than two turns on average: the domain is below 2 n */
        uint32_t low = place & low_mask, high = place >> perm->low_bits;
        for (int round = 0; round < SN_PERM_ROUNDS; round += 2) {
            low ^= mix(high, perm->keys[round]) & low_mask;
            high ^= mix(low, perm->keys[round + 1]) & high_mask;
        }
        place = high << perm->low_bits | low;
    } while (place >= perm->n);
    return place;
}
