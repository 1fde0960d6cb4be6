#include "recoded.h"

#include <string.h>

#define MAGIC 0x31434E53u /* SNC1: the layout's version is its last letter */
#define MOST_QUANTISER 255
#define SEGMENT_HEAD 5

typedef struct {
    uint32_t magic;
    uint16_t height, width;
    uint8_t n_components, across, down, zero;
    uint8_t quantisers[SN_COMPONENTS][SN_BLOCK];
} head;

/* Bits that are set in a byte. */
#define TWO(n) n, n + 1, n + 1, n + 2
#define FOUR(n) TWO(n), TWO(n + 1), TWO(n + 1), TWO(n + 2)
#define SIX(n) FOUR(n), FOUR(n + 1), FOUR(n + 1), FOUR(n + 2)
static const uint8_t ones[256] = {SIX(0), SIX(1), SIX(1), SIX(2)};

/* The presence of nine blocks out of ten, found over photographs of qualities from 75 to 95. The others are RARE, and
 * in a byte of their own. */
#define RARE 15
static const uint8_t frequent[RARE + 1] = {0, 1, 5, 7, 15, 21, 23, 29, 31, 63, 85, 87, 95, 127, 255};

/* Bytes of a segment's parts before its masks, and those behind them that are written too. */
#define MOST_PRESENCE (SN_BLOCKS_AT_ONCE / 2 + SN_BLOCKS_AT_ONCE)
#define MOST_FIRSTS (SN_BLOCKS_AT_ONCE * 17 / 8)
#define MOST_CODES (SN_BLOCKS_AT_ONCE * SN_GROUPS / 2)
#define WRITTEN_PAST 8

/* Bits of a group's fields for each of those that its mask has, or of all; and besides. All zeros: they say it. */
static const uint8_t widths[16] = {1, 2, 3, 4, 5, 6, 7, 0, 2, 3, 4, 5, 6, 7, 0, 0};
static const uint8_t besides[16] = {[SN_GROUP_UNIT] = 4};

static const sn_group_kernels *kernels_here(void)
{
#ifdef SN_HAVE_SIMD_CODE
    if (sn_simd_usable())
        return &sn_group_simd;
#endif
    return &sn_group_plain;
}

/* The first of all rows of each component, and behind the last one's. */
static void set_first_rows(const sn_jpeg_frame *frame, uint32_t first_row[SN_COMPONENTS + 1])
{
    first_row[0] = 0;
    for (uint32_t k = 0; k < SN_COMPONENTS; k++)
        first_row[k + 1] = first_row[k] + (k < frame->n_components ? sn_jpeg_blocks_down(frame, k) : 0);
}

/* Bytes of the head and the offsets. */
static size_t before_segments(const uint32_t first_row[SN_COMPONENTS + 1])
{
    return sizeof(head) + ((size_t)first_row[SN_COMPONENTS] + 1) * sizeof(uint32_t);
}

static uint32_t blocks_at(uint32_t across, uint32_t first)
{
    return across - first < SN_BLOCKS_AT_ONCE ? across - first : SN_BLOCKS_AT_ONCE;
}

/* -- Writing -- */

bool sn_recoding_begin(sn_recoding *recoding, const sn_jpeg_frame *frame, void *payload, size_t room)
{
    head written = {MAGIC,
                    (uint16_t)frame->height,
                    (uint16_t)frame->width,
                    (uint8_t)frame->n_components,
                    (uint8_t)frame->across,
                    (uint8_t)frame->down,
                    0,
                    {{0}}};

    recoding->kernels = kernels_here();
    recoding->frame = *frame;
    recoding->payload = payload;
    set_first_rows(frame, recoding->first_row);
    recoding->is_full = room > UINT32_MAX || before_segments(recoding->first_row) > room;
    if (recoding->is_full)
        return false;
    for (uint32_t k = 0; k < frame->n_components; k++) {
        recoding->by[k] = sn_dequantiser_of(frame->quantisers[k]);
        for (int i = 0; i < SN_BLOCK; i++) {
            if (frame->quantisers[k][i] > MOST_QUANTISER)
                return false;
            written.quantisers[k][i] = (uint8_t)frame->quantisers[k][i];
        }
    }
    memset(recoding->place, RARE, sizeof recoding->place);
    for (uint8_t k = 0; k < RARE; k++)
        recoding->place[frequent[k]] = k;
    memcpy(payload, &written, sizeof written);
    recoding->at = recoding->payload + before_segments(recoding->first_row);
    recoding->end = recoding->payload + room;
    return true;
}

