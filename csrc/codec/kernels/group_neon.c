#include "group_kernels.h"

#ifdef SN_HAVE_NEON_CODE

#include <arm_neon.h>

#include "group_tables.h"

#define INLINE inline __attribute__((always_inline))
#define vector int16x8_t

static INLINE vector load(const int16_t *values)
{
    return vld1q_s16(values);
}

static INLINE void store(int16_t *to, vector lanes)
{
    vst1_s16(to, vget_low_s16(lanes));
    vst1_s16(to + 8, vget_high_s16(lanes));
}

static INLINE uint32_t bits_set(uint32_t mask)
{
    return vaddv_u8(vcnt_u8(vcreate_u8(mask)));
}

static INLINE vector values_of(uint64_t bits, uint32_t code)
{
    const rule *as = &rules[code];
    uint8x16_t words = vqtbl1q_u8(vcombine_u8(vcreate_u8(bits), vcreate_u8(0)), vld1q_u8(bytes_of[code]));
    vector lanes = vreinterpretq_s16_u16(vmulq_u16(vreinterpretq_u16_u8(words), vld1q_u16(up[code])));

    lanes = vshlq_s16(lanes, vdupq_n_s16((int16_t)-(int16_t)as->down));
    return vsubq_s16(lanes, vreinterpretq_s16_u16(vcgtq_s16(lanes, vdupq_n_s16(as->least))));
}

static INLINE vector spread_over(vector lanes, uint32_t mask)
{
    return vreinterpretq_s16_u8(vqtbl1q_u8(vreinterpretq_u8_s16(lanes), vld1q_u8(spread[mask])));
}

#define SN_LOOP
#include "group_loops.h"

const sn_group_kernels sn_group_simd = {sn_group_put, take};

#endif
