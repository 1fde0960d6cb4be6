#include "sn_hash.h"

#include <string.h>

#define P1 0x9E3779B185EBCA87u
#define P2 0xC2B2AE3D27D4EB4Fu
#define P3 0x165667B19E3779F9u
#define P4 0x85EBCA77C2B2AE63u
#define P5 0x27D4EB2F165667C5u

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the specification reads little-endian words");

static uint64_t turn(uint64_t x, int by)
{
    return x << by | x >> (64 - by);
}

static uint64_t word(const uint8_t *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static uint64_t step(uint64_t lane, uint64_t value)
{
    return turn(lane + value * P2, 31) * P1;
}

static uint64_t merge(uint64_t hash, uint64_t lane)
{
    return (hash ^ step(0, lane)) * P1 + P4;
}

/* Four lanes, each with every fourth word. */
static uint64_t stripes(const uint8_t **at, const uint8_t *end, uint64_t seed)
{
    uint64_t a = seed + P1 + P2, b = seed + P2, c = seed, d = seed - P1;

    for (; end - *at >= 32; *at += 32) {
        a = step(a, word(*at));
        b = step(b, word(*at + 8));
        c = step(c, word(*at + 16));
        d = step(d, word(*at + 24));
    }
    uint64_t hash = turn(a, 1) + turn(b, 7) + turn(c, 12) + turn(d, 18);
    return merge(merge(merge(merge(hash, a), b), c), d);
}

uint64_t sn_hash64(const void *bytes, size_t n, uint64_t seed)
{
    const uint8_t *at = bytes, *end = at + n;
    uint64_t hash = (n >= 32 ? stripes(&at, end, seed) : seed + P5) + n;

    for (; end - at >= 8; at += 8)
        hash = turn(hash ^ step(0, word(at)), 27) * P1 + P4;
    if (end - at >= 4) {
        uint32_t half;
        memcpy(&half, at, sizeof half);
        hash = turn(hash ^ half * P1, 23) * P2 + P3;
        at += 4;
    }
    for (; at < end; at++)
        hash = turn(hash ^ *at * P5, 11) * P1;
    hash = (hash ^ hash >> 33) * P2;
    hash = (hash ^ hash >> 29) * P3;
    return hash ^ hash >> 32;
}
