#include "huffman.h"

#include <stdlib.h>
#include <string.h>

#include "huffman_tables.h"

#define FILLED 56 /* bits that a refill leaves at least */

/* A file without a marker in its last bytes is cut off. Where that is noticed depends on how far ahead of
 * its need a decoder reads: close to the end libjpeg-turbo decides. */
#define TAIL 64

/* The bits that come next are the highest of `bits`. */
typedef struct {
    const uint8_t *next, *end;
    uint64_t bits;
    int count;  /* of bits, with those that are made up */
    int beyond; /* zeros that were made up where the data ended */
    bool is_over;
} reader;

struct sn_huffman {
    reader reader;
    const uint8_t *tail;      /* the bytes behind it are left to libjpeg-turbo */
    uint32_t column, columns; /* of MCUs */
    uint32_t first, last;     /* wanted columns */
    uint32_t restart_interval, to_restart, restarts;
    int n_blocks;
    uint8_t component[D_MAX_BLOCKS_IN_MCU]; /* of each block */
    const sn_dc_table *dc[D_MAX_BLOCKS_IN_MCU];
    const sn_ac_table *ac[D_MAX_BLOCKS_IN_MCU];
    uint32_t last_dc[MAX_COMPS_IN_SCAN];
    sn_dc_table dc_tables[NUM_HUFF_TBLS];
    sn_ac_table ac_tables[NUM_HUFF_TBLS];
};

/* Zigzag to natural order. */
static const uint8_t natural[BLOCK] = {0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,
                                       12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6,  7,  14, 21, 28,
                                       35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51,
                                       58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63};

#define INLINE inline __attribute__((always_inline))

sn_huffman *sn_huffman_new(void)
{
    return calloc(1, sizeof(sn_huffman));
}

void sn_huffman_free(sn_huffman *huffman)
{
    free(huffman);
}

/* -- Bits -- */

static inline uint64_t load(const uint8_t *from)
{
    uint64_t bytes;

    memcpy(&bytes, from, sizeof bytes);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    bytes = __builtin_bswap64(bytes);
#endif
    return bytes;
}

static inline bool has_ff(uint64_t bytes)
{
    return ((~bytes - 0x0101010101010101) & bytes & 0x8080808080808080) != 0;
}

/* Byte by byte, without the 0 that follows an FF of the data. */
static __attribute__((noinline)) void refill_slowly(reader *r)
{
    while (r->count < FILLED) {
        if (!r->is_over && r->end - r->next >= 2) {
            uint64_t byte = *r->next;

            if (byte != 0xFF || r->next[1] == 0) {
                r->next += byte == 0xFF ? 2 : 1;
                r->bits |= byte << (56 - r->count);
                r->count += 8;
                continue;
            }
        }
        r->is_over = true; /* a marker, or the end */
        r->count += 8;
        r->beyond += 8;
    }
}

/* To FILLED bits or more. */
static INLINE void refill(reader *r)
{
    reader other;

    if (r->end - r->next >= 8) {
        uint64_t bytes = load(r->next);

        if (!has_ff(bytes)) {
            /* Bits of a byte that is not taken are there already, and come again. */
            r->bits |= bytes >> r->count;
            r->next += (63 - r->count) >> 3;
            r->count |= 56;
            return;
        }
    }
    other = *r; /* one whose address is taken: the fields of the other stay in registers */
    refill_slowly(&other);
    *r = other;
}

static INLINE void drop(reader *r, uint64_t n)
{
    r->bits <<= n;
    r->count -= (int)n;
}

/* The next code, whatever its length; -1: none. */
static INLINE int take_symbol(reader *r, const sn_huffman_codes *from)
{
    uint32_t found = from->one[r->bits >> (64 - LOOKUP_BITS)], begin = (uint32_t)(r->bits >> 48);

    if (found != 0) {
        drop(r, found >> 8);
        return found & 0xFF;
    }
    for (uint32_t length = LOOKUP_BITS + 1; length <= LONGEST_CODE; length++)
        if (begin < from->limit[length]) {
            drop(r, length);
            return from->symbols[((begin >> (LONGEST_CODE - length)) + (uint32_t)from->offset[length]) & 0xFF];
        }
    return -1;
}

static INLINE int32_t take_value(reader *r, uint32_t size)
{
    uint32_t bits = (uint32_t)(r->bits >> (64 - size));

    drop(r, size);
    return sn_huffman_extend(bits, size);
}

/* -- Blocks -- */

static INLINE bool take_dc(reader *r, const sn_dc_table *table, uint32_t *last)
{
    uint32_t found = table->whole[r->bits >> (64 - LOOKUP_BITS)];
    int symbol;

    if (found != 0) {
        drop(r, found >> 24);
        *last += (uint32_t)(int16_t)found;
        return true;
    }
    symbol = take_symbol(r, &table->codes);
    if (symbol < 0 || symbol > 15)
        return false;
    if (symbol > 0)
        *last += (uint32_t)take_value(r, (uint32_t)symbol);
    refill(r);
    return true;
}

