#include "flac_loops.h"

#ifdef SN_HAVE_AVX2_CODE

#include <immintrin.h>

#define AVX2 __attribute__((target("avx2,bmi2,lzcnt")))

AVX2 uint32_t sn_rice_simd(sn_bits *bits, uint32_t k, uint32_t n, int32_t *out)
{
    return read_rice(bits, k, n, out);
}

/* Sample n of row k is then sample k of row n. */
AVX2 static inline __attribute__((always_inline)) void transpose(__m256i rows[8])
{
    __m256i pairs[8], fours[8];

    for (int k = 0; k < 8; k += 2) {
        pairs[k] = _mm256_unpacklo_epi32(rows[k], rows[k + 1]);
        pairs[k + 1] = _mm256_unpackhi_epi32(rows[k], rows[k + 1]);
    }
    for (int k = 0; k < 8; k += 4) {
        fours[k] = _mm256_unpacklo_epi64(pairs[k], pairs[k + 2]);
        fours[k + 1] = _mm256_unpackhi_epi64(pairs[k], pairs[k + 2]);
        fours[k + 2] = _mm256_unpacklo_epi64(pairs[k + 1], pairs[k + 3]);
        fours[k + 3] = _mm256_unpackhi_epi64(pairs[k + 1], pairs[k + 3]);
    }
    for (int k = 0; k < 4; k++) {
        rows[k] = _mm256_permute2x128_si256(fours[k], fours[k + 4], 0x20);
        rows[k + 4] = _mm256_permute2x128_si256(fours[k], fours[k + 4], 0x31);
    }
}

/* `order`: of all rows, whose further weights are zero. */
AVX2 static inline __attribute__((always_inline)) void predict(const sn_flac_row rows[8], int order, uint32_t n)
{
    __m256i weights[SN_FLAC_ORDER], x[SN_FLAC_ORDER + 8], shift;

    for (int k = 0; k < order; k++)
        weights[k] = _mm256_setr_epi32(rows[0].weights[k], rows[1].weights[k], rows[2].weights[k], rows[3].weights[k],
                                       rows[4].weights[k], rows[5].weights[k], rows[6].weights[k], rows[7].weights[k]);
    shift = _mm256_setr_epi32((int)rows[0].shift, (int)rows[1].shift, (int)rows[2].shift, (int)rows[3].shift,
                              (int)rows[4].shift, (int)rows[5].shift, (int)rows[6].shift, (int)rows[7].shift);
    for (int k = 0; k < order; k++)
        x[k] = _mm256_setzero_si256();
    for (uint32_t at = 0; at < n; at += 8) {
        __m256i *now = x + order;

        for (int k = 0; k < 8; k++)
            now[k] = _mm256_loadu_si256((const __m256i *)(rows[k].samples + at));
        transpose(now);
        for (int k = 0; k < 8; k++) {
            __m256i sum = _mm256_setzero_si256();

            for (int j = order - 1; j >= 0; j--) /* the last sample comes last: it is waited for */
                sum = _mm256_add_epi32(sum, _mm256_mullo_epi32(weights[j], now[k - 1 - j]));
            now[k] = _mm256_add_epi32(now[k], _mm256_srav_epi32(sum, shift));
        }
        for (int k = 0; k < order; k++)
            x[k] = x[k + 8];
        {
            __m256i made[8];

            for (int k = 0; k < 8; k++)
                made[k] = now[k];
            transpose(made);
            for (int k = 0; k < 8; k++)
                _mm256_storeu_si256((__m256i *)(rows[k].samples + at), made[k]);
        }
    }
}

AVX2 void sn_predict_simd(const sn_flac_row rows[8], uint32_t n)
{
    uint32_t order = 0;

    for (int k = 0; k < 8; k++)
        order = rows[k].order > order ? rows[k].order : order;
    if (order <= 4)
        predict(rows, 4, n);
    else if (order <= 8)
        predict(rows, 8, n);
    else if (order <= 12)
        predict(rows, 12, n);
    else
        predict(rows, SN_FLAC_ORDER, n);
}

#endif
