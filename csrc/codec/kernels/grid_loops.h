/*
 * grid_loops.h -- the bodies of grid_kernels.h, written so that a compiler makes vectors of them.
 *
 * Included by each file that compiles them, which says for which target:
 *   SN_LOOP            what stands before each function
 *   SN_GRID_TABLE      the name of the table of functions
 *   SN_GRID_LOAD, SN_GRID_PACK   between bytes and floats, where plain C is not meant
 */
#include <math.h>
#include <string.h>

#include "grid_kernels.h"

typedef float four __attribute__((vector_size(16)));

/* The three bytes at `at` and a 1 as numbers, and numbers as bytes, rounded to the nearest, ties to even. */
#ifndef SN_GRID_LOAD
#define SN_GRID_LOAD(made, at) (made = (four){(at)[0], (at)[1], (at)[2], 1})
#define SN_GRID_PACK(made, of)                                                                                         \
    do {                                                                                                               \
        for (int k_ = 0; k_ < 4; k_++)                                                                                 \
            made[k_] = (uint8_t)rintf((of)[k_]);                                                                       \
    } while (0)
#endif

#define LANES (SN_NOISE_BLOCK / 4) /* blocks of Philox at a time */

/* sn_philox() for neighbouring counters, a lane each; their numbers differ by the place only. */
SN_LOOP static void noise(const uint32_t key[2], float *numbers, size_t n)
{
    for (size_t done = 0; done < n; done += SN_NOISE_BLOCK) {
        uint32_t c0[LANES], c1[LANES] = {0}, c2[LANES] = {0}, c3[LANES] = {0}, k0 = key[0], k1 = key[1];

        for (uint32_t k = 0; k < LANES; k++) {
            c0[k] = (uint32_t)(done / 4) + k;
            c1[k] = (uint32_t)((uint64_t)done / 4 >> 32);
        }
        for (int turn = 0; turn < 10; turn++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u)
            for (uint32_t k = 0; k < LANES; k++) {
                uint64_t p0 = (uint64_t)0xD2511F53u * c0[k], p1 = (uint64_t)0xCD9E8D57u * c2[k];
                uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1[k] ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3[k] ^ k1;

                c1[k] = (uint32_t)p1;
                c3[k] = (uint32_t)p0;
                c0[k] = n0;
                c2[k] = n2;
            }
        for (uint32_t k = 0; k < LANES; k++) {
            numbers[done + k] = (float)(int32_t)(c0[k] >> 8) * 0x1p-23f - 1;
            numbers[done + LANES + k] = (float)(int32_t)(c1[k] >> 8) * 0x1p-23f - 1;
            numbers[done + 2 * LANES + k] = (float)(int32_t)(c2[k] >> 8) * 0x1p-23f - 1;
            numbers[done + 3 * LANES + k] = (float)(int32_t)(c3[k] >> 8) * 0x1p-23f - 1;
        }
    }
}

SN_LOOP static void down(const float *weights, uint32_t radius, const float *middle, const float *const *above,
                         const float *const *below, float *restrict sums, size_t n)
{
    for (size_t k = 0; k < n; k++)
        sums[k] = weights[0] * middle[k];
    for (uint32_t j = 1; j <= radius; j++) {
        const float *a = above[j], *b = below[j];
        float weight = weights[j];

        for (size_t k = 0; k < n; k++)
            sums[k] += weight * (a[k] + b[k]);
    }
}

SN_LOOP static void across(const float *weights, uint32_t radius, const float *row, float *restrict sums, size_t n)
{
    for (size_t k = 0; k < n; k++)
        sums[k] = weights[0] * row[k];
    for (uint32_t j = 1; j <= radius; j++) {
        const float *a = row - j, *b = row + j;
        float weight = weights[j];

        for (size_t k = 0; k < n; k++)
            sums[k] += weight * (a[k] + b[k]);
    }
}

/* A pixel and a 1, or four zeros where there is no pixel. */
SN_LOOP static inline four seen(const uint8_t *from, int y, int x, int height, int width)
{
    four made = {0, 0, 0, 0};

    if (y >= 0 && y < height && x >= 0 && x < width)
        SN_GRID_LOAD(made, from + 3 * ((size_t)y * (size_t)width + (size_t)x));
    return made;
}

SN_LOOP static void look_up(int nearest, const uint8_t *fill, const float *xs, const float *ys, const uint8_t *from,
                            uint32_t height, uint32_t width, uint8_t *to, size_t n)
{
    const four around = {fill ? fill[0] : 0, fill ? fill[1] : 0, fill ? fill[2] : 0, 0};
    const int n_rows = (int)height, n_columns = (int)width;
    const float past_x = (float)width, past_y = (float)height;

    for (size_t k = 0; k < n; k++, to += 3) {
        float x = xs[k], y = ys[k];
        four whole = {0, 0, 0, 0};
        uint8_t made[4];

        if (x > -1 && x < past_x && y > -1 && y < past_y) {
            if (nearest) {
                whole = seen(from, (int)rintf(y), (int)rintf(x), n_rows, n_columns);
            } else {
                int left = (int)(x + 1) - 1, top = (int)(y + 1) - 1;
                float right_share, lower_share;

                /* The sum above is rounded: up to the next whole number, where a place is just below it. */
                left -= (float)left > x;
                top -= (float)top > y;
                right_share = x - (float)left;
                lower_share = y - (float)top;
                whole = seen(from, top, left, n_rows, n_columns) * ((1 - lower_share) * (1 - right_share)) +
                        seen(from, top, left + 1, n_rows, n_columns) * ((1 - lower_share) * right_share) +
                        seen(from, top + 1, left, n_rows, n_columns) * (lower_share * (1 - right_share)) +
                        seen(from, top + 1, left + 1, n_rows, n_columns) * (lower_share * right_share);
            }
        }
        if (fill)
            whole = whole * whole[3] + around * (1 - whole[3]);
        SN_GRID_PACK(made, whole);
        memcpy(to, made, 3);
    }
}

const sn_grid_kernels SN_GRID_TABLE = {noise, down, across, look_up};
