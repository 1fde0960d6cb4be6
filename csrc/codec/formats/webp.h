/*
 * webp.h -- the pixels of a WebP in memory.
 *
 * They are those of Pillow's Image.open(f).convert("RGB"), bit for bit: lossy or lossless, alpha is dropped and not
 * blended, and colour profiles are not applied.
 *
 * Rare, damaged and too large files are left to Pillow, which decides and words the error: animations, pictures that
 * may have an orientation to apply, files whose chunks are not just those of one picture, and whatever libwebp refuses.
 *
 * Callers    any threads.
 * Blocking   never.
 * Owns       libwebp's memory, within the call.
 */
#ifndef SN_WEBP_H
#define SN_WEBP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../buffer.h"
#include "../sn_codec.h"

/* Decode into `buffer`; *out is a view of it there. `upright`: an orientation would be applied.
 *
 * SN_OK; SN_E_FOR_PILLOW: Pillow decodes it, or knows why not; -ENOMEM. */
int sn_webp_read(const uint8_t *bytes, size_t length, bool upright, uint64_t max_pixels, sn_buffer *buffer,
                 sn_view *out);

/* The libwebp that is loaded: 0x010204 is version 1.2.4. 0: Seneca was compiled without, and Pillow decodes all WebPs. */
int sn_webp_version(void);

#endif
