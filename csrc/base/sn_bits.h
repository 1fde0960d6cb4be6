/*
 * sn_bits.h -- bit vectors, plain and counted.
 *
 *   words   1011 0100 ... | 0110 ...        a bit an item
 *   blocks      5              3            how many are set in each 1,024 bits
 *
 * A counted vector answers "the k-th set bit" in a walk over its blocks, so that one of the
 * set bits can be chosen uniformly.
 *
 * Lives in   any memory, shared memory too: fixed widths, no pointers inside.
 * Callers    one at a time: the owner of private bits, the lock holder for shared ones.
 * Blocking   never.
 */
#ifndef SN_BITS_H
#define SN_BITS_H

#include <stdint.h>

#define SN_BLOCK_WORDS 16
#define SN_BLOCK_BITS (SN_BLOCK_WORDS * 64)

static inline uint64_t sn_bits_words(uint64_t n_bits)
{
    return (n_bits + 63) / 64;
}

static inline uint64_t sn_bits_blocks(uint64_t n_bits)
{
    return (n_bits + SN_BLOCK_BITS - 1) / SN_BLOCK_BITS;
}

static inline int sn_bit_get(const uint64_t *words, uint32_t i)
{
    return (int)(words[i >> 6] >> (i & 63) & 1);
}

static inline void sn_bit_set(uint64_t *words, uint32_t i)
{
    words[i >> 6] |= (uint64_t)1 << (i & 63);
}

static inline void sn_bit_clear(uint64_t *words, uint32_t i)
{
    words[i >> 6] &= ~((uint64_t)1 << (i & 63));
}

/* The first bit of the wanted value at or after `from`; `end` when there is none before it. */
uint64_t sn_bits_next(const uint64_t *words, uint64_t from, uint64_t end, int value);

void sn_bits_fill(uint64_t *words, uint64_t from, uint64_t count, int value);

typedef struct {
    uint64_t *words;
    uint32_t *blocks;
    uint32_t *total;
    uint32_t n_blocks;
} sn_counted;

/* Both answer whether the bit changed. */
static inline int sn_counted_set(sn_counted v, uint32_t i)
{
    if (sn_bit_get(v.words, i))
        return 0;
    sn_bit_set(v.words, i);
    v.blocks[i / SN_BLOCK_BITS]++;
    ++*v.total;
    return 1;
}

static inline int sn_counted_clear(sn_counted v, uint32_t i)
{
    if (!sn_bit_get(v.words, i))
        return 0;
    sn_bit_clear(v.words, i);
    v.blocks[i / SN_BLOCK_BITS]--;
    --*v.total;
    return 1;
}

/* The position of the k-th set bit, counted from 0; k < *v.total. UINT32_MAX: the counts are not those of the words. */
uint32_t sn_counted_select(sn_counted v, uint32_t k);

#endif
