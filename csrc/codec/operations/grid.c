#include "grid.h"

#include <math.h>
#include <string.h>

#include "../../base/sn_rng.h"
#include "../../base/sn_status.h"
#include "blur.h"

#define SN_LOOP
#define SN_GRID_TABLE sn_grid_plain

#include "../kernels/grid_loops.h"

static const sn_grid_kernels *kernels(void)
{
#ifdef SN_HAVE_AVX2_CODE
    if (sn_simd_usable())
        return &sn_grid_avx2;
#endif
    return &sn_grid_plain;
}

static void look_up_row(const sn_lookup *lookup, const float *xs, const float *ys, const uint8_t *from, uint32_t height,
                        uint32_t width, uint8_t *to)
{
    const uint8_t *fill = lookup->has_fill ? lookup->fill : NULL;

    kernels()->look_up(lookup->nearest != 0, fill, xs, ys, from, height, width, to, width);
}

int sn_grid_affine(const double matrix[6], const sn_lookup *lookup, const uint8_t *from, uint8_t *to, uint32_t height,
                   uint32_t width, sn_buffer *scratch)
{
    int rc = sn_buffer_reserve(scratch, 2 * (size_t)width * sizeof(float));
    float *xs, *ys;

    if (rc != SN_OK)
        return rc;
    xs = (float *)(void *)scratch->data;
    ys = xs + width;
    for (uint32_t row = 0; row < height; row++, to += (size_t)3 * width) {
        double of_x = matrix[1] * (row + 0.5) + matrix[2] - 0.5, of_y = matrix[4] * (row + 0.5) + matrix[5] - 0.5;

        for (uint32_t column = 0; column < width; column++) {
            xs[column] = (float)(matrix[0] * (column + 0.5) + of_x);
            ys[column] = (float)(matrix[3] * (column + 0.5) + of_y);
        }
        look_up_row(lookup, xs, ys, from, height, width, to);
    }
    return SN_OK;
}

/* The parts of a field of shifts; the memory is the caller's. */
typedef struct {
    uint32_t height, width, vertical, horizontal; /* the last two: radii, 0 without a blur */
    float across_weights[SN_GRID_MAX_RADIUS + 1], down_weights[SN_GRID_MAX_RADIUS + 1];
    float scale;
    float *noise; /* height * width and a block */
    float *row;   /* with a margin of `horizontal` on both sides */
} field;

static void begin_field(field *made, const sn_elastic *elastic, uint32_t direction)
{
    /* torchvision makes the kernel square: as wide as this direction's sigma asks. */
    double sigma = elastic->sigma[direction];
    uint32_t radius = sigma > 0 ? (uint32_t)(8 * sigma + 1) / 2 : 0;
    uint64_t seed = sn_mix64(elastic->seed + direction);
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};

    made->scale = (float)(elastic->alpha[direction] / 2);
    made->vertical = made->horizontal = radius;
    made->across_weights[0] = made->down_weights[0] = 1;
    if (radius > 0) {
        sn_blur_weigh(elastic->sigma[0], radius, made->across_weights);
        sn_blur_weigh(elastic->sigma[1], radius, made->down_weights);
    }
    kernels()->noise(key, made->noise, (size_t)made->height * made->width);
}

/* Shifts of one row, in pixels. */
static void field_row(field *of, uint32_t y, float *shifts)
{
    const float *above[SN_GRID_MAX_RADIUS + 1], *below[SN_GRID_MAX_RADIUS + 1];
    size_t width = of->width;
    float *row = of->row + of->horizontal;

    for (uint32_t j = 1; j <= of->vertical; j++) {
        above[j] = of->noise + width * sn_blur_mirrored((int64_t)y - j, of->height);
        below[j] = of->noise + width * sn_blur_mirrored((int64_t)y + j, of->height);
    }
    kernels()->down(of->down_weights, of->vertical, of->noise + width * y, above, below, row, width);
    for (uint32_t j = 1; j <= of->horizontal; j++) {
        row[-(int64_t)j] = row[sn_blur_mirrored(-(int64_t)j, of->width)];
        row[width - 1 + j] = row[sn_blur_mirrored((int64_t)width - 1 + j, of->width)];
    }
    kernels()->across(of->across_weights, of->horizontal, row, shifts, width);
    for (size_t k = 0; k < width; k++)
        shifts[k] *= of->scale;
}

int sn_elastic_run(const sn_elastic *elastic, const uint8_t *from, uint8_t *to, uint32_t height, uint32_t width,
                   sn_buffer *scratch)
{
    size_t n = (size_t)height * width;
    field of = {.height = height, .width = width};
    float *xs, *ys;
    int rc = sn_buffer_reserve(scratch,
                               (2 * n + SN_NOISE_BLOCK + 2 * (size_t)width + 2 * SN_GRID_MAX_RADIUS) * sizeof(float));

    if (rc != SN_OK)
        return rc;
    of.noise = (float *)(void *)scratch->data;
    xs = of.noise + n + SN_NOISE_BLOCK;
    of.row = xs + n;
    ys = of.row + width + 2 * SN_GRID_MAX_RADIUS;
    begin_field(&of, elastic, 0);
    for (uint32_t y = 0; y < height; y++)
        field_row(&of, y, xs + (size_t)y * width);
    begin_field(&of, elastic, 1);
    for (uint32_t y = 0; y < height; y++, xs += width, to += (size_t)3 * width) {
        field_row(&of, y, ys);
        for (uint32_t x = 0; x < width; x++) {
            xs[x] += (float)x;
            ys[x] += (float)y;
        }
        look_up_row(&elastic->lookup, xs, ys, from, height, width, to);
    }
    return SN_OK;
}
