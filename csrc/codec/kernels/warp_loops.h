/*
 * warp_loops.h -- how one pixel of warp_kernels.h is weighed: its three channels, and a fourth that counts for
 * nothing, at once, in doubles.
 *
 * Included by each file that compiles it, which says for which target:
 *   SN_LOOP            what stands before each function
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
#define SN_WARP_PACK(made, of)                                                                                         \
    do {                                                                                                               \
        for (int k_ = 0; k_ < 4; k_++)                                                                                 \
            made[k_] = (uint8_t)(of)[k_];                                                                              \
    } while (0)
#endif

#define BETWEEN(made, a, b, share) (made = (a) + ((b) - (a)) * (share))

/* The cubic through four values whose slopes are those between their neighbours. */
#define CUBIC(made, v, share)                                                                                          \
    do {                                                                                                               \
        doubles second_ = -v[0] + v[2], third_ = 2 * (v[0] - v[1]) + v[2] - v[3];                                      \
        doubles fourth_ = -v[0] + v[1] - v[2] + v[3];                                                                  \
        made = v[1] + (share) * (second_ + (share) * (third_ + (share) * fourth_));                                    \
    } while (0)

/* The operands of a warp, as it was asked for. */
typedef struct {
    const double *matrix;
    const uint8_t *fill, *from;
    uint32_t height, width;
} warped;

static inline int within(int at, int count)
{
    return at < 0 ? 0 : at < count ? at : count - 1;
}

/* The whole number that is no greater; `x` is above -1. */
static inline int before(double x)
{
    return x < 0 ? -1 : (int)x;
}

/* The three bytes of the pixel whose colour lies at (x, y); `cubic` is known where this is compiled into each. */
SN_LOOP static inline __attribute__((always_inline)) void weigh(const warped *of, double x, double y, int cubic,
                                                                uint8_t *to)
{
    const doubles white = {255, 255, 255, 255};
    const size_t stride = (size_t)3 * of->width;
    const int n_rows = (int)of->height, n_columns = (int)of->width;
    double right_share, lower_share;
    doubles corners[4], lines[4], whole;
    int left, top;
    masks mask;
    uint8_t made[4];

    if (!(x >= 0 && x < of->width && y >= 0 && y < of->height)) {
        memcpy(to, of->fill, 3);
        return;
    }
    left = before(x - 0.5);
    top = before(y - 0.5);
    right_share = x - 0.5 - left;
    lower_share = y - 0.5 - top;
    if (cubic) {
        for (int i = 0; i < 4; i++) {
            const uint8_t *line = of->from + stride * (size_t)within(top - 1 + i, n_rows);

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
            const uint8_t *line = of->from + stride * (size_t)within(top + i, n_rows);

            for (int j = 0; j < 2; j++)
                SN_WARP_LOAD(corners[j], line + 3 * (size_t)within(left + j, n_columns));
            BETWEEN(lines[i], corners[0], corners[1], right_share);
        }
        BETWEEN(whole, lines[0], lines[1], lower_share);
    }
    SN_WARP_PACK(made, whole);
    memcpy(to, made, 3);
}
