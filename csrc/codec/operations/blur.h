/*
 * blur.h -- filters that examine a pixel's neighbours: Gaussian blur and sharpness.
 *
 *   BLUR        torchvision's GaussianBlur: weights of a normal distribution of deviation `sigma`, on
 *               `height` x `width` pixels. At the edges the picture is mirrored without its outermost
 *               pixels, again and again where a kernel is larger than it (torchvision fails there).
 *               One direction after the other, in single floats, rounded once at the end.
 *   SHARPNESS   PIL.ImageEnhance.Sharpness: factor 0 gives each pixel the mean of its 3 x 3 neighbours,
 *               where it counts five times; 1 changes nothing. The outermost pixels stay. The mean is
 *               Pillow-SIMD's, with weights of 13 bits; plain Pillow's differs by 1 now and then.
 *   SOFTEN      PIL.ImageFilter.GaussianBlur: three box filters in each direction, in 8.24 fixed point, of
 *               which each rounds to bytes. Beyond the edges the outermost pixels are repeated.
 *
 * Callers    any thread; no state but the caller's.
 * Errors     -ENOMEM.
 */
#ifndef SN_BLUR_H
#define SN_BLUR_H

#include <stdint.h>

#include "../buffer.h"

#define SN_BLUR_MAX_KERNEL 255 /* odd, as all of them */
#define SN_SOFTEN_MAX_DEVIATION 2.0f
#define SN_SOFTEN_MAX_REACH 2 /* pixels of a box to each side, at that deviation */

typedef struct {
    uint32_t height, width; /* of the kernel */
    double sigma;
} sn_blur;

/* All of `to`, from `from`: pictures of this size, rows close together. `scratch` grows. */
int sn_blur_run(const sn_blur *blur, const uint8_t *from, uint8_t *to, uint32_t height, uint32_t width,
                sn_buffer *scratch);

/* `deviation`: above 0, up to SN_SOFTEN_MAX_DEVIATION; Pillow calls it the radius. */
int sn_soften(float deviation, const uint8_t *from, uint8_t *to, uint32_t height, uint32_t width, sn_buffer *scratch);

void sn_sharpen(float factor, const uint8_t *from, uint8_t *to, uint32_t height, uint32_t width);

/* The weight of the middle, and of the neighbours at each distance; all of them add up to 1. */
void sn_blur_weigh(double sigma, uint32_t radius, float *weights);

/* The index in 0 ... count - 1 that one outside stands for, where the picture is mirrored. */
uint32_t sn_blur_mirrored(int64_t index, uint32_t count);

#endif
