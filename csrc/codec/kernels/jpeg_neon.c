#include "jpeg_kernels.h"

#ifdef SN_HAVE_NEON_CODE

#include <arm_neon.h>
#include <string.h>

/* -- The inverse transform of a block; see jpeg_plain.c for `a` to `d` -- */

/* Four lanes of each of eight numbers: the even part, and what is added to it. */
static inline void transform(const int16x4_t r[8], int16x4_t sum, int16x4_t difference, int16x4_t a_c, int16x4_t b_d,
                             int32x4_t even[4], int32x4_t odd[4])
{
    int32x4_t even0 = vshll_n_s16(sum, 13), even1 = vshll_n_s16(difference, 13);
    int32x4_t even3 = vmlal_n_s16(vmull_n_s16(r[2], SN_F_0_541 + SN_F_0_765), r[6], SN_F_0_541);
    int32x4_t even2 = vmlal_n_s16(vmull_n_s16(r[2], SN_F_0_541), r[6], SN_F_0_541 - SN_F_1_847);
    int32x4_t ac = vmlal_n_s16(vmull_n_s16(a_c, SN_F_1_175 - SN_F_1_961), b_d, SN_F_1_175);
    int32x4_t bd = vmlal_n_s16(vmull_n_s16(a_c, SN_F_1_175), b_d, SN_F_1_175 - SN_F_0_390);

    even[0] = vaddq_s32(even0, even3);
    even[1] = vaddq_s32(even1, even2);
    even[2] = vsubq_s32(even1, even2);
    even[3] = vsubq_s32(even0, even3);
    odd[0] = vmlal_n_s16(vmlal_n_s16(bd, r[7], -SN_F_0_899), r[1], SN_F_1_501 - SN_F_0_899);
    odd[1] = vmlal_n_s16(vmlal_n_s16(ac, r[5], -SN_F_2_562), r[3], SN_F_3_072 - SN_F_2_562);
    odd[2] = vmlal_n_s16(vmlal_n_s16(bd, r[5], SN_F_2_053 - SN_F_2_562), r[3], -SN_F_2_562);
    odd[3] = vmlal_n_s16(vmlal_n_s16(ac, r[7], SN_F_0_298 - SN_F_0_899), r[1], -SN_F_0_899);
}

static inline int16x4_t rounded(int32x4_t value, int bits)
{
    return vqmovn_s32(vshlq_s32(vaddq_s32(value, vdupq_n_s32(1 << (bits - 1))), vdupq_n_s32(-bits)));
}

static inline void pass(int16x8_t r[8], int bits)
{
    int16x8_t sum = vaddq_s16(r[0], r[4]), difference = vsubq_s16(r[0], r[4]);
    int16x8_t a_c = vaddq_s16(r[7], r[3]), b_d = vaddq_s16(r[5], r[1]);
    int32x4_t even[2][4], odd[2][4];
    int16x4_t low[8], high[8];

    for (int k = 0; k < 8; k++) {
        low[k] = vget_low_s16(r[k]);
        high[k] = vget_high_s16(r[k]);
    }
    transform(low, vget_low_s16(sum), vget_low_s16(difference), vget_low_s16(a_c), vget_low_s16(b_d), even[0], odd[0]);
    transform(high, vget_high_s16(sum), vget_high_s16(difference), vget_high_s16(a_c), vget_high_s16(b_d), even[1],
              odd[1]);
    for (int k = 0; k < 4; k++) {
        r[k] = vcombine_s16(rounded(vaddq_s32(even[0][k], odd[0][k]), bits),
                            rounded(vaddq_s32(even[1][k], odd[1][k]), bits));
        r[7 - k] = vcombine_s16(rounded(vsubq_s32(even[0][k], odd[0][k]), bits),
                                rounded(vsubq_s32(even[1][k], odd[1][k]), bits));
    }
}

static inline void transpose(int16x8_t r[8])
{
    int32x4_t two[8];

    for (int k = 0; k < 8; k += 2) {
        int16x8x2_t turned = vtrnq_s16(r[k], r[k + 1]);

        two[k] = vreinterpretq_s32_s16(turned.val[0]);
        two[k + 1] = vreinterpretq_s32_s16(turned.val[1]);
    }
    for (int k = 0; k < 2; k++) {
        int32x4x2_t above = vtrnq_s32(two[k], two[k + 2]), below = vtrnq_s32(two[k + 4], two[k + 6]);

        for (int half = 0; half < 2; half++) {
            int16x8_t top = vreinterpretq_s16_s32(above.val[half]), bottom = vreinterpretq_s16_s32(below.val[half]);

            r[k + 2 * half] = vcombine_s16(vget_low_s16(top), vget_low_s16(bottom));
            r[k + 2 * half + 4] = vcombine_s16(vget_high_s16(top), vget_high_s16(bottom));
        }
    }
}

