#include "batch_kernels.h"

#ifdef SN_HAVE_AVX2_CODE

#include <immintrin.h>

/* Ordinary stores on purpose: non-temporal ones, which would spare fetching the lines, took 1.8
 * times as long on the Zen cores where both were timed. */
#define AVX2 __attribute__((target("avx2,fma,f16c")))

/* A divisor and its reciprocal. quotient() corrects x * reciprocal by its own remainder, which
 * one fused multiply-add has exactly (Markstein 1990): the rounded x / divisor at the price of
 * three multiplications. Tests compare every pixel value with the division. */
typedef struct {
    __m256 divisor, reciprocal;
} divider;

typedef struct {
    __m256 mean;
    divider std;
} channel;

AVX2 static inline divider divide_by(__m256 divisor)
{
    return (divider){divisor, _mm256_div_ps(_mm256_set1_ps(1.0f), divisor)};
}

AVX2 static inline __m256 quotient(__m256 x, divider d)
{
    __m256 guess = _mm256_mul_ps(x, d.reciprocal);
    __m256 remainder = _mm256_fnmadd_ps(guess, d.divisor, x);

    return _mm256_fmadd_ps(remainder, d.reciprocal, guess);
}

AVX2 static inline __m256 normalise(__m256i pixels, divider scale, channel c)
{
    return quotient(_mm256_sub_ps(quotient(_mm256_cvtepi32_ps(pixels), scale), c.mean), c.std);
}

/* Eight floats to places `place` and on of an array of this dtype, rounded as element.h rounds. */
AVX2 static inline void put_eight(uint32_t dtype, void *array, size_t place, __m256 values)
{
    __m128i *halves = (__m128i *)((uint16_t *)array + place);
    __m256i bits = _mm256_castps_si256(values);

    switch (dtype) {
    case SN_FLOAT32:
        _mm256_storeu_ps((float *)array + place, values);
        break;
    case SN_FLOAT16:
        _mm_storeu_si128(halves, _mm256_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT));
        break;
    case SN_BFLOAT16:
        bits = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)),
                                _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1)));
        bits = _mm256_srli_epi32(bits, 16);
        _mm_storeu_si128(halves, _mm_packus_epi32(_mm256_castsi256_si128(bits), _mm256_extracti128_si256(bits, 1)));
        break;
    }
}

/* 48 bytes of RGB to 16 of each channel. Each source vector holds every third byte of a channel
 * at a place of its own; the shuffles bring those to their final places and zeros elsewhere. */
AVX2 static inline void split(const uint8_t *rgb, __m128i channels[3])
{
#define Z -1
    const __m128i take[3][3] = {{_mm_setr_epi8(0, 3, 6, 9, 12, 15, Z, Z, Z, Z, Z, Z, Z, Z, Z, Z),
                                 _mm_setr_epi8(Z, Z, Z, Z, Z, Z, 2, 5, 8, 11, 14, Z, Z, Z, Z, Z),
                                 _mm_setr_epi8(Z, Z, Z, Z, Z, Z, Z, Z, Z, Z, Z, 1, 4, 7, 10, 13)},
                                {_mm_setr_epi8(1, 4, 7, 10, 13, Z, Z, Z, Z, Z, Z, Z, Z, Z, Z, Z),
                                 _mm_setr_epi8(Z, Z, Z, Z, Z, 0, 3, 6, 9, 12, 15, Z, Z, Z, Z, Z),
                                 _mm_setr_epi8(Z, Z, Z, Z, Z, Z, Z, Z, Z, Z, Z, 2, 5, 8, 11, 14)},
                                {_mm_setr_epi8(2, 5, 8, 11, 14, Z, Z, Z, Z, Z, Z, Z, Z, Z, Z, Z),
                                 _mm_setr_epi8(Z, Z, Z, Z, Z, 1, 4, 7, 10, 13, Z, Z, Z, Z, Z, Z),
                                 _mm_setr_epi8(Z, Z, Z, Z, Z, Z, Z, Z, Z, Z, 0, 3, 6, 9, 12, 15)}};
#undef Z
    __m128i part[3];

    for (int i = 0; i < 3; i++)
        part[i] = _mm_loadu_si128((const __m128i *)(rgb + 16 * i));
    for (int c = 0; c < 3; c++)
        channels[c] =
            _mm_or_si128(_mm_or_si128(_mm_shuffle_epi8(part[0], take[c][0]), _mm_shuffle_epi8(part[1], take[c][1])),
                         _mm_shuffle_epi8(part[2], take[c][2]));
}

