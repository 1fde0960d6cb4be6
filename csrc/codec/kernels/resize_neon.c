#include "resize_kernels.h"

#ifdef SN_HAVE_NEON_CODE

#include <arm_neon.h>
#include <string.h>

/*
 * One output at a time, its channels in the lanes of one register: R G B and an unused
 * lane. Of 16 bytes, 12 are the four RGB triples under a group of four weights; table lookups, where
 * -1 gives 0, widen two of the triples at a time, and each multiply-add takes one triple and one
 * weight. The processor overlaps the sums of outputs, which do not wait for each other. The fourth
 * byte that is written is the next output's, written before it.
 */
static void across_one(const sn_taps *taps, const uint8_t *row, uint8_t *out)
{
    static const int8_t first[16] = {0, -1, 1, -1, 2, -1, -1, -1, 3, -1, 4, -1, 5, -1, -1, -1};
    static const int8_t second[16] = {6, -1, 7, -1, 8, -1, -1, -1, 9, -1, 10, -1, 11, -1, -1, -1};
    const uint8x16_t take_first = vreinterpretq_u8_s8(vld1q_s8(first));
    const uint8x16_t take_second = vreinterpretq_u8_s8(vld1q_s8(second));
    const int32x4_t half = vdupq_n_s32(1 << (taps->shift - 1));
    const int32x4_t right = vdupq_n_s32(-taps->shift); /* negative: to the right */
    const int16_t *weight = taps->weight;

    for (uint32_t i = 0; i < taps->count; i++, out += 3) {
        const uint8_t *in = row + (size_t)taps->start[i] * 3;
        int32x4_t sum = half;
        int16x8_t sums;
        uint32_t rgb;

        for (uint32_t k = 0; k < taps->width; k += 4, in += 12, weight += 4) {
            uint8x16_t bytes = vld1q_u8(in);
            int16x8_t a = vreinterpretq_s16_u8(vqtbl1q_u8(bytes, take_first));
            int16x8_t b = vreinterpretq_s16_u8(vqtbl1q_u8(bytes, take_second));
            int16x4_t weights = vld1_s16(weight);

            sum = vmlal_lane_s16(sum, vget_low_s16(a), weights, 0);
            sum = vmlal_lane_s16(sum, vget_high_s16(a), weights, 1);
            sum = vmlal_lane_s16(sum, vget_low_s16(b), weights, 2);
            sum = vmlal_lane_s16(sum, vget_high_s16(b), weights, 3);
        }
        sums = vcombine_s16(vqmovn_s32(vshlq_s32(sum, right)), vdup_n_s16(0));
        rgb = vget_lane_u32(vreinterpret_u32_u8(vqmovun_s16(sums)), 0);
        memcpy(out, &rgb, sizeof rgb);
    }
}

static void across(const sn_taps *taps, const uint8_t *const *rows, uint8_t *const *outs, uint32_t n_rows)
{
    for (uint32_t i = 0; i < n_rows; i++)
        across_one(taps, rows[i], outs[i]);
}

/* 16 bytes of one output row. */
static inline void down_16(const uint8_t *const *rows, const int16_t *weight, uint32_t n_rows, int32x4_t right,
                           int32x4_t half, size_t at, uint8_t *out)
{
    int32x4_t s0 = half, s1 = half, s2 = half, s3 = half;
    int16x8_t low, high;

    for (uint32_t i = 0; i < n_rows; i++) {
        uint8x16_t bytes = vld1q_u8(rows[i] + at);

        low = vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(bytes)));
        high = vreinterpretq_s16_u16(vmovl_u8(vget_high_u8(bytes)));
        s0 = vmlal_n_s16(s0, vget_low_s16(low), weight[i]);
        s1 = vmlal_n_s16(s1, vget_high_s16(low), weight[i]);
        s2 = vmlal_n_s16(s2, vget_low_s16(high), weight[i]);
        s3 = vmlal_n_s16(s3, vget_high_s16(high), weight[i]);
    }
    low = vcombine_s16(vqmovn_s32(vshlq_s32(s0, right)), vqmovn_s32(vshlq_s32(s1, right)));
    high = vcombine_s16(vqmovn_s32(vshlq_s32(s2, right)), vqmovn_s32(vshlq_s32(s3, right)));
    vst1q_u8(out + at, vcombine_u8(vqmovun_s16(low), vqmovun_s16(high)));
}

static void down(const uint8_t *const *rows, const int16_t *weight, uint32_t n_rows, int shift, uint8_t *out,
                 size_t n_bytes)
{
    const int32x4_t half = vdupq_n_s32(1 << (shift - 1)), right = vdupq_n_s32(-shift);

    if (n_bytes < 16) {
        sn_resize_plain.down(rows, weight, n_rows, shift, out, n_bytes);
        return;
    }
    for (size_t at = 0; at + 16 <= n_bytes; at += 16)
        down_16(rows, weight, n_rows, right, half, at, out);
    if (n_bytes % 16 != 0) /* the last 16 once more, rather than bytes one by one */
        down_16(rows, weight, n_rows, right, half, n_bytes - 16, out);
}

const sn_resize_kernels sn_resize_simd = {across, down, NULL};

#endif
