/*
 * group_kernels.h -- a JPEG's coefficients in groups that vectors pack and unpack, in plain C and in vectors.
 *
 *   blocks --put--> presence | codes | masks | fields --take--> the same blocks
 *
 * A group is two rows of four coefficients of a block, in natural order; the block's first coefficient counts as zero.
 * `presence` has a byte for each block: a bit for each of its groups that are not all zeros, the first row's left one
 * lowest. Each of these has a code, and its coefficients are fields of as many bits as the largest needs:
 *
 *    0 to  6   those that are not zeros, of 1 to 7 bits, and a mask that says which they are
 *    7         likewise, of more bits
 *    8 to 13   all eight, of 2 to 7 bits, without a mask
 *   14         likewise, of more bits
 *   15         one that is 1 or -1: three bits of its place, and one that is set for -1
 *
 * A field is in two's complement. Behind a mask there are no zeros, and what is positive is one less. Fields of more
 * than 7 bits come behind four bits: their number of bits less one.
 *
 * group_plain.c defines the bits; the vectors give the same. Only recoded.c and tests call them.
 */
#ifndef SN_GROUP_KERNELS_H
#define SN_GROUP_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jpeg_kernels.h"
#include "simd.h"

#define SN_BLOCKS_AT_ONCE 64 /* that are put or taken at the most */
#define SN_GROUPS 8          /* of a block */

/* Bytes behind the last field that are read too. */
#define SN_FIELDS_PAST 512

/* What is to be taken. It moves on. */
typedef struct {
    const uint8_t *presence;
    const uint8_t *codes; /* a byte each */
    const uint8_t *masks;
    const uint8_t *fields;
    uint32_t bit, end; /* of the fields: where the next begins, and behind the last */
} sn_groups;

/* What was put. Whoever writes the codes two a byte reads some behind them. */
#define SN_PAIRS_PAST 8
typedef struct {
    uint8_t presence[SN_BLOCKS_AT_ONCE];
    uint8_t codes[SN_BLOCKS_AT_ONCE * SN_GROUPS + SN_PAIRS_PAST];
    uint8_t masks[SN_BLOCKS_AT_ONCE * SN_GROUPS];
    uint8_t fields[SN_BLOCKS_AT_ONCE * SN_GROUPS * 17 + 8]; /* whole bytes */
    uint32_t n_codes, n_masks, n_fields;
} sn_put_groups;

typedef struct {
    /* False: a product is beyond SN_MOST_PRODUCT, and `to` is any. */
    bool (*put)(const int16_t (*blocks)[SN_BLOCK], size_t n, const sn_dequantiser *by, sn_put_groups *to);

    /* Blocks of zeros become what they were, but for their first coefficients, which may be any. Whoever calls has
     * counted codes and masks. False: the fields end before. */
    bool (*take)(sn_groups *from, size_t n, int16_t (*blocks)[SN_BLOCK]);
} sn_group_kernels;

/* Plain C's `put`. */
bool sn_group_put(const int16_t (*blocks)[SN_BLOCK], size_t n, const sn_dequantiser *by, sn_put_groups *to);

extern const sn_group_kernels sn_group_plain;
#ifdef SN_HAVE_SIMD_CODE
extern const sn_group_kernels sn_group_simd; /* NEON puts as plain C does */
#endif

enum { SN_GROUP_MASKED_WIDE = 7, SN_GROUP_WHOLE = 8, SN_GROUP_WHOLE_WIDE = 14, SN_GROUP_UNIT = 15 };

/* Bits of a field of the groups with this code; 0: it says so itself. */
static inline uint32_t sn_group_width(uint32_t code)
{
    return code < SN_GROUP_MASKED_WIDE ? code + 1 : code >= SN_GROUP_WHOLE && code < SN_GROUP_WHOLE_WIDE ? code - 6 : 0;
}

/* The place of a group's first coefficient in its block. */
static inline uint32_t sn_group_place(uint32_t group)
{
    return (group >> 1) * 16 + (group & 1) * 4;
}

/* A group of fields of more than 7 bits. */
static inline void sn_take_wide(sn_groups *from, uint32_t mask, bool is_masked, int16_t lanes[8])
{
    uint64_t bits;
    uint32_t width;

    __builtin_memcpy(&bits, from->fields + from->bit / 8, sizeof bits);
    width = (bits >> from->bit % 8 & 15) + 1;
    from->bit += 4;
    for (uint32_t lane = 0; lane < 8; lane++) {
        int32_t value = 0;

        if (mask >> lane & 1) {
            __builtin_memcpy(&bits, from->fields + from->bit / 8, sizeof bits);
            value = (int32_t)((uint32_t)(bits >> from->bit % 8) << (32 - width)) >> (32 - width);
            value += is_masked && value >= 0;
            from->bit += width;
        }
        lanes[lane] = (int16_t)value;
    }
}

#endif
