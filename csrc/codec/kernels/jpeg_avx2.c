#include "jpeg_kernels.h"

#ifdef SN_HAVE_AVX2_CODE

#include <immintrin.h>

#define AVX2 __attribute__((target("avx2")))
#define INLINE inline __attribute__((always_inline))

/* -- The inverse transform of two blocks, one in each half of the registers -- */

AVX2 static INLINE __m256i pairs_of(int a, int b)
{
    return _mm256_set1_epi32((int)((uint32_t)(uint16_t)a | (uint32_t)b << 16));
}

/* Of eight numbers in each lane: the even part in out[0 ... 3], what is added to it in out[4 ... 7]. `a` to `d`: see
 * jpeg_plain.c. Products of two numbers with two factors are added by one instruction. */
AVX2 static INLINE void transform(__m256i r0, __m256i r4, __m256i c26, __m256i ad, __m256i bc, __m256i acbd,
                                  __m256i even[4], __m256i odd[4])
{
    __m256i even3 = _mm256_madd_epi16(c26, pairs_of(SN_F_0_541 + SN_F_0_765, SN_F_0_541));
    __m256i even2 = _mm256_madd_epi16(c26, pairs_of(SN_F_0_541, SN_F_0_541 - SN_F_1_847));
    __m256i ac = _mm256_madd_epi16(acbd, pairs_of(SN_F_1_175 - SN_F_1_961, SN_F_1_175));
    __m256i bd = _mm256_madd_epi16(acbd, pairs_of(SN_F_1_175, SN_F_1_175 - SN_F_0_390));

    even[0] = _mm256_add_epi32(r0, even3);
    even[1] = _mm256_add_epi32(r4, even2);
    even[2] = _mm256_sub_epi32(r4, even2);
    even[3] = _mm256_sub_epi32(r0, even3);
    odd[0] = _mm256_add_epi32(_mm256_madd_epi16(ad, pairs_of(-SN_F_0_899, SN_F_1_501 - SN_F_0_899)), bd);
    odd[1] = _mm256_add_epi32(_mm256_madd_epi16(bc, pairs_of(-SN_F_2_562, SN_F_3_072 - SN_F_2_562)), ac);
    odd[2] = _mm256_add_epi32(_mm256_madd_epi16(bc, pairs_of(SN_F_2_053 - SN_F_2_562, -SN_F_2_562)), bd);
    odd[3] = _mm256_add_epi32(_mm256_madd_epi16(ad, pairs_of(SN_F_0_298 - SN_F_0_899, -SN_F_0_899)), ac);
}

/* r[k] * 2^13 as 32 bits, of 16. */
AVX2 static INLINE __m256i low_shifted(__m256i sum)
{
    return _mm256_srai_epi32(_mm256_unpacklo_epi16(_mm256_setzero_si256(), sum), 3);
}

AVX2 static INLINE __m256i high_shifted(__m256i sum)
{
    return _mm256_srai_epi32(_mm256_unpackhi_epi16(_mm256_setzero_si256(), sum), 3);
}

/* One pass: eight registers, of which each lane is transformed, rounded by `bits`. */
AVX2 static INLINE void pass(__m256i r[8], int bits)
{
    const __m256i half = _mm256_set1_epi32(1 << (bits - 1));
    __m256i sum = _mm256_add_epi16(r[0], r[4]), difference = _mm256_sub_epi16(r[0], r[4]);
    __m256i a_c = _mm256_add_epi16(r[7], r[3]), b_d = _mm256_add_epi16(r[5], r[1]);
    __m256i even[2][4], odd[2][4];

    transform(_mm256_add_epi32(low_shifted(sum), half), _mm256_add_epi32(low_shifted(difference), half),
              _mm256_unpacklo_epi16(r[2], r[6]), _mm256_unpacklo_epi16(r[7], r[1]), _mm256_unpacklo_epi16(r[5], r[3]),
              _mm256_unpacklo_epi16(a_c, b_d), even[0], odd[0]);
    transform(_mm256_add_epi32(high_shifted(sum), half), _mm256_add_epi32(high_shifted(difference), half),
              _mm256_unpackhi_epi16(r[2], r[6]), _mm256_unpackhi_epi16(r[7], r[1]), _mm256_unpackhi_epi16(r[5], r[3]),
              _mm256_unpackhi_epi16(a_c, b_d), even[1], odd[1]);
    for (int k = 0; k < 4; k++) {
        r[k] = _mm256_packs_epi32(_mm256_srai_epi32(_mm256_add_epi32(even[0][k], odd[0][k]), bits),
                                  _mm256_srai_epi32(_mm256_add_epi32(even[1][k], odd[1][k]), bits));
        r[7 - k] = _mm256_packs_epi32(_mm256_srai_epi32(_mm256_sub_epi32(even[0][k], odd[0][k]), bits),
                                      _mm256_srai_epi32(_mm256_sub_epi32(even[1][k], odd[1][k]), bits));
    }
}

