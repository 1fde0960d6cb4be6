#include "warp.h"

#define SN_LOOP

#include "../kernels/warp_loops.h"

#define ONE 65536 /* of 16.16 fixed point */
#define COLUMNS 512

/* All pixels; `cubic` and `projective` are known where this is compiled into each. */
static inline __attribute__((always_inline)) void weigh_all(const warped *of, uint8_t *to, int cubic, int projective)
{
    const double *m = of->matrix;

    for (uint32_t row = 0; row < of->height; row++) {
        double down = row + 0.5, of_x = m[1] * down, of_y = m[4] * down;

        for (uint32_t column = 0; column < of->width; column++, to += 3) {
            double across = column + 0.5, x = m[0] * across + of_x + m[2], y = m[3] * across + of_y + m[5];

            if (projective) {
                double by = m[6] * across + m[7] * down + 1;

                x /= by;
                y /= by;
            }
            weigh(of, x, y, cubic, to);
        }
    }
}

static void bilinear(const double matrix[8], const uint8_t fill[3], const uint8_t *from, uint8_t *to, uint32_t height,
                     uint32_t width)
{
    weigh_all(&(warped){matrix, fill, from, height, width}, to, 0, 0);
}

static void bicubic(const double matrix[8], const uint8_t fill[3], const uint8_t *from, uint8_t *to, uint32_t height,
                    uint32_t width)
{
    weigh_all(&(warped){matrix, fill, from, height, width}, to, 1, 0);
}

static void bilinear_perspective(const double matrix[8], const uint8_t fill[3], const uint8_t *from, uint8_t *to,
                                 uint32_t height, uint32_t width)
{
    weigh_all(&(warped){matrix, fill, from, height, width}, to, 0, 1);
}

static void bicubic_perspective(const double matrix[8], const uint8_t fill[3], const uint8_t *from, uint8_t *to,
                                uint32_t height, uint32_t width)
{
    weigh_all(&(warped){matrix, fill, from, height, width}, to, 1, 1);
}

const sn_warp_kernels sn_warp_plain = {bilinear, bicubic, bilinear_perspective, bicubic_perspective};

static const sn_warp_kernels *kernels(void)
{
#ifdef SN_HAVE_AVX2_CODE
    if (sn_simd_usable())
        return &sn_warp_avx2;
#endif
    return &sn_warp_plain;
}

static double radians(double degrees)
{
    return degrees * (M_PI / 180.0);
}

/* To 15 digits behind the point, as Pillow rounds sines: 0 where a multiple of 90 degrees means 0. What
 * the product of doubles has lost decides on which side of a tie it lies. */
static double rounded(double x)
{
    double product = x * 1e15, lost = fma(x, 1e15, -product), whole = rint(product);

    if (product - whole == 0.5 && lost > 0)
        whole += 1;
    else if (product - whole == -0.5 && lost < 0)
        whole -= 1;
    return whole / 1e15;
}

void sn_warp_rotation(double matrix[6], double angle, const double center[2])
{
    double turn = fmod(angle, 360.0);

    if (turn < 0)
        turn += 360.0;
    turn = -radians(turn);
    matrix[0] = matrix[4] = rounded(cos(turn));
    matrix[1] = rounded(sin(turn));
    matrix[3] = rounded(-sin(turn));
    matrix[2] = matrix[0] * -center[0] + matrix[1] * -center[1] + 0.0;
    matrix[5] = matrix[3] * -center[0] + matrix[4] * -center[1] + 0.0;
    matrix[2] += center[0];
    matrix[5] += center[1];
}

void sn_warp_affine(double matrix[6], const double center[2], double angle, const double translate[2], double scale,
                    const double shear[2])
{
    double turn = radians(angle), sx = radians(shear[0]), sy = radians(shear[1]);
    double a = cos(turn - sy) / cos(sy);
    double b = -cos(turn - sy) * tan(sx) / cos(sy) - sin(turn);
    double c = sin(turn - sy) / cos(sy);
    double d = -sin(turn - sy) * tan(sx) / cos(sy) + cos(turn);

    matrix[0] = d / scale;
    matrix[1] = -b / scale;
    matrix[3] = -c / scale;
    matrix[4] = a / scale;
    matrix[2] = matrix[0] * (-center[0] - translate[0]) + matrix[1] * (-center[1] - translate[1]);
    matrix[5] = matrix[3] * (-center[0] - translate[0]) + matrix[4] * (-center[1] - translate[1]);
    matrix[2] += center[0];
    matrix[5] += center[1];
}

