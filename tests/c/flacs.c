#include "flacs.h"

#include <math.h>

#include "check.h"

#define MOST_ORDER 32
#define RATE 44100u
#define MOST_QUOTIENT 200 /* zeros before a number, at most: more than a decoder reads at once */

typedef struct {
    uint8_t *bytes;
    size_t n_bits, room;
} writer;

static void put(writer *to, uint64_t value, uint32_t n)
{
    while (n-- > 0) {
        if (to->n_bits / 8 >= to->room) {
            size_t room = to->room * 2 + 4096;

            to->bytes = realloc(to->bytes, room);
            CHECK(to->bytes);
            memset(to->bytes + to->room, 0, room - to->room);
            to->room = room;
        }
        to->bytes[to->n_bits / 8] |= (uint8_t)((value >> n & 1) << (7 - to->n_bits % 8));
        to->n_bits++;
    }
}

static uint32_t sum_of(const uint8_t *bytes, size_t n, uint32_t width, uint32_t polynomial)
{
    uint32_t sum = 0;

    for (size_t k = 0; k < n; k++) {
        sum ^= (uint32_t)bytes[k] << (width - 8);
        for (int bit = 0; bit < 8; bit++)
            sum = sum >> (width - 1) & 1 ? sum << 1 ^ polynomial : sum << 1;
        sum &= (1u << width) - 1;
    }
    return sum;
}

/* As UTF-8 has it, up to 36 bits. */
static void put_number(writer *to, uint64_t number)
{
    uint32_t more = 1;

    if (number < 0x80) {
        put(to, number, 8);
        return;
    }
    while (more < 6 && number >> (6 * more + 6 - more) != 0)
        more++;
    put(to, (0xFF00u >> (more + 1) & 0xFF) | (more < 6 ? number >> (6 * more) : 0), 8);
    for (uint32_t k = more; k-- > 0;)
        put(to, 0x80 | (number >> (6 * k) & 0x3F), 8);
}

static uint32_t below(sn_rng *rng, uint32_t n)
{
    return sn_rng_below(rng, n);
}

/* A channel's samples, of some bits. */
static void draw_signal(sn_rng *rng, uint32_t bits, uint32_t n, uint32_t channels, int32_t *out)
{
    double most = (double)((1 << (bits - 1)) - 1), loud = most * pow(sn_rng_double(rng), 3);
    double pitch = sn_rng_uniform(rng, 0.001, 0.5), noise = loud * pow(sn_rng_double(rng), 4);
    uint32_t kind = below(rng, 8), zeros = below(rng, 4) == 0 ? below(rng, bits) : 0;
    int32_t constant = (int32_t)(loud * sn_rng_uniform(rng, -1, 1));

    for (uint32_t k = 0; k < n; k++) {
        double value = loud * sin(pitch * k) + noise * sn_rng_uniform(rng, -1, 1);

        value = value > most ? most : value < -most - 1 ? -most - 1 : value;
        if (kind == 0)
            value = constant;
        else if (kind == 1) /* the ends of its range */
            value = below(rng, 2) ? most : -most - 1;
        out[k * channels] = (int32_t)((uint32_t)(int32_t)value >> zeros << zeros);
    }
}

static void put_rice(writer *to, int32_t value, uint32_t k)
{
    uint32_t number = (uint32_t)value << 1 ^ (uint32_t)(value >> 31);

    for (uint32_t zeros = number >> k; zeros > 0; zeros--)
        put(to, 0, 1);
    put(to, 1, 1);
    put(to, number, k);
}

static uint32_t bits_of(uint32_t number)
{
    return number ? 32 - (uint32_t)__builtin_clz(number) : 0;
}

