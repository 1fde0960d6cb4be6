/*
 * warp_loops.h -- the bodies of warp_kernels.h: a pixel's three channels, and a fourth that counts for
 * nothing, are weighed at once, in doubles.
 *
 * Included by each file that compiles them, which says for which target:
 *   SN_LOOP            what stands before each function
 *   SN_WARP_TABLE      the name of the table of functions
 *   SN_WARP_LOAD, SN_WARP_PACK   between bytes and doubles, where plain C is not meant
 */
#include <math.h>
#include <string.h>

#include "warp_kernels.h"

typedef double doubles __attribute__((vector_size(32)));
typedef int64_t masks __attribute__((vector_size(32)));

/* The four bytes at `at` as numbers, and numbers as four bytes, without what is behind the point. Compilers
 * find the instructions for neither. */
#ifndef SN_WARP_LOAD
#define SN_WARP_LOAD(made, at) (made = (doubles){(at)[0], (at)[1], (at)[2], (at)[3]})
#define SN_WARP_PACK(made, of)                                                                     \
    do {                                                                                           \
        for (int k_ = 0; k_ < 4; k_++)                                                             \
            made[k_] = (uint8_t)(of)[k_];                                                          \
    } while (0)
#endif

#define BETWEEN(made, a, b, share) (made = (a) + ((b) - (a)) * (share))

/* The cubic through four values whose slopes are those between their neighbours. */
#define CUBIC(made, v, share)                                                                      \
    do {                                                                                           \
        doubles second_ = -v[0] + v[2], third_ = 2 * (v[0] - v[1]) + v[2] - v[3];                  \
        doubles fourth_ = -v[0] + v[1] - v[2] + v[3];                                              \
        made = v[1] + (share) * (second_ + (share) * (third_ + (share) * fourth_));                \
    } while (0)

static inline int within(int at, int count)
{
    return at < 0 ? 0 : at < count ? at : count - 1;
}

/* The whole number that is no greater; `x` is above -1. */
static inline int before(double x)
{
    return x < 0 ? -1 : (int)x;
}

/* All filters; `cubic` and `projective` are known where this is compiled into each. */
SN_LOOP static inline __attribute__((always_inline)) void weighed(const double matrix[8], const uint8_t fill[3],
                                                                  const uint8_t *from, uint8_t *to,
                                                                  uint32_t height, uint32_t width, int cubic,
                                                                  int projective)
{
    const double a = matrix[0], b = matrix[1], c = matrix[2], d = matrix[3], e = matrix[4], f = matrix[5];
    const doubles white = {255, 255, 255, 255};
    const size_t stride = (size_t)3 * width;
    const int n_rows = (int)height, n_columns = (int)width;

    for (uint32_t row = 0; row < height; row++) {
        double down = row + 0.5, of_x = b * down, of_y = e * down;

        for (uint32_t column = 0; column < width; column++, to += 3) {
            double across = column + 0.5, x = a * across + of_x + c, y = d * across + of_y + f;
            double right_share, lower_share;
            doubles corners[4], lines[4], whole;
            int left, top;
            masks mask;
            uint8_t made[4];

            if (projective) {
                double by = matrix[6] * across + matrix[7] * down + 1;

                x /= by;
                y /= by;
            }
            if (!(x >= 0 && x < width && y >= 0 && y < height)) {
                memcpy(to, fill, 3);
                continue;
            }
            left = before(x - 0.5);
            top = before(y - 0.5);
            right_share = x - 0.5 - left;
            lower_share = y - 0.5 - top;
            if (cubic) {
                for (int i = 0; i < 4; i++) {
                    const uint8_t *line = from + stride * (size_t)within(top - 1 + i, n_rows);

                    for (int j = 0; j < 4; j++)
                        SN_WARP_LOAD(corners[j], line + 3 * (size_t)within(left - 1 + j, n_columns));
                    CUBIC(lines[i], corners, right_share);
                }
                CUBIC(whole, lines, lower_share);
                mask = whole > 0;
                whole = (doubles)((masks)whole & mask);
                mask = whole < white;
                whole = (doubles)(((masks)whole & mask) | ((masks)white & ~mask));
            } else {
                for (int i = 0; i < 2; i++) {
                    const uint8_t *line = from + stride * (size_t)within(top + i, n_rows);

                    for (int j = 0; j < 2; j++)
                        SN_WARP_LOAD(corners[j], line + 3 * (size_t)within(left + j, n_columns));
                    BETWEEN(lines[i], corners[0], corners[1], right_share);
                }
                BETWEEN(whole, lines[0], lines[1], lower_share);
            }
            SN_WARP_PACK(made, whole);
            if (column + 1 < width)
                memcpy(to, made, 4); /* the next one writes over the fourth */
            else
                memcpy(to, made, 3);
        }
    }
}

SN_LOOP static void bilinear(const double matrix[8], const uint8_t fill[3], const uint8_t *from, uint8_t *to,
                             uint32_t height, uint32_t width)
{
    weighed(matrix, fill, from, to, height, width, 0, 0);
}

SN_LOOP static void bicubic(const double matrix[8], const uint8_t fill[3], const uint8_t *from, uint8_t *to,
                            uint32_t height, uint32_t width)
{
    weighed(matrix, fill, from, to, height, width, 1, 0);
}

SN_LOOP static void bilinear_perspective(const double matrix[8], const uint8_t fill[3], const uint8_t *from, uint8_t *to,
                                         uint32_t height, uint32_t width)
{
    weighed(matrix, fill, from, to, height, width, 0, 1);
}

SN_LOOP static void bicubic_perspective(const double matrix[8], const uint8_t fill[3], const uint8_t *from, uint8_t *to,
                                        uint32_t height, uint32_t width)
{
    weighed(matrix, fill, from, to, height, width, 1, 1);
}

const sn_warp_kernels SN_WARP_TABLE = {bilinear, bicubic, bilinear_perspective, bicubic_perspective};
