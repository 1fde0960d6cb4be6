#include "flac_end.h"

#include <string.h>

#define STREAMINFO 8     /* where its contents begin: behind the mark and a header of 4 bytes */
#define FIRST_BLOCK 42   /* where one may begin: behind its 34 bytes */
#define MOST_BYTES 65536 /* of a block that is looked for: those of usual sizes have some 20,000 */
#define MOST_TRIES 8     /* places that look like a block's beginning */
#define MOST_HEADER 16   /* bytes of a block before its samples */

static uint32_t number_at(const uint8_t *bytes, uint32_t n)
{
    uint32_t number = 0;

    for (uint32_t k = 0; k < n; k++)
        number = number << 8 | bytes[k];
    return number;
}

static uint32_t crc(const uint8_t *bytes, size_t n, uint32_t polynomial, uint32_t width)
{
    uint32_t sum = 0, top = 1u << (width - 1);

    for (size_t k = 0; k < n; k++) {
        sum ^= (uint32_t)bytes[k] << (width - 8);
        for (int bit = 0; bit < 8; bit++)
            sum = sum << 1 ^ (sum & top ? polynomial : 0);
    }
    return sum & ((1u << width) - 1);
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

    memcpy(at, begin, left < MOST_HEADER ? left : MOST_HEADER);
    size = at[2] >> 4;
    rate = at[2] & 15;
    if ((at[1] & 0xFE) != 0xF8 || (at[3] & 1) != 0 || size == 0 || rate == 15)
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
    if (left < bytes + 3 || crc(at, bytes, 0x07, 8) != at[bytes])
        return 0;
    *first = at[1] & 1 ? number : number * block; /* blocks of one size are counted */
    return frames;
}

bool sn_flac_has_last(const uint8_t *bytes, size_t length, uint64_t frames)
{
    const uint8_t *end = bytes + length, *at;
    uint32_t block;
    int tries = 0;

    if (length < FIRST_BLOCK || memcmp(bytes, "fLaC", 4) != 0)
        return false;
    block = number_at(bytes + STREAMINFO, 2);
    at = length - FIRST_BLOCK > MOST_BYTES ? end - MOST_BYTES : bytes + FIRST_BLOCK;
    while (tries < MOST_TRIES && (at = memchr(at, 0xFF, (size_t)(end - at))) != NULL) {
        uint64_t first = 0;
        uint32_t n = open_block(at, (size_t)(end - at), block, &first);

        if (n > 0 && first + n == frames) {
            tries++;
            if (crc(at, (size_t)(end - at), 0x8005, 16) == 0)
                return true;
        }
        at++;
    }
    return false;
}
