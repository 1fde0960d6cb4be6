#include "exif.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

#define ORIENTATION 0x112u
#define MOST_ENTRIES 3u

static picture_file made_of(const uint8_t *bytes, size_t length)
{
    picture_file made = {malloc(length + 1), length};

    CHECK(made.bytes);
    memcpy(made.bytes, bytes, length);
    return made;
}

static size_t put(uint8_t *to, uint32_t number, size_t bytes, int is_big)
{
    for (size_t i = 0; i < bytes; i++)
        to[i] = (uint8_t)(number >> 8 * (is_big ? bytes - 1 - i : i));
    return bytes;
}

/* A TIFF of one directory, in either order of bytes, with a value of any type. */
picture_file exif_make(uint32_t number, sn_rng *rng)
{
    uint8_t bytes[128];
    int is_big = number % 2;
    uint32_t n = 1 + sn_rng_below(rng, MOST_ENTRIES), type = number % 13;
    size_t at = 0;

    memcpy(bytes, is_big ? "MM" : "II", 2);
    at += 2;
    at += put(bytes + at, 42, 2, is_big);
    at += put(bytes + at, 8, 4, is_big);
    at += put(bytes + at, n, 2, is_big);
    for (uint32_t i = 0; i < n; i++) {
        at += put(bytes + at, i + 1 == n ? ORIENTATION : 0x100 + i, 2, is_big);
        at += put(bytes + at, type < 1 ? 3 : type, 2, is_big);
        at += put(bytes + at, 1, 4, is_big);
        at += put(bytes + at, number % 3 ? 1 + sn_rng_below(rng, 8) : (uint32_t)(10 + 12 * n), number % 3 ? 2 : 4,
                  is_big);
        at += number % 3 ? put(bytes + at, 0, 2, is_big) : 0;
    }
    at += put(bytes + at, 0, 4, is_big);
    at += put(bytes + at, 6, 4, is_big);
    at += put(bytes + at, 1, 4, is_big);
    return made_of(bytes, at);
}

picture_file xmp_make(uint32_t number)
{
    char text[96];
    int n = snprintf(text, sizeof text, number % 2 ? "<x tiff:Orientation=\"%u\"/>" : "<tiff:Orientation>%u</x>",
                     number % 10);

    return made_of((const uint8_t *)text, (size_t)n);
}
