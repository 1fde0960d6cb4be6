/*
 * png.h -- the pixels of a PNG in memory.
 *
 * They are those of Pillow's Image.open(f).convert("RGB"), bit for bit: alpha is dropped and not blended, of 16 bits the
 * higher 8 are left, grey and palettes become RGB, and gamma and colour profiles are not applied.
 *
 * Rare, damaged and too large files are left to Pillow, which decides and words the error: grey of 16 bits, animations,
 * pictures that may have an orientation to apply, whatever libpng refuses, and chunks that libpng overlooks but Pillow
 * may refuse, such as a colour profile without a method. Each checksum is checked.
 *
 * libdeflate inflates what is usual and undamaged (stored.h), if Seneca was compiled with it; else libpng does, by zlib.
 *
 * Callers    any threads.
 * Blocking   never.
 * Owns       libpng's memory, within the call.
 */
#ifndef SN_PNG_H
#define SN_PNG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../buffer.h"
#include "../sn_codec.h"

/* Decode into `buffer`; *out is a view of it there. `upright`: an orientation would be applied. With libdeflate the
 * buffer also holds the rows as they were inflated, and the compressed stream.
 *
 * SN_OK; SN_E_FOR_PILLOW: Pillow decodes it, or knows why not; -ENOMEM. */
int sn_png_read(const uint8_t *bytes, size_t length, bool upright, uint64_t max_pixels, sn_buffer *buffer,
                sn_view *out);

/* The same of a mask: *out has one byte a pixel, the palette's index or the grey, as Pillow's Image.open(f) has them
 * in modes "P" and "L". SN_E_FOR_PILLOW also for a mask of any other mode. */
int sn_png_read_mask(const uint8_t *bytes, size_t length, uint64_t max_pixels, sn_buffer *buffer, sn_view *out);

/* The libpng that is used: 10639 is version 1.6.39. 0: Seneca was compiled without, and Pillow decodes all PNGs. */
int sn_png_version(void);

#endif
