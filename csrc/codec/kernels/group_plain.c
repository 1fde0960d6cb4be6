#include "group_kernels.h"

#include <stdlib.h>
#include <string.h>

/* -- Putting -- */

typedef struct {
    uint8_t *at;
    uint64_t bits;
    uint32_t n;
} bit_writer;

static void put_bits(bit_writer *to, uint32_t value, uint32_t n)
{
    to->bits |= (uint64_t)(value & ((1u << n) - 1)) << to->n;
    for (to->n += n; to->n >= 8; to->n -= 8, to->bits >>= 8)
        *to->at++ = (uint8_t)to->bits;
}

static uint32_t bits_of(uint32_t value)
{
    return value == 0 ? 0 : 32 - (uint32_t)__builtin_clz(value);
}

static void put_group(const int16_t lanes[8], uint32_t mask, sn_put_groups *to, bit_writer *fields)
{
    uint32_t most = 0, n = (uint32_t)__builtin_popcount(mask), masked, whole, width, code;
    bool is_whole;

    for (int lane = 0; lane < 8; lane++) {
        uint32_t size = (uint32_t)abs(lanes[lane]);

        most = size > most ? size : most;
    }
    if (n == 1 && most == 1) {
        uint32_t lane = (uint32_t)__builtin_ctz(mask);

        to->codes[to->n_codes++] = SN_GROUP_UNIT;
        put_bits(fields, lane | (lanes[lane] < 0) << 3, 4);
        return;
    }
    masked = bits_of(most - 1) + 1;
    whole = bits_of(most) + 1;
    is_whole = 8 * whole < 8 + n * masked;
    width = is_whole ? whole : masked;
    if (width > 7)
        code = is_whole ? SN_GROUP_WHOLE_WIDE : SN_GROUP_MASKED_WIDE;
    else
        code = is_whole ? width + 6 : width - 1;
    to->codes[to->n_codes++] = (uint8_t)code;
    if (!is_whole)
        to->masks[to->n_masks++] = (uint8_t)mask;
    if (width > 7)
        put_bits(fields, width - 1, 4);
    for (int lane = 0; lane < 8; lane++)
        if (is_whole || mask >> lane & 1)
            put_bits(fields, (uint32_t)(lanes[lane] - (!is_whole && lanes[lane] > 0)), width);
}

bool sn_group_put(const int16_t (*blocks)[SN_BLOCK], size_t n, const sn_dequantiser *by, sn_put_groups *to)
{
    bit_writer fields = {to->fields, 0, 0};
    bool fits = true;

    to->n_codes = to->n_masks = 0;
    for (size_t k = 0; k < n; k++) {
        for (int i = 0; i < SN_BLOCK; i++)
            fits &= abs(blocks[k][i]) <= by->most[i];
        if (!fits)
            return false;
        to->presence[k] = 0;
        for (uint32_t group = 0; group < SN_GROUPS; group++) {
            const int16_t *from = blocks[k] + sn_group_place(group);
            int16_t lanes[8];
            uint32_t mask = 0;

            memcpy(lanes, from, 4 * sizeof *lanes);
            memcpy(lanes + 4, from + 8, 4 * sizeof *lanes);
            if (group == 0)
                lanes[0] = 0;
            for (int lane = 0; lane < 8; lane++)
                mask |= (uint32_t)(lanes[lane] != 0) << lane;
            if (mask == 0)
                continue;
            to->presence[k] |= (uint8_t)(1u << group);
            put_group(lanes, mask, to, &fields);
        }
    }
    if (fields.n > 0)
        *fields.at++ = (uint8_t)fields.bits;
    to->n_fields = (uint32_t)(fields.at - to->fields);
    return true;
}

/* -- Taking -- */

static void take_group(sn_groups *from, int16_t lanes[8])
{
    uint32_t code = *from->codes++, width = sn_group_width(code), mask = 255;
    bool is_masked = code < SN_GROUP_WHOLE;
    uint64_t bits;

    if (is_masked)
        mask = *from->masks++;
    if (code == SN_GROUP_MASKED_WIDE || code == SN_GROUP_WHOLE_WIDE) {
        sn_take_wide(from, mask, is_masked, lanes);
        return;
    }
    memcpy(&bits, from->fields + from->bit / 8, sizeof bits);
    bits >>= from->bit % 8;
    memset(lanes, 0, 8 * sizeof *lanes);
    if (code == SN_GROUP_UNIT) {
        lanes[bits & 7] = bits & 8 ? -1 : 1;
        from->bit += 4;
        return;
    }
    for (int lane = 0; lane < 8; lane++)
        if (mask >> lane & 1) {
            int32_t value = (int32_t)((uint32_t)bits << (32 - width)) >> (32 - width);

            lanes[lane] = (int16_t)(value + (is_masked && value >= 0));
            bits >>= width;
            from->bit += width;
        }
}

static bool take(sn_groups *from, size_t n, int16_t (*blocks)[SN_BLOCK])
{
    for (size_t k = 0; k < n; k++) {
        uint32_t present = *from->presence++;

        for (; present != 0; present &= present - 1) {
            int16_t lanes[8], *to = blocks[k] + sn_group_place((uint32_t)__builtin_ctz(present));

            if (from->bit > from->end)
                return false;
            take_group(from, lanes);
            memcpy(to, lanes, 4 * sizeof *lanes);
            memcpy(to + 8, lanes + 4, 4 * sizeof *lanes);
        }
    }
    return from->bit <= from->end;
}

const sn_group_kernels sn_group_plain = {sn_group_put, take};
