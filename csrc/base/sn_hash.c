#include "sn_hash.h"

#include <string.h>

#ifdef __x86_64__
#include <immintrin.h>
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

#define STRIPE 64  /* bytes: a word for each lane */
#define BLOCK 1024 /* after each, lanes are scrambled */
#define SHORT 240  /* XXH3 has three other ways up to here */
#define SECRET_WORDS 24
#define LAST (8 * SECRET_WORDS - STRIPE) /* where the secret's last stripe begins */
#define HALF 0x9E3779B1u                 /* the specification's PRIME32_1 */

/* The specification's secret, and what a seed makes of it. */
static const uint64_t SECRET[SECRET_WORDS] = {
    0xBE4BA423396CFEB8u, 0x1CAD21F72C81017Cu, 0xDB979083E96DD4DEu, 0x1F67B3B7A4A44072u, 0x78E5C0CC4EE679CBu,
    0x2172FFCC7DD05A82u, 0x8E2443F7744608B8u, 0x4C263A81E69035E0u, 0xCB00C391BB52283Cu, 0xA32E531B8B65D088u,
    0x4EF90DA297486471u, 0xD8ACDEA946EF1938u, 0x3F349CE33F76FAA8u, 0x1D4F0BC7C7BBDCF9u, 0x3159B4CD4BE0518Au,
    0x647378D9C97E9FC8u, 0xC3EBD33483ACC5EAu, 0xEB6313FAFFA081C5u, 0x49DAF0B751DD0D17u, 0x9E68D429265516D3u,
    0xFCA1477D58BE162Bu, 0xCE31D07AD1B8F88Fu, 0x280416958F3ACB45u, 0x7E404BBBCAFBD7AFu};

/* Add stripes to the lanes. Each takes the product of the two halves of its word, which the secret has turned, and its
 * neighbour's word: else a half of zero would hide the other. */
static void add_stripes(uint64_t lanes[restrict 8], const uint8_t *restrict bytes, const uint8_t *restrict secret,
                        size_t stripes)
{
    for (size_t s = 0; s < stripes; s++, bytes += STRIPE, secret += 8) {
        for (int i = 0; i < 8; i++) {
            uint64_t turned = word(bytes + 8 * i) ^ word(secret + 8 * i);
            lanes[i] += word(bytes + 8 * (i ^ 1)) + (turned & 0xFFFFFFFFu) * (turned >> 32);
        }
    }
}

static void add_blocks(uint64_t lanes[8], const uint8_t *bytes, const uint8_t *secret, size_t blocks)
{
    for (size_t b = 0; b < blocks; b++, bytes += BLOCK) {
        add_stripes(lanes, bytes, secret, BLOCK / STRIPE);
        for (int i = 0; i < 8; i++)
            lanes[i] = (lanes[i] ^ lanes[i] >> 47 ^ word(secret + LAST + 8 * i)) * HALF;
    }
}

#ifdef __x86_64__
/* The same, four lanes at a time. */
__attribute__((target("avx2"))) static void add_blocks_avx2(uint64_t lanes[8], const uint8_t *bytes,
                                                            const uint8_t *secret, size_t blocks)
{
    const __m256i half = _mm256_set1_epi64x(HALF), *keys = (const __m256i *)(secret + LAST);
    __m256i fours[2] = {_mm256_loadu_si256((__m256i *)lanes), _mm256_loadu_si256((__m256i *)lanes + 1)};

    for (size_t b = 0; b < blocks; b++) {
        for (size_t s = 0; s < BLOCK / STRIPE; s++, bytes += STRIPE) {
            for (int i = 0; i < 2; i++) {
                __m256i words = _mm256_loadu_si256((const __m256i *)bytes + i);
                __m256i turned = _mm256_xor_si256(words, _mm256_loadu_si256((const __m256i *)(secret + 8 * s) + i));
                __m256i product = _mm256_mul_epu32(turned, _mm256_srli_epi64(turned, 32));
                __m256i neighbours = _mm256_shuffle_epi32(words, _MM_SHUFFLE(1, 0, 3, 2));
                fours[i] = _mm256_add_epi64(_mm256_add_epi64(fours[i], neighbours), product);
            }
        }
        for (int i = 0; i < 2; i++) {
            __m256i mixed = _mm256_xor_si256(fours[i], _mm256_srli_epi64(fours[i], 47));
            mixed = _mm256_xor_si256(mixed, _mm256_loadu_si256(keys + i));
            __m256i high = _mm256_mul_epu32(_mm256_srli_epi64(mixed, 32), half);
            fours[i] = _mm256_add_epi64(_mm256_mul_epu32(mixed, half), _mm256_slli_epi64(high, 32));
        }
    }
    for (int i = 0; i < 2; i++)
        _mm256_storeu_si256((__m256i *)lanes + i, fours[i]);
}
#endif

static uint64_t fold(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

uint64_t sn_checksum(const void *bytes, size_t n, uint64_t seed)
{
    uint64_t lanes[8] = {0xC2B2AE3Du, P1, P2, P3, P4, 0x85EBCA77u, P5, HALF}, words[SECRET_WORDS];
    const uint8_t *at = bytes, *end = at + n, *secret = (const uint8_t *)words;
    void (*add)(uint64_t *, const uint8_t *, const uint8_t *, size_t) = add_blocks;

    if (n <= SHORT)
        return sn_hash64(bytes, n, seed);
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2"))
        add = add_blocks_avx2;
#endif
    for (int i = 0; i < SECRET_WORDS; i++)
        words[i] = SECRET[i] + (i % 2 ? -seed : seed);
    size_t blocks = (n - 1) / BLOCK; /* the last byte is in none */
    add(lanes, at, secret, blocks);
    at += blocks * BLOCK;
    add_stripes(lanes, at, secret, (size_t)(end - at - 1) / STRIPE);
    add_stripes(lanes, end - STRIPE, secret + LAST - 7, 1);
    uint64_t hash = n * P1;
    for (int i = 0; i < 4; i++)
        hash += fold(lanes[2 * i] ^ word(secret + 11 + 16 * i), lanes[2 * i + 1] ^ word(secret + 19 + 16 * i));
    hash = (hash ^ hash >> 37) * 0x165667919E3779F9u;
    return hash ^ hash >> 32;
}
