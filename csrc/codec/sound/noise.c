#include "noise.h"

#include <math.h>

#include "../../base/sn_rng.h"

/* Two normal numbers of two uniform ones (Box and Muller 1958). */
static void normals(const uint32_t uniform[2], float out[2])
{
    double up = (uniform[0] + 1.0) * 0x1p-32; /* in (0, 1]: it has a logarithm */
    float radius = sqrtf(-2 * logf((float)up)), angle = (float)(2 * M_PI * 0x1p-32 * uniform[1]);

    out[0] = radius * cosf(angle);
    out[1] = radius * sinf(angle);
}

static void make(uint64_t seed, uint32_t channel, uint64_t n, float *noise)
{
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)}, uniform[4];
    float four[4];

    for (uint64_t k = 0; k < n; k++) {
        if (k % 4 == 0) {
            uint32_t counter[4] = {(uint32_t)(k / 4), channel, 0, 0};

            sn_philox(key, counter, uniform);
            normals(uniform, four);
            normals(uniform + 2, four + 2);
        }
        noise[k] = four[k % 4];
    }
}

static double energy(const float *frames, uint64_t n)
{
    double sum = 0;

    for (uint64_t k = 0; k < n; k++)
        sum += (double)frames[k] * frames[k];
    return sum;
}

void sn_noise_add(float *frames, uint64_t n, double snr, uint64_t seed, uint32_t channel, float *noise)
{
    double of_sound = energy(frames, n);
    float scale;

    if (of_sound == 0)
        return;
    make(seed, channel, n, noise);
    scale = (float)(sqrt(of_sound / energy(noise, n)) * pow(10, -snr / 20));
    for (uint64_t k = 0; k < n; k++)
        frames[k] += scale * noise[k];
}
