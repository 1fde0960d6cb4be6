/* test_hash.c -- hashes and checksums are those of other implementations: the Python package xxhash gave these. */
#include <string.h>

#include "base/sn_hash.h"
#include "check.h"

#define MOST_BYTES 110000

static void check_short(void)
{
    static const struct {
        const char *text;
        uint64_t seed, hash;
    } known[] = {{"", 0, 0xEF46DB3751D8E999u},
                 {"a", 0, 0xD24EC4F1A98C6E5Bu},
                 {"abc", 0, 0x44BC2CF5AD770999u},
                 {"Nobody inspects the spammish repetition", 0, 0xFBCEA83C8A378BF1u},
                 {"Nobody inspects the spammish repetition", 7, 0x26F1AEB39B9B1F5Fu}};

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        CHECK_EQUAL(sn_hash64(known[i].text, strlen(known[i].text), known[i].seed), known[i].hash, "%s", known[i].text);
}

/* Around each border of the algorithm: its short way, a block, and a stripe behind one. */
static void check_long(void)
{
    static const struct {
        size_t n;
        uint64_t seed, hash;
    } known[] = {{240, 0, 0x1FA3DED0DAF320B7u},
                 {241, 0, 0xBC424A2C480DD281u},
                 {241, 7, 0x98CC2116C7CA3949u},
                 {1024, 0, 0x1FD15E7D36F5E1BCu},
                 {1025, 7, 0xBB9959C300FEB9B3u},
                 {1088, 7, 0x86073905ACD555B0u},
                 {1089, 7, 0xC77E30CECA1C552Eu},
                 {110000, 0, 0x71B35335FA4EE1BEu},
                 {110000, 0x123456789ABCDEFu, 0x52FC28477B7477EBu}};
    static uint8_t room[MOST_BYTES + 1];

    for (size_t shift = 0; shift < 2; shift++) {
        for (size_t i = 0; i < MOST_BYTES; i++)
            room[shift + i] = (uint8_t)(i * 2654435761u >> 13);
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            CHECK_EQUAL(sn_checksum(room + shift, known[i].n, known[i].seed), known[i].hash, "%zu bytes", known[i].n);
    }
}

int main(void)
{
    check_short();
    check_long();
    return 0;
}
