#include "huffman_tables.h"

#include <string.h>

/* Whether the tables changed. jpeg_start_decompress() has refused invalid ones. */
static bool make_codes(sn_huffman_codes *made, const JHUFF_TBL *from)
{
    uint32_t code = 0, n = 0;

    if (made->is_made && memcmp(made->counts + 1, from->bits + 1, LONGEST_CODE) == 0 &&
        memcmp(made->symbols, from->huffval, sizeof made->symbols) == 0)
        return false;
    memcpy(made->counts, from->bits, sizeof made->counts);
    memcpy(made->symbols, from->huffval, sizeof made->symbols);
    memset(made->one, 0, sizeof made->one);
    for (uint32_t length = 1; length <= LONGEST_CODE; length++, code <<= 1) {
        made->offset[length] = (int32_t)n - (int32_t)code;
        for (uint32_t k = 0; k < made->counts[length]; k++, code++, n++) {
            uint32_t alike = length <= LOOKUP_BITS ? 1u << (LOOKUP_BITS - length) : 0;

            for (uint32_t i = 0; i < alike; i++)
                made->one[code * alike + i] = (uint16_t)(length << 8 | made->symbols[n & 0xFF]);
        }
        made->limit[length] = code << (LONGEST_CODE - length);
    }
    made->is_made = true;
    return true;
}

void sn_huffman_make_dc(sn_dc_table *table, const JHUFF_TBL *from)
{
    if (!make_codes(&table->codes, from))
        return;
    for (uint32_t i = 0; i < ENTRIES; i++) {
        uint32_t length = table->codes.one[i] >> 8, size = table->codes.one[i] & 15, bits;
        int32_t value = 0;

        table->whole[i] = 0;
        if (length == 0 || length + size > LOOKUP_BITS)
            continue;
        bits = i >> (LOOKUP_BITS - length - size) & ((1u << size) - 1);
        if (size > 0)
            value = sn_huffman_extend(bits, size);
        table->whole[i] = (length + size) << 24 | (uint16_t)value;
    }
}

/*
 * A step: the code that a look-up begins with, and the value behind it.
 *
 *   bits 0-7    of the stream that it takes; NO_STEP: too many
 *   bits 8-15   how far the coefficient is from the last one before
 *   bits 16-23  of the code alone
 *   bit  24     ENDS
 *   bit  25     KNOWN: a look-up sees the whole value, and an entry has room for it
 *   bits 26-29  of the value
 */
#define NO_STEP 0xFFu
#define KNOWN (1u << 25)
#define MOST_KNOWN 7 /* bits of a value that an entry has room for */

static uint32_t bits_of(uint32_t step)
{
    return step & 0xFF;
}

static uint32_t advance_of(uint32_t step)
{
    return step >> 8 & 0xFF;
}

static uint32_t code_bits_of(uint32_t step)
{
    return step >> 16 & 0xFF;
}

static uint32_t mask_of(uint32_t step)
{
    return (1u << (step >> 26)) - 1;
}

/* The step of each look-up, and the value if it is known. */
static void make_steps(const sn_huffman_codes *from, uint32_t *steps, int8_t *values)
{
    for (uint32_t i = 0; i < ENTRIES; i++) {
        uint32_t length = from->one[i] >> 8, run = from->one[i] >> 4 & 15, size = from->one[i] & 15;
        bool ends = size == 0 && run != 15, known = length + size <= LOOKUP_BITS && size <= MOST_KNOWN;

        steps[i] = NO_STEP;
        values[i] = 0;
        if (length == 0 || length + size > MOST_BITS)
            continue;
        steps[i] = size << 26 | (known ? KNOWN : 0) | (ends ? ENDS : (run + 1) << 8) | length << 16 | (length + size);
        if (known && size > 0)
            values[i] = (int8_t)sn_huffman_extend(i >> (LOOKUP_BITS - length - size) & ((1u << size) - 1), size);
    }
}

/* Codes of a look-up, one after another. */
typedef struct {
    uint32_t used;    /* bits of the stream */
    uint32_t advance; /* of all: four of them come to AWAY at most */
    uint32_t ends;    /* ENDS: the last one ends the block */
} codes_seen;

/* The next one, if the look-up sees it and its value is not too long. Without a branch: which codes fit is hard to
 * predict. Returns its step, or 0. */
static inline uint32_t see(codes_seen *seen, const uint32_t *steps, uint32_t bits)
{
    uint32_t step = steps[bits << seen->used & (ENTRIES - 1)];
    bool fits = (seen->used + code_bits_of(step) <= LOOKUP_BITS) & (seen->used + bits_of(step) <= MOST_BITS);

    step = fits & !seen->ends ? step : 0;
    seen->used += bits_of(step);
    seen->advance += advance_of(step);
    seen->ends |= step & ENDS;
    return step;
}

void sn_huffman_make_ac(sn_ac_table *table, const JHUFF_TBL *from)
{
    uint32_t steps[ENTRIES];
    int8_t values[ENTRIES];

    if (!make_codes(&table->codes, from))
        return;
    make_steps(&table->codes, steps, values);
    for (uint32_t i = 0; i < ENTRIES; i++) {
        codes_seen seen = {0, 0, 0}, of_two;
        uint32_t first = see(&seen, steps, i), second_at = i << seen.used & (ENTRIES - 1), second, mask;
        int8_t other = 0;

        if (first == 0) {
            table->two[i] = AWAY << 16;
            table->skip[i] = AWAY << 5;
            continue;
        }
        of_two = seen;
        mask = first & KNOWN ? 0 : mask_of(first);
        second = see(&seen, steps, i);
        if (first & KNOWN && second != 0) {
            bool known = second & KNOWN && seen.used <= LOOKUP_BITS;

            of_two = seen;
            mask = known ? 0 : mask_of(second);
            other = known ? values[second_at] : 0;
        }
        if (see(&seen, steps, i) & ENDS && mask == 0)
            of_two = seen;
        see(&seen, steps, i);
        table->two[i] = (uint64_t)mask << 48 | (uint64_t)(uint8_t)other << 40 | (uint64_t)(uint8_t)values[i] << 32 |
                        of_two.ends | of_two.advance << 16 | advance_of(first) << 8 | of_two.used;
        table->skip[i] = (uint16_t)((seen.ends ? SKIP_ENDS : 0) | seen.advance << 5 | seen.used);
    }
}
