/* batch.c -- what sn_codec.h has of batches: sn_batch_write(), and which of its loops run; masks; erasures; MixUp. */
#include <math.h>
#include <string.h>

#include "../kernels/batch_kernels.h"
#include "../sn_codec.h"
#include "erase.h"

static void write_pixels(const sn_plan *plan, const uint8_t *rgb, size_t n_pixels, void *out)
{
    if (plan->dtype == SN_UINT8 && plan->channels_last) {
        memcpy(out, rgb, 3 * n_pixels);
        return;
    }
#ifdef SN_HAVE_SIMD_CODE
    if (sn_simd_usable()) {
        sn_batch_simd(plan, rgb, n_pixels, out);
        return;
    }
#endif
    sn_batch_plain(plan, rgb, n_pixels, out);
}

/* The floats of a sound, each rounded once. A file of floats may have any bits in them. */
static void write_sound(uint32_t dtype, const uint8_t *augmented, size_t n, void *out)
{
    const float *floats = (const float *)augmented;

    if (dtype == SN_FLOAT32) {
        memcpy(out, augmented, n * sizeof *floats);
        return;
    }
    for (size_t k = 0; k < n; k++) {
        uint32_t not_a_number = dtype == SN_FLOAT16 ? 0x7e00 : 0x7fc0;

        sn_element_put(dtype, out, k, isnan(floats[k]) ? not_a_number : sn_element(dtype, floats[k]));
    }
}

void sn_batch_write(const sn_plan *plan, const uint8_t *augmented, uint32_t height, uint32_t width, sn_rng *rng,
                    void *out)
{
    if (plan->is_sound) {
        write_sound(plan->dtype, augmented, (size_t)height * width, out);
        return;
    }
    write_pixels(plan, augmented, (size_t)height * width, out);
    if (plan->erase.probability > 0 && !plan->leaves_erasing)
        sn_erase_run(plan, rng, height, width, out);
}

void sn_batch_draw_erasures(const sn_plan *plan, uint32_t height, uint32_t width, sn_rng *rng, sn_erasure *erasures)
{
    memset(erasures, 0, sn_plan_erasures(plan) * sizeof *erasures);
    sn_erase_draw(plan, rng, height, width, erasures);
}

void sn_batch_write_mask(const sn_plan *plan, const uint8_t *mask, uint32_t height, uint32_t width, void *out)
{
    size_t n_pixels = (size_t)height * width;
    int64_t *numbers = out;

    if (plan->mask_dtype == SN_MASK_UINT8) {
        memcpy(out, mask, n_pixels);
        return;
    }
    for (size_t k = 0; k < n_pixels; k++)
        numbers[k] = mask[k];
}

void sn_batch_mix_up(float *pictures, size_t count, size_t elements, float share, float rest, const float *last)
{
    for (size_t i = count; i-- > 0;) {
        float *picture = pictures + i * elements;
        const float *other = i > 0 ? picture - elements : last;

        for (size_t k = 0; k < elements; k++)
            picture[k] = picture[k] * share + other[k] * rest;
    }
}