/* Gauss's elimination, the largest number of a column first. Whether there is one solution. */
static bool solve(double rows[8][9], double solution[8])
{
    for (int k = 0; k < 8; k++) {
        int pivot = k;

        for (int i = k + 1; i < 8; i++)
            pivot = fabs(rows[i][k]) > fabs(rows[pivot][k]) ? i : pivot;
        if (fabs(rows[pivot][k]) < 1e-9)
            return false;
        for (int j = 0; j < 9; j++) {
            double other = rows[k][j];

            rows[k][j] = rows[pivot][j];
            rows[pivot][j] = other;
        }
        for (int i = k + 1; i < 8; i++) {
            double factor = rows[i][k] / rows[k][k];

            for (int j = k; j < 9; j++)
                rows[i][j] -= factor * rows[k][j];
        }
    }
    for (int k = 7; k >= 0; k--) {
        solution[k] = rows[k][8];
        for (int j = k + 1; j < 8; j++)
            solution[k] -= rows[k][j] * solution[j];
        solution[k] /= rows[k][k];
    }
    return true;
}

bool sn_warp_perspective(double matrix[8], const double corners[4][2], uint32_t height, uint32_t width)
{
    const double had[4][2] = {{0, 0}, {width - 1.0, 0}, {width - 1.0, height - 1.0}, {0, height - 1.0}};
    static const double nothing[8] = {1e-12, 1e-12, 1e-9, 1e-12, 1e-12, 1e-9, 1e-15, 1e-15};
    double rows[8][9] = {{0}};

    for (int k = 0; k < 4; k++) {
        double x = corners[k][0], y = corners[k][1];

        for (int axis = 0; axis < 2; axis++) {
            double *row = rows[2 * k + axis];

            row[3 * axis] = x;
            row[3 * axis + 1] = y;
            row[3 * axis + 2] = 1;
            row[6] = -had[k][axis] * x;
            row[7] = -had[k][axis] * y;
            row[8] = had[k][axis];
        }
    }
    if (!solve(rows, matrix))
        return false;
    for (int k = 0; k < 8; k++)
        matrix[k] = fabs(matrix[k]) < nothing[k] ? 0 : (double)(float)matrix[k];
    return true;
}

static void fill(const sn_warp *warp, uint8_t *to, size_t n_pixels)
{
    for (size_t k = 0; k < n_pixels; k++)
        memcpy(to + 3 * k, warp->fill, 3);
}

/* The index of the pixel that `place` falls into, -1 where it falls outside of `count`. */
static int64_t index_of(double place, uint32_t count)
{
    return place >= 0 && place < count ? (int64_t)place : -1;
}

/* Rows stay rows, and columns columns. Pillow adds a step to the place of each, in doubles. */
static void scaled(const sn_warp *warp, const uint8_t *from, uint8_t *to, uint32_t height, uint32_t width)
{
    double x = warp->matrix[2] + warp->matrix[0] * 0.5;

    for (uint32_t begin = 0; begin < width; begin += COLUMNS) {
        uint32_t n = width - begin < COLUMNS ? width - begin : COLUMNS, first = n, past = 0;
        double y = warp->matrix[5] + warp->matrix[4] * 0.5;
        int64_t columns[COLUMNS];

        for (uint32_t k = 0; k < n; k++, x += warp->matrix[0]) {
            columns[k] = index_of(x, width);
            if (columns[k] >= 0) {
                first = k < first ? k : first;
                past = k + 1;
            }
        }
        for (uint32_t row = 0; row < height; row++, y += warp->matrix[4]) {
            uint8_t *out = to + 3 * ((size_t)row * width + begin);
            int64_t line = index_of(y, height);
            const uint8_t *in = from + 3 * (size_t)width * (size_t)(line < 0 ? 0 : line);

            if (line < 0 || past == 0) {
                fill(warp, out, n);
                continue;
            }
            fill(warp, out, first);
            if (columns[past - 1] - columns[first] == (int64_t)(past - 1 - first) && warp->matrix[0] == 1)
                memcpy(out + 3 * first, in + 3 * columns[first], 3 * (size_t)(past - first));
            else
                for (uint32_t k = first; k < past; k++)
                    memcpy(out + 3 * (size_t)k, in + 3 * columns[k], 3);
            fill(warp, out + 3 * (size_t)past, n - past);
        }
    }
}

/* Whether Pillow takes a corner of the result for one that 16.16 fixed point can represent. */
static int fits(const double m[6], uint32_t x, uint32_t y)
{
    return fabs(x * m[0] + y * m[1] + m[2]) < 32768.0 && fabs(x * m[3] + y * m[4] + m[5]) < 32768.0;
}

static int64_t fixed(double value)
{
    return (int64_t)floor(value * ONE + 0.5);
}

