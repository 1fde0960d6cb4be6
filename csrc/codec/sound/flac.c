#include "flac.h"

#include "../kernels/flac_kernels.h"

#define MOST_BITS 24 /* of a sample: a float holds them all, and a difference of two has room in 32 */
#define MOST_WASTED 31

/* A block whose samples lie in rows. */
typedef struct {
    sn_flac_block block;
    uint32_t row; /* of its first channel */
} loaded;

/* The rows of some blocks. */
typedef struct {
    sn_flac_row rows[SN_FLAC_ROWS];
    uint8_t bits[SN_FLAC_ROWS],
        wasted[SN_FLAC_ROWS]; /* of a sample of each: its width, its lowest bits that are zero */
    uint32_t n_rows, n_blocks, most_frames;
    loaded blocks[SN_FLAC_ROWS];
    int32_t *spare; /* a row that nobody reads */
} group;

/* ---- bits ---- */

static void refill(sn_bits *bits)
{
    while (bits->n < 56 && bits->at < bits->end) {
        bits->bits |= (uint64_t)*bits->at++ << (56 - bits->n);
        bits->n += 8;
    }
}

/* The next n <= 32 bits. False: there are not so many. */
static bool take(sn_bits *bits, uint32_t n, uint32_t *out)
{
    refill(bits);
    if (bits->n < n)
        return false;
    *out = n > 0 ? (uint32_t)(bits->bits >> (64 - n)) : 0;
    bits->bits <<= n;
    bits->n -= n;
    return true;
}

static bool take_signed(sn_bits *bits, uint32_t n, int32_t *out)
{
    uint32_t number;

    if (!take(bits, n, &number))
        return false;
    *out = n > 0 ? (int32_t)(number << (32 - n)) >> (32 - n) : 0;
    return true;
}

/* The zeros before the next one, which goes too. */
static bool take_zeros(sn_bits *bits, uint32_t most, uint32_t *out)
{
    uint32_t zeros = 0, some;

    for (;;) {
        refill(bits);
        if (bits->n == 0)
            return false;
        some = bits->bits != 0 ? (uint32_t)__builtin_clzll(bits->bits) : 64;
        if (some < bits->n)
            break;
        zeros += bits->n;
        bits->bits = 0;
        bits->n = 0;
        if (zeros > most)
            return false;
    }
    bits->bits <<= some;
    bits->bits <<= 1;
    bits->n -= some + 1;
    *out = zeros + some;
    return *out <= most;
}

/* ---- one channel of a block ---- */

static uint32_t rice_some(sn_bits *bits, uint32_t k, uint32_t n, int32_t *out)
{
#ifdef SN_HAVE_AVX2_CODE
    if (sn_simd_usable())
        return sn_rice_simd(bits, k, n, out);
#endif
    return sn_rice_plain(bits, k, n, out);
}

static bool read_rice(sn_bits *bits, uint32_t k, uint32_t n, int32_t *out)
{
    while (n > 0) {
        uint32_t done = rice_some(bits, k, n, out), quotient, low, number;

        out += done;
        n -= done;
        if (n == 0)
            break;
        if (!take_zeros(bits, (UINT32_MAX >> 1) >> k, &quotient) || !take(bits, k, &low))
            return false;
        number = quotient << k | low;
        *out++ = (int32_t)(number >> 1 ^ -(number & 1));
        n--;
    }
    return true;
}

/* What the prediction of the samples from `order` on lacks. */
static bool read_residual(sn_bits *bits, uint32_t order, uint32_t frames, int32_t *samples)
{
    uint32_t method, parts, width, size, at = order;

    if (!take(bits, 2, &method) || method > 1 || !take(bits, 4, &parts))
        return false;
    width = method == 0 ? 4 : 5;
    size = frames >> parts;
    if (size << parts != frames || size <= order)
        return false;
    for (uint32_t part = 0; part < 1u << parts; part++) {
        uint32_t k, raw, end = (part + 1) * size;

        if (!take(bits, width, &k))
            return false;
        if (k < (1u << width) - 1) {
            if (!read_rice(bits, k, end - at, samples + at))
                return false;
            at = end;
            continue;
        }
        if (!take(bits, 5, &raw))
            return false;
        for (; at < end; at++)
            if (!take_signed(bits, raw, &samples[at]))
                return false;
    }
    return true;
}

