#include "group_kernels.h"

#ifdef SN_HAVE_NEON_CODE

#include <arm_neon.h>
#include <string.h>

#include "group_tables.h"

static inline uint32_t bits_set(uint32_t mask)
{
    return vaddv_u8(vcnt_u8(vcreate_u8(mask)));
}

static bool take(sn_groups *from, size_t n, int16_t (*blocks)[SN_BLOCK])
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
            int16x8_t lanes;

            masks += code < SN_GROUP_WHOLE;
            mask = (mask & as->kept) | as->set;
            if (__builtin_expect(as->width + as->bits == 0, false)) {
                int16_t values[8];

                if (bit > from->end)
                    return false;
                from->bit = bit;
                sn_take_wide(from, mask, code == SN_GROUP_MASKED_WIDE, values);
                bit = from->bit;
                lanes = vld1q_s16(values);
            } else {
                uint8x16_t words;

                memcpy(&bits, fields + (bit >> 3), sizeof bits);
                bits >>= bit & 7;
                bit += bits_set(mask) * as->width + as->bits;
                mask |= (uint32_t)as->chosen << (bits & 7);
                words = vqtbl1q_u8(vcombine_u8(vcreate_u8(bits), vcreate_u8(0)), vld1q_u8(bytes_of[code]));
                lanes = vreinterpretq_s16_u16(vmulq_u16(vreinterpretq_u16_u8(words), vld1q_u16(up[code])));
                lanes = vshlq_s16(lanes, vdupq_n_s16((int16_t)-(int16_t)as->down));
                lanes = vsubq_s16(lanes, vreinterpretq_s16_u16(vcgtq_s16(lanes, vdupq_n_s16(as->least))));
                lanes = vreinterpretq_s16_u8(vqtbl1q_u8(vreinterpretq_u8_s16(lanes), vld1q_u8(spread[mask])));
            }
            vst1_s16(to, vget_low_s16(lanes));
            vst1_s16(to + 8, vget_high_s16(lanes));
        }
    }
    from->codes = codes;
    from->masks = masks;
    from->bit = bit;
    return bit <= from->end;
}

const sn_group_kernels sn_group_simd = {sn_group_put, take};

#endif
