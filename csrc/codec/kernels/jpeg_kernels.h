/*
 * jpeg_kernels.h -- from a JPEG's coefficients to RGB, in plain C and in vectors.
 *
 *   coefficients --idct--> samples --h2v1, h2v2--> samples of every pixel --to_rgb--> pixels
 *
 * The bits are those of libjpeg-turbo: JDCT_ISLOW, fancy upsampling, YCbCr of JFIF. jpeg_plain.c defines them;
 * jpeg_avx2.c or jpeg_neon.c gives the same. raster.c chooses; only tests call them otherwise.
 */
#ifndef SN_JPEG_KERNELS_H
#define SN_JPEG_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "simd.h"

#define SN_BLOCK 64 /* coefficients, in natural order */

/* Beyond this product of coefficient and quantiser libjpeg-turbo's vectors wrap, and its plain C does not. No sound
 * picture of 8 bits has an eighth of it. */
#define SN_MOST_PRODUCT 8191

/* What a component's coefficients are multiplied by, and the largest of each that keeps to SN_MOST_PRODUCT. */
typedef struct {
    int16_t quantiser[SN_BLOCK]; /* of 16 bits: the product is taken modulo 2^16 */
    int16_t most[SN_BLOCK];
} sn_dequantiser;

static inline sn_dequantiser sn_dequantiser_of(const uint16_t quantisers[SN_BLOCK])
{
    sn_dequantiser by;

    for (int k = 0; k < SN_BLOCK; k++) {
        by.quantiser[k] = (int16_t)quantisers[k];
        by.most[k] = quantisers[k] == 0 ? INT16_MAX : (int16_t)(SN_MOST_PRODUCT / quantisers[k]);
    }
    return by;
}

/* Vectors read and write whole ones: past the last sample or pixel as many bytes are read, and overwritten. */
#define SN_SAMPLES_PAST 32
#define SN_RGB_PAST 96

typedef struct {
    /* The samples of `n` blocks side by side, 8 rows of 8 each; the blocks are zeros afterwards. False: a product is
     * beyond SN_MOST_PRODUCT, and the samples are any. `out` may be written past the last block as far as one more. */
    bool (*idct)(int16_t (*blocks)[SN_BLOCK], size_t n, const sn_dequantiser *by, uint8_t *out, size_t stride);

    /* Twice as many samples as `n`. in[-1] and in[n] are read: the neighbours, or at an edge the same again. */
    void (*h2v1)(const uint8_t *in, size_t n, uint8_t *out);
    /* As h2v1, of three parts of a row and one of the row that is next on the other side. */
    void (*h2v2)(const uint8_t *near, const uint8_t *far, size_t n, uint8_t *out);

    void (*to_rgb)(const uint8_t *y, const uint8_t *cb, const uint8_t *cr, size_t n, uint8_t *rgb);
} sn_jpeg_kernels;

extern const sn_jpeg_kernels sn_jpeg_plain;
#ifdef SN_HAVE_SIMD_CODE
extern const sn_jpeg_kernels sn_jpeg_simd;
#endif

/* 13 bits behind the point. */
#define SN_F_0_298 2446
#define SN_F_0_390 3196
#define SN_F_0_541 4433
#define SN_F_0_765 6270
#define SN_F_0_899 7373
#define SN_F_1_175 9633
#define SN_F_1_501 12299
#define SN_F_1_847 15137
#define SN_F_1_961 16069
#define SN_F_2_053 16819
#define SN_F_2_562 20995
#define SN_F_3_072 25172

#endif
