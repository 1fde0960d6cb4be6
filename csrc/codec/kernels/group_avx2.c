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
static const uint8_t gather[256][16] __attribute__((aligned(16))) = {ALL(GATHER)};

/* Of a width: a mask of fields, what brings two of them together, and then those. */
typedef struct {
    uint64_t field, two, shift;
} packing;
#define FIELDS(width) (uint64_t)((1u << (width)) - 1)
#define PACKING(width)                                                                                                 \
    {FIELDS(width) * 0x0001000100010001u, (1 | (uint64_t)1 << (16 + (width))) * 0x0000000100000001u, 32 - 2 * (width)}
static const packing packings[8] = {FOUR(PACKING, 0), FOUR(PACKING, 4)};

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

/* The lanes as fields of `width` bits, at most 7. */
AVX2 static INLINE uint64_t fields_of(__m128i lanes, uint32_t width)
{
    const packing *by = &packings[width];
    __m128i fields = _mm_and_si128(lanes, _mm_castpd_si128(_mm_loaddup_pd((const double *)&by->field)));
    __m128i pairs = _mm_madd_epi16(fields, _mm_castpd_si128(_mm_loaddup_pd((const double *)&by->two)));
    __m128i fours = _mm_or_si128(_mm_and_si128(pairs, _mm_set1_epi64x(0xFFFFFFFF)),
                                 _mm_srl_epi64(pairs, _mm_loadl_epi64((const __m128i *)&by->shift)));

    return (uint64_t)_mm_cvtsi128_si64(fours) | (uint64_t)_mm_extract_epi64(fours, 1) << 4 * width;
}

AVX2 static bit_writer with_wide(bit_writer to, __m128i lanes, uint32_t width, uint32_t n)
{
    int16_t values[8];

    _mm_storeu_si128((__m128i *)values, lanes);
    to = with_bits(to, width - 1, 4);
    for (uint32_t k = 0; k < n; k++)
        to = with_bits(to, (uint64_t)values[k] & ((1u << width) - 1), width);
    return to;
}

AVX2 static INLINE uint32_t largest_of(__m128i sizes)
{
    __m128i least = _mm_minpos_epu16(_mm_xor_si128(sizes, _mm_set1_epi16(-1)));

    return 0xFFFF - ((uint32_t)_mm_cvtsi128_si32(least) & 0xFFFF);
}

/* Of each group of a block the mask, a byte each. The product of a coefficient may be `beyond`. */
AVX2 static INLINE uint64_t masks_of(const int16_t *block, const sn_dequantiser *by, __m128i *beyond)
{
    const __m128i zero = _mm_setzero_si128();
    uint64_t masks = 0;

    for (int two = 0; two < 4; two++) {
        __m128i rows[2];
        uint64_t zeros;

        for (int row = 0; row < 2; row++) {
            int at = 16 * two + 8 * row;
            __m128i most = _mm_loadu_si128((const __m128i *)(by->most + at));

            rows[row] = _mm_loadu_si128((const __m128i *)(block + at));
            *beyond = _mm_or_si128(*beyond, _mm_subs_epu16(_mm_abs_epi16(rows[row]), most));
        }
        zeros =
            (uint32_t)_mm_movemask_epi8(_mm_packs_epi16(_mm_cmpeq_epi16(_mm_unpacklo_epi64(rows[0], rows[1]), zero),
                                                        _mm_cmpeq_epi16(_mm_unpackhi_epi64(rows[0], rows[1]), zero)));
        masks |= (zeros ^ 0xFFFF) << 16 * two;
    }
    return masks & ~(uint64_t)1;
}