enum { FAILED, GOES_ON, ENDED, ALONE };

/* One code by itself, with the value behind it: so many bits have to be there. *at: the last coefficient, in zigzag
 * order. */
#define ALONE_BITS (LONGEST_CODE + 15)
static INLINE int take_one(reader *r, const sn_huffman_codes *from, uint32_t *at, int16_t *block)
{
    int symbol = take_symbol(r, from);
    uint32_t size;

    if (symbol < 0)
        return FAILED;
    size = symbol & 15;
    if (size == 0 && symbol != 0xF0)
        return ENDED;
    *at += ((uint32_t)symbol >> 4) + 1;
    if (*at >= BLOCK)
        return FAILED;
    if (size > 0) {
        int32_t value = take_value(r, size);

        if (block != NULL)
            block[natural[*at]] = (int16_t)value;
    }
    return *at == BLOCK - 1 ? ENDED : GOES_ON;
}

/* Look-ups for which a refill has the bits: behind it, behind a DC coefficient, behind one code by itself. */
#define AFTER_REFILL (FILLED / MOST_BITS)
#define AFTER_DC ((FILLED - LOOKUP_BITS) / MOST_BITS)
#define AFTER_ALONE ((FILLED - ALONE_BITS) / MOST_BITS)

/* Up to `most` look-ups. ALONE: the next code has to be taken by itself. */

/* A value of as many bits as the mask has; of none, 0. */
static INLINE int32_t extend_masked(uint32_t bits, uint32_t mask)
{
    return (int32_t)bits - (int32_t)(bits <= mask >> 1 ? mask : 0);
}

static INLINE int look_up(reader *r, const sn_ac_table *table, uint32_t *at, int16_t *block, int most)
{
#pragma GCC unroll 3
    for (int k = 0; k < most; k++) {
        uint64_t found = table->two[r->bits >> (64 - LOOKUP_BITS)];
        uint32_t first = *at + (uint32_t)(found >> 8 & 0xFF), second = *at + (uint32_t)(found >> 16 & 0xFF);
        uint32_t mask = (uint32_t)(found >> 48), last = (uint32_t)(r->bits >> (-found & 63)) & mask;

        if (__builtin_expect(second >= BLOCK - 1, false))
            return ALONE;
        drop(r, found & 0xFF);
        block[natural[first]] = (int16_t)(block[natural[first]] + (int8_t)(found >> 32));
        block[natural[second]] = (int16_t)(block[natural[second]] + (int8_t)(found >> 40) + extend_masked(last, mask));
        if (found & ENDS)
            return ENDED;
        *at = second;
    }
    return GOES_ON;
}

static INLINE int skip_up(reader *r, const sn_ac_table *table, uint32_t *at, int most)
{
#pragma GCC unroll 3
    for (int k = 0; k < most; k++) {
        uint32_t found = table->skip[r->bits >> (64 - LOOKUP_BITS)], then = *at + (found >> 5 & 0x7F);

        if (__builtin_expect(then >= BLOCK - 1, false))
            return ALONE;
        drop(r, found & 31);
        if (found & SKIP_ENDS)
            return ENDED;
        *at = then;
    }
    return GOES_ON;
}

/* The coefficients behind the first, which has left FILLED - LOOKUP_BITS bits or more. */
static INLINE bool take_ac(reader *r, const sn_ac_table *table, int16_t *block)
{
    uint32_t at = 0;
    int state = look_up(r, table, &at, block, AFTER_DC);

    while (state != ENDED) {
        refill(r);
        if (state == ALONE) {
            state = take_one(r, &table->codes, &at, block);
            if (state != GOES_ON)
                return state == ENDED;
            state = look_up(r, table, &at, block, AFTER_ALONE);
        } else {
            state = look_up(r, table, &at, block, AFTER_REFILL);
        }
    }
    return true;
}

static INLINE bool skip_ac(reader *r, const sn_ac_table *table)
{
    uint32_t at = 0;
    int state = skip_up(r, table, &at, AFTER_DC);

    while (state != ENDED) {
        refill(r);
        if (state == ALONE) {
            state = take_one(r, &table->codes, &at, NULL);
            if (state != GOES_ON)
                return state == ENDED;
            state = skip_up(r, table, &at, AFTER_ALONE);
        } else {
            state = skip_up(r, table, &at, AFTER_REFILL);
        }
    }
    return true;
}

/* -- MCUs -- */

/* Past the marker that has to come now. What is left before it fills a byte, or is passed over by libjpeg-turbo too. */
static bool restart(sn_huffman *huffman)
{
    reader *r = &huffman->reader;

    refill(r);
    if (!r->is_over || r->end - r->next < 2 || r->next[1] != 0xD0 + huffman->restarts % 8)
        return false;
    huffman->restarts++;
    huffman->to_restart = huffman->restart_interval;
    *r = (reader){r->next + 2, r->end, 0, 0, 0, false};
    memset(huffman->last_dc, 0, sizeof huffman->last_dc);
    return true;
}

