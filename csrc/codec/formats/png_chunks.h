/*
 * png_chunks.h -- the chunks of a PNG: a signature, and behind it chunks of length, name, data and checksum.
 *
 * Lives in   nothing; pure functions.
 * Callers    png and stored, of bytes that they know to be there.
 */
#ifndef SN_PNG_CHUNKS_H
#define SN_PNG_CHUNKS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define SN_PNG_SIGNATURE 8     /* bytes */
#define SN_PNG_CHUNK 12        /* bytes of a chunk without data: length, name, checksum */
#define SN_PNG_DATA 8          /* where a chunk's data begins */
#define SN_PNG_MOST_SIDE 65535 /* pixels; Pillow gets pictures with longer sides */

static inline uint32_t sn_png_number(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static inline bool sn_png_is_named(const uint8_t *chunk, const char *name)
{
    return memcmp(chunk + 4, name, 4) == 0;
}

#endif
