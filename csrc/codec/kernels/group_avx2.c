#include "group_kernels.h"

#ifdef SN_HAVE_AVX2_CODE

#include <immintrin.h>
#include <string.h>

#include "group_tables.h"

#define AVX2 __attribute__((target("avx2,bmi,lzcnt,popcnt")))
#define INLINE inline __attribute__((always_inline))

/* -- Tables of putting: what a shuffle takes to each byte of eight lanes; 128: zero -- */

/* The lanes that the mask has, to the first ones. */
#define IS(mask, lane, at) (HAS(mask, lane) && RANK(mask, lane) == (at))
#define LANE_AT(mask, at)                                                                                              \
    (IS(mask, 0, at)   ? 0                                                                                             \
     : IS(mask, 1, at) ? 2                                                                                             \
     : IS(mask, 2, at) ? 4                                                                                             \
     : IS(mask, 3, at) ? 6                                                                                             \
     : IS(mask, 4, at) ? 8                                                                                             \
     : IS(mask, 5, at) ? 10                                                                                            \
     : IS(mask, 6, at) ? 12                                                                                            \
     : IS(mask, 7, at) ? 14                                                                                            \
                       : 128)
#define GATHER_TO(mask, at) LANE_AT(mask, at), LANE_AT(mask, at) + 1
#define GATHER(mask)                                                                                                   \
    {GATHER_TO(mask, 0), GATHER_TO(mask, 1), GATHER_TO(mask, 2), GATHER_TO(mask, 3),                                   \
     GATHER_TO(mask, 4), GATHER_TO(mask, 5), GATHER_TO(mask, 6), GATHER_TO(mask, 7)}
#define WHOLE 255       /* all lanes */
#define WHOLE_FIRST 256 /* all but the first, which counts as zero in a block's first group */
static const uint8_t gather[257][16]
    __attribute__((aligned(16))) = {ALL(GATHER), {128, 128, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}};

/* The same of eight lanes of 32 bits, of whose indices three bits count. */
#define FIRST_ONES(mask)                                                                                               \
    {LANE_AT(mask, 0) / 2, LANE_AT(mask, 1) / 2, LANE_AT(mask, 2) / 2, LANE_AT(mask, 3) / 2,                           \
     LANE_AT(mask, 4) / 2, LANE_AT(mask, 5) / 2, LANE_AT(mask, 6) / 2, LANE_AT(mask, 7) / 2}
static const uint8_t first_ones[256][8] __attribute__((aligned(8))) = {ALL(FIRST_ONES)};

/* Of groups of one code: what positive lanes get; a mask of fields; what brings two of them together, then those, then
 * these. */
typedef struct {
    uint64_t less, field, two, shift, up;
    uint8_t code, is_masked, is_wide;
} __attribute__((aligned(64))) packing;
#define FIELDS(width) (uint64_t)((1u << (width)) - 1)
#define PACKING(width, code, less)                                                                                     \
    {less,                                                                                                             \
     FIELDS(width) * 0x0001000100010001u,                                                                              \
     (1 | (uint64_t)1 << (16 + (width))) * 0x0000000100000001u,                                                        \
     32 - 2 * (width),                                                                                                 \
     4 * (width),                                                                                                      \
     code,                                                                                                             \
     (less) != 0,                                                                                                      \
     0}
#define MASKED(width) PACKING(width, (width) - 1, ~(uint64_t)0)
#define ALL_LANES(width) PACKING(width, (width) + 6, 0)
#define WIDE(code, less) {less, 0, 0, 0, 0, code, (less) != 0, 1}

static const packing packings[16] = {{~(uint64_t)0, 1, 8, 32, 0, SN_GROUP_UNIT, 0, 0}, /* a sign behind three bits */
                                     MASKED(1),
                                     MASKED(2),
                                     MASKED(3),
                                     MASKED(4),
                                     MASKED(5),
                                     MASKED(6),
                                     MASKED(7),
                                     WIDE(SN_GROUP_MASKED_WIDE, ~(uint64_t)0),
                                     WIDE(SN_GROUP_WHOLE_WIDE, 0),
                                     ALL_LANES(2),
                                     ALL_LANES(3),
                                     ALL_LANES(4),
                                     ALL_LANES(5),
                                     ALL_LANES(6),
                                     ALL_LANES(7)};

/* -- Putting -- */

typedef struct {
    uint8_t *at;
    uint64_t bits;
    uint32_t n;
} bit_writer;