/* Down, and up, to a whole number; `b` is positive. */
static int64_t quotient_down(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

static int64_t quotient_up(int64_t a, int64_t b)
{
    return -quotient_down(-a, b);
}

/* Narrow `first` <= k < `past` to where `start` + k * `step` lies in `count` pixels. Where that is nowhere,
 * `past` is no greater than `first`. */
static void narrow(int64_t start, int64_t step, uint32_t count, int64_t *first, int64_t *past)
{
    int64_t most = (int64_t)count * ONE - 1, low, high;

    if (step == 0) {
        if (start < 0 || start > most)
            *past = *first;
        return;
    }
    low = step > 0 ? quotient_up(-start, step) : quotient_up(start - most, -step);
    high = step > 0 ? quotient_down(most - start, step) : quotient_down(start, -step);
    *first = low > *first ? low : *first;
    *past = high + 1 < *past ? high + 1 : *past;
}

static void nearest_fixed(const sn_warp *warp, const uint8_t *from, uint8_t *to, uint32_t height, uint32_t width)
{
    const double *m = warp->matrix;
    int64_t ax = fixed(m[0]), bx = fixed(m[1]), ay = fixed(m[3]), by = fixed(m[4]);
    int64_t x = fixed(m[2] + m[0] * 0.5 + m[1] * 0.5), y = fixed(m[5] + m[3] * 0.5 + m[4] * 0.5);
    size_t stride = (size_t)3 * width;

    for (uint32_t row = 0; row < height; row++, x += bx, y += by, to += stride) {
        int64_t first = 0, past = width, at_x, at_y;

        narrow(x, ax, width, &first, &past);
        narrow(y, ay, height, &first, &past);
        if (past <= first)
            first = past = width;
        fill(warp, to, (size_t)first);
        at_x = x + first * ax;
        at_y = y + first * ay;
        for (int64_t k = first; k < past; k++, at_x += ax, at_y += ay) {
            const uint8_t *pixel = from + (size_t)(at_y >> 16) * stride + 3 * (size_t)(at_x >> 16);

            if (k + 1 < past)
                memcpy(to + 3 * k, pixel, 4); /* the next one writes over the fourth */
            else
                memcpy(to + 3 * k, pixel, 3);
        }
        fill(warp, to + 3 * past, (size_t)(width - past));
    }
}

/* Where fixed point does not reach, Pillow adds steps in doubles. */
static void nearest_far(const sn_warp *warp, const uint8_t *from, uint8_t *to, uint32_t height, uint32_t width)
{
    const double *m = warp->matrix;
    double first_x = m[2] + m[1] * 0.5 + m[0] * 0.5, first_y = m[5] + m[4] * 0.5 + m[3] * 0.5;

    for (uint32_t row = 0; row < height; row++, first_x += m[1], first_y += m[4]) {
        double x = first_x, y = first_y;

        for (uint32_t column = 0; column < width; column++, x += m[0], y += m[3], to += 3) {
            int64_t line = index_of(y, height), at = index_of(x, width);

            memcpy(to, line < 0 || at < 0 ? warp->fill : from + 3 * ((size_t)line * width + (size_t)at), 3);
        }
    }
}

static void nearest_perspective(const sn_warp *warp, const uint8_t *from, uint8_t *to, uint32_t height, uint32_t width)
{
    const double *m = warp->matrix;

    for (uint32_t row = 0; row < height; row++)
        for (uint32_t column = 0; column < width; column++, to += 3) {
            double across = column + 0.5, down = row + 0.5, by = m[6] * across + m[7] * down + 1;
            int64_t at = index_of((m[0] * across + m[1] * down + m[2]) / by, width);
            int64_t line = index_of((m[3] * across + m[4] * down + m[5]) / by, height);

            memcpy(to, line < 0 || at < 0 ? warp->fill : from + 3 * ((size_t)line * width + (size_t)at), 3);
        }
}

void sn_warp_run(const sn_warp *warp, const uint8_t *from, uint8_t *to, uint32_t height, uint32_t width)
{
    const double *m = warp->matrix;

    if (warp->filter == SN_WARP_BILINEAR)
        (warp->projective ? kernels()->bilinear_perspective : kernels()->bilinear)(m, warp->fill, from, to, height,
                                                                                   width);
    else if (warp->filter == SN_WARP_BICUBIC)
        (warp->projective ? kernels()->bicubic_perspective : kernels()->bicubic)(m, warp->fill, from, to, height,
                                                                                 width);
    else if (warp->projective)
        nearest_perspective(warp, from, to, height, width);
    else if (m[1] == 0 && m[3] == 0)
        scaled(warp, from, to, height, width);
    else if (fits(m, 0, 0) && fits(m, width, height) && fits(m, 0, height) && fits(m, width, 0))
        nearest_fixed(warp, from, to, height, width);
    else
        nearest_far(warp, from, to, height, width);
}
