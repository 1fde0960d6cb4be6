#include "sinc_kernels.h"

#ifdef SN_HAVE_NEON_CODE

#include <arm_neon.h>
#include <stddef.h>

static inline float sum_of(float32x4_t low, float32x4_t high)
{
    float32x4_t fours = vaddq_f32(low, high);
    float32x2_t pairs = vadd_f32(vget_low_f32(fours), vget_high_f32(fours));

    return vget_lane_f32(pairs, 0) + vget_lane_f32(pairs, 1);
}

void sn_sinc_simd(const sn_sinc *sinc, uint32_t phase, const float *block, uint64_t n, float *out)
{
    for (uint64_t k = 0; k < n; k++) {
        const float *weights = sinc->weights + (size_t)phase * sinc->taps, *frames = block + sinc->start[phase];
        float32x4_t low = vdupq_n_f32(0), high = vdupq_n_f32(0);

        /* A product and a sum, which vmlaq_f32() may fuse. */
        for (uint32_t at = 0; at < sinc->taps; at += SN_SINC_LANES) {
            low = vaddq_f32(low, vmulq_f32(vld1q_f32(weights + at), vld1q_f32(frames + at)));
            high = vaddq_f32(high, vmulq_f32(vld1q_f32(weights + at + 4), vld1q_f32(frames + at + 4)));
        }
        out[k] = sum_of(low, high);
        if (++phase == sinc->to) {
            phase = 0;
            block += sinc->from;
        }
    }
}

#endif
