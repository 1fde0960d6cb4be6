#include "batch_kernels.h"

#ifdef SN_HAVE_NEON_CODE

#include <arm_neon.h>

/* Divisors and their reciprocals. quotient() corrects x * reciprocal by its own remainder, as in
 * batch_avx2.c: division instructions would take longer than the table of plain C. */
typedef struct {
    float32x4_t divisor, reciprocal;
} divider;

typedef struct {
    float32x4_t mean;
    divider std;
} channel;

static inline divider divide_by(float32x4_t divisor)
{
    return (divider){divisor, vdivq_f32(vdupq_n_f32(1.0f), divisor)};
}

static inline float32x4_t quotient(float32x4_t x, divider d)
{
    float32x4_t guess = vmulq_f32(x, d.reciprocal);
    float32x4_t remainder = vfmsq_f32(x, guess, d.divisor); /* x - guess * divisor, rounded once */

    return vfmaq_f32(guess, remainder, d.reciprocal);
}

static inline float32x4_t normalise(uint16x4_t pixels, divider scale, channel c)
{
    float32x4_t x = vcvtq_f32_u32(vmovl_u16(pixels));

    return quotient(vsubq_f32(quotient(x, scale), c.mean), c.std);
}

/* Four floats to places `place` and on of an array of this dtype, rounded as element.h rounds. */
static inline void put_four(uint32_t dtype, void *array, size_t place, float32x4_t values)
{
    uint16_t *halves = (uint16_t *)array + place;
    uint32x4_t bits = vreinterpretq_u32_f32(values);

    switch (dtype) {
    case SN_FLOAT32:
        vst1q_f32((float *)array + place, values);
        break;
    case SN_FLOAT16:
        vst1_u16(halves, vreinterpret_u16_f16(vcvt_f16_f32(values)));
        break;
    case SN_BFLOAT16:
        bits = vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7fff)), vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1)));
        vst1_u16(halves, vshrn_n_u32(bits, 16));
        break;
    }
}

/* Eight pixel values, the first four of one vector of channels, the others of another. */
static inline void put_eight(uint32_t dtype, void *array, size_t place, uint8x8_t pixels, divider scale, channel low,
                             channel high)
{
    uint16x8_t wide = vmovl_u8(pixels);

    put_four(dtype, array, place, normalise(vget_low_u16(wide), scale, low));
    put_four(dtype, array, place + 4, normalise(vget_high_u16(wide), scale, high));
}

/* From here on, what is inlined is so once for each dtype, which the last caller names. */
static inline __attribute__((always_inline)) void planar(const sn_plan *plan, const uint8_t *rgb, size_t n_pixels,
                                                         void *out, uint32_t dtype)
{
    divider scale = divide_by(vdupq_n_f32(plan->divisor));
    channel channels[3];
    size_t k;

    for (size_t c = 0; c < 3; c++)
        channels[c] = (channel){vdupq_n_f32(plan->mean[c]), divide_by(vdupq_n_f32(plan->std[c]))};
    for (k = 0; k + 8 <= n_pixels; k += 8) {
        uint8x8x3_t bytes = vld3_u8(rgb + 3 * k);

        for (size_t c = 0; c < 3; c++)
            put_eight(dtype, out, c * n_pixels + k, bytes.val[c], scale, channels[c], channels[c]);
    }
    for (; k < n_pixels; k++)
        for (size_t c = 0; c < 3; c++)
            sn_element_put(dtype, out, c * n_pixels + k, sn_normalised(plan, dtype, c, rgb[3 * k + c]));
}

/* Four pixels are three vectors, and the channels of a vector repeat from the fourth on. */
static inline __attribute__((always_inline)) void packed(const sn_plan *plan, const uint8_t *rgb, size_t n_pixels,
                                                         void *out, uint32_t dtype)
{
    divider scale = divide_by(vdupq_n_f32(plan->divisor));
    size_t n = 3 * n_pixels, k;
    channel vectors[3];

    for (size_t v = 0; v < 3; v++) {
        float means[4], stds[4];

        for (size_t lane = 0; lane < 4; lane++) {
            means[lane] = plan->mean[(4 * v + lane) % 3];
            stds[lane] = plan->std[(4 * v + lane) % 3];
        }
        vectors[v] = (channel){vld1q_f32(means), divide_by(vld1q_f32(stds))};
    }
    for (k = 0; k + 24 <= n; k += 24)
        for (size_t v = 0; v < 3; v++)
            put_eight(dtype, out, k + 8 * v, vld1_u8(rgb + k + 8 * v), scale, vectors[2 * v % 3],
                      vectors[(2 * v + 1) % 3]);
    for (; k < n; k++)
        sn_element_put(dtype, out, k, sn_normalised(plan, dtype, k % 3, rgb[k]));
}

static void bytes_planar(const uint8_t *rgb, size_t n_pixels, uint8_t *out)
{
    size_t k;

    for (k = 0; k + 16 <= n_pixels; k += 16) {
        uint8x16x3_t bytes = vld3q_u8(rgb + 3 * k);

        for (size_t c = 0; c < 3; c++)
            vst1q_u8(out + c * n_pixels + k, bytes.val[c]);
    }
    for (; k < n_pixels; k++)
        for (size_t c = 0; c < 3; c++)
            out[c * n_pixels + k] = rgb[3 * k + c];
}

static inline __attribute__((always_inline)) void lay_out(const sn_plan *plan, const uint8_t *rgb, size_t n_pixels,
                                                          void *out, uint32_t dtype)
{
    if (plan->channels_last)
        packed(plan, rgb, n_pixels, out, dtype);
    else
        planar(plan, rgb, n_pixels, out, dtype);
}

void sn_batch_simd(const sn_plan *plan, const uint8_t *rgb, size_t n_pixels, void *out)
{
    switch (plan->dtype) {
    case SN_UINT8:
        bytes_planar(rgb, n_pixels, out);
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

#endif
