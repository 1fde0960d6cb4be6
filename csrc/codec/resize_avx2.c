#include "resize_kernels.h"

#ifdef SN_HAVE_AVX2_CODE

#include <immintrin.h>
#include <string.h>

#define AVX2 __attribute__((target("avx2")))

/* Two pixels, one a lane: 16 bytes from each, of which 12 are the four RGB triples under a group
 * of four weights. */
AVX2 static inline __m256i load_two(const uint8_t *low, const uint8_t *high)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)low)),
                                   _mm_loadu_si128((const __m128i *)high), 1);
}

/*
 * Four outputs at a time. One multiply-add wants two neighbouring samples of a channel side by
 * side, as 16 bits: R0 R1 G0 G1 B0 B1 - -, which a byte shuffle makes of the triples. Outputs 0
 * and 2 share a register, 1 and 3 the other, so that the final packs put them in order without
 * crossing lanes. The weights come in the same arrangement from taps->blocks: for each group of
 * four, the first and second pair for outputs 0|2, then for 1|3. Past the last output they are 0.
 *
 * Called with `groups` a constant where that is common: the loop then unrolls away.
 */
AVX2 static inline __attribute__((always_inline)) void across_groups(const sn_taps *taps,
                                                                     uint32_t groups,
                                                                     const uint8_t *row,
                                                                     uint8_t *out)
{
    const __m256i first = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1));
    const __m256i second = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1));
    const __m128i drop_fourth =
        _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
    const __m256i half = _mm256_set1_epi32(1 << (taps->shift - 1));
    const __m128i shift = _mm_cvtsi32_si128(taps->shift);
    const __m256i *weight = (const __m256i *)taps->blocks;
    const uint32_t *start = taps->start, *end = start + taps->count;

    for (; start < end; start += 4, out += 12) {
        const uint8_t *in0 = row + (size_t)start[0] * 3;
        const uint8_t *in1 = row + (size_t)start[1] * 3;
        const uint8_t *in2 = row + (size_t)start[2] * 3;
        const uint8_t *in3 = row + (size_t)start[3] * 3;
        __m256i even = half, odd = half;
        __m128i packed;

        for (uint32_t g = 0; g < groups; g++, weight += 4) {
            __m256i a = load_two(in0 + 12 * g, in2 + 12 * g);
            __m256i b = load_two(in1 + 12 * g, in3 + 12 * g);

            even = _mm256_add_epi32(even, _mm256_madd_epi16(_mm256_shuffle_epi8(a, first),
                                                            _mm256_loadu_si256(weight)));
            odd = _mm256_add_epi32(odd, _mm256_madd_epi16(_mm256_shuffle_epi8(b, first),
                                                          _mm256_loadu_si256(weight + 2)));
            even = _mm256_add_epi32(even, _mm256_madd_epi16(_mm256_shuffle_epi8(a, second),
                                                            _mm256_loadu_si256(weight + 1)));
            odd = _mm256_add_epi32(odd, _mm256_madd_epi16(_mm256_shuffle_epi8(b, second),
                                                          _mm256_loadu_si256(weight + 3)));
        }
        even = _mm256_packs_epi32(_mm256_sra_epi32(even, shift), _mm256_sra_epi32(odd, shift));
        packed = _mm_packus_epi16(_mm256_castsi256_si128(even), _mm256_extracti128_si256(even, 1));
        _mm_storeu_si128((__m128i *)out, _mm_shuffle_epi8(packed, drop_fourth));
    }
}

AVX2 static void across(const sn_taps *taps, const uint8_t *row, uint8_t *out)
{
    uint32_t groups = taps->width / 4;

    if (groups == 1)
        across_groups(taps, 1, row, out);
    else if (groups == 2)
        across_groups(taps, 2, row, out);
    else
        across_groups(taps, groups, row, out);
}

/* 32 bytes of one output row. Rows go in pairs: their bytes interleaved and widened are the pairs
 * that a multiply-add takes. `n_rows` is even here or the last row is paired with itself and a
 * weight of 0. */
AVX2 static inline void down_32(const uint8_t *const *rows, const int16_t *weight, uint32_t n_rows,
                                __m128i shift, __m256i half, size_t at, uint8_t *out)
{
    const __m256i zero = _mm256_setzero_si256();
    __m256i s0 = half, s1 = half, s2 = half, s3 = half;

    for (uint32_t i = 0; i < n_rows; i += 2) {
        bool paired = i + 1 < n_rows;
        __m256i a = _mm256_loadu_si256((const __m256i *)(rows[i] + at));
        __m256i b = _mm256_loadu_si256((const __m256i *)(rows[i + paired] + at));
        __m256i low = _mm256_unpacklo_epi8(a, b), high = _mm256_unpackhi_epi8(a, b);
        uint32_t second = paired ? (uint16_t)weight[i + 1] : 0;
        __m256i both = _mm256_set1_epi32((int)(second << 16 | (uint16_t)weight[i]));

        s0 = _mm256_add_epi32(s0, _mm256_madd_epi16(_mm256_unpacklo_epi8(low, zero), both));
        s1 = _mm256_add_epi32(s1, _mm256_madd_epi16(_mm256_unpackhi_epi8(low, zero), both));
        s2 = _mm256_add_epi32(s2, _mm256_madd_epi16(_mm256_unpacklo_epi8(high, zero), both));
        s3 = _mm256_add_epi32(s3, _mm256_madd_epi16(_mm256_unpackhi_epi8(high, zero), both));
    }
    s0 = _mm256_packs_epi32(_mm256_sra_epi32(s0, shift), _mm256_sra_epi32(s1, shift));
    s2 = _mm256_packs_epi32(_mm256_sra_epi32(s2, shift), _mm256_sra_epi32(s3, shift));
    _mm256_storeu_si256((__m256i *)(out + at), _mm256_packus_epi16(s0, s2));
}

AVX2 static void down(const uint8_t *const *rows, const int16_t *weight, uint32_t n_rows, int shift,
                      uint8_t *out, size_t n_bytes)
{
    const __m256i half = _mm256_set1_epi32(1 << (shift - 1));
    const __m128i bits = _mm_cvtsi32_si128(shift);

    if (n_bytes < 32) {
        sn_resize_plain.down(rows, weight, n_rows, shift, out, n_bytes);
        return;
    }
    for (size_t at = 0; at + 32 <= n_bytes; at += 32)
        down_32(rows, weight, n_rows, bits, half, at, out);
    if (n_bytes % 32 != 0) /* the last 32 once more, rather than bytes one by one */
        down_32(rows, weight, n_rows, bits, half, n_bytes - 32, out);
}

const sn_resize_kernels sn_resize_simd = {across, down, true};

#endif
