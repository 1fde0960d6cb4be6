#include "sn_bits.h"

#define SUMMED 16 /* blocks at a time */

uint64_t sn_bits_next(const uint64_t *words, uint64_t from, uint64_t end, int value)
{
    if (from >= end)
        return end;

    uint64_t flip = value ? 0 : ~(uint64_t)0;
    uint64_t word = from >> 6;
    uint64_t bits = (words[word] ^ flip) & (~(uint64_t)0 << (from & 63));
    while (bits == 0) {
        if (++word << 6 >= end)
            return end;
        bits = words[word] ^ flip;
    }
    uint64_t found = (word << 6) + (uint64_t)__builtin_ctzll(bits);
    return found < end ? found : end;
}

void sn_bits_fill(uint64_t *words, uint64_t from, uint64_t count, int value)
{
    uint64_t end = from + count;
    while (from < end) {
        uint64_t in_word = 64 - (from & 63);
        if (in_word > end - from)
            in_word = end - from;
        uint64_t mask = (in_word == 64 ? ~(uint64_t)0 : ((uint64_t)1 << in_word) - 1) << (from & 63);
        if (value)
            words[from >> 6] |= mask;
        else
            words[from >> 6] &= ~mask;
        from += in_word;
    }
}

/* The compiler's own is a call where it may not suppose that the processor has an instruction for it. */
static uint32_t count_ones(uint64_t bits)
{
    bits -= bits >> 1 & 0x5555555555555555u;
    bits = (bits & 0x3333333333333333u) + (bits >> 2 & 0x3333333333333333u);
    bits = (bits + (bits >> 4)) & 0x0F0F0F0F0F0F0F0Fu;
    return (uint32_t)(bits * 0x0101010101010101u >> 56);
}

uint32_t sn_counted_select(sn_counted v, uint32_t k)
{
    /* Many blocks at a time: their sum is a few vector instructions. */
    uint32_t block = 0;
    for (; block + SUMMED <= v.n_blocks; block += SUMMED) {
        uint32_t sum = 0;
        for (uint32_t i = 0; i < SUMMED; i++)
            sum += v.blocks[block + i];
        if (k < sum)
            break;
        k -= sum;
    }
    while (block < v.n_blocks && k >= v.blocks[block])
        k -= v.blocks[block++];

    uint32_t word = block * SN_BLOCK_WORDS, end = word + SN_BLOCK_WORDS;
    if (block >= v.n_blocks)
        return UINT32_MAX;
    for (;;) {
        uint32_t set = count_ones(v.words[word]);
        if (k < set)
            break;
        k -= set;
        if (++word == end)
            return UINT32_MAX;
    }
    uint64_t bits = v.words[word];
    while (k--)
        bits &= bits - 1;
    return word * 64 + (uint32_t)__builtin_ctzll(bits);
}