/* Up to 56 bits. */
AVX2 static INLINE bit_writer with_bits(bit_writer to, uint64_t bits, uint32_t n)
{
    to.bits |= bits << to.n;
    to.n += n;
    memcpy(to.at, &to.bits, sizeof to.bits);
    to.at += to.n >> 3;
    to.bits >>= to.n & ~7u;
    to.n &= 7;
    return to;
}

AVX2 static INLINE __m128i twice(const uint64_t *value)
{
    return _mm_castpd_si128(_mm_loaddup_pd((const double *)value));
}

/* The lanes as fields. */
AVX2 static INLINE uint64_t fields_of(__m128i lanes, const packing *by)
{
    __m128i pairs = _mm_madd_epi16(_mm_and_si128(lanes, twice(&by->field)), twice(&by->two));
    __m128i fours = _mm_or_si128(_mm_and_si128(pairs, _mm_set1_epi64x(0xFFFFFFFF)),
                                 _mm_srl_epi64(pairs, _mm_loadl_epi64((const __m128i *)&by->shift)));

    return (uint64_t)_mm_cvtsi128_si64(_mm_or_si128(
        fours, _mm_sll_epi64(_mm_unpackhi_epi64(fours, fours), _mm_loadl_epi64((const __m128i *)&by->up))));
}

/* More than 7 bits each, of `n` lanes: two come together where a product of 16 bits has room for them. */
AVX2 static __attribute__((noinline)) bit_writer with_wide(bit_writer to, __m128i lanes, uint32_t width, uint32_t n)
{
    uint32_t most = width < 15 ? width : 14, n_first = n < 4 ? n : 4;
    __m128i two = _mm_set1_epi32((int)(1 | 1u << (16 + most)));
    __m128i pairs = _mm_madd_epi16(_mm_and_si128(lanes, _mm_set1_epi16((short)((1u << most) - 1))), two);
    __m128i fours = _mm_or_si128(_mm_and_si128(pairs, _mm_set1_epi64x(0xFFFFFFFF)),
                                 _mm_sll_epi64(_mm_srli_epi64(pairs, 32), _mm_cvtsi32_si128((int)(2 * most))));
    int16_t values[8];

    to = with_bits(to, width - 1, 4);
    if (width == most) {
        to = with_bits(to, (uint64_t)_mm_cvtsi128_si64(fours), n_first * width);
        return with_bits(to, (uint64_t)_mm_extract_epi64(fours, 1), (n - n_first) * width);
    }
    _mm_storeu_si128((__m128i *)values, lanes); /* what only a quantiser of 0 allows */
    for (uint32_t k = 0; k < n; k++)
        to = with_bits(to, (uint64_t)values[k] & ((1u << width) - 1), width);
    return to;
}

#define SHUFFLE(a, b, order)                                                                                           \
    _mm256_castps_si256(_mm256_shuffle_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b), order))

/* Of each of the eight groups of a block the mask, a byte each, and the size of its largest coefficient. The product of
 * a coefficient may be `beyond`. */
AVX2 static INLINE uint64_t masks_of(const int16_t *block, const sn_dequantiser *by, __m128i *beyond, __m256i *largest)
{
    const __m128i zero = _mm_setzero_si128();
    __m128i halves[4];
    __m256i low, high, pairs;
    uint64_t masks = 0;

    for (int two = 0; two < 4; two++) {
        __m128i rows[2], sizes[2];
        uint64_t zeros;

        for (int row = 0; row < 2; row++) {
            int at = 16 * two + 8 * row;
            __m128i most = _mm_loadu_si128((const __m128i *)(by->most + at));

            rows[row] = _mm_loadu_si128((const __m128i *)(block + at));
            sizes[row] = _mm_abs_epi16(rows[row]);
            *beyond = _mm_or_si128(*beyond, _mm_subs_epu16(sizes[row], most));
            if (at == 0)
                sizes[row] = _mm_blend_epi16(sizes[row], zero, 1);
        }
        halves[two] = _mm_max_epi16(sizes[0], sizes[1]);
        zeros =
            (uint32_t)_mm_movemask_epi8(_mm_packs_epi16(_mm_cmpeq_epi16(_mm_unpacklo_epi64(rows[0], rows[1]), zero),
                                                        _mm_cmpeq_epi16(_mm_unpackhi_epi64(rows[0], rows[1]), zero)));
        masks |= (zeros ^ 0xFFFF) << 16 * two;
    }
    low = _mm256_inserti128_si256(_mm256_castsi128_si256(halves[0]), halves[1], 1);
    high = _mm256_inserti128_si256(_mm256_castsi128_si256(halves[2]), halves[3], 1);
    pairs = _mm256_max_epi16(SHUFFLE(low, high, 0x88), SHUFFLE(low, high, 0xDD));
    pairs = _mm256_max_epi16(pairs, _mm256_srli_epi32(pairs, 16));
    *largest = _mm256_permute4x64_epi64(_mm256_and_si256(pairs, _mm256_set1_epi32(0xFFFF)), 0xD8);
    return masks & ~(uint64_t)1;
}