static bool needs_64_bits(uint32_t bits, uint32_t precision, uint32_t order)
{
    uint32_t sums = 0;

    while (1u << sums < order)
        sums++;
    return bits + precision + sums > 32;
}

/* The weights of a prediction of this order. */
static bool read_weights(sn_bits *bits, uint32_t width, sn_flac_row *row)
{
    uint32_t precision;
    int32_t shift;

    if (!take(bits, 4, &precision) || precision == 15 || !take_signed(bits, 5, &shift) || shift < 0)
        return false;
    precision++;
    for (uint32_t k = 0; k < row->order; k++)
        if (!take_signed(bits, precision, &row->weights[k]))
            return false;
    row->shift = (uint32_t)shift;
    row->is_wide = needs_64_bits(width, precision, row->order);
    return true;
}

/* The first samples are given as they are. Make them what a prediction from zeros lacks. */
static void take_off_prediction(const sn_flac_row *row, uint32_t n)
{
    for (uint32_t at = n; at-- > 0;) {
        uint64_t sum = 0;

        for (uint32_t k = 0; k < at; k++)
            sum += (uint64_t)((int64_t)row->weights[k] * row->samples[at - 1 - k]);
        sum = row->is_wide ? sum : (uint64_t)(int64_t)(int32_t)sum;
        row->samples[at] = (int32_t)((uint32_t)row->samples[at] - (uint32_t)((int64_t)sum >> row->shift));
    }
}

static bool read_predicted(sn_bits *bits, uint32_t width, uint32_t type, uint32_t frames, sn_flac_row *row)
{
    static const int8_t fixed[5][4] = {{0}, {1}, {2, -1}, {3, -3, 1}, {4, -6, 4, -1}};

    row->order = type >= 32 ? type - 31 : type - 8;
    if (row->order >= frames) /* libFLAC refuses it too */
        return false;
    for (uint32_t k = 0; k < row->order; k++)
        if (!take_signed(bits, width, &row->samples[k]))
            return false;
    if (type >= 32 && !read_weights(bits, width, row))
        return false;
    for (uint32_t k = 0; type < 32 && k < row->order; k++)
        row->weights[k] = fixed[row->order][k];
    if (!read_residual(bits, row->order, frames, row->samples))
        return false;
    take_off_prediction(row, row->order);
    return true;
}

/* Read a channel whose samples have so many bits. */
static bool read_channel(sn_bits *bits, uint32_t width, uint32_t frames, group *into)
{
    sn_flac_row *row = &into->rows[into->n_rows];
    uint32_t zero, type, has_wasted, wasted = 0;
    int32_t value;

    row->order = row->shift = 0;
    row->is_wide = false;
    memset(row->weights, 0, sizeof row->weights);
    if (!take(bits, 1, &zero) || zero != 0 || !take(bits, 6, &type) || !take(bits, 1, &has_wasted))
        return false;
    if (has_wasted && !take_zeros(bits, MOST_WASTED, &wasted))
        return false;
    wasted += has_wasted;
    if (wasted >= width)
        return false;
    into->bits[into->n_rows] = (uint8_t)(width -= wasted);
    into->wasted[into->n_rows++] = (uint8_t)wasted;
    if (type == 0) {
        if (!take_signed(bits, width, &value))
            return false;
        for (uint32_t k = 0; k < frames; k++)
            row->samples[k] = value;
        return true;
    }
    if (type == 1) {
        for (uint32_t k = 0; k < frames; k++)
            if (!take_signed(bits, width, &row->samples[k]))
                return false;
        return true;
    }
    if ((type >= 8 && type <= 12) || type >= 32)
        return read_predicted(bits, width, type, frames, row);
    return false;
}

/* ---- blocks ---- */