/* How many bits hold all differences between the first coefficients of blocks. */
static uint32_t width_of_firsts(const int16_t (*blocks)[SN_BLOCK], uint32_t n)
{
    int32_t all = 0;

    for (uint32_t k = 1; k < n; k++) {
        int32_t difference = blocks[k][0] - blocks[k - 1][0];

        all |= difference ^ difference >> 31;
    }
    return all == 0 ? 1 : 33 - (uint32_t)__builtin_clz((uint32_t)all);
}

static uint8_t *put_firsts(uint8_t *at, const int16_t (*blocks)[SN_BLOCK], uint32_t n, uint32_t width)
{
    uint64_t bits = 0;
    uint32_t n_bits = 0;

    for (uint32_t k = 1; k < n; k++) {
        uint32_t difference = (uint32_t)(blocks[k][0] - blocks[k - 1][0]);

        bits |= (uint64_t)(difference & ((1u << width) - 1)) << n_bits;
        n_bits += width;
        memcpy(at, &bits, sizeof bits);
        at += n_bits / 8;
        bits >>= n_bits & ~7u;
        n_bits %= 8;
    }
    return at + (n_bits > 0);
}

/* Values of four bits, two a byte. `values` has room for SN_PAIRS_PAST more. */
static uint8_t *put_pairs(uint8_t *at, uint8_t *values, uint32_t n)
{
    values[n] = 0;
    for (uint32_t k = 0; k < n; k += 8) {
        uint64_t pairs;

        memcpy(&pairs, values + k, sizeof pairs);
        pairs = (pairs | pairs >> 4) & 0x00FF00FF00FF00FF;
        pairs = (pairs | pairs >> 8) & 0x0000FFFF0000FFFF;
        pairs = pairs | pairs >> 16;
        memcpy(at + k / 2, &pairs, 4);
    }
    return at + (n + 1) / 2;
}

static uint8_t *put_presence(const sn_recoding *recoding, uint8_t *at, uint32_t n)
{
    uint8_t places[SN_BLOCKS_AT_ONCE + SN_PAIRS_PAST], rare[SN_BLOCKS_AT_ONCE];
    uint32_t n_rare = 0;

    for (uint32_t k = 0; k < n; k++) {
        places[k] = recoding->place[recoding->groups.presence[k]];
        rare[n_rare] = recoding->groups.presence[k];
        n_rare += places[k] == RARE;
    }
    at = put_pairs(at, places, n);
    memcpy(at, rare, n_rare);
    return at + n_rare;
}

static bool put_segment(sn_recoding *recoding, const int16_t (*blocks)[SN_BLOCK], uint32_t n, const sn_dequantiser *by)
{
    uint8_t parts[SEGMENT_HEAD + MOST_PRESENCE + MOST_FIRSTS + MOST_CODES + WRITTEN_PAST], *at = parts + SEGMENT_HEAD;
    sn_put_groups *groups = &recoding->groups;
    uint32_t width, bytes;

    recoding->is_full = false;
    if (!recoding->kernels->put(blocks, n, by, groups))
        return false;
    width = width_of_firsts(blocks, n);
    at = put_presence(recoding, at, n);
    at = put_firsts(at, blocks, n, width);
    at = put_pairs(at, groups->codes, groups->n_codes);
    bytes = (uint32_t)(at - parts) + groups->n_masks + groups->n_fields;
    recoding->is_full = bytes > (size_t)(recoding->end - recoding->at);
    if (recoding->is_full)
        return false;
    parts[0] = (uint8_t)bytes;
    parts[1] = (uint8_t)(bytes >> 8);
    parts[2] = (uint8_t)blocks[0][0];
    parts[3] = (uint8_t)(blocks[0][0] >> 8);
    parts[4] = (uint8_t)width;
    memcpy(recoding->at, parts, (size_t)(at - parts));
    memcpy(recoding->at + (at - parts), groups->masks, groups->n_masks);
    memcpy(recoding->at + bytes - groups->n_fields, groups->fields, groups->n_fields);
    recoding->at += bytes;
    return true;
}

