#include "batch_kernels.h"

/* Inlined once for each dtype, which its callers name with a constant. */
static inline __attribute__((always_inline)) void lay_out(const sn_plan *plan, const uint8_t *rgb, size_t n_pixels,
                                                          void *out, uint32_t dtype)
{
    uint32_t table[3][256]; /* a pixel has 256 values: work each of them out once */

    for (size_t c = 0; c < 3; c++)
        for (size_t pixel = 0; pixel < 256; pixel++)
            table[c][pixel] = sn_normalised(plan, dtype, c, (uint8_t)pixel);
    if (plan->channels_last) {
        for (size_t k = 0; k < n_pixels; k++, rgb += 3)
            for (size_t c = 0; c < 3; c++)
                sn_element_put(dtype, out, 3 * k + c, table[c][rgb[c]]);
    } else {
        for (size_t k = 0; k < n_pixels; k++, rgb += 3)
            for (size_t c = 0; c < 3; c++)
                sn_element_put(dtype, out, c * n_pixels + k, table[c][rgb[c]]);
    }
}

void sn_batch_plain(const sn_plan *plan, const uint8_t *rgb, size_t n_pixels, void *out)
{
    switch (plan->dtype) {
    case SN_UINT8:
        lay_out(plan, rgb, n_pixels, out, SN_UINT8);
        break;
    case SN_FLOAT32:
        lay_out(plan, rgb, n_pixels, out, SN_FLOAT32);
        break;
    case SN_FLOAT16:
        lay_out(plan, rgb, n_pixels, out, SN_FLOAT16);
        break;
    case SN_BFLOAT16:
        lay_out(plan, rgb, n_pixels, out, SN_BFLOAT16);
        break;
    }
}