AVX2 static INLINE void transpose(__m256i r[8])
{
    __m256i a[8], b[8];

    for (int k = 0; k < 4; k++) { /* rows 2k and 2k + 1 */
        a[k] = _mm256_unpacklo_epi16(r[2 * k], r[2 * k + 1]);
        a[4 + k] = _mm256_unpackhi_epi16(r[2 * k], r[2 * k + 1]);
    }
    for (int k = 0; k < 8; k += 4) {
        b[k] = _mm256_unpacklo_epi32(a[k], a[k + 1]);
        b[k + 1] = _mm256_unpackhi_epi32(a[k], a[k + 1]);
        b[k + 2] = _mm256_unpacklo_epi32(a[k + 2], a[k + 3]);
        b[k + 3] = _mm256_unpackhi_epi32(a[k + 2], a[k + 3]);
    }
    for (int k = 0; k < 2; k++) {
        r[4 * k] = _mm256_unpacklo_epi64(b[4 * k], b[4 * k + 2]);
        r[4 * k + 1] = _mm256_unpackhi_epi64(b[4 * k], b[4 * k + 2]);
        r[4 * k + 2] = _mm256_unpacklo_epi64(b[4 * k + 1], b[4 * k + 3]);
        r[4 * k + 3] = _mm256_unpackhi_epi64(b[4 * k + 1], b[4 * k + 3]);
    }
}

/* Eight columns as 16 bits to rows of both blocks side by side as bytes. */
AVX2 static INLINE void put(const __m256i r[8], uint8_t *out, size_t stride)
{
    const __m256i middle = _mm256_set1_epi8(-128);
    __m256i v[4], low[2], high[2];

    for (int k = 0; k < 4; k++)
        v[k] = _mm256_packs_epi16(r[k], r[k + 4]);
    for (int k = 0; k < 2; k++) { /* columns 0 and 1, 2 and 3; 4 and 5, 6 and 7 */
        low[k] = _mm256_unpacklo_epi8(v[2 * k], v[2 * k + 1]);
        high[k] = _mm256_unpackhi_epi8(v[2 * k], v[2 * k + 1]);
    }
    v[0] = _mm256_unpacklo_epi16(low[0], low[1]); /* columns 0 to 3 of rows 0 to 3 */
    v[1] = _mm256_unpackhi_epi16(low[0], low[1]); /* of rows 4 to 7 */
    v[2] = _mm256_unpacklo_epi16(high[0], high[1]);
    v[3] = _mm256_unpackhi_epi16(high[0], high[1]);
    for (int k = 0; k < 2; k++)
        for (int half = 0; half < 2; half++) {
            __m256i two = half == 0 ? _mm256_unpacklo_epi32(v[k], v[k + 2]) : _mm256_unpackhi_epi32(v[k], v[k + 2]);
            uint8_t *row = out + (size_t)(4 * k + 2 * half) * stride;

            two = _mm256_xor_si256(_mm256_permute4x64_epi64(two, _MM_SHUFFLE(3, 1, 2, 0)), middle);
            _mm_storeu_si128((__m128i *)row, _mm256_castsi256_si128(two));
            _mm_storeu_si128((__m128i *)(row + stride), _mm256_extracti128_si256(two, 1));
        }
}

