#include "sn_hash.h"

#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

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

/* -- XXH3 -- */

#define STRIPE 64          /* bytes: a word for each lane */
#define BLOCK 1024         /* after each, lanes are scrambled */
#define SHORT 240          /* XXH3 has three other ways up to here */
#define SECRET_WORDS 24
#define HALF 0x9E3779B1u   /* the specification's PRIME32_1 */

/* The specification's secret, and what a seed makes of it. */
static const uint64_t SECRET[SECRET_WORDS] = {
    0xBE4BA423396CFEB8u, 0x1CAD21F72C81017Cu, 0xDB979083E96DD4DEu, 0x1F67B3B7A4A44072u, 0x78E5C0CC4EE679CBu, 0x2172FFCC7DD05A82u,
    0x8E2443F7744608B8u, 0x4C263A81E69035E0u, 0xCB00C391BB52283Cu, 0xA32E531B8B65D088u, 0x4EF90DA297486471u, 0xD8ACDEA946EF1938u,
    0x3F349CE33F76FAA8u, 0x1D4F0BC7C7BBDCF9u, 0x3159B4CD4BE0518Au, 0x647378D9C97E9FC8u, 0xC3EBD33483ACC5EAu, 0xEB6313FAFFA081C5u,
    0x49DAF0B751DD0D17u, 0x9E68D429265516D3u, 0xFCA1477D58BE162Bu, 0xCE31D07AD1B8F88Fu, 0x280416958F3ACB45u, 0x7E404BBBCAFBD7AFu};

/* Add stripes to the lanes. Each takes the product of the two halves of its word, which the secret has turned, and its
 * neighbour's word: else a half of zero would hide the other. */
static void add_stripes(uint64_t lanes[8], const uint8_t *bytes, const uint8_t *secret, size_t stripes)
{
#ifdef __SSE2__
    __m128i pairs[4];
    memcpy(pairs, lanes, sizeof pairs);
    for (size_t s = 0; s < stripes; s++, bytes += STRIPE, secret += 8) {
        for (int i = 0; i < 4; i++) {
            __m128i words = _mm_loadu_si128((const __m128i *)bytes + i);
            __m128i turned = _mm_xor_si128(words, _mm_loadu_si128((const __m128i *)secret + i));
            __m128i product = _mm_mul_epu32(turned, _mm_shuffle_epi32(turned, _MM_SHUFFLE(3, 3, 1, 1)));
            __m128i neighbours = _mm_shuffle_epi32(words, _MM_SHUFFLE(1, 0, 3, 2));
            pairs[i] = _mm_add_epi64(_mm_add_epi64(pairs[i], neighbours), product);
        }
    }
    memcpy(lanes, pairs, sizeof pairs);
#else
    for (size_t s = 0; s < stripes; s++, bytes += STRIPE, secret += 8) {
        for (int i = 0; i < 8; i++) {
            uint64_t turned = word(bytes + 8 * i) ^ word(secret + 8 * i);
            lanes[i] += word(bytes + 8 * (i ^ 1)) + (turned & 0xFFFFFFFFu) * (turned >> 32);
        }
    }
#endif
}

static void scramble(uint64_t lanes[8], const uint8_t *secret)
{
    for (int i = 0; i < 8; i++)
        lanes[i] = (lanes[i] ^ lanes[i] >> 47 ^ word(secret + 8 * i)) * HALF;
}

static uint64_t fold(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

uint64_t sn_checksum(const void *bytes, size_t n, uint64_t seed)
{
    uint64_t lanes[8] = {0xC2B2AE3Du, P1, P2, P3, P4, 0x85EBCA77u, P5, HALF}, words[SECRET_WORDS];
    const uint8_t *at = bytes, *end = at + n, *secret = (const uint8_t *)words, *last = secret + sizeof words - STRIPE;

    if (n <= SHORT)
        return sn_hash64(bytes, n, seed);
    for (int i = 0; i < SECRET_WORDS; i++)
        words[i] = SECRET[i] + (i % 2 ? -seed : seed);
    for (; end - at > BLOCK; at += BLOCK) {
        add_stripes(lanes, at, secret, BLOCK / STRIPE);
        scramble(lanes, last);
    }
    add_stripes(lanes, at, secret, (size_t)(end - at - 1) / STRIPE);
    add_stripes(lanes, end - STRIPE, last - 7, 1);
    uint64_t hash = n * P1;
    for (int i = 0; i < 4; i++)
        hash += fold(lanes[2 * i] ^ word(secret + 11 + 16 * i), lanes[2 * i + 1] ^ word(secret + 19 + 16 * i));
    hash = (hash ^ hash >> 37) * 0x165667919E3779F9u;
    return hash ^ hash >> 32;
}