static void put_residual(writer *to, sn_rng *rng, const int32_t *lacks, uint32_t order, uint32_t frames)
{
    uint32_t most_parts = 0, parts, method, at = order;

    while (most_parts < 8 && frames % (2u << most_parts) == 0 && frames >> (most_parts + 1) > order)
        most_parts++;
    parts = below(rng, most_parts + 1);
    method = below(rng, 2);
    for (uint32_t k = order; k < frames; k++)
        if (bits_of((uint32_t)lacks[k] << 1 ^ (uint32_t)(lacks[k] >> 31)) > 14 + 7)
            method = 1;
    put(to, method, 2);
    put(to, parts, 4);
    for (uint32_t part = 0; part < 1u << parts; part++) {
        uint32_t end = (part + 1) * (frames >> parts), width = method ? 5 : 4, most = 0, fewest, k;

        for (uint32_t i = at; i < end; i++) {
            uint32_t number = (uint32_t)lacks[i] << 1 ^ (uint32_t)(lacks[i] >> 31);

            most = number > most ? number : most;
        }
        if (bits_of(most) < 32 && below(rng, 5) == 0) { /* as they are */
            uint32_t raw = bits_of(most);

            put(to, (1u << width) - 1, width);
            put(to, raw, 5);
            for (; at < end; at++)
                put(to, (uint32_t)lacks[at], raw);
            continue;
        }
        for (fewest = 0; most >> fewest > MOST_QUOTIENT; fewest++)
            ;
        k = fewest + below(rng, 6);
        k = k > (1u << width) - 2 ? (1u << width) - 2 : k;
        put(to, k, width);
        for (; at < end; at++)
            put_rice(to, lacks[at], k);
    }
}

/* A channel as what a prediction lacks. False, and nothing is written: that does not fit. */
static bool put_predicted(writer *to, sn_rng *rng, const int32_t *samples, uint32_t bits, uint32_t frames,
                          bool is_fixed)
{
    static const int8_t fixed[5][4] = {{0}, {1}, {2, -1}, {3, -3, 1}, {4, -6, 4, -1}};
    uint32_t most = is_fixed ? 4 : MOST_ORDER, order, precision = 1 + below(rng, 15), shift = 0;
    int32_t weights[MOST_ORDER] = {0}, *lacks = malloc(sizeof *lacks * frames);
    bool fits = true;

    CHECK(lacks);
    most = most >= frames ? frames - 1 : most;
    if (most == 0)
        is_fixed = true;
    order = is_fixed ? below(rng, most + 1) : 1 + below(rng, below(rng, 3) ? (most < 12 ? most : 12) : most);
    for (uint32_t k = 0; k < order && is_fixed; k++)
        weights[k] = fixed[order][k];
    if (!is_fixed) {
        shift = precision > 2 ? precision - 2 - below(rng, 2) : below(rng, 3);
        for (uint32_t k = 0; k < order; k++)
            weights[k] = (int32_t)floor(ldexp(sn_rng_uniform(rng, -1, 1), (int)precision - 1) / (k + 1.0));
    }
    for (uint32_t n = 0; n < frames; n++) {
        int64_t sum = 0, lack;

        for (uint32_t k = 0; k < order && n >= order; k++)
            sum += (int64_t)weights[k] * samples[n - 1 - k];
        lack = samples[n] - (sum >> shift);
        fits = fits && lack > -(1 << 30) && lack < 1 << 30;
        lacks[n] = (int32_t)lack;
    }
    if (fits) {
        put(to, is_fixed ? 8 + order : 31 + order, 6);
        put(to, 0, 1);
        for (uint32_t k = 0; k < order; k++)
            put(to, (uint32_t)samples[k], bits);
        if (!is_fixed) {
            put(to, precision - 1, 4);
            put(to, shift, 5);
            for (uint32_t k = 0; k < order; k++)
                put(to, (uint32_t)weights[k], precision);
        }
        put_residual(to, rng, lacks, order, frames);
    }
    free(lacks);
    return fits;
}

static void put_channel(writer *to, sn_rng *rng, int32_t *samples, uint32_t bits, uint32_t frames)
{
    uint32_t any = 0, wasted = 0, kind = below(rng, 4);
    bool is_constant = true;

    for (uint32_t k = 0; k < frames; k++) {
        any |= (uint32_t)samples[k];
        is_constant = is_constant && samples[k] == samples[0];
    }
    put(to, 0, 1);
    if (is_constant && below(rng, 2)) {
        put(to, 0, 7);
        put(to, (uint32_t)samples[0], bits);
        return;
    }
    while (any != 0 && (any >> wasted & 1) == 0)
        wasted++;
    if (wasted > 0 && below(rng, 4)) {
        writer rest = {0};

        for (uint32_t k = 0; k < frames; k++)
            samples[k] >>= wasted;
        if (kind == 0 || !put_predicted(&rest, rng, samples, bits - wasted, frames, kind == 1)) {
            put(&rest, 1, 6);
            put(&rest, 0, 1);
            for (uint32_t k = 0; k < frames; k++)
                put(&rest, (uint32_t)samples[k], bits - wasted);
        }
        put(to, rest.bytes[0] >> 2, 6); /* its type; the bit behind says that bits are wasted */
        put(to, 1, 1);
        put(to, 1, wasted);
        for (size_t k = 7; k < rest.n_bits; k++)
            put(to, rest.bytes[k / 8] >> (7 - k % 8), 1);
        free(rest.bytes);
        return;
    }
    if (kind > 0 && put_predicted(to, rng, samples, bits, frames, kind == 1))
        return;
    put(to, 1, 6);
    put(to, 0, 1);
    for (uint32_t k = 0; k < frames; k++)
        put(to, (uint32_t)samples[k], bits);
}