/* Read the block at `at` into the next rows. Where the one behind it begins; NULL: it is not as it should be. */
static const uint8_t *read_block(sn_flac *flac, const uint8_t *at, uint64_t wanted, group *into)
{
    const sn_flac_stream *stream = &flac->stream;
    loaded *one = &into->blocks[into->n_blocks];
    sn_flac_block *block = &one->block;
    sn_bits bits;
    uint32_t rest;

    if (!sn_flac_open_block(stream, at, block) || block->first != wanted || !block->is_as_stream ||
        block->frames > stream->most_frames)
        return NULL;
    bits = (sn_bits){.at = block->samples, .end = stream->end};
    one->row = into->n_rows;
    for (uint32_t channel = 0; channel < stream->channels; channel++) {
        bool is_side = (block->layout == SN_FLAC_LEFT_SIDE && channel == 1) ||
                       (block->layout == SN_FLAC_SIDE_RIGHT && channel == 0) ||
                       (block->layout == SN_FLAC_MID_SIDE && channel == 1);

        if (!read_channel(&bits, stream->bits + is_side, block->frames, into))
            return NULL;
    }
    if (!take(&bits, bits.n % 8, &rest) || rest != 0) /* up to the next byte */
        return NULL;
    bits.at -= bits.n / 8;
    if (stream->end - bits.at < 2 || !sn_flac_is_sound(&flac->sums, at, bits.at + 2))
        return NULL;
    into->n_blocks++;
    into->most_frames = into->most_frames > block->frames ? into->most_frames : block->frames;
    return bits.at + 2;
}

static void predict(group *of)
{
#ifdef SN_HAVE_AVX2_CODE
    if (sn_simd_usable()) {
        sn_flac_row rows[SN_FLAC_ROWS];
        bool is_any = false;

        for (uint32_t k = 0; k < SN_FLAC_ROWS; k++) {
            rows[k] = k < of->n_rows && !of->rows[k].is_wide ? of->rows[k] : (sn_flac_row){.samples = of->spare};
            is_any = is_any || rows[k].order > 0;
            if (k < of->n_rows && of->rows[k].is_wide)
                sn_predict_plain(&of->rows[k], 1, of->most_frames);
        }
        if (is_any)
            sn_predict_simd(rows, of->most_frames);
        return;
    }
#endif
    sn_predict_plain(of->rows, of->n_rows, of->most_frames);
}

static bool fit(const int32_t *samples, uint32_t n, uint32_t bits)
{
    uint32_t beyond = 0, half = 1u << (bits - 1);

    for (uint32_t k = 0; k < n; k++)
        beyond |= ((uint32_t)samples[k] + half) >> bits;
    return beyond == 0;
}

/* Give the samples of a row their lowest bits, which are zero. False: they did not fit their width. */
static bool widen(int32_t *samples, uint32_t n, uint32_t bits, uint32_t wasted)
{
    if (!fit(samples, n, bits))
        return false;
    for (uint32_t k = 0; k < n; k++)
        samples[k] = (int32_t)((uint32_t)samples[k] << wasted);
    return true;
}

/* Two channels that are not left and right become those. */
static void part(enum sn_flac_layout layout, int32_t *a, int32_t *b, uint32_t n)
{
    if (layout == SN_FLAC_LEFT_SIDE)
        for (uint32_t k = 0; k < n; k++)
            b[k] = (int32_t)((uint32_t)a[k] - (uint32_t)b[k]);
    else if (layout == SN_FLAC_SIDE_RIGHT)
        for (uint32_t k = 0; k < n; k++)
            a[k] = (int32_t)((uint32_t)a[k] + (uint32_t)b[k]);
    else if (layout == SN_FLAC_MID_SIDE)
        for (uint32_t k = 0; k < n; k++) {
            uint32_t side = (uint32_t)b[k], both = (uint32_t)a[k] << 1 | (side & 1);

            a[k] = (int32_t)(both + side) >> 1;
            b[k] = (int32_t)(both - side) >> 1;
        }
}