/* How many bits hold each value, and 126 more; of 0: 0. It is the exponent of a float. */
AVX2 static INLINE __m256i exponent_of(__m256i values)
{
    return _mm256_srli_epi32(_mm256_castps_si256(_mm256_cvtepi32_ps(values)), 23);
}

/* How many bits of each byte are set. */
AVX2 static INLINE __m128i ones_of(__m128i bytes)
{
    const __m128i ones = _mm_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4), four = _mm_set1_epi8(15);

    return _mm_add_epi8(_mm_shuffle_epi8(ones, _mm_and_si128(bytes, four)),
                        _mm_shuffle_epi8(ones, _mm_and_si128(_mm_srli_epi16(bytes, 4), four)));
}

/* The way in which a group is put, in 32 bits:
 *    0 to  9   where it begins, in fours of coefficients
 *   10 to 18   its lanes, of `gather`
 *   19 to 22   which of `packings`: 0 of a unit; of others the width, and 8 more if it has all lanes; if that is more than
 *              7 bits, 8, and 9 if it has all lanes
 *   23 to 28   bits of all its fields; of a wide group the width
 *   29 to 31   the place of a unit */
enum { LANES_AT = 10, PACKING_AT = 19, BITS_AT = 23, PLACE_AT = 29 };

/* Of the eight groups of a block, without where they begin; of those that are not there, any. */
AVX2 static INLINE __m256i ways_of(uint64_t of_masks, __m256i largest)
{
    const __m256i one = _mm256_set1_epi32(1), eight = _mm256_set1_epi32(8), bias = _mm256_set1_epi32(125);
    const __m256i lanes = _mm256_setr_epi32(WHOLE_FIRST, WHOLE, WHOLE, WHOLE, WHOLE, WHOLE, WHOLE, WHOLE);
    __m128i bytes = _mm_cvtsi64_si128((long long)of_masks);
    __m256i masks = _mm256_cvtepu8_epi32(bytes), n = _mm256_cvtepu8_epi32(ones_of(bytes));
    __m256i one_less = _mm256_sub_epi32(largest, one), whole, masked, width, bits, which, way;
    __m256i is_whole, is_unit, is_wide;

    whole = _mm256_sub_epi32(exponent_of(largest), bias);
    masked = _mm256_sub_epi32(_mm256_max_epi32(exponent_of(one_less), _mm256_set1_epi32(126)), bias);
    is_whole = _mm256_cmpgt_epi32(_mm256_add_epi32(eight, _mm256_mullo_epi16(n, masked)), _mm256_slli_epi32(whole, 3));
    is_unit = _mm256_cmpeq_epi32(_mm256_add_epi32(n, largest), _mm256_set1_epi32(2));
    width = _mm256_blendv_epi8(masked, whole, is_whole);
    is_wide = _mm256_cmpgt_epi32(width, _mm256_set1_epi32(7));
    which = _mm256_blendv_epi8(_mm256_add_epi32(width, _mm256_and_si256(is_whole, eight)),
                               _mm256_sub_epi32(eight, is_whole), is_wide);
    bits = _mm256_add_epi32(_mm256_mullo_epi16(_mm256_blendv_epi8(n, eight, is_whole), width),
                            _mm256_and_si256(is_unit, _mm256_set1_epi32(3)));
    way = _mm256_slli_epi32(_mm256_blendv_epi8(masks, lanes, is_whole), LANES_AT);
    way = _mm256_or_si256(way, _mm256_slli_epi32(_mm256_andnot_si256(is_unit, which), PACKING_AT));
    way = _mm256_or_si256(way, _mm256_slli_epi32(_mm256_blendv_epi8(bits, width, is_wide), BITS_AT));
    return _mm256_or_si256(
        way, _mm256_and_si256(is_unit, _mm256_slli_epi32(_mm256_add_epi32(exponent_of(masks), one), PLACE_AT)));
}

