/* warp_avx2.c -- warp_kernels.h in two steps: where the colours of 64 pixels lie, in doubles, four places at once; then
 * the colours, of two pixels at once, in single floats.
 *
 * Single floats may fall on the other side of a whole number than Pillow's doubles, which cut off what is behind the
 * point. Where they are too near to decide, the pixel is weighed again as plain C does it. Neighbours
 * that are alike, as in a white sky, give their own colour in both, and are not weighed again.
 */
#include "simd.h"

#ifdef SN_HAVE_AVX2_CODE

#include <immintrin.h>
#include <stdbool.h>
#include <string.h>

#define SN_WARP_LOAD(made, at)                                                                                         \
    do {                                                                                                               \
        int word_;                                                                                                     \
        memcpy(&word_, at, sizeof word_);                                                                              \
        made = (doubles)_mm256_cvtepi32_pd(_mm_cvtepu8_epi32(_mm_cvtsi32_si128(word_)));                               \
    } while (0)
#define SN_WARP_PACK(made, of)                                                                                         \
    do {                                                                                                               \
        __m128i words_ = _mm256_cvttpd_epi32((__m256d)(of));                                                           \
        int word_;                                                                                                     \
        words_ = _mm_packus_epi32(words_, words_);                                                                     \
        word_ = _mm_cvtsi128_si32(_mm_packus_epi16(words_, words_));                                                   \
        memcpy(made, &word_, sizeof word_);                                                                            \
    } while (0)

/* Without FMA: a fused step rounds once where Pillow's arithmetic rounds twice. */
#define SN_LOOP __attribute__((target("avx2")))

#include "warp_loops.h"

#define INLINE FUSED static inline __attribute__((always_inline))
#define FUSED __attribute__((target("avx2,fma")))
#define APART SN_LOOP static __attribute__((noinline)) /* from what may be fused */
#define BLOCK 64                                       /* pixels, a bit of a word each */

/* More than twice the most that rounding costs, of shares, weights, products and sums: 2^-14 and 1.7 * 2^-11. */
#define NEAR_LINEAR 0x1p-12f
#define NEAR_CUBIC 0x1p-9f

typedef struct {
    double x[BLOCK], y[BLOCK];
    int32_t left[BLOCK], top[BLOCK];  /* the neighbour before it; of a cubic's four, the second */
    float right[BLOCK], lower[BLOCK]; /* the shares of the neighbour behind it */
    uint64_t inner;                   /* a bit for each pixel whose neighbours all lie in the picture */
} places;

SN_LOOP static inline __m256d neighbour(__m256d at, uint32_t count, int cubic, __m256d *inner, __m128 *share)
{
    __m256d middle = _mm256_sub_pd(at, _mm256_set1_pd(0.5)), first = _mm256_floor_pd(middle);
    __m256d zero = _mm256_setzero_pd(), one = _mm256_set1_pd(1);

    if (cubic) {
        *inner = _mm256_and_pd(*inner, _mm256_cmp_pd(first, one, _CMP_GE_OQ));
        *inner = _mm256_and_pd(*inner, _mm256_cmp_pd(first, _mm256_set1_pd((double)count - 3), _CMP_LE_OQ));
        *share = _mm256_cvtpd_ps(_mm256_sub_pd(middle, first));
        return first;
    }
    /* Beyond the middles of the outermost pixels, it is all the outer one's. */
    first = _mm256_min_pd(_mm256_max_pd(first, zero), _mm256_set1_pd((double)count - 2));
    middle = _mm256_min_pd(_mm256_max_pd(_mm256_sub_pd(middle, first), zero), one);
    *share = _mm256_cvtpd_ps(middle);
    return first;
}

