/*
 * test_kernels.c -- vector code gives the bits of plain C, and touches no byte that is not its own.
 *
 *   random sizes, taps, pixels --plain C--> bytes
 *                              --vectors--> the same
 *
 * Whatever a kernel reads or writes lies between two pages that nobody may touch, right up to the
 * second in one run and to the first in another, with no more room than its header grants. Where
 * plain C is all that there is, there is nothing to compare.
 */
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>

#include "base/sn_rng.h"
#include "base/sn_status.h"
#include "check.h"
#include "codec/kernels/batch_kernels.h"
#include "codec/kernels/blur_kernels.h"
#include "codec/kernels/colour_kernels.h"
#include "codec/kernels/grid_kernels.h"
#include "codec/kernels/group_kernels.h"
#include "codec/kernels/jpeg_kernels.h"
#include "codec/kernels/resize_kernels.h"
#include "codec/kernels/sinc_kernels.h"
#include "codec/kernels/warp_kernels.h"
#include "codec/operations/resize.h"
#include "codec/operations/warp.h"

#ifdef SN_HAVE_SIMD_CODE

#define N_ROUNDS 1500
#define MAX_SAMPLES 1500
#define MAX_OUTPUTS 300
#define MAX_SIDE 60
#define MAX_ROWS 32
#define MAX_BLOCKS 9
#define AREA ((size_t)1 << 19)

/* What lies between pages of its own. */
enum area { START, USED, WEIGHT, LAYOUT, SOURCE, OUT, ROWS, ROW, N_AREAS = ROW + MAX_ROWS };
enum edge { AT_BEGIN, AT_END, N_EDGES };

static uint8_t *areas[N_AREAS];
static char doing[200]; /* what a failure is a failure of */
static sn_rng rng;