bool sn_huffman_decode(sn_huffman *huffman, int16_t (**blocks)[64])
{
    bool is_wanted = blocks != NULL && huffman->column >= huffman->first && huffman->column <= huffman->last;
    reader r;

    if (huffman->restart_interval != 0) {
        if (huffman->to_restart == 0 && !restart(huffman))
            return false;
        huffman->to_restart--;
    }
    huffman->column = huffman->column + 1 == huffman->columns ? 0 : huffman->column + 1;
    r = huffman->reader;
    for (int k = 0; k < huffman->n_blocks; k++) {
        uint32_t *last_dc = &huffman->last_dc[huffman->component[k]];

        refill(&r);
        if (!take_dc(&r, huffman->dc[k], last_dc))
            return false;
        if (is_wanted) {
            int16_t *block = *blocks[k];

            block[0] = (int16_t)*last_dc;
            if (!take_ac(&r, huffman->ac[k], block))
                return false;
        } else if (!skip_ac(&r, huffman->ac[k])) {
            return false;
        }
    }
    huffman->reader = r;
    return r.count >= r.beyond && r.next <= huffman->tail;
}

/* -- Scans -- */

/* A marker that ends a scan: neither a 0 that belongs to an FF, nor more of the FFs before a marker, nor a restart. */
static bool is_end(uint8_t after_ff)
{
    return after_ff != 0 && after_ff != 0xFF && (after_ff & 0xF8) != 0xD0;
}

const uint8_t *sn_huffman_find_end(const uint8_t *begin, const uint8_t *end)
{
    for (const uint8_t *at = begin; end - at >= 2; at++) {
        at = memchr(at, 0xFF, (size_t)(end - at - 1));
        if (at == NULL || is_end(at[1]))
            return at;
    }
    return NULL;
}

/* Up to where bytes may be read here: all, if such a marker is near the end. FFs in front of another, or of the end, are
 * no data: a run of them at the end is as near to it as one. */
static const uint8_t *find_tail(const uint8_t *begin, const uint8_t *end)
{
    const uint8_t *tail = end;

    for (int left = TAIL; tail > begin && left > 0; left -= tail[0] != 0xFF || (tail + 1 < end && tail[1] != 0xFF))
        tail--;
    return sn_huffman_find_end(tail, end) != NULL ? end : tail;
}

bool sn_huffman_begin(sn_huffman *huffman, struct jpeg_decompress_struct *info)
{
    const uint8_t *begin = info->src->next_input_byte, *end = begin + info->src->bytes_in_buffer;

    if (info->progressive_mode || info->arith_code || jpeg_has_multiple_scans(info) || info->data_precision != 8 ||
        info->comps_in_scan != info->num_components || info->Ss != 0 || info->Se != BLOCK - 1 || info->Ah != 0 ||
        info->Al != 0 || info->unread_marker != 0)
        return false;
    huffman->n_blocks = info->blocks_in_MCU;
    for (int k = 0; k < info->blocks_in_MCU; k++) {
        const jpeg_component_info *component = info->cur_comp_info[info->MCU_membership[k]];

        if (!component->component_needed)
            return false;
        huffman->component[k] = (uint8_t)info->MCU_membership[k];
        huffman->dc[k] = &huffman->dc_tables[component->dc_tbl_no];
        huffman->ac[k] = &huffman->ac_tables[component->ac_tbl_no];
    }
    for (int k = 0; k < info->comps_in_scan; k++) {
        int dc = info->cur_comp_info[k]->dc_tbl_no, ac = info->cur_comp_info[k]->ac_tbl_no;

        sn_huffman_make_dc(&huffman->dc_tables[dc], info->dc_huff_tbl_ptrs[dc]);
        sn_huffman_make_ac(&huffman->ac_tables[ac], info->ac_huff_tbl_ptrs[ac]);
    }
    memset(huffman->last_dc, 0, sizeof huffman->last_dc);
    huffman->reader = (reader){begin, end, 0, 0, 0, false};
    huffman->tail = find_tail(begin, end);
    huffman->restart_interval = huffman->to_restart = info->restart_interval;
    huffman->restarts = 0;
    huffman->column = 0;
    huffman->columns = info->MCUs_per_row;
    sn_huffman_want(huffman, 0, info->MCUs_per_row - 1);
    return true;
}

void sn_huffman_want(sn_huffman *huffman, uint32_t first, uint32_t last)
{
    huffman->first = first;
    huffman->last = last;
}

void sn_huffman_end(const sn_huffman *huffman, struct jpeg_decompress_struct *info)
{
    info->src->next_input_byte = huffman->reader.next;
    info->src->bytes_in_buffer = (size_t)(huffman->reader.end - huffman->reader.next);
}
