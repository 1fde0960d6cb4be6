#include "flac_blocks.h"

#include <string.h>

#define STREAMINFO 8   /* where its contents begin: behind the mark and a header of 4 bytes */
#define SHORTEST 46    /* bytes of a file with a block: behind the 34 of STREAMINFO */
#define MOST_HEADER 16 /* bytes of a block before its samples */

static uint32_t number_at(const uint8_t *bytes, uint32_t n)
{
    uint32_t number = 0;

    for (uint32_t k = 0; k < n; k++)
        number = number << 8 | bytes[k];
    return number;
}

/* Behind the headers: where the first block begins. NULL: they go on to the end. */
static const uint8_t *first_block(const uint8_t *bytes, const uint8_t *end)
{
    const uint8_t *at = bytes + 4;

    while (end - at > 4) {
        bool is_last = at[0] >> 7;
        uint32_t length = number_at(at + 1, 3);

        at += 4;
        if (length > end - at)
            return NULL;
        at += length;
        if (is_last)
            return at;
    }
    return NULL;
}

bool sn_flac_open_stream(sn_flac_stream *stream, const uint8_t *bytes, size_t length)
{
    const uint8_t *info = bytes + STREAMINFO, *end = bytes + length;

    if (length < SHORTEST || memcmp(bytes, "fLaC", 4) != 0)
        return false;
    *stream = (sn_flac_stream){.end = end,
                               .block = number_at(info, 2),
                               .most_frames = number_at(info + 2, 2),
                               .fewest = number_at(info + 4, 3),
                               .rate = number_at(info + 10, 3) >> 4,
                               .channels = (info[12] >> 1 & 7) + 1u,
                               .bits = (number_at(info + 12, 2) >> 4 & 31) + 1,
                               .frames = (uint64_t)(info[13] & 15) << 32 | number_at(info + 14, 4)};
    stream->first = first_block(bytes, end);
    return stream->first != NULL;
}

/* The sum of a block's header. */
static uint32_t short_sum(const uint8_t *bytes, size_t n)
{
    uint32_t sum = 0;

    for (size_t k = 0; k < n; k++) {
        sum ^= bytes[k];
        for (int bit = 0; bit < 8; bit++)
            sum = (sum << 1 ^ (sum & 0x80 ? 0x07 : 0)) & 0xFF;
    }
    return sum;
}

static void make_sums(sn_flac_sums *sums)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t sum = byte << 8;

        for (int bit = 0; bit < 8; bit++)
            sum = sum << 1 ^ (sum & 0x8000 ? 0x8005 : 0);
        sums->behind[0][byte] = (uint16_t)sum;
    }
    for (int k = 1; k < 8; k++)
        for (uint32_t byte = 0; byte < 256; byte++) {
            uint16_t before = sums->behind[k - 1][byte];

            sums->behind[k][byte] = (uint16_t)(before << 8 ^ sums->behind[0][before >> 8]);
        }
    sums->are_made = true;
}

bool sn_flac_is_sound(sn_flac_sums *sums, const uint8_t *at, const uint8_t *end)
{
    const uint16_t (*behind)[256] = sums->behind;
    uint32_t sum = 0;

    if (!sums->are_made)
        make_sums(sums);
    for (; end - at >= 8; at += 8) {
        sum ^= (uint32_t)at[0] << 8 | at[1];
        sum = behind[7][sum >> 8] ^ behind[6][sum & 0xFF] ^ behind[5][at[2]] ^ behind[4][at[3]] ^ behind[3][at[4]] ^
              behind[2][at[5]] ^ behind[1][at[6]] ^ behind[0][at[7]];
    }
    for (; at < end; at++)
        sum = (sum << 8 & 0xFF00) ^ behind[0][sum >> 8 ^ *at];
    return sum == 0;
}

/* The number behind the first four bytes of a block's header, coded as UTF-8 codes characters. Returns its bytes; 0: it is
 * none. */
static uint32_t take_number(const uint8_t *at, uint64_t *number)
{
    uint32_t n = 1, first = at[0];

    if (first < 0x80) {
        *number = first;
        return 1;
    }
    while (n < 7 && first & 0x40u >> (n - 1))
        n++;
    if (n == 1 || first == 0xFF)
        return 0;
    *number = n == 7 ? 0 : first & (0x3Fu >> (n - 1));
    for (uint32_t k = 1; k < n; k++) {
        if ((at[k] & 0xC0) != 0x80)
            return 0;
        *number = *number << 6 | (at[k] & 0x3F);
    }
    return n;
}

/* Frames a second, as a block's header says; 0: see the stream's. */
static uint32_t rate_of(uint32_t code, const uint8_t *at)
{
    static const uint32_t usual[12] = {0, 88200, 176400, 192000, 8000, 16000, 22050, 24000, 32000, 44100, 48000, 96000};

    switch (code) {
    case 12:
        return number_at(at, 1) * 1000;
    case 13:
        return number_at(at, 2);
    case 14:
        return number_at(at, 2) * 10;
    default:
        return usual[code];
    }
}