static void make_areas(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    for (int area = 0; area < N_AREAS; area++) {
        uint8_t *pages = mmap(NULL, AREA + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        CHECK(pages != MAP_FAILED);
        areas[area] = pages + page;
        CHECK(mprotect(areas[area], AREA, PROT_READ | PROT_WRITE) == 0);
    }
}

static void *place(int area, enum edge edge, size_t size)
{
    CHECK(size <= AREA);
    return areas[area] + (edge == AT_BEGIN ? 0 : AREA - size);
}

static void *copy_to(int area, enum edge edge, const void *from, size_t size)
{
    return memcpy(place(area, edge, size), from, size);
}

static void touched(int number)
{
    static const char what[] = "test_kernels: memory of nobody's was touched: ";

    (void)number;
    if (write(2, what, sizeof what - 1) < 0 || write(2, doing, strlen(doing)) < 0 || write(2, "\n", 1) < 0)
        _exit(2);
    _exit(1);
}

static void compare(const void *got, const void *wanted, size_t size)
{
    const uint8_t *a = got, *b = wanted;

    for (size_t k = 0; k < size; k++)
        if (a[k] != b[k])
            check_failed(__FILE__, __LINE__, "%s: byte %zu of %zu is %d and not %d", doing, k, size, a[k], b[k]);
}

/* Mostly small, where edges are near. */
static uint32_t some(uint32_t most)
{
    uint32_t limits[] = {5, 40, most};
    uint32_t limit = limits[sn_rng_below(&rng, 3)];

    return 1 + sn_rng_below(&rng, limit < most ? limit : most);
}

/* Any bytes; or black and white, which overshoot where weights are negative. */
static void draw_pixels(uint8_t *bytes, size_t n)
{
    bool extreme = sn_rng_below(&rng, 3) == 0;

    for (size_t k = 0; k < n; k++)
        bytes[k] = extreme ? (uint8_t)-sn_rng_below(&rng, 2) : (uint8_t)sn_rng_below(&rng, 256);
}

static sn_axis draw_axis(uint32_t most)
{
    sn_axis axis = {.source = some(most), .filter = sn_rng_below(&rng, 4)};

    if (axis.source <= MAX_OUTPUTS / 3 && sn_rng_below(&rng, 2)) { /* outputs that fall on samples */
        axis.full = axis.source * (1 + sn_rng_below(&rng, 3));
        axis.extent = axis.source;
    } else {
        axis.full = some(MAX_OUTPUTS);
        axis.extent = axis.source * sn_rng_uniform(&rng, 0.2, 1.0);
        axis.origin = (axis.source - axis.extent) * sn_rng_double(&rng);
    }
    axis.first = sn_rng_below(&rng, axis.full);
    axis.count = 1 + sn_rng_below(&rng, axis.full - axis.first);
    axis.flip = sn_rng_below(&rng, 2);
    return axis;
}

static void test_across(sn_taps *taps)
{
    static uint8_t pixels[SN_ACROSS_ROWS][3 * MAX_SAMPLES], plain[SN_ACROSS_ROWS][3 * MAX_OUTPUTS];
    sn_axis axis = draw_axis(MAX_SAMPLES);
    uint32_t n_rows = 1 + sn_rng_below(&rng, SN_ACROSS_ROWS);
    size_t count, bytes, past;

    CHECK_EQUAL(sn_taps_build(taps, &axis), SN_OK, "source %u, full %u", axis.source, axis.full);
    if (sn_resize_simd.lay_out != NULL)
        CHECK_EQUAL(sn_resize_simd.lay_out(taps), SN_OK, "source %u, full %u", axis.source, axis.full);
    count = taps->count;
    bytes = (size_t)3 * taps->span_count;
    past = sn_across_reads_past(taps);
    snprintf(doing, sizeof doing, "across, %u to %u samples, %u of them, %u weights, filter %u, %u rows", axis.source,
             axis.full, axis.count, taps->width, axis.filter, n_rows);
    draw_pixels(pixels[0], sizeof pixels);
    for (enum edge edge = 0; edge < N_EDGES; edge++) {
        const uint8_t *rows[SN_ACROSS_ROWS];
        uint8_t *outs[SN_ACROSS_ROWS], *plain_outs[SN_ACROSS_ROWS];
        sn_taps fenced = *taps;

        fenced.start = copy_to(START, edge, taps->start, count * sizeof *taps->start);
        fenced.used = copy_to(USED, edge, taps->used, count * sizeof *taps->used);
        fenced.weight = copy_to(WEIGHT, edge, taps->weight, count * taps->width * sizeof *taps->weight);
        if (sn_resize_simd.lay_out != NULL)
            fenced.layout.data = copy_to(LAYOUT, edge, taps->layout.data, taps->layout_bytes);
        for (uint32_t i = 0; i < n_rows; i++) {
            uint8_t *row = place(ROW + (int)i, edge, bytes + past);

            rows[i] = memcpy(row, pixels[i], bytes);
            draw_pixels(row + bytes, past); /* may be read, must not count */
            outs[i] = place(ROW + SN_ACROSS_ROWS + (int)i, edge, 3 * count + SN_ACROSS_WRITES_PAST);
            memset(outs[i], 0xa5, 3 * count);
            plain_outs[i] = plain[i];
        }
        sn_resize_plain.across(&fenced, rows, plain_outs, n_rows);
        sn_resize_simd.across(&fenced, rows, outs, n_rows);
        for (uint32_t i = 0; i < n_rows; i++)
            compare(outs[i], plain[i], 3 * count);
    }
}

static void test_down(sn_taps *taps)
{
    static uint8_t plain[3 * MAX_SAMPLES];
    const uint8_t *rows[MAX_ROWS], **fenced_rows;
    sn_axis axis;
    uint32_t output, n_rows, even;
    size_t n_bytes = some(3 * MAX_SAMPLES);

    do {
        axis = draw_axis(MAX_SAMPLES);
        CHECK_EQUAL(sn_taps_build(taps, &axis), SN_OK, "source %u, full %u", axis.source, axis.full);
        output = sn_rng_below(&rng, taps->count);
        n_rows = taps->used[output];
        even = (n_rows + 1) / 2 * 2;
    } while (n_rows > MAX_ROWS);
    snprintf(doing, sizeof doing, "down, %u rows of %zu bytes, filter %u", n_rows, n_bytes, axis.filter);
    for (enum edge edge = 0; edge < N_EDGES; edge++) {
        const int16_t *weight =
            copy_to(WEIGHT, edge, taps->weight + (size_t)output * taps->width, even * sizeof *weight);
        uint8_t *out = place(OUT, edge, n_bytes);

        for (uint32_t i = 0; i < even; i++) {
            rows[i] = place(ROW + (int)i, edge, n_bytes);
            draw_pixels((uint8_t *)rows[i], n_bytes);
        }
        fenced_rows = copy_to(ROWS, edge, rows, even * sizeof *rows);
        memset(out, 0xa5, n_bytes);
        sn_resize_plain.down(fenced_rows, weight, n_rows, taps->shift, plain, n_bytes);
        sn_resize_simd.down(fenced_rows, weight, n_rows, taps->shift, out, n_bytes);
        compare(out, plain, n_bytes);
    }
}

/* A picture without a byte of room around it, resized both ways at once. */
static void test_picture(sn_resizer *resizer)
{
    static uint8_t plain[3 * MAX_OUTPUTS], ring[MAX_SIDE][3 * MAX_OUTPUTS];
    sn_axis down_axis = draw_axis(MAX_SIDE), across_axis = draw_axis(MAX_SIDE);
    const sn_taps *down = &resizer->down, *across = &resizer->across;
    size_t bytes, stride, size, out_bytes, out_stride;

    down_axis.flip = false; /* the stride's part */
    CHECK_EQUAL(sn_resizer_prepare(resizer, &down_axis, &across_axis), SN_OK, "%u x %u", down_axis.source,
                across_axis.source);
    bytes = (size_t)3 * across->span_count;
    stride = bytes + sn_rng_below(&rng, 40);
    size = (down->span_count - 1) * stride + bytes;
    out_bytes = (size_t)3 * across->count;
    out_stride = out_bytes + sn_rng_below(&rng, 5);
    snprintf(doing, sizeof doing, "resize, %u x %u to %u x %u, filters %u and %u", down->span_count, across->span_count,
             down->count, across->count, down_axis.filter, across_axis.filter);
    for (enum edge edge = 0; edge < N_EDGES; edge++) {
        uint8_t *pixels = place(SOURCE, edge, size);
        uint8_t *out = place(OUT, edge, (down->count - 1) * out_stride + out_bytes);
        sn_view view = {pixels, down->span_count, across->span_count, stride, NULL, 0};

        draw_pixels(pixels, size);
        CHECK_EQUAL(sn_resizer_run(resizer, &view, out, (ptrdiff_t)out_stride), SN_OK, "%s", doing);
        for (uint32_t y = 0; y < down->span_count; y++) {
            const uint8_t *row = pixels + y * stride;
            uint8_t *narrow = ring[y];

            sn_resize_plain.across(across, &row, &narrow, 1);
        }
        for (uint32_t y = 0; y < down->count; y++) {
            const uint8_t *rows[MAX_SIDE];

            for (uint32_t k = 0; k < down->used[y]; k++)
                rows[k] = ring[down->start[y] + k];
            sn_resize_plain.down(rows, down->weight + (size_t)y * down->width, down->used[y], down->shift, plain,
                                 out_bytes);
            compare(out + y * out_stride, plain, out_bytes);
        }
    }
}

/* Of any size, so that a float16 is now normal, now subnormal, now an infinity. */
static float draw_std(void)
{
    float std = (float)sn_rng_uniform(&rng, 0.1, 1);

    for (uint32_t tens = sn_rng_below(&rng, 6); tens > 0; tens--)
        std *= sn_rng_below(&rng, 2) ? 10.0f : 0.1f;
    return std;
}

static void test_batch(uint32_t dtype, uint32_t channels_last)
{
    static uint8_t pixels[3 * MAX_SAMPLES], plain[12 * MAX_SAMPLES];
    sn_plan plan = {.dtype = dtype, .channels_last = channels_last};
    size_t n_pixels = some(MAX_SAMPLES), bytes = 3 * n_pixels * sn_dtype_bytes(dtype);

    plan.divisor = sn_rng_below(&rng, 2) ? 255 : 1;
    for (int c = 0; c < 3; c++) {
        plan.mean[c] = sn_rng_below(&rng, 4) ? (float)sn_rng_double(&rng) : 0;
        plan.std[c] = draw_std();
    }
    snprintf(doing, sizeof doing, "batch, %zu pixels, dtype %u, channels_last %u, divisor %g, std %g %g %g", n_pixels,
             dtype, channels_last, plan.divisor, plan.std[0], plan.std[1], plan.std[2]);
    draw_pixels(pixels, 3 * n_pixels);
    sn_batch_plain(&plan, pixels, n_pixels, plain);
    for (enum edge edge = 0; edge < N_EDGES; edge++) {
        uint8_t *out = memset(place(OUT, edge, bytes), 0xa5, bytes);

        sn_batch_simd(&plan, copy_to(SOURCE, edge, pixels, 3 * n_pixels), n_pixels, out);
        compare(out, plain, bytes);
    }
}

#ifdef SN_HAVE_AVX2_CODE
static void test_colour(void)
{
    static uint8_t pixels[3 * MAX_SAMPLES], plain[3 * MAX_SAMPLES];
    size_t n_pixels = some(MAX_SAMPLES), bytes = 3 * n_pixels;
    float factor = (float)sn_rng_uniform(&rng, 0, 3);
    uint8_t turn = (uint8_t)sn_rng_below(&rng, 256);

    snprintf(doing, sizeof doing, "colour, %zu pixels, factor %g, turn %u", n_pixels, factor, turn);
    draw_pixels(pixels, bytes);
    for (enum edge edge = 0; edge < N_EDGES; edge++) {
        uint8_t *in_place = copy_to(OUT, edge, pixels, bytes);

        CHECK_EQUAL(sn_colour_avx2.grey_sum(in_place, n_pixels), sn_colour_plain.grey_sum(pixels, n_pixels), "%s",
                    doing);
        memcpy(plain, pixels, bytes);
        sn_colour_plain.saturate(plain, n_pixels, factor);
        sn_colour_avx2.saturate(in_place, n_pixels, factor);
        compare(in_place, plain, bytes);
        sn_colour_plain.turn_hue(plain, n_pixels, turn);
        sn_colour_avx2.turn_hue(in_place, n_pixels, turn);
        compare(in_place, plain, bytes);
    }
}

/* A picture, and the map onto it of a picture of its size: turned, sheared and shifted. */
/* Rotated, sheared, shifted or in perspective; some by nothing, or by halves and whole pixels, where numbers are
 * whole or fall on edges. */
static void draw_matrix(double matrix[8], uint32_t height, uint32_t width)
{
    static const double identity[8] = {1, 0, 0, 0, 1, 0, 0, 0};
    uint32_t kind = sn_rng_below(&rng, 5);

    memcpy(matrix, identity, sizeof identity);
    if (kind == 0)
        for (int k = 0; k < 8; k++)
            matrix[k] = sn_rng_uniform(&rng, -1.5, 1.5) * (k % 3 == 2 ? width : 1) / (k < 6 ? 1 : 2 * width);
    if (kind == 1)
        matrix[sn_rng_below(&rng, 2) ? 1 : 3] = sn_rng_uniform(&rng, -0.3, 0.3);
    if (kind == 2)
        matrix[sn_rng_below(&rng, 2) ? 2 : 5] = sn_rng_uniform(&rng, -0.5, 0.5) * width;
    if (kind == 3) {
        matrix[2] = 0.25 * sn_rng_below(&rng, 8);
        matrix[5] = 0.25 * sn_rng_below(&rng, 8);
    }
    if (kind == 4)
        sn_warp_rotation(matrix, sn_rng_uniform(&rng, -30, 30), (double[2]){width * 0.5, height * 0.5});
}

/* Noise, one colour, columns of few colours, or a channel that is full. */
static void draw_surface(uint8_t *pixels, size_t bytes)
{
    uint32_t kind = sn_rng_below(&rng, 5), colour = sn_rng_below(&rng, 256);

    draw_pixels(pixels, bytes);
    for (size_t k = 0; k < bytes && kind > 0; k++)
        if (kind == 1)
            pixels[k] = (uint8_t)colour;
        else if (kind == 2)
            pixels[k] = pixels[k] < 40 ? 0 : 255;
        else if (kind == 3)
            pixels[k] = (uint8_t)(100 + pixels[k] % 3);
        else if (k % 3 == 1)
            pixels[k] = 255;
}

static void test_warp(void)
{
    static uint8_t pixels[3 * 9 * MAX_SAMPLES], plain[3 * 9 * MAX_SAMPLES];
    uint32_t height = (uint32_t)some(90), width = (uint32_t)some(150); /* of several blocks */
    size_t bytes = (size_t)3 * height * width;
    const uint8_t fill[3] = {1, 2, 3};
    sn_warp_kernel *kernels[][2] = {
        {sn_warp_plain.bilinear, sn_warp_avx2.bilinear},
        {sn_warp_plain.bicubic, sn_warp_avx2.bicubic},
        {sn_warp_plain.bilinear_perspective, sn_warp_avx2.bilinear_perspective},
        {sn_warp_plain.bicubic_perspective, sn_warp_avx2.bicubic_perspective},
    };
    double matrix[8];

    draw_matrix(matrix, height, width);
    snprintf(doing, sizeof doing, "warp, %u x %u, %g %g %g %g %g %g", height, width, matrix[0], matrix[1], matrix[2],
             matrix[3], matrix[4], matrix[5]);
    draw_surface(pixels, bytes);
    for (int kind = 0; kind < 4; kind++)
        for (enum edge edge = 0; edge < N_EDGES; edge++) {
            uint8_t *out = place(OUT, edge, bytes), *from = place(SOURCE, edge, bytes + SN_WARP_SLACK);

            memcpy(from, pixels, bytes);
            memset(from + bytes, 0xee, SN_WARP_SLACK);
            kernels[kind][0](matrix, fill, from, plain, height, width);
            kernels[kind][1](matrix, fill, from, out, height, width);
            compare(out, plain, bytes);
        }
}

static void test_blur(void)
{
    static uint8_t pixels[3 * 3 * MAX_SAMPLES], plain[3 * MAX_SAMPLES], vectors[3 * MAX_SAMPLES];
    static float first[3 * MAX_SAMPLES], second[3 * MAX_SAMPLES], weights[8];
    uint32_t radius = sn_rng_below(&rng, 8);
    size_t n = 3 * (some(MAX_SAMPLES - 40) + 2), margin = 3 * (size_t)radius;
    const uint8_t *above[8], *below[8], *middle = pixels + 3 * MAX_SAMPLES;
    float factor = (float)sn_rng_uniform(&rng, 0, 3);

    snprintf(doing, sizeof doing, "blur, %zu bytes, radius %u, factor %g", n, radius, factor);
    draw_pixels(pixels, sizeof pixels);
    for (uint32_t j = 0; j <= radius; j++) {
        weights[j] = (float)sn_rng_double(&rng) / (float)(2 * radius + 1);
        above[j] = pixels + sn_rng_below(&rng, 3 * MAX_SAMPLES);
        below[j] = pixels + sn_rng_below(&rng, 3 * MAX_SAMPLES);
    }
    sn_blur_plain.down(weights, radius, middle, above, below, first + margin, n);
    sn_blur_avx2.down(weights, radius, middle, above, below, second + margin, n);
    compare((uint8_t *)(second + margin), (uint8_t *)(first + margin), n * sizeof *first);
    memset(first, 0, margin * sizeof *first);
    memset(first + margin + n, 0, margin * sizeof *first);
    for (enum edge edge = 0; edge < N_EDGES; edge++) {
        float *row = copy_to(SOURCE, edge, first, (n + 2 * margin) * sizeof *first);
        uint8_t *out = place(OUT, edge, n);

        sn_blur_plain.across(weights, radius, row + margin, second, plain, n);
        sn_blur_avx2.across(weights, radius, row + margin, place(ROWS, edge, n * sizeof *first), out, n);
        compare(out, plain, n);
    }
    for (enum edge edge = 0; edge < N_EDGES; edge++) {
        uint8_t *rows[3];

        for (int k = 0; k < 3; k++)
            rows[k] = copy_to(ROWS + k, edge, pixels + (size_t)k * 3 * MAX_SAMPLES, n);
        sn_blur_plain.sharpen(factor, rows[0] + 3, rows[1] + 3, rows[2] + 3, plain, n - 6);
        sn_blur_avx2.sharpen(factor, rows[0] + 3, rows[1] + 3, rows[2] + 3, vectors, n - 6);
        compare(vectors, plain, n - 6);
    }
    for (enum edge edge = 0; edge < N_EDGES; edge++) {
        const uint8_t *taps[5];
        uint32_t n_taps = 3 + 2 * sn_rng_below(&rng, 2), inner = sn_rng_below(&rng, (1u << 24) / (n_taps - 2) + 1);
        uint8_t *out = place(OUT, edge, n);

        for (uint32_t k = 0; k < n_taps; k++)
            taps[k] = copy_to(ROWS + (int)k, edge, pixels + sn_rng_below(&rng, 3 * MAX_SAMPLES), n);
        sn_blur_plain.box(taps, n_taps, inner, ((1u << 24) - (n_taps - 2) * inner) / 2, plain, n);
        sn_blur_avx2.box(taps, n_taps, inner, ((1u << 24) - (n_taps - 2) * inner) / 2, out, n);
        compare(out, plain, n);
    }
}

/* Noise, which is Philox's; its blur; and the colours at places in and around a picture. */
static void test_grid(void)
{
    static float first[MAX_SAMPLES + 64], second[MAX_SAMPLES + 64], rows[9][MAX_SAMPLES], weights[5];
    static uint8_t pixels[3 * MAX_SAMPLES], plain[3 * MAX_SAMPLES];
    const float *above[5], *below[5];
    uint32_t key[2] = {sn_rng_u32(&rng), sn_rng_u32(&rng)}, radius = sn_rng_below(&rng, 5), block[4];
    uint32_t height = (uint32_t)some(30), width = (uint32_t)some(MAX_SAMPLES / 30), lane = sn_rng_below(&rng, 8);
    size_t n = some(MAX_SAMPLES), bytes = (size_t)3 * height * width;
    size_t whole = (n + SN_NOISE_BLOCK - 1) / SN_NOISE_BLOCK * SN_NOISE_BLOCK, begin = whole - SN_NOISE_BLOCK;

    snprintf(doing, sizeof doing, "grid, %zu numbers, radius %u, %u x %u", n, radius, height, width);
    for (enum edge edge = 0; edge < N_EDGES; edge++) {
        float *numbers = place(OUT, edge, whole * sizeof *numbers);

        sn_grid_plain.noise(key, first, n);
        sn_grid_avx2.noise(key, numbers, n);
        compare(numbers, first, whole * sizeof *first);
    }
    sn_philox(key, (uint32_t[4]){(uint32_t)(begin / 4) + lane, 0, 0, 0}, block);
    for (uint32_t k = 0; k < 4; k++)
        CHECK(first[begin + 8 * k + lane] == (float)(block[k] >> 8) * 0x1p-23f - 1);
    for (uint32_t j = 0; j < 9; j++)
        sn_grid_plain.noise((uint32_t[2]){j, key[0]}, first, n), memcpy(rows[j], first, n * sizeof *first);
    for (uint32_t j = 0; j <= radius; j++) {
        weights[j] = (float)sn_rng_double(&rng);
        above[j] = rows[j];
        below[j] = rows[4 + j];
    }
    for (enum edge edge = 0; edge < N_EDGES; edge++) {
        float *row = copy_to(SOURCE, edge, rows[0], n * sizeof *row), *out = place(OUT, edge, n * sizeof *out);
        size_t inner = n > 2 * (size_t)radius ? n - 2 * (size_t)radius : 0;

        sn_grid_plain.down(weights, radius, row, above, below, first, n);
        sn_grid_avx2.down(weights, radius, row, above, below, out, n);
        compare(out, first, n * sizeof *out);
        sn_grid_plain.across(weights, radius, row + radius, first, inner);
        sn_grid_avx2.across(weights, radius, row + radius, second, inner);
        compare(second, first, inner * sizeof *first);
    }
    draw_pixels(pixels, bytes);
    n = some(MAX_SAMPLES);
    for (size_t k = 0; k < n; k++) {
        first[k] = (float)sn_rng_uniform(&rng, -2, width + 2.0);
        second[k] = (float)sn_rng_uniform(&rng, -2, height + 2.0);
        if (sn_rng_below(&rng, 4) == 0)
            first[k] = rintf(first[k]);
    }
    for (uint32_t kind = 0; kind < 4; kind++)
        for (enum edge edge = 0; edge < N_EDGES; edge++) {
            static const uint8_t colour[3] = {1, 200, 3};
            const uint8_t *fill = kind / 2 ? colour : NULL;
            uint8_t *from = place(SOURCE, edge, bytes + 4), *out = place(OUT, edge, 3 * n);

            memcpy(from, pixels, bytes);
            memset(from + bytes, 0xee, 4);
            sn_grid_plain.look_up((int)kind % 2, fill, first, second, from, height, width, plain, n);
            sn_grid_avx2.look_up((int)kind % 2, fill, first, second, from, height, width, out, n);
            compare(out, plain, 3 * n);
        }
}
#endif

/* Of any size, up to a little more than is allowed in one block of hundreds. */
static void draw_blocks(int16_t (*blocks)[SN_BLOCK], size_t n, sn_dequantiser *by)
{
    uint32_t largest = sn_rng_below(&rng, 4) == 0 ? 65535 : 255, rare = 1 + sn_rng_below(&rng, 9);
    bool extreme = sn_rng_below(&rng, 3) == 0, beyond = sn_rng_below(&rng, 3) == 0;

    for (int k = 0; k < SN_BLOCK; k++) {
        uint32_t quantiser = sn_rng_below(&rng, largest + 1);

        by->quantiser[k] = (int16_t)quantiser;
        by->most[k] = quantiser == 0 ? INT16_MAX : (int16_t)(SN_MOST_PRODUCT / quantiser);
    }
    for (size_t block = 0; block < n; block++)
        for (int k = 0; k < SN_BLOCK; k++) {
            int32_t most = by->most[k], value = (int32_t)sn_rng_below(&rng, 2 * (uint32_t)most + 1) - most;

            if (extreme)
                value = sn_rng_below(&rng, 2) ? most : -most;
            if (beyond && sn_rng_below(&rng, 2000) == 0)
                value = (int16_t)sn_rng_below(&rng, 65536);
            blocks[block][k] = (int16_t)(sn_rng_below(&rng, rare) == 0 ? value : 0);
        }
}

static void test_idct(void)
{
    static int16_t blocks[MAX_BLOCKS][SN_BLOCK];
    static const int16_t zeros[MAX_BLOCKS][SN_BLOCK];
    size_t n = 1 + sn_rng_below(&rng, MAX_BLOCKS), stride = 8 * n + 8;
    uint8_t plain[8][8 * MAX_BLOCKS + 8];
    sn_dequantiser by;

    draw_blocks(blocks, n, &by);
    for (enum edge edge = 0; edge < N_EDGES; edge++) {
        int16_t (*given)[SN_BLOCK] = copy_to(SOURCE, edge, blocks, n * sizeof *blocks);
        sn_dequantiser *factors = copy_to(WEIGHT, edge, &by, sizeof by);
        uint8_t *out = place(OUT, edge, 8 * stride);
        bool fits = sn_jpeg_simd.idct(given, n, factors, out, stride);

        snprintf(doing, sizeof doing, "idct of %zu blocks", n);
        compare(given, zeros, n * sizeof *blocks);
        memcpy(given, blocks, n * sizeof *blocks);
        CHECK(sn_jpeg_plain.idct(given, n, factors, plain[0], sizeof plain[0]) == fits);
        for (int row = 0; row < 8; row++)
            compare(out + (size_t)row * stride, plain[row], 8 * n);
    }
}

/* What is put is the same, and is taken back the same. */
static void test_groups(void)
{
    static const sn_group_kernels *const kernels[2] = {&sn_group_plain, &sn_group_simd};
    static sn_put_groups made[2];
    static uint8_t fields[sizeof made[0].fields + SN_FIELDS_PAST];
    size_t n = 1 + some(SN_BLOCKS_AT_ONCE - 1);
    int16_t blocks[SN_BLOCKS_AT_ONCE][SN_BLOCK], back[SN_BLOCKS_AT_ONCE][SN_BLOCK];
    sn_dequantiser by;
    bool fits[2];

    snprintf(doing, sizeof doing, "groups of %zu blocks", n);
    draw_blocks(blocks, n, &by);
    for (int k = 0; k < 2; k++)
        fits[k] = kernels[k]->put((const int16_t (*)[SN_BLOCK])blocks, n, &by, &made[k]);
    CHECK_EQUAL(fits[1], fits[0], "%s", doing);
    if (!fits[0])
        return;
    compare(made[1].presence, made[0].presence, n);
    CHECK(made[1].n_codes == made[0].n_codes && made[1].n_masks == made[0].n_masks &&
          made[1].n_fields == made[0].n_fields);
    compare(made[1].codes, made[0].codes, made[0].n_codes);
    compare(made[1].masks, made[0].masks, made[0].n_masks);
    compare(made[1].fields, made[0].fields, made[0].n_fields);
    memcpy(fields, made[0].fields, made[0].n_fields);
    for (size_t i = 0; i < n; i++)
        blocks[i][0] = 0;
    for (int k = 0; k < 2; k++) {
        uint32_t end = 8 * made[0].n_fields;
        sn_groups from = {made[0].presence, made[0].codes, made[0].masks, fields, 0, end};

        memset(back, 0, sizeof back);
        CHECK(kernels[k]->take(&from, n, back));
        compare(back, blocks, n * sizeof blocks[0]);
        from = (sn_groups){made[0].presence, made[0].codes, made[0].masks, fields, 0, end / 2};
        memset(back, 0, sizeof back);
        CHECK(made[0].n_fields < 8 || !kernels[k]->take(&from, n, back));
    }
}

static void test_upsampling_and_colours(void)
{
    static uint8_t samples[3][MAX_SAMPLES + 2], plain[3 * MAX_SAMPLES];
    size_t n = some(MAX_SAMPLES);

    draw_pixels(samples[0], sizeof samples);
    for (enum edge edge = 0; edge < N_EDGES; edge++) {
        const uint8_t *lines[3];
        uint8_t *out = place(OUT, edge, 3 * n + SN_RGB_PAST);

        for (int k = 0; k < 3; k++)
            lines[k] = memcpy(place(ROW + k, edge, 1 + n + SN_SAMPLES_PAST), samples[k], n + 2);
        for (int k = 0; k < 3; k++)
            lines[k]++; /* its neighbour is before it */
        snprintf(doing, sizeof doing, "upsampling or colours of %zu samples", n);
        sn_jpeg_plain.h2v1(lines[0], n, plain);
        sn_jpeg_simd.h2v1(lines[0], n, out);
        compare(out, plain, 2 * n);
        sn_jpeg_plain.h2v2(lines[0], lines[1], n, plain);
        sn_jpeg_simd.h2v2(lines[0], lines[1], n, out);
        compare(out, plain, 2 * n);
        sn_jpeg_plain.to_rgb(lines[0], lines[1], lines[2], n, plain);
        sn_jpeg_simd.to_rgb(lines[0], lines[1], lines[2], n, out);
        compare(out, plain, 3 * n);
    }
}

static void draw_floats(float *floats, size_t n)
{
    for (size_t k = 0; k < n; k++)
        floats[k] = (float)sn_rng_uniform(&rng, -1, 1);
}

static void test_sinc(void)
{
    static float weights[40 * 64], frames[MAX_SAMPLES], plain[MAX_OUTPUTS];
    int32_t start[40] = {0};
    sn_sinc sinc = {some(60), some(40), SN_SINC_LANES * (1 + sn_rng_below(&rng, 8)), start, NULL};
    uint32_t first = sn_rng_below(&rng, sinc.to), n = 1 + sn_rng_below(&rng, 100), last, used;
    size_t n_weights = (size_t)sinc.to * sinc.taps;

    for (uint32_t phase = 1; phase < sinc.to; phase++) /* less than one block in all: no step back between blocks */
        start[phase] = start[phase - 1] + (int32_t)sn_rng_below(&rng, 2) * (start[phase - 1] + 1 < (int32_t)sinc.from);
    last = (first + n - 1) % sinc.to;
    while ((used = (first + n - 1) / sinc.to * sinc.from + (uint32_t)start[last] + sinc.taps) > MAX_SAMPLES) {
        n /= 2;
        last = (first + n - 1) % sinc.to;
    }
    used -= (uint32_t)start[first];
    snprintf(doing, sizeof doing, "sinc, %u to %u, %u taps, %u frames from phase %u", sinc.from, sinc.to, sinc.taps, n,
             first);
    draw_floats(weights, n_weights);
    draw_floats(frames, used);
    sinc.weights = weights;
    sn_sinc_plain(&sinc, first, frames - start[first], n, plain);
    for (enum edge edge = 0; edge < N_EDGES; edge++) {
        float *out = memset(place(OUT, edge, n * sizeof *out), 0xa5, n * sizeof *out);
        const float *source = copy_to(SOURCE, edge, frames, used * sizeof *frames);

        sinc.weights = copy_to(WEIGHT, edge, weights, n_weights * sizeof *weights);
        sn_sinc_simd(&sinc, first, source - start[first], n, out);
        compare(out, plain, n * sizeof *out);
    }
}

static void test_all(uint64_t seed)
{
    struct sigaction action = {.sa_handler = touched};
    sn_taps taps = {0};
    sn_resizer resizer = {0};

    make_areas();
    CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
    for (uint32_t round = 0; round < N_ROUNDS; round++) {
        sn_rng_start(&rng, seed, 0, 0, round, SN_STREAM_ORDER);
        test_across(&taps);
        test_down(&taps);
        test_picture(&resizer);
        test_idct();
        test_groups();
        test_upsampling_and_colours();
        test_sinc();
        for (uint32_t dtype = SN_UINT8; dtype <= SN_BFLOAT16; dtype++)
            for (uint32_t last = 0; last < 2; last++)
                if (dtype != SN_UINT8 || !last) /* a copy, which no kernel makes */
                    test_batch(dtype, last);
#ifdef SN_HAVE_AVX2_CODE
        test_colour();
        test_warp();
        test_blur();
        test_grid();
#endif
    }
    sn_taps_release(&taps);
    sn_resizer_release(&resizer);
    printf("test_kernels: %d rounds, vectors as plain C\n", N_ROUNDS);
}

#endif

int main(int argc, char **argv)
{
    uint64_t seed = check_seed(argc, argv);

#ifdef SN_HAVE_SIMD_CODE
    if (sn_simd_usable()) {
        test_all(seed);
        return 0;
    }
#endif
    printf("test_kernels: plain C alone is used here; nothing to compare\n");
    return 0;
}
