#include "resize_kernels.h"

#ifdef SN_HAVE_AVX2_CODE

#include <immintrin.h>
#include <stdlib.h>
#include <string.h>

#include "../../base/sn_status.h"

#define AVX2 __attribute__((target("avx2")))

/*
 * Across, four rows go at once, two in a register, one in each half: what to fetch, how to shuffle
 * it and what to multiply it with is the same for all, and read once.
 *
 *   16 bytes of a row --shuffle--> a a' b b' c c' d d' --multiply-add--> 4 sums --pack--> 4 bytes
 *
 * A multiply-add wants two neighbouring samples of a channel side by side, as 16 bits each. Four
 * bytes of output, a group, belong to two pixels (RGBR GBRG BRGB), whose samples lie within 16 bytes
 * of each other unless the picture shrinks a lot. Where it does, a group is one pixel, three bytes
 * and an unused one, which the last shuffle drops. The next pair of samples is 6 bytes on.
 *
 * Four groups are a step; a layout has all that the steps need, in the order in which it is read.
 */
typedef struct {
    uint32_t offset[4];       /* of each group, in bytes from the begin of the row */
    uint32_t places[4][4];    /* of each group, how to shuffle */
    uint32_t weights[][4][4]; /* of each pair of samples and group, two weights a byte of output */
} step;

typedef struct {
    int8_t order[16]; /* the last shuffle */
    uint32_t pairs, steps, step_bytes, group_bytes;
    uint32_t reuse; /* 16 bytes have two pairs of samples of every group */
} layout;

static size_t step_size(uint32_t pairs)
{
    return sizeof(step) + pairs * sizeof((step *)0)->weights[0];
}

static layout choose_layout(const sn_taps *taps)
{
    layout made = {{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, 0, 0, 16, 4, 0};
    static const int8_t drop_fourth[16] = {0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1};
    uint32_t most = 0, apart = 0;

    for (uint32_t i = 0; i < taps->count; i++) {
        uint32_t by = i > 0 ? (uint32_t)abs((int)(taps->start[i] - taps->start[i - 1])) : 0;

        most = taps->used[i] > most ? taps->used[i] : most;
        apart = by > apart ? by : apart;
    }
    if (apart > 3) {
        memcpy(made.order, drop_fourth, sizeof drop_fourth);
        made.step_bytes = 12;
        made.group_bytes = 3;
    }
    /* Two pixels that are 1 apart, or 2 and one sample fewer; or one pixel. */
    made.reuse = apart <= 1 || (apart == 2 && most <= 3) || apart > 3;
    made.pairs = (most + 1) / 2;
    made.steps = (3 * taps->count + made.step_bytes - 1) / made.step_bytes;
    return made;
}

static int lay_out(sn_taps *taps)
{
    layout made = choose_layout(taps);
    size_t size = step_size(made.pairs);
    uint32_t pixel = 0, channel = 0;
    uint8_t *at;
    int rc;

    taps->layout_bytes = sizeof made + made.steps * size;
    rc = sn_buffer_reserve(&taps->layout, taps->layout_bytes);
    if (rc != SN_OK)
        return rc;
    at = memcpy(taps->layout.data, &made, sizeof made);
    /* Past the last output the weights are 0. */
    at = memset(at + sizeof made, 0, made.steps * size);
    for (; pixel < taps->count; at += size) {
        step *s = (step *)at;

        for (uint32_t group = 0; group < 4 && pixel < taps->count; group++) {
            uint32_t other = pixel + 1 < taps->count ? pixel + 1 : pixel;
            uint32_t first = taps->start[pixel];

            if (made.group_bytes == 4 && taps->start[other] < first)
                first = taps->start[other];
            s->offset[group] = 3 * first;
            for (uint32_t k = 0; k < made.group_bytes && pixel < taps->count; k++) {
                uint32_t place = 3 * (taps->start[pixel] - first) + channel;
                const int16_t *weight = taps->weight + (size_t)pixel * taps->width;

                s->places[group][k] = 0x80008000 | (place + 3) << 16 | place;
                for (uint32_t pair = 0; pair < made.pairs; pair++)
                    memcpy(&s->weights[pair][group][k], weight + 2 * pair, sizeof(uint32_t));
                channel = channel == 2 ? 0 : channel + 1;
                pixel += channel == 0;
            }
        }
    }
    return SN_OK;
}

AVX2 static inline __m256i load_two(const uint8_t *low, const uint8_t *high)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)low)),
                                   _mm_loadu_si128((const __m128i *)high), 1);
}

