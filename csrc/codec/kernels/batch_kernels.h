/*
 * batch_kernels.h -- the inner loops of sn_batch_write(), in plain C and in vectors.
 *
 *   RGBRGBRGB...  -->  planes RRR... GGG... BBB...   or   RGBRGBRGB... , in elements of a dtype
 *
 * batch_plain.c has the first; batch_avx2.c or batch_neon.c the other. Both give the same bits:
 * (pixel / divisor - mean) / std, each step rounded to float, which is what torchvision's ToTensor
 * and Normalize compute, then rounded once to the dtype; the pixel itself for uint8. batch.c
 * chooses; only tests call them otherwise.
 */
#ifndef SN_BATCH_KERNELS_H
#define SN_BATCH_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "../sn_plan.h"
#include "element.h"
#include "simd.h"

void sn_batch_plain(const sn_plan *plan, const uint8_t *rgb, size_t n_pixels, void *out);
#ifdef SN_HAVE_SIMD_CODE
/* Not for packed uint8, which is a copy. */
void sn_batch_simd(const sn_plan *plan, const uint8_t *rgb, size_t n_pixels, void *out);
#endif

/* The one definition of a number of the batch: channel `c` of a pixel. */
static inline uint32_t sn_normalised(const sn_plan *plan, uint32_t dtype, size_t c, uint8_t pixel)
{
    if (dtype == SN_UINT8)
        return pixel;
    return sn_element(dtype, ((float)pixel / plan->divisor - plan->mean[c]) / plan->std[c]);
}

#endif
