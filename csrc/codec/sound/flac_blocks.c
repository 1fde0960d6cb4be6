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

/* Whether a block ends with the sum of what is before. */
static bool is_sound(const sn_flac_sums *sums, const uint8_t *at, const uint8_t *end)
{
    const uint16_t (*behind)[256] = sums->behind;
    uint32_t sum = 0;

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

/* How many frames a block has that begins at `at`, and the first of them; 0: none begins there. */
static uint32_t open_block(const uint8_t *begin, size_t left, uint32_t block, uint64_t *first)
{
    uint8_t at[MOST_HEADER] = {0}; /* a block of silence may be shorter */
    uint32_t size, rate, bytes, frames = 0;
    uint64_t number;

    if (left < 2 || begin[0] != 0xFF || (begin[1] & 0xFE) != 0xF8)
        return 0;
    memcpy(at, begin, left < MOST_HEADER ? left : MOST_HEADER);
    size = at[2] >> 4;
    rate = at[2] & 15;
    if ((at[3] & 1) != 0 || size == 0 || rate == 15)
        return 0;
    bytes = take_number(at + 4, &number);
    if (bytes == 0)
        return 0;
    bytes += 4;
    if (size == 1)
        frames = 192;
    else if (size <= 5)
        frames = 576u << (size - 2);
    else if (size >= 8)
        frames = 256u << (size - 8);
    else
        frames = number_at(at + bytes, size - 5) + 1;
    bytes += size == 6 ? 1 : size == 7 ? 2 : 0;
    bytes += rate == 12 ? 1 : rate >= 13 ? 2 : 0;
    if (left < bytes + 3 || short_sum(at, bytes) != at[bytes])
        return 0;
    *first = at[1] & 1 ? number : number * block; /* blocks of one size are counted */
    return frames;
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

/* The block behind the one at `at`, which begins with the frame `wanted`. NULL: there is none. */
static const uint8_t *next_block(const uint8_t *at, const uint8_t *end, size_t fewest, uint32_t block, uint64_t wanted,
                                 uint32_t *frames)
{
    at += fewest;
    while (at < end && (at = memchr(at, 0xFF, (size_t)(end - at))) != NULL) {
        uint64_t first;

        *frames = open_block(at, (size_t)(end - at), block, &first);
        if (*frames > 0 && first == wanted)
            return at;
        at++;
    }
    return NULL;
}

bool sn_flac_is_whole(sn_flac_sums *sums, const uint8_t *bytes, size_t length, uint64_t frames)
{
    const uint8_t *end = bytes + length, *at, *next;
    uint32_t block, fewest, n;
    uint64_t done;

    if (length < SHORTEST || memcmp(bytes, "fLaC", 4) != 0)
        return false;
    if (!sums->are_made)
        make_sums(sums);
    block = number_at(bytes + STREAMINFO, 2);
    fewest = number_at(bytes + STREAMINFO + 4, 3);
    at = first_block(bytes, end);
    if (at == NULL)
        return false;
    n = open_block(at, (size_t)(end - at), block, &done);
    if (n == 0 || done != 0 || (n != block && n != frames))
        return false;
    for (done = n; done < frames; done += n, at = next) {
        if (fewest >= (size_t)(end - at))
            return false;
        next = next_block(at, end, fewest > 0 ? fewest : 1, block, done, &n);
        if (next == NULL || !is_sound(sums, at, next))
            return false;
    }
    return done == frames && is_sound(sums, at, end);
}