AVX2 static inline __m256i load_twice(const void *from)
{
    return _mm256_broadcastsi128_si256(_mm_loadu_si128(from));
}

/* Called with constants where these are common: the loops then unroll away. */
AVX2 static inline __attribute__((always_inline)) void across_steps(const sn_taps *taps, uint32_t pairs,
                                                                    const uint8_t *const *rows, uint8_t *const *outs,
                                                                    int registers, bool reuse)
{
    const layout *l = (const layout *)taps->layout.data;
    const uint8_t *at = (const uint8_t *)(l + 1), *end = at + l->steps * step_size(pairs);
    const __m256i half = _mm256_set1_epi32(1 << (taps->shift - 1)), order = load_twice(l->order);
    const __m128i shift = _mm_cvtsi32_si128(taps->shift);
    const uint8_t *in[SN_ACROSS_ROWS];
    size_t step_bytes = l->step_bytes, done = 0;

    for (int r = 0; r < 2 * registers; r++)
        in[r] = rows[r];
    for (; at < end; at += step_size(pairs), done += step_bytes) {
        const step *s = (const step *)at;
        __m256i sums[SN_ACROSS_ROWS / 2][4];

#pragma GCC unroll 4
        for (int group = 0; group < 4; group++) {
            __m256i places = load_twice(s->places[group]);
            __m256i further = _mm256_add_epi16(places, _mm256_set1_epi16(6));
            size_t offset = s->offset[group];

#pragma GCC unroll 2
            for (int r = 0; r < registers; r++)
                sums[r][group] = half;
            for (uint32_t pair = 0; pair < pairs; pair += reuse ? 2 : 1, offset += reuse ? 12 : 6) {
                bool second = reuse && pair + 1 < pairs;
                __m256i weights = load_twice(s->weights[pair][group]);
                __m256i more = second ? load_twice(s->weights[pair + 1][group]) : weights;

#pragma GCC unroll 2
                for (int r = 0; r < registers; r++) {
                    __m256i samples = load_two(in[2 * r] + offset, in[2 * r + 1] + offset);

                    sums[r][group] = _mm256_add_epi32(sums[r][group],
                                                      _mm256_madd_epi16(_mm256_shuffle_epi8(samples, places), weights));
                    if (second)
                        sums[r][group] = _mm256_add_epi32(
                            sums[r][group], _mm256_madd_epi16(_mm256_shuffle_epi8(samples, further), more));
                }
            }
#pragma GCC unroll 2
            for (int r = 0; r < registers; r++)
                sums[r][group] = _mm256_sra_epi32(sums[r][group], shift);
        }
#pragma GCC unroll 2
        for (int r = 0; r < registers; r++) {
            __m256i packed = _mm256_packus_epi16(_mm256_packs_epi32(sums[r][0], sums[r][1]),
                                                 _mm256_packs_epi32(sums[r][2], sums[r][3]));

            packed = _mm256_shuffle_epi8(packed, order);
            _mm_storeu_si128((__m128i *)(outs[2 * r] + done), _mm256_castsi256_si128(packed));
            _mm_storeu_si128((__m128i *)(outs[2 * r + 1] + done), _mm256_extracti128_si256(packed, 1));
        }
    }
}

