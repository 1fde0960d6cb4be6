/*
 * tiff.h -- the first directory of a TIFF, as EXIF and the index of several pictures (MPF) have one.
 *
 *   | II or MM, 42 | where the directory is | ... | entries | ...
 *
 * It is read as Pillow reads it: where it breaks, the entries up to there count.
 *
 * Callers    any thread; no state.
 * Errors     none: hostile bytes are read within their bounds.
 */
#ifndef SN_TIFF_H
#define SN_TIFF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    const uint8_t *bytes;
    size_t length;
    bool big_endian;
} sn_tiff;

enum { SN_TIFF_BYTE = 1, SN_TIFF_ASCII = 2, SN_TIFF_LONG = 4, SN_TIFF_UNDEFINED = 7 };

typedef struct {
    uint32_t type;
    uint64_t size; /* of the value, in bytes; never 0 */
    size_t at;     /* where the value is, within the file */
} sn_tiff_entry;

/* false: no head that Pillow takes for a TIFF's. */
bool sn_tiff_open(sn_tiff *file, const uint8_t *bytes, size_t length);

/* The entry of a tag, the last where there are several. false: there is none up to where the directory
 * breaks. */
bool sn_tiff_find(const sn_tiff *file, uint32_t tag, sn_tiff_entry *entry);

/* Bytes that one value of a type takes; 0: no type that Pillow knows. */
uint32_t sn_tiff_type_size(uint32_t type);

/* A number of `count` bytes, which the file has. */
uint64_t sn_tiff_number(const sn_tiff *file, size_t at, size_t count);

#endif