/* From here on, what is inlined is so once for each dtype, which the last caller names. */
AVX2 static inline __attribute__((always_inline)) void planar(const sn_plan *plan, const uint8_t *rgb, size_t n_pixels,
                                                              void *out, uint32_t dtype)
{
    divider scale = divide_by(_mm256_set1_ps(plan->divisor));
    channel channels[3];
    __m256i take[3]; /* one byte each, and three of 0, to its 32 bits */
    size_t k;

    for (int c = 0; c < 3; c++) {
        channels[c] = (channel){_mm256_set1_ps(plan->mean[c]), divide_by(_mm256_set1_ps(plan->std[c]))};
        take[c] = _mm256_add_epi32(_mm256_setr_epi32(0, 3, 6, 9, 4, 7, 10, 13), _mm256_set1_epi32((int)0x80808000 + c));
    }
    for (k = 0; k + 8 <= n_pixels; k += 8) {
        /* Four pixels in each half: the first 12 bytes of the one, the last 12 of the other. */
        __m256i pixels =
            _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(rgb + 3 * k))),
                                    _mm_loadu_si128((const __m128i *)(rgb + 3 * k + 8)), 1);

        for (size_t c = 0; c < 3; c++)
            put_eight(dtype, out, c * n_pixels + k,
                      normalise(_mm256_shuffle_epi8(pixels, take[c]), scale, channels[c]));
    }
    for (; k < n_pixels; k++)
        for (size_t c = 0; c < 3; c++)
            sn_element_put(dtype, out, c * n_pixels + k, sn_normalised(plan, dtype, c, rgb[3 * k + c]));
}

/* Eight pixels are three vectors, and the channels of a vector repeat from the fourth on. */
AVX2 static inline __attribute__((always_inline)) void packed(const sn_plan *plan, const uint8_t *rgb, size_t n_pixels,
                                                              void *out, uint32_t dtype)
{
    divider scale = divide_by(_mm256_set1_ps(plan->divisor));
    size_t n = 3 * n_pixels, k;
    channel vectors[3];

    for (size_t v = 0; v < 3; v++) {
        float means[8], stds[8];

        for (size_t lane = 0; lane < 8; lane++) {
            means[lane] = plan->mean[(8 * v + lane) % 3];
            stds[lane] = plan->std[(8 * v + lane) % 3];
        }
        vectors[v] = (channel){_mm256_loadu_ps(means), divide_by(_mm256_loadu_ps(stds))};
    }
    for (k = 0; k + 24 <= n; k += 24)
        for (size_t v = 0; v < 3; v++) {
            __m128i eight = _mm_loadl_epi64((const __m128i *)(rgb + k + 8 * v));

            put_eight(dtype, out, k + 8 * v, normalise(_mm256_cvtepu8_epi32(eight), scale, vectors[v]));
        }
    for (; k < n; k++)
        sn_element_put(dtype, out, k, sn_normalised(plan, dtype, k % 3, rgb[k]));
}

AVX2 static void bytes_planar(const uint8_t *rgb, size_t n_pixels, uint8_t *out)
{
    size_t k;

    for (k = 0; k + 16 <= n_pixels; k += 16) {
        __m128i bytes[3];

        split(rgb + 3 * k, bytes);
        for (size_t c = 0; c < 3; c++)
            _mm_storeu_si128((__m128i *)(out + c * n_pixels + k), bytes[c]);
    }
    for (; k < n_pixels; k++)
        for (size_t c = 0; c < 3; c++)
            out[c * n_pixels + k] = rgb[3 * k + c];
}

AVX2 static inline __attribute__((always_inline)) void lay_out(const sn_plan *plan, const uint8_t *rgb, size_t n_pixels,
                                                               void *out, uint32_t dtype)
{
    if (plan->channels_last)
        packed(plan, rgb, n_pixels, out, dtype);
    else
        planar(plan, rgb, n_pixels, out, dtype);
}

AVX2 void sn_batch_simd(const sn_plan *plan, const uint8_t *rgb, size_t n_pixels, void *out)
{
    switch (plan->dtype) {
    case SN_UINT8:
        bytes_planar(rgb, n_pixels, out);
        break;
    case SN_FLOAT32:
        lay_out(plan, rgb, n_pixels, out, SN_FLOAT32);
        break;
    case SN_FLOAT16:
        lay_out(plan, rgb, n_pixels, out, SN_FLOAT16);
        break;
    case SN_BFLOAT16:
        lay_out(plan, rgb, n_pixels, out, SN_BFLOAT16);
        break;
    }
}

#endif