AVX2 static bool idct(int16_t (*blocks)[SN_BLOCK], size_t n, const sn_dequantiser *by, uint8_t *out, size_t stride)
{
    int16_t none[SN_BLOCK] __attribute__((aligned(16))) = {0};
    __m256i beyond = _mm256_setzero_si256();

    for (size_t k = 0; k < n; k += 2, out += 16) {
        int16_t *one = blocks[k], *other = k + 1 < n ? blocks[k + 1] : none;
        __m256i r[8];

        for (int row = 0; row < 8; row++) {
            __m128i *a = (__m128i *)(one + 8 * row), *b = (__m128i *)(other + 8 * row);
            __m256i values = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(a)), _mm_loadu_si128(b), 1);
            __m256i most = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(by->most + 8 * row)));
            __m256i factor = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(by->quantiser + 8 * row)));

            _mm_storeu_si128(a, _mm_setzero_si128());
            _mm_storeu_si128(b, _mm_setzero_si128());
            beyond = _mm256_or_si256(beyond, _mm256_subs_epu16(_mm256_abs_epi16(values), most));
            r[row] = _mm256_mullo_epi16(values, factor);
        }
        pass(r, 11);
        transpose(r);
        pass(r, 18);
        put(r, out, stride);
    }
    return _mm256_testz_si256(beyond, beyond);
}

/* -- Upsampling: an even and an odd sample are the two bytes of a lane -- */

AVX2 static INLINE __m256i wide(const uint8_t *from)
{
    return _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)from));
}

AVX2 static INLINE __m256i three_and_one(__m256i near, __m256i far)
{
    return _mm256_add_epi16(_mm256_add_epi16(near, far), _mm256_add_epi16(near, near));
}

AVX2 static INLINE void put_two(__m256i even, __m256i odd, uint8_t *out)
{
    _mm256_storeu_si256((__m256i *)out, _mm256_or_si256(even, _mm256_slli_epi16(odd, 8)));
}

AVX2 static void h2v1(const uint8_t *in, size_t n, uint8_t *out)
{
    for (size_t k = 0; k < n; k += 16) {
        __m256i now = wide(in + k);
        __m256i even = _mm256_add_epi16(three_and_one(now, wide(in + k - 1)), _mm256_set1_epi16(1));
        __m256i odd = _mm256_add_epi16(three_and_one(now, wide(in + k + 1)), _mm256_set1_epi16(2));

        put_two(_mm256_srli_epi16(even, 2), _mm256_srli_epi16(odd, 2), out + 2 * k);
    }
}

/* The lanes before those of `now`, and behind. */
AVX2 static INLINE __m256i one_before(__m256i last, __m256i now)
{
    return _mm256_alignr_epi8(now, _mm256_permute2x128_si256(last, now, 0x21), 14);
}

AVX2 static INLINE __m256i one_behind(__m256i now, __m256i next)
{
    return _mm256_alignr_epi8(_mm256_permute2x128_si256(now, next, 0x21), now, 2);
}

AVX2 static void h2v2(const uint8_t *near, const uint8_t *far, size_t n, uint8_t *out)
{
    __m256i last = _mm256_slli_si256(_mm256_set1_epi16((short)(3 * near[-1] + far[-1])), 14);
    __m256i now = three_and_one(wide(near), wide(far));

    for (size_t k = 0; k < n; k += 16) {
        __m256i next = three_and_one(wide(near + k + 16), wide(far + k + 16)), thrice, even, odd;

        thrice = _mm256_add_epi16(now, _mm256_add_epi16(now, now));
        even = _mm256_add_epi16(_mm256_add_epi16(thrice, one_before(last, now)), _mm256_set1_epi16(8));
        odd = _mm256_add_epi16(_mm256_add_epi16(thrice, one_behind(now, next)), _mm256_set1_epi16(7));
        put_two(_mm256_srli_epi16(even, 4), _mm256_srli_epi16(odd, 4), out + 2 * k);
        last = now;
        now = next;
    }
}

/* -- Colours -- */

/* (factor * value + 2^15) >> 16, of 9 bits and a factor of 16. */
AVX2 static INLINE __m256i part_of(__m256i value, int factor)
{
    __m256i twice = _mm256_mulhi_epi16(_mm256_add_epi16(value, value), _mm256_set1_epi16((short)factor));

    return _mm256_srai_epi16(_mm256_add_epi16(twice, _mm256_set1_epi16(1)), 1);
}

