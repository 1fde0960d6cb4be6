/*
 * jpeg_header.h -- whether a JPEG's header is a usual one, which Pillow opens whenever libjpeg does.
 *
 *   | FFD8 | segment | segment | ... | scan
 *          \__________ read here ____/
 *
 * Pillow reads all segments before the first scan in Python. It refuses files of which libjpeg needs nothing
 * that is wrong: an ICC profile or a JFIF segment that is cut short, or an index that has fewer pictures than
 * it says. An unusual header is left to Pillow. Whether the pixels are sound is not asked.
 *
 * Callers    jpeg, any thread; no state.
 * Errors     none: hostile bytes are read within their bounds.
 */
#ifndef SN_JPEG_HEADER_H
#define SN_JPEG_HEADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* For a file that begins as a JPEG does, FFD8FF. */
bool sn_jpeg_header_is_usual(const uint8_t *bytes, size_t length);

#endif