static void put_block(writer *to, const flac_kind *kind, sn_rng *rng, uint64_t number, const int32_t *frames,
                      uint32_t n)
{
    static const uint8_t codes[25] = {[8] = 1, [12] = 2, [16] = 4, [20] = 5, [24] = 6};
    uint32_t layout = kind->channels == 2 && below(rng, 4) ? 8 + below(rng, 3) : kind->channels - 1;
    uint32_t rate = below(rng, 3) == 0 ? 0 : below(rng, 2) ? 9 : 13; /* the stream's; 44,100; two bytes have it */
    size_t begin = to->n_bits / 8, end;
    int32_t *channel = malloc(sizeof *channel * n);

    CHECK(channel);
    put(to, kind->is_variable ? 0xFFF9 : 0xFFF8, 16);
    put(to, n <= 256 ? 6 : 7, 4);
    put(to, rate, 4);
    put(to, layout, 4);
    put(to, below(rng, 2) ? codes[kind->bits] : 0, 3);
    put(to, 0, 1);
    put_number(to, number);
    put(to, n - 1, n <= 256 ? 8 : 16);
    if (rate == 13)
        put(to, RATE, 16);
    end = to->n_bits / 8;
    put(to, sum_of(to->bytes + begin, end - begin, 8, 0x07), 8);
    for (uint32_t c = 0; c < kind->channels; c++) {
        bool is_side = (layout == 8 && c == 1) || (layout == 9 && c == 0) || (layout == 10 && c == 1);

        for (uint32_t k = 0; k < n; k++) {
            const int32_t *frame = frames + (size_t)k * kind->channels;

            channel[k] = is_side ? frame[0] - frame[1] : layout == 10 ? (frame[0] + frame[1]) >> 1 : frame[c];
        }
        put_channel(to, rng, channel, kind->bits + is_side, n);
    }
    put(to, 0, (uint32_t)(8 - to->n_bits % 8) % 8);
    end = to->n_bits / 8;
    put(to, sum_of(to->bytes + begin, end - begin, 16, 0x8005), 16);
    free(channel);
}

picture_file flac_make(const flac_kind *kind, sn_rng *rng, int32_t **samples)
{
    writer to = {0};
    int32_t *frames = malloc(sizeof *frames * kind->channels * kind->frames + 1);
    uint32_t done = 0;

    CHECK(frames);
    put(&to, 0x664C6143, 32); /* fLaC */
    put(&to, 0x80000022, 32); /* STREAMINFO, the last of the headers */
    put(&to, kind->is_variable ? 16 : kind->block, 16);
    put(&to, kind->block, 16);
    put(&to, 0, 48); /* the sizes of blocks in bytes are not known */
    put(&to, RATE, 20);
    put(&to, kind->channels - 1, 3);
    put(&to, kind->bits - 1, 5);
    put(&to, kind->frames, 36);
    put(&to, 0, 64); /* no digest */
    put(&to, 0, 64);
    for (uint32_t number = 0, n; done < kind->frames; number++, done += n) {
        n = kind->is_variable ? 16 + below(rng, kind->block - 15) : kind->block;
        n = n > kind->frames - done ? kind->frames - done : n;
        for (uint32_t channel = 0; channel < kind->channels; channel++)
            draw_signal(rng, kind->bits, n, kind->channels, frames + (size_t)done * kind->channels + channel);
        if (kind->channels == 2 && below(rng, 4) == 0) /* the same on both sides */
            for (uint32_t k = done; k < done + n; k++)
                frames[2 * k + 1] = frames[2 * k];
        put_block(&to, kind, rng, kind->is_variable ? done : number, frames + (size_t)done * kind->channels, n);
    }
    *samples = frames;
    return (picture_file){to.bytes, to.n_bits / 8};
}
