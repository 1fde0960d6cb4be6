#include "sinc_kernels.h"

#include <stddef.h>

static float dot(const float *weights, const float *frames, uint32_t taps)
{
    float sums[SN_SINC_LANES] = {0};

    for (uint32_t k = 0; k < taps; k += SN_SINC_LANES)
        for (uint32_t lane = 0; lane < SN_SINC_LANES; lane++)
            sums[lane] += weights[k + lane] * frames[k + lane];
    return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

void sn_sinc_plain(const sn_sinc *sinc, uint32_t phase, const float *block, uint64_t n, float *out)
{
    for (uint64_t k = 0; k < n; k++) {
        out[k] = dot(sinc->weights + (size_t)phase * sinc->taps, block + sinc->start[phase], sinc->taps);
        if (++phase == sinc->to) {
            phase = 0;
            block += sinc->from;
        }
    }
}
