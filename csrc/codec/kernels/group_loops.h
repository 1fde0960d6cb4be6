/*
 * group_loops.h -- how vectors take groups: see group_kernels.h.
 *
 * Included by each file that compiles it, which defines for its target:
 *   SN_LOOP                     what stands before the function
 *   vector                      eight numbers of 16 bits
 *   load(values), store(to, lanes)   four of them 8 numbers apart from the other four
 *   bits_set(mask)              how many bits a mask has
 *   values_of(bits, code)       the values whose fields `bits` begins with, in the first lanes
 *   spread_over(lanes, mask)    the first lanes, in the lanes that the mask has; zeros in the others
 */
#include <string.h>

#include "group_tables.h"

SN_LOOP static bool take(sn_groups *from, size_t n, int16_t (*blocks)[SN_BLOCK])
{
    const uint8_t *codes = from->codes, *masks = from->masks, *fields = from->fields;
    uint32_t bit = from->bit;

    for (size_t k = 0; k < n; k += 8, blocks += 8) {
        uint64_t present = 0;

        memcpy(&present, from->presence, n - k < 8 ? n - k : 8);
        from->presence += 8;
        if (bit > from->end)
            return false;
        for (; present != 0; present &= present - 1) {
            uint32_t at = (uint32_t)__builtin_ctzll(present), code = *codes++, mask = *masks;
            const rule *as = &rules[code];
            int16_t *to = blocks[at >> 3] + sn_group_place(at & 7);
            uint64_t bits;

            masks += code < SN_GROUP_WHOLE;
            mask = (mask & as->kept) | as->set;
            if (__builtin_expect(as->width + as->bits == 0, false)) {
                int16_t values[8];

                if (bit > from->end)
                    return false;
                from->bit = bit;
                sn_take_wide(from, mask, code == SN_GROUP_MASKED_WIDE, values);
                bit = from->bit;
                store(to, load(values));
                continue;
            }
            memcpy(&bits, fields + (bit >> 3), sizeof bits);
            bits >>= bit & 7;
            bit += bits_set(mask) * as->width + as->bits;
            mask |= (uint32_t)as->chosen << (bits & 7);
            store(to, spread_over(values_of(bits, code), mask));
        }
    }
    from->codes = codes;
    from->masks = masks;
    from->bit = bit;
    return bit <= from->end;
}