bool sn_flac_open_block(const sn_flac_stream *stream, const uint8_t *begin, sn_flac_block *block)
{
    static const uint8_t widths[8] = {0, 8, 12, 0, 16, 20, 24, 32};
    uint8_t at[MOST_HEADER] = {0}; /* a block of silence may be shorter */
    size_t left = (size_t)(stream->end - begin);
    uint32_t size, rate, width, channels, n, frames = 0;
    uint64_t number;

    if (left < 2 || begin[0] != 0xFF || (begin[1] & 0xFE) != 0xF8)
        return false;
    memcpy(at, begin, left < MOST_HEADER ? left : MOST_HEADER);
    size = at[2] >> 4;
    rate = at[2] & 15;
    channels = at[3] >> 4;
    width = at[3] >> 1 & 7;
    if ((at[3] & 1) != 0 || size == 0 || rate == 15)
        return false;
    n = take_number(at + 4, &number);
    if (n == 0)
        return false;
    n += 4;
    if (size == 1)
        frames = 192;
    else if (size <= 5)
        frames = 576u << (size - 2);
    else if (size >= 8)
        frames = 256u << (size - 8);
    else
        frames = number_at(at + n, size - 5) + 1;
    n += size == 6 ? 1 : size == 7 ? 2 : 0;
    block->is_as_stream = (rate == 0 || rate_of(rate, at + n) == stream->rate) &&
                          (width == 0 || widths[width] == stream->bits) &&
                          (channels < 8                   ? channels + 1
                           : channels <= SN_FLAC_MID_SIDE ? 2
                                                          : 0) == stream->channels;
    n += rate == 12 ? 1 : rate >= 13 ? 2 : 0;
    if (left < n + 3 || short_sum(at, n) != at[n])
        return false;
    block->samples = begin + n + 1;
    block->frames = frames;
    block->layout = channels < 8 ? SN_FLAC_APART : (enum sn_flac_layout)channels;
    block->is_counted = (at[1] & 1) == 0;
    block->first = block->is_counted ? number * stream->block : number;
    return true;
}

/* The block behind the one at `at`, which begins with the frame `wanted`. NULL: there is none. */
static const uint8_t *next_block(const sn_flac_stream *stream, const uint8_t *at, uint64_t wanted, uint32_t *frames)
{
    size_t fewest = stream->fewest > 0 ? stream->fewest : 1;
    sn_flac_block block;

    if (fewest >= (size_t)(stream->end - at))
        return NULL;
    at += fewest;
    while (at < stream->end && (at = memchr(at, 0xFF, (size_t)(stream->end - at))) != NULL) {
        if (sn_flac_open_block(stream, at, &block) && block.first == wanted) {
            *frames = block.frames;
            return at;
        }
        at++;
    }
    return NULL;
}

bool sn_flac_find_blocks(sn_flac_sums *sums, const sn_flac_stream *stream, sn_flac_places *places)
{
    const uint8_t *at = stream->first, *next;
    uint64_t done = 0, apart = stream->frames / SN_FLAC_PLACES + 1;
    sn_flac_block block;
    uint32_t n;

    places->n = 0;
    if (!sn_flac_open_block(stream, at, &block) || block.first != 0 ||
        (block.is_counted && block.frames != stream->block && block.frames != stream->frames))
        return false;
    for (n = block.frames; done + n < stream->frames; at = next) {
        if (done >= places->n * apart)
            places->of[places->n++] = (sn_flac_place){at, done};
        done += n;
        next = next_block(stream, at, done, &n);
        if (next == NULL || !sn_flac_is_sound(sums, at, next)) {
            places->n = 0;
            return false;
        }
    }
    if (done + n == stream->frames && sn_flac_is_sound(sums, at, stream->end))
        return true;
    places->n = 0;
    return false;
}

sn_flac_place sn_flac_place_of(const sn_flac_stream *stream, const sn_flac_places *places, uint64_t frame)
{
    sn_flac_place place = {stream->first, 0};
    const uint8_t *next;
    sn_flac_block block;
    uint32_t n;

    if (places->n == 0)
        return place;
    for (uint32_t k = 0; k < places->n && places->of[k].frame <= frame; k++)
        place = places->of[k];
    n = sn_flac_open_block(stream, place.at, &block) ? block.frames : 0;
    for (uint32_t after; place.frame + n <= frame; n = after) {
        next = next_block(stream, place.at, place.frame + n, &after);
        if (next == NULL)
            break;
        place = (sn_flac_place){next, place.frame + n};
    }
    return place;
}
