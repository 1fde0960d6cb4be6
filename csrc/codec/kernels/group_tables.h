/*
 * group_tables.h -- what vectors take groups by: see group_kernels.h. Each kernel has its own copy.
 */
#ifndef SN_GROUP_TABLES_H
#define SN_GROUP_TABLES_H

#include "group_kernels.h"

/* What a shuffle takes to each byte of eight lanes; 128: zero. */

#define HAS(mask, lane) ((mask) >> (lane) & 1)
#define RANK(mask, lane)                                                                                               \
    (((lane) > 0 && HAS(mask, 0)) + ((lane) > 1 && HAS(mask, 1)) + ((lane) > 2 && HAS(mask, 2)) +                      \
     ((lane) > 3 && HAS(mask, 3)) + ((lane) > 4 && HAS(mask, 4)) + ((lane) > 5 && HAS(mask, 5)) +                      \
     ((lane) > 6 && HAS(mask, 6)))
#define FOUR(what, k) what(k), what((k) + 1), what((k) + 2), what((k) + 3)
#define SIXTEEN(what, k) FOUR(what, k), FOUR(what, (k) + 4), FOUR(what, (k) + 8), FOUR(what, (k) + 12)
#define ALL(what)                                                                                                      \
    SIXTEEN(what, 0), SIXTEEN(what, 16), SIXTEEN(what, 32), SIXTEEN(what, 48), SIXTEEN(what, 64), SIXTEEN(what, 80),   \
        SIXTEEN(what, 96), SIXTEEN(what, 112), SIXTEEN(what, 128), SIXTEEN(what, 144), SIXTEEN(what, 160),             \
        SIXTEEN(what, 176), SIXTEEN(what, 192), SIXTEEN(what, 208), SIXTEEN(what, 224), SIXTEEN(what, 240)

/* The next of those that are there, to each lane that the mask has. */
#define SPREAD_TO(mask, lane)                                                                                          \
    HAS(mask, lane) ? 2 * RANK(mask, lane) : 128, HAS(mask, lane) ? 2 * RANK(mask, lane) + 1 : 128
#define SPREAD(mask)                                                                                                   \
    {SPREAD_TO(mask, 0), SPREAD_TO(mask, 1), SPREAD_TO(mask, 2), SPREAD_TO(mask, 3),                                   \
     SPREAD_TO(mask, 4), SPREAD_TO(mask, 5), SPREAD_TO(mask, 6), SPREAD_TO(mask, 7)}
static const uint8_t spread[256][16] __attribute__((aligned(16))) = {ALL(SPREAD)};

/* Of a code: the two bytes of its fields that a lane's begins in, as a shuffle, and what moves it up to the sign. */
#define WIDTH(code) ((code) < 7 ? (code) + 1 : (code) > 7 && (code) < 14 ? (code) - 6 : 0)
#define FIELD(code, lane) ((code) == SN_GROUP_UNIT ? 3 : WIDTH(code) * (lane))
#define BYTES_OF(code, lane) FIELD(code, lane) / 8, FIELD(code, lane) / 8 + 1 > 7 ? 128 : FIELD(code, lane) / 8 + 1
#define BYTES(code)                                                                                                    \
    {BYTES_OF(code, 0), BYTES_OF(code, 1), BYTES_OF(code, 2), BYTES_OF(code, 3),                                       \
     BYTES_OF(code, 4), BYTES_OF(code, 5), BYTES_OF(code, 6), BYTES_OF(code, 7)}
static const uint8_t bytes_of[16][16] __attribute__((aligned(16))) = {SIXTEEN(BYTES, 0)};

#define UP_OF(code, lane)                                                                                              \
    (uint16_t)(1u << (16 - ((code) == SN_GROUP_UNIT ? 1 : WIDTH(code)) - FIELD(code, lane) % 8) % 65536u)
#define UP(code)                                                                                                       \
    {UP_OF(code, 0), UP_OF(code, 1), UP_OF(code, 2), UP_OF(code, 3),                                                   \
     UP_OF(code, 4), UP_OF(code, 5), UP_OF(code, 6), UP_OF(code, 7)}
static const uint16_t up[16][8] __attribute__((aligned(16))) = {SIXTEEN(UP, 0)};

/* Of a code: how far its fields go down again; from which number on they are one less than what they are; the bits of a
 * mask that count, and those that are set besides; where a mask is set by the field; bits of the group beside those
 * that the mask counts. */
typedef struct {
    uint64_t down;
    int16_t least;
    uint8_t width, kept, set, chosen, bits;
} rule;
#define RULE(code)                                                                                                     \
    {.down = (code) == SN_GROUP_UNIT ? 15 : 16 - WIDTH(code),                                                          \
     .least = (code) < SN_GROUP_WHOLE || (code) == SN_GROUP_UNIT ? -1 : INT16_MAX,                                     \
     .width = WIDTH(code),                                                                                             \
     .kept = (code) < SN_GROUP_WHOLE ? 255 : 0,                                                                        \
     .set = (code) < SN_GROUP_WHOLE || (code) == SN_GROUP_UNIT ? 0 : 255,                                              \
     .chosen = (code) == SN_GROUP_UNIT,                                                                                \
     .bits = (code) == SN_GROUP_UNIT ? 4 : 0}
static const rule rules[16] = {SIXTEEN(RULE, 0)};

#endif