bool sn_recoding_put(sn_recoding *recoding, uint32_t component, uint32_t row, const int16_t (*blocks)[SN_BLOCK])
{
    uint32_t *rows = (uint32_t *)(void *)(recoding->payload + sizeof(head));
    uint32_t across = sn_jpeg_blocks_across(&recoding->frame, component);

    rows[recoding->first_row[component] + row] = (uint32_t)(recoding->at - recoding->payload);
    for (uint32_t first = 0; first < across; first += SN_BLOCKS_AT_ONCE)
        if (!put_segment(recoding, blocks + first, blocks_at(across, first), &recoding->by[component]))
            return false;
    return true;
}

size_t sn_recoding_end(sn_recoding *recoding)
{
    uint32_t *rows = (uint32_t *)(void *)(recoding->payload + sizeof(head));
    size_t bytes = (size_t)(recoding->at - recoding->payload);

    rows[recoding->first_row[SN_COMPONENTS]] = (uint32_t)bytes;
    return bytes;
}

/* -- Reading -- */

/* Two blocks of each byte of places. */
static void make_pairs(sn_presence_pair pairs[256])
{
    for (uint32_t k = 0; k < 256; k++) {
        uint8_t one = frequent[k & 15], other = frequent[k >> 4];

        pairs[k] = (sn_presence_pair){
            {one, other}, (uint8_t)(ones[one] + ones[other]), (uint8_t)(((k & 15) == RARE) | (k >> 4 == RARE) << 1)};
    }
}

bool sn_recoded_open(sn_recoded *recoded, const void *payload, size_t bytes)
{
    sn_jpeg_frame *frame = &recoded->frame;
    head found;

    if (bytes < sizeof found)
        return false;
    memcpy(&found, payload, sizeof found);
    frame->height = found.height;
    frame->width = found.width;
    frame->n_components = found.n_components;
    frame->across = found.across;
    frame->down = found.down;
    if (found.magic != MAGIC || !sn_jpeg_frame_is_sound(frame))
        return false;
    for (uint32_t k = 0; k < frame->n_components; k++)
        for (int i = 0; i < SN_BLOCK; i++)
            frame->quantisers[k][i] = found.quantisers[k][i];
    set_first_rows(frame, recoded->first_row);
    make_pairs(recoded->pairs);
    recoded->kernels = kernels_here();
    recoded->payload = payload;
    recoded->bytes = bytes;
    recoded->rows = (const uint32_t *)(const void *)(recoded->payload + sizeof found);
    return before_segments(recoded->first_row) <= bytes;
}

/* The segment at `at`, with SN_FIELDS_PAST bytes behind it that may be read; NULL: it is not all there. */
static const uint8_t *segment_at(sn_recoded *recoded, size_t at, uint32_t *bytes)
{
    const uint8_t *segment = recoded->payload + at;

    if (at > recoded->bytes || recoded->bytes - at < SEGMENT_HEAD)
        return NULL;
    *bytes = segment[0] | (uint32_t)segment[1] << 8;
    if (*bytes < SEGMENT_HEAD || *bytes > recoded->bytes - at)
        return NULL;
    return recoded->bytes - at - *bytes >= SN_FIELDS_PAST ? segment : memcpy(recoded->copy, segment, *bytes);
}

static void take_firsts(sn_recoded *recoded, const uint8_t *from, uint32_t n, int32_t value, uint32_t width)
{
    recoded->firsts[0] = (int16_t)value;
    for (uint32_t k = 1, at = 0; k < n; k++, at += width) {
        uint32_t bits;

        memcpy(&bits, from + at / 8, sizeof bits);
        value += (int32_t)(bits >> at % 8 << (32 - width)) >> (32 - width);
        recoded->firsts[k] = (int16_t)value;
    }
}

/* Counts the codes. Returns what is behind it, or NULL: it is not all there. */
static const uint8_t *take_presence(sn_recoded *recoded, const uint8_t *from, const uint8_t *end, uint32_t n,
                                    uint32_t *n_codes)
{
    const uint8_t *rare = from + (n + 1) / 2;
    uint8_t *presence = recoded->presence;
    uint64_t is_rare = 0;

    if (rare > end)
        return NULL;
    *n_codes = 0;
    for (uint32_t k = 0; k < n; k += 2) {
        uint32_t both = from[k / 2];
        const sn_presence_pair *pair = &recoded->pairs[k + 1 < n ? both : both & 15];

        memcpy(presence + k, pair->presence, 2);
        *n_codes += pair->n_codes;
        is_rare |= (uint64_t)pair->is_rare << k;
    }
    if (__builtin_popcountll(is_rare) > end - rare)
        return NULL;
    for (; is_rare != 0; is_rare &= is_rare - 1, rare++) {
        presence[__builtin_ctzll(is_rare)] = *rare;
        *n_codes += ones[*rare];
    }
    return rare;
}

