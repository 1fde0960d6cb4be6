/*
 * warp.h -- an affine map of a picture onto itself, or one in perspective, as Pillow's Image.transform() makes
 * it.
 *
 *   a pixel of the result, (x, y) = its middle
 *        |   (a x + b y + c,  d x + e y + f)   affine; in perspective, both / (g x + h y + 1)
 *        v
 *   a place in the source --nearest pixel, or between 4 or 16 pixels--> the colour
 *                         --outside the source--> `fill`
 *
 * The bytes are Pillow's: nearest pixels are found in 16.16 fixed point where the numbers fit, other
 * filters weigh in doubles, and cut off what is behind the point.
 *
 * Callers    any thread; no state but the caller's.
 */
#ifndef SN_WARP_H
#define SN_WARP_H

#include <stdbool.h>
#include <stdint.h>

#include "../sn_plan.h"

/* Behind the source's last byte there are as many that may be read. */
#define SN_WARP_SLACK 16

typedef struct {
    double matrix[8]; /* a, b, c, d, e, f; g, h if it is projective */
    uint32_t filter;  /* enum sn_warp_filter, no EITHER */
    uint8_t fill[3];
    uint8_t mask_fill;        /* of a pair */
    bool projective;          /* in perspective */
    bool on_tensor, has_fill; /* as torchvision warps tensors: grid.h; affine */
} sn_warp;

/* Image.rotate() by `angle` degrees, counter-clockwise, around (x, y). */
void sn_warp_rotation(double matrix[6], double angle, const double center[2]);

/* The inverse of: shear by angles in degrees, scale, rotate clockwise, all around `center`, then
 * translate. torchvision's, in its order of operations. */
void sn_warp_affine(double matrix[6], const double center[2], double angle, const double translate[2], double scale,
                    const double shear[2]);

/* The map that takes the corners of a picture (left top, right top, right bottom, left bottom; x, y) to
 * `corners`, backwards, rounded to single floats as torchvision rounds it. What rounding leaves of a number that is
 * 0 is left out: torchvision keeps it, and it decides where a place falls on an edge. Whether there is such a map. */
bool sn_warp_perspective(double matrix[8], const double corners[4][2], uint32_t height, uint32_t width);

/* All of `to`, from `from`: pictures of this size, rows close together. */
void sn_warp_run(const sn_warp *warp, const uint8_t *from, uint8_t *to, uint32_t height, uint32_t width);

#endif
