/*
 * sn_perm.h -- a permutation of 0 .. n-1 that a key names.
 *
 * Up to SN_PERM_TABLE items: a shuffled table (Fisher-Yates), every permutation as likely.
 * Above: a Feistel network over the next power of two, walked until it lands inside
 * (Black and Rogaway, CT-RSA '02): no memory, no start-up time, any place at random.
 *
 * Lives in   private memory.     Callers  its owner.     Blocking  never.
 */
#ifndef SN_PERM_H
#define SN_PERM_H

#include <stdint.h>

#define SN_PERM_TABLE 65536u
#define SN_PERM_ROUNDS 12

typedef struct {
    uint32_t n;
    uint32_t *table; /* NULL above SN_PERM_TABLE */
    uint32_t low_bits, high_bits;
    uint32_t keys[SN_PERM_ROUNDS];
} sn_perm;

int sn_perm_init(sn_perm *perm, uint32_t n, uint64_t seed, uint32_t epoch); /* 0 or -ENOMEM */
void sn_perm_free(sn_perm *perm);
uint32_t sn_perm_at(const sn_perm *perm, uint32_t place);

#endif