AVX2 static bool put(const int16_t (*blocks)[SN_BLOCK], size_t n, const sn_dequantiser *by, sn_put_groups *to)
{
    const __m256i places = _mm256_setr_epi32(0, 1, 4, 5, 8, 9, 12, 13);
    uint32_t ways[SN_BLOCKS_AT_ONCE * SN_GROUPS + 8];      /* of the groups that are there, of all blocks */
    const int16_t *coefficients = (const int16_t *)blocks; /* of all blocks */
    bit_writer fields = {to->fields, 0, 0};
    __m128i beyond = _mm_setzero_si128();
    uint8_t *next_mask = to->masks;
    size_t n_groups = 0;

    for (size_t k = 0; k < n; k++) {
        __m256i largest;
        uint64_t masks = masks_of(blocks[k], by, &beyond, &largest);
        __m128i is_zero = _mm_cmpeq_epi8(_mm_cvtsi64_si128((long long)masks), _mm_setzero_si128());
        uint32_t present = ~(uint32_t)_mm_movemask_epi8(is_zero) & 255;
        __m256i of_block, order;

        to->presence[k] = (uint8_t)present;
        of_block = _mm256_or_si256(_mm256_add_epi32(places, _mm256_set1_epi32((int)(16 * k))), ways_of(masks, largest));
        order = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)first_ones[present]));
        _mm256_storeu_si256((__m256i *)(ways + n_groups), _mm256_permutevar8x32_epi32(of_block, order));
        n_groups += (size_t)__builtin_popcount(present);
    }
    if (!_mm_testz_si128(beyond, beyond))
        return false;
    for (size_t k = 0; k < n_groups; k++) { /* no branch depends on the picture but for wide groups, which are rare */
        uint32_t way = ways[k], which = way >> LANES_AT & 511, bits = way >> BITS_AT & 63;
        const packing *as = &packings[way >> PACKING_AT & 15];
        const int16_t *from = coefficients + 4 * (way & 1023);
        __m128i lanes = _mm_castpd_si128(_mm_loadh_pd(_mm_load_sd((const double *)from), (const double *)(from + 8)));

        lanes = _mm_shuffle_epi8(lanes, _mm_load_si128((const __m128i *)gather[which]));
        lanes = _mm_add_epi16(lanes, _mm_and_si128(_mm_cmpgt_epi16(lanes, _mm_setzero_si128()), twice(&as->less)));
        to->codes[k] = as->code;
        *next_mask = (uint8_t)which;
        next_mask += as->is_masked;
        if (__builtin_expect(as->is_wide, false))
            fields = with_wide(fields, lanes, bits, which >= WHOLE ? 8 : (uint32_t)__builtin_popcount(which));
        else
            fields = with_bits(fields, fields_of(lanes, as) | way >> PLACE_AT, bits);
    }
    to->n_codes = (uint32_t)n_groups;
    to->n_masks = (uint32_t)(next_mask - to->masks);
    to->n_fields = (uint32_t)(fields.at - to->fields) + (fields.n > 0);
    return true;
}

/* -- Taking -- */

#define vector __m128i

AVX2 static INLINE vector load(const int16_t *values)
{
    return _mm_loadu_si128((const __m128i *)values);
}

AVX2 static INLINE void store(int16_t *to, vector lanes)
{
    _mm_storel_epi64((__m128i *)to, lanes);
    _mm_storeh_pd((double *)(to + 8), _mm_castsi128_pd(lanes));
}

AVX2 static INLINE uint32_t bits_set(uint32_t mask)
{
    return (uint32_t)__builtin_popcount(mask);
}

AVX2 static INLINE vector values_of(uint64_t bits, uint32_t code)
{
    const rule *as = &rules[code];
    vector lanes = _mm_shuffle_epi8(_mm_cvtsi64_si128((long long)bits), *(const __m128i *)bytes_of[code]);

    lanes = _mm_mullo_epi16(lanes, *(const __m128i *)up[code]);
    lanes = _mm_sra_epi16(lanes, _mm_loadl_epi64((const __m128i *)&as->down));
    return _mm_sub_epi16(lanes, _mm_cmpgt_epi16(lanes, _mm_set1_epi16(as->least)));
}

AVX2 static INLINE vector spread_over(vector lanes, uint32_t mask)
{
    return _mm_shuffle_epi8(lanes, *(const __m128i *)spread[mask]);
}

#define SN_LOOP AVX2
#include "group_loops.h"

const sn_group_kernels sn_group_simd = {put, take};

#endif