AVX2 static void across(const sn_taps *taps, const uint8_t *const *rows, uint8_t *const *outs, uint32_t n_rows)
{
    const layout *l = (const layout *)taps->layout.data;
    uint32_t pairs = l->pairs;
    const uint8_t *from[SN_ACROSS_ROWS];
    uint8_t *to[SN_ACROSS_ROWS];

    for (uint32_t i = 0; i < SN_ACROSS_ROWS; i++) {
        from[i] = rows[i < n_rows ? i : 0];
        to[i] = outs[i < n_rows ? i : 0];
    }
    if (n_rows <= 2)
        across_steps(taps, pairs, from, to, 1, false);
    else if (pairs == 1)
        across_steps(taps, 1, from, to, 2, false);
    else if (pairs == 2 && l->reuse)
        across_steps(taps, 2, from, to, 2, true);
    else if (pairs == 2)
        across_steps(taps, 2, from, to, 2, false);
    else if (l->reuse)
        across_steps(taps, pairs, from, to, 2, true);
    else
        across_steps(taps, pairs, from, to, 2, false);
}

/*
 * Down, rows go in pairs: their bytes interleaved and widened are the pairs that a multiply-add
 * takes. The last 32 bytes are made once more, rather than bytes one by one.
 *
 * Inlined, with `pairs` a constant where that is common: weights and rows then stay in registers.
 */
AVX2 static inline __attribute__((always_inline)) void
down_pairs(const uint8_t *const *rows, const int16_t *weight, uint32_t pairs, int shift, uint8_t *out, size_t n_bytes)
{
    const __m256i zero = _mm256_setzero_si256(), half = _mm256_set1_epi32(1 << (shift - 1));
    const __m128i bits = _mm_cvtsi32_si128(shift);

    for (size_t next = 0; next < n_bytes; next += 32) {
        size_t at = next + 32 <= n_bytes ? next : n_bytes - 32;
        __m256i s0 = half, s1 = half, s2 = half, s3 = half;

        for (uint32_t i = 0; i < 2 * pairs; i += 2) {
            __m256i a = _mm256_loadu_si256((const __m256i *)(rows[i] + at));
            __m256i b = _mm256_loadu_si256((const __m256i *)(rows[i + 1] + at));
            __m256i low = _mm256_unpacklo_epi8(a, b), high = _mm256_unpackhi_epi8(a, b), both;
            int two;

            memcpy(&two, weight + i, sizeof two);
            both = _mm256_set1_epi32(two);
            s0 = _mm256_add_epi32(s0, _mm256_madd_epi16(_mm256_unpacklo_epi8(low, zero), both));
            s1 = _mm256_add_epi32(s1, _mm256_madd_epi16(_mm256_unpackhi_epi8(low, zero), both));
            s2 = _mm256_add_epi32(s2, _mm256_madd_epi16(_mm256_unpacklo_epi8(high, zero), both));
            s3 = _mm256_add_epi32(s3, _mm256_madd_epi16(_mm256_unpackhi_epi8(high, zero), both));
        }
        s0 = _mm256_packs_epi32(_mm256_sra_epi32(s0, bits), _mm256_sra_epi32(s1, bits));
        s2 = _mm256_packs_epi32(_mm256_sra_epi32(s2, bits), _mm256_sra_epi32(s3, bits));
        _mm256_storeu_si256((__m256i *)(out + at), _mm256_packus_epi16(s0, s2));
    }
}

AVX2 static void down(const uint8_t *const *rows, const int16_t *weight, uint32_t n_rows, int shift, uint8_t *out,
                      size_t n_bytes)
{
    if (n_bytes < 32) {
        sn_resize_plain.down(rows, weight, n_rows, shift, out, n_bytes);
    } else if (n_rows <= 2) {
        const uint8_t *const two[2] = {rows[0], rows[1]};

        down_pairs(two, weight, 1, shift, out, n_bytes);
    } else if (n_rows <= 4) {
        const uint8_t *const four[4] = {rows[0], rows[1], rows[2], rows[3]};

        down_pairs(four, weight, 2, shift, out, n_bytes);
    } else {
        down_pairs(rows, weight, (n_rows + 1) / 2, shift, out, n_bytes);
    }
}

const sn_resize_kernels sn_resize_simd = {across, down, lay_out};

#endif