AVX2 static INLINE __m256i green_of(__m256i blue_red)
{
    __m256i sum = _mm256_madd_epi16(blue_red, pairs_of(-22554, 65536 - 46802));

    return _mm256_srai_epi32(_mm256_add_epi32(sum, _mm256_set1_epi32(32768)), 16);
}

typedef struct {
    __m256i red, green, blue;
} colours;

/* 16 pixels. */
AVX2 static INLINE colours colours_of(__m256i light, __m256i blue, __m256i red)
{
    __m256i green;

    blue = _mm256_sub_epi16(blue, _mm256_set1_epi16(128));
    red = _mm256_sub_epi16(red, _mm256_set1_epi16(128));
    green = _mm256_packs_epi32(green_of(_mm256_unpacklo_epi16(blue, red)), green_of(_mm256_unpackhi_epi16(blue, red)));
    return (colours){
        _mm256_add_epi16(_mm256_add_epi16(light, red), part_of(red, 91881 - 65536)),
        _mm256_add_epi16(_mm256_sub_epi16(light, red), green),
        _mm256_add_epi16(_mm256_add_epi16(light, _mm256_add_epi16(blue, blue)), part_of(blue, 116130 - 131072))};
}

AVX2 static INLINE __m256i both_halves(__m128i bytes)
{
    return _mm256_broadcastsi128_si256(bytes);
}

/* Each half of the registers has 16 pixels. */
AVX2 static void to_rgb(const uint8_t *y, const uint8_t *cb, const uint8_t *cr, size_t n, uint8_t *rgb)
{
    const __m256i zero = _mm256_setzero_si256();
    /* Where each byte of 16 pixels comes from; -1: another channel's. */
    const __m256i red_to[3] = {
        both_halves(_mm_setr_epi8(0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1, 5)),
        both_halves(_mm_setr_epi8(-1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1, 10, -1)),
        both_halves(_mm_setr_epi8(-1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1, -1))};
    const __m256i green_to[3] = {
        both_halves(_mm_setr_epi8(-1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1)),
        both_halves(_mm_setr_epi8(5, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1, 10)),
        both_halves(_mm_setr_epi8(-1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1))};
    const __m256i blue_to[3] = {
        both_halves(_mm_setr_epi8(-1, -1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1)),
        both_halves(_mm_setr_epi8(-1, 5, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1)),
        both_halves(_mm_setr_epi8(10, -1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15))};

    for (size_t k = 0; k < n; k += 32, rgb += 96) {
        __m256i light = _mm256_loadu_si256((const __m256i *)(y + k));
        __m256i blue = _mm256_loadu_si256((const __m256i *)(cb + k));
        __m256i red = _mm256_loadu_si256((const __m256i *)(cr + k));
        colours low = colours_of(_mm256_unpacklo_epi8(light, zero), _mm256_unpacklo_epi8(blue, zero),
                                 _mm256_unpacklo_epi8(red, zero));
        colours high = colours_of(_mm256_unpackhi_epi8(light, zero), _mm256_unpackhi_epi8(blue, zero),
                                  _mm256_unpackhi_epi8(red, zero));
        __m256i r = _mm256_packus_epi16(low.red, high.red);
        __m256i g = _mm256_packus_epi16(low.green, high.green);
        __m256i b = _mm256_packus_epi16(low.blue, high.blue);
        __m256i parts[3];

        for (int part = 0; part < 3; part++)
            parts[part] = _mm256_or_si256(
                _mm256_or_si256(_mm256_shuffle_epi8(r, red_to[part]), _mm256_shuffle_epi8(g, green_to[part])),
                _mm256_shuffle_epi8(b, blue_to[part]));
        _mm256_storeu_si256((__m256i *)rgb, _mm256_permute2x128_si256(parts[0], parts[1], 0x20));
        _mm256_storeu_si256((__m256i *)(rgb + 32), _mm256_permute2x128_si256(parts[2], parts[0], 0x30));
        _mm256_storeu_si256((__m256i *)(rgb + 64), _mm256_permute2x128_si256(parts[1], parts[2], 0x31));
    }
}

const sn_jpeg_kernels sn_jpeg_simd = {idct, h2v1, h2v2, to_rgb};

#endif