/* Frames of a block as floats: of each channel, or their mean. */
static void hand_out(const sn_flac_stream *stream, const group *of, const loaded *one, bool mono, int64_t from,
                     int64_t to, const sn_planes *planes)
{
    const sn_flac_row *rows = of->rows + one->row;
    float scale = 1.0f / (float)(1 << (stream->bits - 1));
    size_t skip = (size_t)(from - (int64_t)one->block.first), n = (size_t)(to - from);
    float *out = sn_planes_at(planes, 0, from);

    if (mono && stream->channels == 2) {
        const int32_t *left = rows[0].samples + skip, *right = rows[1].samples + skip;

        for (size_t k = 0; k < n; k++) /* as exact as a sum of floats, and its half */
            out[k] = (float)(left[k] + right[k]) * (scale / 2);
    } else if (mono && stream->channels > 2) {
        for (size_t k = 0; k < n; k++) {
            float sum = 0;

            for (uint32_t channel = 0; channel < stream->channels; channel++)
                sum += (float)rows[channel].samples[skip + k] * scale;
            out[k] = sum / (float)stream->channels;
        }
    } else {
        for (uint32_t channel = 0; channel < stream->channels; channel++) {
            const int32_t *samples = rows[channel].samples + skip;

            out = sn_planes_at(planes, channel, from);
            for (size_t k = 0; k < n; k++)
                out[k] = (float)samples[k] * scale;
        }
    }
}

/* Make floats of the blocks of a group, as far as they are wanted. False: some samples do not fit their width, of which
 * libFLAC's versions make different things. */
static bool finish(const sn_flac_stream *stream, group *of, bool mono, int64_t first, int64_t end,
                   const sn_planes *planes)
{
    predict(of);
    for (const loaded *one = of->blocks; one < of->blocks + of->n_blocks; one++) {
        int64_t begins = (int64_t)one->block.first, ends = begins + one->block.frames;

        for (uint32_t row = one->row; row < one->row + stream->channels; row++)
            if (of->wasted[row] > 0 && !widen(of->rows[row].samples, one->block.frames, of->bits[row], of->wasted[row]))
                return false;
        if (one->block.layout != SN_FLAC_APART)
            part(one->block.layout, of->rows[one->row].samples, of->rows[one->row + 1].samples, one->block.frames);
        for (uint32_t row = one->row; row < one->row + stream->channels; row++)
            if (!fit(of->rows[row].samples, one->block.frames, stream->bits))
                return false;
        begins = begins < first ? first : begins;
        ends = ends > end ? end : ends;
        if (begins < ends)
            hand_out(stream, of, one, mono, begins, ends, planes);
    }
    return true;
}

/* ---- files ---- */

void sn_flac_release(sn_flac *flac)
{
    sn_buffer_release(&flac->rows);
}

bool sn_flac_open(sn_flac *flac, const uint8_t *bytes, size_t length)
{
    flac->places.n = 0;
    return sn_flac_open_stream(&flac->stream, bytes, length) && flac->stream.bits <= MOST_BITS;
}

bool sn_flac_is_whole(sn_flac *flac)
{
    return sn_flac_find_blocks(&flac->sums, &flac->stream, &flac->places);
}

int sn_flac_read(sn_flac *flac, bool mono, int64_t first, int64_t end, const sn_planes *planes)
{
    const sn_flac_stream *stream = &flac->stream;
    size_t length = (stream->most_frames + 2 * SN_FLAC_ROWS) / SN_FLAC_ROWS * SN_FLAC_ROWS;
    sn_flac_place next = sn_flac_place_of(stream, &flac->places, (uint64_t)first);
    group some;
    int rc = sn_buffer_reserve(&flac->rows, sizeof(int32_t) * length * (SN_FLAC_ROWS + 1));

    if (rc != SN_OK)
        return rc;
    for (uint32_t k = 0; k < SN_FLAC_ROWS; k++)
        some.rows[k].samples = (int32_t *)flac->rows.data + length * k;
    some.spare = (int32_t *)flac->rows.data + length * SN_FLAC_ROWS;
    memset(some.spare, 0, sizeof(int32_t) * length);
    while ((int64_t)next.frame < end) {
        some.n_rows = some.n_blocks = some.most_frames = 0;
        while ((int64_t)next.frame < end && some.n_rows + stream->channels <= SN_FLAC_ROWS) {
            next.at = read_block(flac, next.at, next.frame, &some);
            if (next.at == NULL)
                return SN_MISS;
            next.frame += some.blocks[some.n_blocks - 1].block.frames;
        }
        if (!finish(stream, &some, mono, first, end, planes))
            return SN_MISS;
    }
    return next.frame < stream->frames || (next.frame == stream->frames && next.at == stream->end) ? SN_OK : SN_MISS;
}