/* Where the colours of `n` pixels of a row lie, from `column` on. The steps are plain C's. */
APART void find_places(const warped *of, uint32_t row, uint32_t column, uint32_t n, int cubic, int projective,
                       places *found)
{
    const double *m = of->matrix, down = row + 0.5;
    const __m256d a = _mm256_set1_pd(m[0]), b = _mm256_set1_pd(m[1] * down), c = _mm256_set1_pd(m[2]);
    const __m256d d = _mm256_set1_pd(m[3]), e = _mm256_set1_pd(m[4] * down), f = _mm256_set1_pd(m[5]);
    const __m256d width = _mm256_set1_pd(of->width), height = _mm256_set1_pd(of->height), zero = _mm256_setzero_pd();

    found->inner = 0;
    for (uint32_t k = 0; k < n; k += 4) {
        __m256d across = _mm256_add_pd(_mm256_set1_pd(column + k), _mm256_setr_pd(0.5, 1.5, 2.5, 3.5));
        __m256d x = _mm256_add_pd(_mm256_add_pd(_mm256_mul_pd(a, across), b), c);
        __m256d y = _mm256_add_pd(_mm256_add_pd(_mm256_mul_pd(d, across), e), f), inner, left, top;
        __m128 right, lower;

        if (projective) {
            __m256d by = _mm256_add_pd(_mm256_mul_pd(_mm256_set1_pd(m[6]), across), _mm256_set1_pd(m[7] * down));

            by = _mm256_add_pd(by, _mm256_set1_pd(1));
            x = _mm256_div_pd(x, by);
            y = _mm256_div_pd(y, by);
        }
        inner = _mm256_and_pd(_mm256_cmp_pd(x, zero, _CMP_GE_OQ), _mm256_cmp_pd(x, width, _CMP_LT_OQ));
        inner = _mm256_and_pd(inner, _mm256_cmp_pd(y, zero, _CMP_GE_OQ));
        inner = _mm256_and_pd(inner, _mm256_cmp_pd(y, height, _CMP_LT_OQ));
        left = neighbour(x, of->width, cubic, &inner, &right);
        top = neighbour(y, of->height, cubic, &inner, &lower);
        _mm256_storeu_pd(found->x + k, x);
        _mm256_storeu_pd(found->y + k, y);
        _mm_storeu_si128((__m128i *)(void *)(found->left + k), _mm256_cvttpd_epi32(left));
        _mm_storeu_si128((__m128i *)(void *)(found->top + k), _mm256_cvttpd_epi32(top));
        _mm_storeu_ps(found->right + k, right);
        _mm_storeu_ps(found->lower + k, lower);
        found->inner |= (uint64_t)(uint32_t)_mm256_movemask_pd(inner) << k;
    }
    if (n < BLOCK)
        found->inner &= ((uint64_t)1 << n) - 1;
    if (of->width < 2 || of->height < 2)
        found->inner = 0;
}

APART void weigh_linear(const warped *of, double x, double y, uint8_t *to)
{
    weigh(of, x, y, 0, to);
}

APART void weigh_cubic(const warped *of, double x, double y, uint8_t *to)
{
    weigh(of, x, y, 1, to);
}

/* Numbers of two pixels, each four times: for their channels. */
INLINE __m256 four_times(const float two[2])
{
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_broadcast_ss(two)), _mm_broadcast_ss(two + 1), 1);
}

/* 16 bytes from each of two places. */
INLINE __m256i both(const uint8_t *one, const uint8_t *other)
{
    __m256i bytes = _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)one));

    return _mm256_inserti128_si256(bytes, _mm_loadu_si128((const __m128i *)(const void *)other), 1);
}

/* Pixel `j` of each, and a fourth channel of 0. */
INLINE __m256 pixel_of(__m256i rows, int j)
{
    const int b = 3 * j, none = (int)0x80808000;

    return _mm256_cvtepi32_ps(_mm256_shuffle_epi8(
        rows, _mm256_broadcastsi128_si256(_mm_setr_epi32(none | b, none | (b + 1), none | (b + 2), none | 0x80))));
}

/* A bit for each number that is too near to a whole one. The fourth channel has none. */
INLINE int near_whole(__m256 values, float distance)
{
    __m256 away = _mm256_sub_ps(values, _mm256_round_ps(values, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));

    away = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), away);
    return _mm256_movemask_ps(_mm256_cmp_ps(away, _mm256_set1_ps(distance), _CMP_LT_OQ)) & 0x77;
}

INLINE __m256 equal(__m256 a, __m256 b)
{
    return _mm256_cmp_ps(a, b, _CMP_EQ_OQ);
}

INLINE __m256 between(__m256 a, __m256 b, __m256 share)
{
    return _mm256_fmadd_ps(_mm256_sub_ps(b, a), share, a);
}

/* Two pixels whose first neighbours are at `one` and `other`. *unsure: a bit for each number that needs doubles. */
INLINE __m256 two_linear(const uint8_t *one, const uint8_t *other, size_t stride, __m256 right, __m256 lower,
                         int *unsure)
{
    __m256i above = both(one, other), below = both(one + stride, other + stride);
    __m256 a = pixel_of(above, 0), b = pixel_of(above, 1), c = pixel_of(below, 0), d = pixel_of(below, 1);
    __m256 values = between(between(a, b, right), between(c, d, right), lower);

    *unsure = near_whole(values, NEAR_LINEAR);
    if (*unsure != 0) { /* none that has no more than one colour to weigh */
        __m256 no_right = equal(right, _mm256_setzero_ps()), no_lower = equal(lower, _mm256_setzero_ps());
        __m256 alike = _mm256_and_ps(_mm256_or_ps(no_right, equal(c, d)), equal(a, c));

        alike = _mm256_and_ps(_mm256_or_ps(no_right, equal(a, b)), _mm256_or_ps(no_lower, alike));
        *unsure &= ~_mm256_movemask_ps(alike);
    }
    return values;
}

/* How much CUBIC takes of each of its four values. */
INLINE void weights_of(__m256 share, __m256 weights[4])
{
    __m256 rest = _mm256_sub_ps(_mm256_set1_ps(1), share), product = _mm256_mul_ps(share, rest);

    weights[0] = _mm256_fnmadd_ps(product, rest, _mm256_setzero_ps());
    weights[1] = _mm256_fmadd_ps(product, rest, rest);
    weights[2] = _mm256_fmadd_ps(product, share, share);
    weights[3] = _mm256_fnmadd_ps(product, share, _mm256_setzero_ps());
}