static bool idct(int16_t (*blocks)[SN_BLOCK], size_t n, const sn_dequantiser *by, uint8_t *out, size_t stride)
{
    uint16x8_t beyond = vdupq_n_u16(0);

    for (size_t k = 0; k < n; k++, out += 8) {
        int16_t *block = blocks[k];
        int16x8_t r[8];

        for (int row = 0; row < 8; row++) {
            int16x8_t values = vld1q_s16(block + 8 * row);
            uint16x8_t most = vreinterpretq_u16_s16(vld1q_s16(by->most + 8 * row));

            vst1q_s16(block + 8 * row, vdupq_n_s16(0));
            beyond = vorrq_u16(beyond, vqsubq_u16(vreinterpretq_u16_s16(vabsq_s16(values)), most));
            r[row] = vmulq_s16(values, vld1q_s16(by->quantiser + 8 * row));
        }
        pass(r, 11);
        transpose(r);
        pass(r, 18);
        transpose(r);
        for (int row = 0; row < 8; row++)
            vst1_u8(out + (size_t)row * stride, veor_u8(vreinterpret_u8_s8(vqmovn_s16(r[row])), vdup_n_u8(128)));
    }
    return vmaxvq_u16(beyond) == 0;
}

/* -- Upsampling -- */

static inline uint16x8_t three_and_one(uint16x8_t near, uint16x8_t far)
{
    return vmlaq_n_u16(far, near, 3);
}

static void h2v1(const uint8_t *in, size_t n, uint8_t *out)
{
    for (size_t k = 0; k < n; k += 8) {
        uint16x8_t now = vmovl_u8(vld1_u8(in + k));
        uint16x8_t last = vmovl_u8(vld1_u8(in + k - 1)), next = vmovl_u8(vld1_u8(in + k + 1));
        uint8x8x2_t two = {{vshrn_n_u16(vaddq_u16(three_and_one(now, last), vdupq_n_u16(1)), 2),
                            vshrn_n_u16(vaddq_u16(three_and_one(now, next), vdupq_n_u16(2)), 2)}};

        vst2_u8(out + 2 * k, two);
    }
}

static inline uint16x8_t column(const uint8_t *near, const uint8_t *far)
{
    return three_and_one(vmovl_u8(vld1_u8(near)), vmovl_u8(vld1_u8(far)));
}

static void h2v2(const uint8_t *near, const uint8_t *far, size_t n, uint8_t *out)
{
    for (size_t k = 0; k < n; k += 8) {
        uint16x8_t last = column(near + k - 1, far + k - 1), now = column(near + k, far + k);
        uint16x8_t next = column(near + k + 1, far + k + 1);
        uint8x8x2_t two = {{vshrn_n_u16(vaddq_u16(three_and_one(now, last), vdupq_n_u16(8)), 4),
                            vshrn_n_u16(vaddq_u16(three_and_one(now, next), vdupq_n_u16(7)), 4)}};

        vst2_u8(out + 2 * k, two);
    }
}

/* -- Colours -- */

static inline int16x8_t centred(const uint8_t *from)
{
    return vsubq_s16(vreinterpretq_s16_u16(vmovl_u8(vld1_u8(from))), vdupq_n_s16(128));
}

/* (one * `by_one` + other * `by_other` + 2^15) >> 16 */
static inline int16x8_t part_of(int16x8_t one, int16_t by_one, int16x8_t other, int16_t by_other)
{
    const int32x4_t half = vdupq_n_s32(32768);
    int32x4_t low = vmlal_n_s16(vmlal_n_s16(half, vget_low_s16(one), by_one), vget_low_s16(other), by_other);
    int32x4_t high = vmlal_n_s16(vmlal_n_s16(half, vget_high_s16(one), by_one), vget_high_s16(other), by_other);

    return vcombine_s16(vshrn_n_s32(low, 16), vshrn_n_s32(high, 16));
}

static void to_rgb(const uint8_t *y, const uint8_t *cb, const uint8_t *cr, size_t n, uint8_t *rgb)
{
    for (size_t k = 0; k < n; k += 8, rgb += 24) {
        int16x8_t light = vreinterpretq_s16_u16(vmovl_u8(vld1_u8(y + k)));
        int16x8_t blue = centred(cb + k), red = centred(cr + k);
        int16x8_t r = vaddq_s16(vaddq_s16(light, red), part_of(red, 91881 - 65536, red, 0));
        int16x8_t g = vaddq_s16(vsubq_s16(light, red), part_of(blue, -22554, red, 65536 - 46802));
        int16x8_t b = vaddq_s16(vaddq_s16(light, vaddq_s16(blue, blue)), part_of(blue, 116130 - 131072, blue, 0));
        uint8x8x3_t pixels = {{vqmovun_s16(r), vqmovun_s16(g), vqmovun_s16(b)}};

        vst3_u8(rgb, pixels);
    }
}

const sn_jpeg_kernels sn_jpeg_simd = {idct, h2v1, h2v2, to_rgb};

#endif
