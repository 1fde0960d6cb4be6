#include "sinc_kernels.h"

#ifdef SN_HAVE_AVX2_CODE

#include <immintrin.h>
#include <stddef.h>

/* Without FMA: the same bits as plain C. */
#define AVX2 __attribute__((target("avx2")))

AVX2 static inline float sum_of(__m256 sums)
{
    __m128 pairs = _mm_add_ps(_mm256_castps256_ps128(sums), _mm256_extractf128_ps(sums, 1));

    pairs = _mm_add_ps(pairs, _mm_movehl_ps(pairs, pairs));
    return _mm_cvtss_f32(_mm_add_ss(pairs, _mm_shuffle_ps(pairs, pairs, 1)));
}

AVX2 void sn_sinc_simd(const sn_sinc *sinc, uint32_t phase, const float *block, uint64_t n, float *out)
{
    for (uint64_t k = 0; k < n; k++) {
        const float *weights = sinc->weights + (size_t)phase * sinc->taps, *frames = block + sinc->start[phase];
        __m256 sums = _mm256_setzero_ps();

        for (uint32_t at = 0; at < sinc->taps; at += SN_SINC_LANES)
            sums = _mm256_add_ps(sums, _mm256_mul_ps(_mm256_loadu_ps(weights + at), _mm256_loadu_ps(frames + at)));
        out[k] = sum_of(sums);
        if (++phase == sinc->to) {
            phase = 0;
            block += sinc->from;
        }
    }
}

#endif