AVX2 static bool put(const int16_t (*blocks)[SN_BLOCK], size_t n, const sn_dequantiser *by, sn_put_groups *to)
{
    uint16_t groups[SN_BLOCKS_AT_ONCE * SN_GROUPS + 8]; /* those that are there, of all blocks */
    uint8_t masks[SN_BLOCKS_AT_ONCE * SN_GROUPS];
    bit_writer fields = {to->fields, 0, 0};
    __m128i beyond = _mm_setzero_si128();
    uint8_t *next_mask = to->masks;
    size_t n_groups = 0;

    for (size_t k = 0; k < n; k++) {
        uint64_t of_block = masks_of(blocks[k], by, &beyond);
        __m128i is_zero = _mm_cmpeq_epi8(_mm_cvtsi64_si128((long long)of_block), _mm_setzero_si128());
        uint32_t present = ~(uint32_t)_mm_movemask_epi8(is_zero) & 255;
        __m128i lanes = _mm_load_si128((const __m128i *)gather[present]); /* twice the group, in the lower byte */

        lanes = _mm_srli_epi16(_mm_and_si128(lanes, _mm_set1_epi16(255)), 1);
        _mm_storeu_si128((__m128i *)(groups + n_groups), _mm_add_epi16(lanes, _mm_set1_epi16((short)(8 * k))));
        n_groups += (size_t)__builtin_popcount(present);
        memcpy(masks + 8 * k, &of_block, sizeof of_block);
        to->presence[k] = (uint8_t)present;
    }
    if (!_mm_testz_si128(beyond, beyond))
        return false;
    for (size_t k = 0; k < n_groups; k++) { /* few branches depend on the picture */
        uint32_t at = groups[k], mask = masks[at], n_fields = (uint32_t)__builtin_popcount(mask);
        const int16_t *from = blocks[at >> 3] + sn_group_place(at & 7);
        __m128i lanes =
            _mm_unpacklo_epi64(_mm_loadl_epi64((const __m128i *)from), _mm_loadl_epi64((const __m128i *)(from + 8)));
        uint32_t most, masked, whole, is_whole, width;
        __m128i less;

        lanes = _mm_andnot_si128(_mm_cvtsi32_si128((at & 7) == 0 ? 0xFFFF : 0), lanes);
        most = largest_of(_mm_abs_epi16(lanes));
        if (n_fields + most == 2) {
            uint32_t is_negative = _mm_movemask_epi8(lanes) != 0;

            to->codes[k] = SN_GROUP_UNIT;
            fields = with_bits(fields, _tzcnt_u32(mask) | is_negative << 3, 4);
            continue;
        }
        masked = 33 - _lzcnt_u32(most - 1);
        whole = 33 - _lzcnt_u32(most);
        is_whole = 8 * whole < 8 + n_fields * masked;
        less = _mm_and_si128(_mm_cmpgt_epi16(lanes, _mm_setzero_si128()), _mm_set1_epi16((short)(is_whole - 1)));
        width = is_whole ? whole : masked;
        lanes = _mm_add_epi16(lanes, less);
        lanes = _mm_shuffle_epi8(lanes, _mm_load_si128((const __m128i *)gather[mask | ((0 - is_whole) & 255)]));
        *next_mask = (uint8_t)mask;
        next_mask += !is_whole;
        n_fields = is_whole ? 8 : n_fields;
        if (__builtin_expect(width > 7, false)) {
            to->codes[k] = is_whole ? SN_GROUP_WHOLE_WIDE : SN_GROUP_MASKED_WIDE;
            fields = with_wide(fields, lanes, width, n_fields);
        } else {
            uint64_t bits = fields_of(lanes, width);

            to->codes[k] = (uint8_t)(width + (is_whole ? 6 : -1));
            fields = with_bits(fields, bits, n_fields * width);
        }
    }
    to->n_codes = (uint32_t)n_groups;
    to->n_masks = (uint32_t)(next_mask - to->masks);
    to->n_fields = (uint32_t)(fields.at - to->fields) + (fields.n > 0);
    return true;
}

/* -- Taking -- */

AVX2 static bool take(sn_groups *from, size_t n, int16_t (*blocks)[SN_BLOCK])
{
    const uint8_t *codes = from->codes, *masks = from->masks, *fields = from->fields;
    uint32_t bit = from->bit;

    for (size_t k = 0; k < n; k += 8, blocks += 8) {
        uint64_t present = 0;

        memcpy(&present, from->presence, n - k < 8 ? n - k : 8);
        from->presence += 8;
        if (bit > from->end)
            return false;
        for (; present != 0; present &= present - 1) {
            uint32_t at = (uint32_t)_tzcnt_u64(present), code = *codes++, mask = *masks;
            const rule *as = &rules[code];
            int16_t *to = blocks[at >> 3] + sn_group_place(at & 7);
            uint64_t bits;
            __m128i lanes;

            masks += code < SN_GROUP_WHOLE;
            mask = (mask & as->kept) | as->set;
            if (__builtin_expect(as->width + as->bits == 0, false)) {
                int16_t values[8];

                if (bit > from->end)
                    return false;
                from->bit = bit;
                sn_take_wide(from, mask, code == SN_GROUP_MASKED_WIDE, values);
                bit = from->bit;
                lanes = _mm_loadu_si128((const __m128i *)values);
            } else {
                memcpy(&bits, fields + (bit >> 3), sizeof bits);
                bits >>= bit & 7;
                bit += (uint32_t)__builtin_popcount(mask) * as->width + as->bits;
                mask |= (uint32_t)as->chosen << (bits & 7);
                lanes = _mm_shuffle_epi8(_mm_cvtsi64_si128((long long)bits), *(const __m128i *)bytes_of[code]);
                lanes = _mm_mullo_epi16(lanes, *(const __m128i *)up[code]);
                lanes = _mm_sra_epi16(lanes, _mm_loadl_epi64((const __m128i *)&as->down));
                lanes = _mm_sub_epi16(lanes, _mm_cmpgt_epi16(lanes, _mm_set1_epi16(as->least)));
                lanes = _mm_shuffle_epi8(lanes, *(const __m128i *)spread[mask]);
            }
            _mm_storel_epi64((__m128i *)to, lanes);
            _mm_storeh_pd((double *)(to + 8), _mm_castsi128_pd(lanes));
        }
    }
    from->codes = codes;
    from->masks = masks;
    from->bit = bit;
    return bit <= from->end;
}

const sn_group_kernels sn_group_simd = {put, take};

#endif