/* How many of the next 16 codes, or of `n`, are below SN_GROUP_WHOLE: their highest bit is 0. */
static uint32_t masked_of(const uint8_t *codes, uint32_t n)
{
    uint64_t bits;

    memcpy(&bits, codes, sizeof bits);
    if (n < 16)
        bits |= ~(uint64_t)0 << 4 * n;
    bits = ~bits >> 3 & 0x1111111111111111;
    return (uint32_t)(((bits + (bits >> 4)) & 0x0F0F0F0F0F0F0F0F) * 0x0101010101010101 >> 56);
}

/* Find the parts of a segment of `n` blocks. False: they are not all there. */
static bool open_segment(sn_recoded *recoded, const uint8_t *segment, uint32_t bytes, uint32_t n, sn_groups *groups)
{
    uint32_t width = segment[4], n_codes, n_masks = 0;
    const uint8_t *end = segment + bytes, *codes;
    const uint8_t *firsts = take_presence(recoded, segment + SEGMENT_HEAD, end, n, &n_codes);

    if (width < 1 || width > 17 || firsts == NULL)
        return false;
    codes = firsts + ((n - 1) * width + 7) / 8;
    groups->masks = codes + (n_codes + 1) / 2;
    if (groups->masks > end)
        return false;
    for (uint32_t k = 0; 2 * k < n_codes; k++) {
        recoded->codes[2 * k] = codes[k] & 15;
        recoded->codes[2 * k + 1] = codes[k] >> 4;
    }
    for (uint32_t k = 0; k < n_codes; k += 16)
        n_masks += masked_of(codes + k / 2, n_codes - k);
    groups->presence = recoded->presence;
    groups->codes = recoded->codes;
    groups->fields = groups->masks + n_masks;
    if (groups->fields > end)
        return false;
    groups->bit = 0;
    groups->end = (uint32_t)(end - groups->fields) * 8;
    take_firsts(recoded, firsts, n, (int16_t)(segment[2] | segment[3] << 8), width);
    return true;
}

/* Pass over the first `n` blocks. */
static bool skip(sn_groups *groups, uint32_t n)
{
    const uint8_t *codes = groups->codes, *masks = groups->masks;
    uint32_t n_codes = 0, bit = groups->bit;

    for (uint32_t k = 0; k < n; k++)
        n_codes += ones[groups->presence[k]];
    for (uint32_t k = 0; k < n_codes; k++) {
        uint32_t code = codes[k], is_masked = code < SN_GROUP_WHOLE, n_fields = ones[*masks | ((is_masked - 1) & 255)];
        uint32_t bits = n_fields * widths[code] + besides[code];

        masks += is_masked;
        if (__builtin_expect(bits == 0, false)) {
            uint32_t own;

            if (bit > groups->end)
                return false;
            memcpy(&own, groups->fields + bit / 8, sizeof own);
            bits = 4 + n_fields * ((own >> bit % 8 & 15) + 1);
        }
        bit += bits;
    }
    groups->presence += n;
    groups->codes += n_codes;
    groups->masks = masks;
    groups->bit = bit;
    return true;
}

bool sn_recoded_take(sn_recoded *recoded, uint32_t component, uint32_t row, uint32_t first, uint32_t n,
                     int16_t (*blocks)[SN_BLOCK])
{
    uint32_t across = sn_jpeg_blocks_across(&recoded->frame, component);
    size_t at = recoded->rows[recoded->first_row[component] + row];

    for (uint32_t begin = 0; begin < first + n; begin += SN_BLOCKS_AT_ONCE) {
        uint32_t in_segment = blocks_at(across, begin), from = first > begin ? first - begin : 0;
        uint32_t end = first + n - begin < in_segment ? first + n - begin : in_segment;
        uint32_t bytes;
        const uint8_t *segment = segment_at(recoded, at, &bytes);
        sn_groups groups;

        if (segment == NULL)
            return false;
        at += bytes;
        if (from >= in_segment)
            continue;
        if (!open_segment(recoded, segment, bytes, in_segment, &groups) || !skip(&groups, from) ||
            !recoded->kernels->take(&groups, end - from, blocks))
            return false;
        for (uint32_t k = from; k < end; k++, blocks++)
            (*blocks)[0] = recoded->firsts[k];
    }
    return true;
}
