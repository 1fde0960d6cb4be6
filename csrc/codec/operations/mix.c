#include "mix.h"

#include <string.h>

#include "../../base/sn_status.h"
#include "../kernels/colour_kernels.h"

static float *sum_of(sn_mix *mix)
{
    return (float *)(void *)mix->sum.data;
}

int sn_mix_begin(sn_mix *mix, float weight, const uint8_t *rgb, size_t n)
{
    int rc = sn_buffer_reserve(&mix->kept, n);
    float *restrict sum;

    if (rc == SN_OK)
        rc = sn_buffer_reserve(&mix->sum, n * sizeof *sum);
    if (rc != SN_OK)
        return rc;
    memcpy(mix->kept.data, rgb, n);
    sum = sum_of(mix);
    for (size_t k = 0; k < n; k++)
        sum[k] = weight * (float)rgb[k];
    return SN_OK;
}

void sn_mix_add(sn_mix *mix, float weight, uint8_t *rgb, size_t n)
{
    float *restrict sum = sum_of(mix);

    for (size_t k = 0; k < n; k++)
        sum[k] += weight * (float)rgb[k];
    memcpy(rgb, mix->kept.data, n);
}

void sn_mix_end(sn_mix *mix, float weight, uint8_t *rgb, size_t n)
{
    const float *restrict sum = sum_of(mix);
    const uint8_t *restrict kept = mix->kept.data;

    for (size_t k = 0; k < n; k++) {
        int whole = (int)(sum[k] < 0 ? 0 : sum[k] > 255 ? 255 : sum[k]);

        rgb[k] = sn_blended((float)kept[k], (float)whole, weight);
    }
}

void sn_mix_release(sn_mix *mix)
{
    sn_buffer_release(&mix->kept);
    sn_buffer_release(&mix->sum);
}

void sn_mix_weights(sn_rng *rng, double alpha, uint32_t n, double *weights)
{
    double sum = 0;

    for (uint32_t k = 0; k < n; k++)
        sum += weights[k] = sn_rng_gamma(rng, alpha);
    for (uint32_t k = 0; k < n; k++)
        weights[k] = sum > 0 ? weights[k] / sum : 1.0 / n; /* all of them too small for a double */
}