/* As two_linear(), where `one` and `other` are the second of the four neighbours, in the second row. */
INLINE __m256 two_cubic(const uint8_t *one, const uint8_t *other, size_t stride, __m256 right, __m256 lower,
                        int *unsure)
{
    const __m256 least = _mm256_set1_ps(0.5f), most = _mm256_set1_ps(255.5f); /* cut to 0 and 255 */
    __m256 across[4], down[4], values = _mm256_setzero_ps();
    __m256i rows[4];

    weights_of(right, across);
    weights_of(lower, down);
    for (int i = 0; i < 4; i++) {
        __m256 line;

        rows[i] = both(one - stride - 3 + i * stride, other - stride - 3 + i * stride);
        line = _mm256_mul_ps(across[0], pixel_of(rows[i], 0));
        for (int j = 1; j < 4; j++)
            line = _mm256_fmadd_ps(across[j], pixel_of(rows[i], j), line);
        values = _mm256_fmadd_ps(down[i], line, values);
    }
    values = _mm256_min_ps(_mm256_max_ps(values, least), most);
    *unsure = near_whole(values, NEAR_CUBIC);
    if (*unsure != 0) {
        __m256 colour = pixel_of(rows[1], 1), alike = equal(colour, colour);
        __m256 no_right = equal(right, _mm256_setzero_ps()), no_lower = equal(lower, _mm256_setzero_ps());

        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 4; j++) {
                __m256 same = equal(colour, pixel_of(rows[i], j));

                same = j == 1 ? same : _mm256_or_ps(same, no_right);
                same = i == 1 ? same : _mm256_or_ps(same, no_lower);
                alike = _mm256_and_ps(alike, same);
            }
        *unsure &= ~_mm256_movemask_ps(alike);
        values = _mm256_blendv_ps(values, colour, alike);
    }
    return values;
}

INLINE void warp(const warped *of, uint8_t *to, int cubic, int projective)
{
    const size_t stride = (size_t)3 * of->width;
    places found;

    for (uint32_t row = 0; row < of->height; row++)
        for (uint32_t column = 0; column < of->width; column += BLOCK) {
            uint32_t n = of->width - column < BLOCK ? of->width - column : BLOCK, k = 0;
            bool is_end = row + 1 == of->height && column + n == of->width;

            find_places(of, row, column, n, cubic, projective, &found);
            while (k < n) {
                const uint8_t *at[2];
                int unsure = 0x77, words[2];
                __m256i bytes;
                __m256 values;

                /* Each is written with a byte of the next one, which the last one has not. */
                if ((found.inner >> k & 3) != 3 || (is_end && k + 2 >= n)) {
                    (cubic ? weigh_cubic : weigh_linear)(of, found.x[k], found.y[k], to);
                    to += 3;
                    k++;
                    continue;
                }
                for (int i = 0; i < 2; i++)
                    at[i] = of->from + stride * (size_t)found.top[k + i] + 3 * (size_t)found.left[k + i];
                values = (cubic ? two_cubic : two_linear)(at[0], at[1], stride, four_times(found.right + k),
                                                          four_times(found.lower + k), &unsure);
                bytes = _mm256_cvttps_epi32(values);
                bytes = _mm256_packus_epi32(bytes, bytes);
                bytes = _mm256_packus_epi16(bytes, bytes);
                words[0] = _mm_cvtsi128_si32(_mm256_castsi256_si128(bytes));
                words[1] = _mm_cvtsi128_si32(_mm256_extracti128_si256(bytes, 1));
                for (int i = 0; i < 2; i++, k++, to += 3)
                    if (unsure & 7 << 4 * i)
                        (cubic ? weigh_cubic : weigh_linear)(of, found.x[k], found.y[k], to);
                    else
                        memcpy(to, &words[i], 4);
            }
        }
}

FUSED static void bilinear(const double matrix[8], const uint8_t fill[3], const uint8_t *from, uint8_t *to,
                           uint32_t height, uint32_t width)
{
    warp(&(warped){matrix, fill, from, height, width}, to, 0, 0);
}

FUSED static void bicubic(const double matrix[8], const uint8_t fill[3], const uint8_t *from, uint8_t *to,
                          uint32_t height, uint32_t width)
{
    warp(&(warped){matrix, fill, from, height, width}, to, 1, 0);
}

FUSED static void bilinear_perspective(const double matrix[8], const uint8_t fill[3], const uint8_t *from, uint8_t *to,
                                       uint32_t height, uint32_t width)
{
    warp(&(warped){matrix, fill, from, height, width}, to, 0, 1);
}

FUSED static void bicubic_perspective(const double matrix[8], const uint8_t fill[3], const uint8_t *from, uint8_t *to,
                                      uint32_t height, uint32_t width)
{
    warp(&(warped){matrix, fill, from, height, width}, to, 1, 1);
}

const sn_warp_kernels sn_warp_avx2 = {bilinear, bicubic, bilinear_perspective, bicubic_perspective};

#endif
