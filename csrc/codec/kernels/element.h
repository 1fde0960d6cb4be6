/*
 * element.h -- one number of the batch, as each dtype has it.
 *
 *   float --rounded to the nearest, ties to even--> float16, bfloat16
 *         --rounded and cut to 0 ... 255--> uint8
 *
 * A value too large for a float16 becomes an infinity, a small one a subnormal number, as the
 * vector instructions have it. No NaN comes here: plans are finite.
 */
#ifndef SN_ELEMENT_H
#define SN_ELEMENT_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "../sn_plan.h"

static inline uint32_t sn_float_bits(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline uint32_t sn_float16_bits(float value)
{
    uint32_t bits = sn_float_bits(value), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;

    if (size >= 0x47800000) /* 65536 */
        return sign | 0x7c00;
    if (size < 0x38800000) /* 2^-14, the smallest normal one: the sum has a subnormal's last bit */
        return sign | (sn_float_bits(fabsf(value) + 0.5f) - sn_float_bits(0.5f));
    /* Another bias, then 13 bits fewer; carries go up as far as to infinity. */
    size -= 112u << 23;
    return sign | (size + 0xfff + (size >> 13 & 1)) >> 13;
}

static inline uint32_t sn_bfloat16_bits(float value)
{
    uint32_t bits = sn_float_bits(value);

    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

/* `value` as an element of this dtype, in the low bits. */
static inline uint32_t sn_element(uint32_t dtype, float value)
{
    switch (dtype) {
    case SN_FLOAT32:
        return sn_float_bits(value);
    case SN_FLOAT16:
        return sn_float16_bits(value);
    case SN_BFLOAT16:
        return sn_bfloat16_bits(value);
    default:
        return (uint32_t)fminf(fmaxf(rintf(value), 0), 255);
    }
}

/* Put an element at a place of an array of this dtype. */
static inline void sn_element_put(uint32_t dtype, void *array, size_t place, uint32_t element)
{
    switch (sn_dtype_bytes(dtype)) {
    case 4:
        ((uint32_t *)array)[place] = element;
        break;
    case 2:
        ((uint16_t *)array)[place] = (uint16_t)element;
        break;
    default:
        ((uint8_t *)array)[place] = (uint8_t)element;
    }
}

#endif
