/*
 * blur.h -- filters that look at a pixel's neighbours: Gaussian blur and sharpness.
 *
 *   BLUR        torchvision's GaussianBlur: weights of a normal distribution of deviation `sigma`, on
 *               `height` x `width` pixels. At the edges the picture is mirrored without its outermost
 *               pixels, again and again where a kernel is larger than it (torchvision fails there).
 *               One direction after the other, in single floats, rounded once at the end.
 *   SHARPNESS   PIL.ImageEnhance.Sharpness: factor 0 gives each pixel the mean of its 3 x 3 neighbours,
 *               where it counts five times; 1 changes nothing. The outermost pixels stay. The mean is
 *               Pillow-SIMD's, with weights of 13 bits; plain Pillow's is another by 1 now and then.
 *
 * Callers    any thread; no state but the caller's.
 * Errors     -ENOMEM.
 */
#ifndef SN_BLUR_H
#define SN_BLUR_H

#include <stdint.h>

#include "buffer.h"

#define SN_BLUR_MAX_KERNEL 255 /* odd, as all of them */

typedef struct {
    uint32_t height, width; /* of the kernel */
    double sigma;
} sn_blur;

/* All of `to`, from `from`: pictures of this size, rows close together. `scratch` grows. */
int sn_blur_run(const sn_blur *blur, const uint8_t *from, uint8_t *to, uint32_t height, uint32_t width,
                sn_buffer *scratch);

void sn_sharpen(float factor, const uint8_t *from, uint8_t *to, uint32_t height, uint32_t width);

#endif
