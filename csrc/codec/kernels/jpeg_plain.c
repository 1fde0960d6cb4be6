#include "jpeg_kernels.h"

#include <string.h>

/* -- The inverse transform: C. Loeffler, A. Ligtenberg, G. Moschytz, "Practical fast 1-D DCT algorithms with 11
 * multiplications", ICASSP 1989, with the roundings of JDCT_ISLOW -- */

static int32_t rounded(int32_t value, int bits)
{
    return (int32_t)((uint32_t)value + (1u << (bits - 1))) >> bits;
}

/* Sums that libjpeg-turbo's vectors keep in 16 bits. */
static uint32_t short_sum(int32_t a, int32_t b)
{
    return (uint32_t)(int16_t)(a + b);
}

/* Eight numbers, `step` apart in `in`: sums and differences of the even and the odd part, 13 bits behind the point. */
static void transform(const int32_t *in, size_t step, int32_t out[8])
{
    uint32_t c2 = (uint32_t)in[2 * step], c6 = (uint32_t)in[6 * step];
    uint32_t even0 = short_sum(in[0], in[4 * step]) << 13, even1 = short_sum(in[0], -in[4 * step]) << 13;
    uint32_t even2 = (c2 + c6) * SN_F_0_541 - c6 * SN_F_1_847, even3 = (c2 + c6) * SN_F_0_541 + c2 * SN_F_0_765;
    uint32_t even[4] = {even0 + even3, even1 + even2, even1 - even2, even0 - even3};
    uint32_t a = (uint32_t)in[7 * step], b = (uint32_t)in[5 * step], c = (uint32_t)in[3 * step], d = (uint32_t)in[step];
    uint32_t a_c = short_sum(in[7 * step], in[3 * step]), b_d = short_sum(in[5 * step], in[step]);
    uint32_t z5 = (a_c + b_d) * SN_F_1_175, ad = (a + d) * SN_F_0_899, bc = (b + c) * SN_F_2_562;
    uint32_t ac = z5 - a_c * SN_F_1_961, bd = z5 - b_d * SN_F_0_390;
    uint32_t odd[4] = {d * SN_F_1_501 - ad + bd, c * SN_F_3_072 - bc + ac, b * SN_F_2_053 - bc + bd,
                       a * SN_F_0_298 - ad + ac};

    for (int k = 0; k < 4; k++) {
        out[k] = (int32_t)(even[k] + odd[k]);
        out[7 - k] = (int32_t)(even[k] - odd[k]);
    }
}

static int32_t limited(int32_t value, int32_t least, int32_t most)
{
    return value < least ? least : value > most ? most : value;
}

static bool idct_one(int16_t block[SN_BLOCK], const sn_dequantiser *by, uint8_t *out, size_t stride)
{
    int32_t in[SN_BLOCK], columns[SN_BLOCK], line[8];
    bool fits = true;

    for (int k = 0; k < SN_BLOCK; k++) {
        fits &= block[k] <= by->most[k] && block[k] >= -by->most[k];
        in[k] = (int16_t)((uint32_t)block[k] * (uint32_t)by->quantiser[k]);
    }
    for (int column = 0; column < 8; column++) {
        transform(in + column, 8, line);
        for (int row = 0; row < 8; row++) /* what is between the two passes is kept in 16 bits */
            columns[row * 8 + column] = limited(rounded(line[row], 11), INT16_MIN, INT16_MAX);
    }
    for (int row = 0; row < 8; row++) {
        transform(columns + row * 8, 1, line);
        for (int column = 0; column < 8; column++)
            out[(size_t)row * stride + (size_t)column] = (uint8_t)limited(rounded(line[column], 18) + 128, 0, 255);
    }
    memset(block, 0, SN_BLOCK * sizeof *block);
    return fits;
}

static bool idct(int16_t (*blocks)[SN_BLOCK], size_t n, const sn_dequantiser *by, uint8_t *out, size_t stride)
{
    bool fits = true;

    for (size_t k = 0; k < n; k++)
        fits &= idct_one(blocks[k], by, out + 8 * k, stride);
    return fits;
}

/* -- Upsampling: three parts of the nearer sample and one of the other. The roundings alternate, so that no row or
 * column is brighter than the next -- */

static void h2v1(const uint8_t *in, size_t n, uint8_t *out)
{
    for (size_t k = 0; k < n; k++) {
        out[2 * k] = (uint8_t)((3 * in[k] + in[(ptrdiff_t)k - 1] + 1) >> 2);
        out[2 * k + 1] = (uint8_t)((3 * in[k] + in[k + 1] + 2) >> 2);
    }
}

static void h2v2(const uint8_t *near, const uint8_t *far, size_t n, uint8_t *out)
{
    int last = 3 * near[-1] + far[-1], now = 3 * near[0] + far[0];

    for (size_t k = 0; k < n; k++) {
        int next = 3 * near[k + 1] + far[k + 1];

        out[2 * k] = (uint8_t)((3 * now + last + 8) >> 4);
        out[2 * k + 1] = (uint8_t)((3 * now + next + 7) >> 4);
        last = now;
        now = next;
    }
}

/* -- Colours: 16 bits behind the point -- */

static uint8_t byte(int32_t value)
{
    return (uint8_t)limited(value, 0, 255);
}

static void to_rgb(const uint8_t *y, const uint8_t *cb, const uint8_t *cr, size_t n, uint8_t *rgb)
{
    for (size_t k = 0; k < n; k++, rgb += 3) {
        int32_t blue = cb[k] - 128, red = cr[k] - 128;

        rgb[0] = byte(y[k] + ((91881 * red + 32768) >> 16));
        rgb[1] = byte(y[k] + ((-22554 * blue - 46802 * red + 32768) >> 16));
        rgb[2] = byte(y[k] + ((116130 * blue + 32768) >> 16));
    }
}

const sn_jpeg_kernels sn_jpeg_plain = {idct, h2v1, h2v2, to_rgb};
