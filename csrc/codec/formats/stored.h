/*
 * stored.h -- a PNG whose pixels are inflated already, for libpng to read.
 *
 *   file     | what is before | IDAT | IDAT | ... | what is behind, up to IEND |
 *                                \______|______/
 *                                    inflated
 *                                       v
 *   stored   | what is before | IDAT: the same bytes, not compressed | what is behind |
 *
 * Most of the time that a PNG takes is spent in inflating. libdeflate does that two to three times as fast as zlib, but
 * only of a whole stream. libpng cannot be made to use it. Therefore the file is written anew with deflate's *stored*
 * blocks, which zlib only copies. libpng still reads it and does all else: filters, palettes, and its checks.
 *
 * Only usual, undamaged files are written anew. Of all others libpng reads the original, and decides as if this were
 * not here. There is one exception: deflate has two reserved lengths, the symbols 286 and 287, which no encoder writes.
 * zlib refuses them. libdeflate takes them for 258, which is safe, and the checksum then has to fit.
 *
 * Lives in   the caller's buffer, behind the room for the picture.
 * Callers    png, any threads.
 * Blocking   never.
 * Owns       libdeflate's memory, within the call.
 */
#ifndef SN_STORED_H
#define SN_STORED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../buffer.h"

/* Write the file anew, without compression. true: *stored is it, which lives until `buffer` grows. The first 3 bytes a
 * pixel of the buffer are left free for the picture. What the original says of checksums is checked for critical
 * chunks and pixels; the stored IDAT has none, and those of ancillary chunks are unchanged.
 *
 * false: libpng has to read the original, because it is interlaced, has more than max_pixels, is damaged or unusual,
 * because memory is short, or because Seneca was compiled without libdeflate. */
bool sn_png_store(const uint8_t *bytes, size_t length, uint64_t max_pixels, sn_buffer *buffer, const uint8_t **stored,
                  size_t *stored_length);

/* The libdeflate that this was compiled with: 0x010e is version 1.14. 0: without, libpng inflates. */
int sn_png_deflate_version(void);

#endif
