/*
 * huffman.h -- the coefficients of a baseline JPEG, in place of libjpeg-turbo's own decoder of them.
 *
 *   jpeg_start_decompress --> sn_huffman_begin --> [sn_huffman_want] --> sn_huffman_decode, an MCU a call,
 *                                                                        by jpeg_read_scanlines
 *                                                                    --> sn_huffman_end --> jpeg_finish_decompress
 *
 * Two thirds of the time of a picture go into these codes. libjpeg-turbo looks one code up, then takes the
 * bits of its value, then looks up the next. Here one look-up has two coefficients with their values, where
 * both fit the bits examined. Of blocks outside the crop only the length matters: there a look-up skips all
 * codes that fit.
 *
 * The coefficients are libjpeg-turbo's, to the bit. That is kept simple by giving up: whatever a sound file
 * does not have makes sn_huffman_decode() say so, and the caller decodes the picture again with
 * libjpeg-turbo, whose answer to damage is then the only one.
 *
 * Callers    one thread at a time an sn_huffman.
 * Blocking   never.
 * Owns       its tables, which depend on nothing but the codes that a file defines; a file with the codes of the
 *            last one finds them made.
 */
#ifndef SN_HUFFMAN_H
#define SN_HUFFMAN_H

#include <stdbool.h>
#include <stdint.h>

struct jpeg_decompress_struct;

typedef struct sn_huffman sn_huffman;

/* NULL when memory is short. */
sn_huffman *sn_huffman_new(void);
void sn_huffman_free(sn_huffman *huffman);

/* Whether the scan that `info` has come to is one that is decoded here: the only one, baseline, Huffman
 * codes. All columns are wanted. `info->src` has the rest of the file in memory. */
bool sn_huffman_begin(sn_huffman *huffman, struct jpeg_decompress_struct *info);

/* In each row the coefficients of the MCUs from `first` to `last` are wanted. */
void sn_huffman_want(sn_huffman *huffman, uint32_t first, uint32_t last);

/* The next MCU. `blocks`: one for each block of it, of zeros, each 64 coefficients in natural order; NULL: not
 * wanted. Blocks of columns that are not wanted stay zeros. False: the file is not what it should be here. */
bool sn_huffman_decode(sn_huffman *huffman, int16_t (**blocks)[64]);

/* Set libjpeg-turbo's position in the file to where this has read. */
void sn_huffman_end(const sn_huffman *huffman, struct jpeg_decompress_struct *info);

/* The first marker that ends a scan: its FF, or NULL. The bytes may begin anywhere in the codes of a scan. */
const uint8_t *sn_huffman_find_end(const uint8_t *begin, const uint8_t *end);

#endif
